"""A nearest-neighbour classifier made of a few labelled points from each site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fedwad._checks import check_choice, check_integer
from fedwad.errors import InputError
from fedwad.federation import (
    Federation,
    LabelName,
    MeteredFederation,
    Prototypes,
    PrototypesRequest,
    all_label_names,
    check_same_features,
    fill_clipping,
    local,
)
from fedwad.learning._nearest import nearest_atoms
from fedwad.learning._prototypes import ask_private_prototypes, ask_prototypes
from fedwad.ot import Floats
from fedwad.privacy import DP
from fedwad.tables import Schema, is_frame

__all__ = ["CoresetClassifier"]


class CoresetClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A nearest-neighbour classifier made of a few labelled points from each site.

    Each site reduces its samples to at most `size` labelled atoms, its Wasserstein coreset, and
    sends them in one message. The atoms of all sites make one nearest-neighbour classifier, which
    every site can use. The class follows the conventions of scikit-learn.

    Parameters
    ----------
    size : largest number of atoms of a site. With `atoms_per` "class", a site with more than `size`
        classes sends one atom for each class.
    atoms_per : "class": a site makes a coreset of each class, with atoms in proportion to the
        samples of the class. "site": a site makes one coreset of all its samples, and each atom
        takes the label of the sample nearest to it, as in the paper.
    n_neighbors : number of atoms that vote on a sample, with one vote each
    masses : how `weights_` are chosen. "equal": all atoms of a class (or of a site, by `atoms_per`)
        represent equally many samples. "free": an atom represents the samples that are nearest to
        it, as in k-means.
    seed : seed of the random numbers; the same seed gives the same result, bit for bit
    privacy : fedwad.DP with the public names of classes as its `labels`. Sites then send noisy
        means of their classes under differential privacy, one atom for each class, and `size`,
        `atoms_per`, `masses` and `seed` have no effect. `fedwad.matrix` with the same guarantee
        gets the same release again, so sites spend their budget once.

    Attributes
    ----------
    classes_ : array
        All labels of the sites, in ascending order.
    points_ : array (S, d)
        The atoms of all sites.
    weights_, labels_, owners_ : arrays (S,)
        For each atom: the fraction of its site's samples that it represents, the index of its label
        in `classes_`, and the index of its site in `sites_`.
    sites_ : tuple of str
        Sites whose atoms the classifier has.
    failed_, notes_ : mappings
        `failed_` has the sites that did not answer or were left out, each with the reason. `notes_`
        has the sites that left out some of their classes, each with a note that says so.
    traffic_ : Traffic
        Bytes sent.
    schema_ : Schema or None
        The schema by which sites encoded their tables. It encodes the tables given to `predict`.
    n_features_in_ : int

    Examples
    --------
    >>> import fedwad
    >>> from fedwad.datasets import load, partition
    >>> X, y = load("digits")
    >>> sites = partition.classes_per_client(
    ...     X[:1500], y[:1500], classes=2, clients=10, samples=None, seed=0
    ... )
    >>> model = fedwad.CoresetClassifier(size=20).fit(sites)
    >>> len(model.points_), round(model.score(X[1500:], y[1500:]), 1)
    (200, 0.9)
    """

    def __init__(
        self,
        size: int = 100,
        atoms_per: str = "class",
        n_neighbors: int = 1,
        masses: str = "equal",
        seed: int = 0,
        privacy: Any = None,
    ) -> None:
        self.size = size
        self.atoms_per = atoms_per
        self.n_neighbors = n_neighbors
        self.masses = masses
        self.seed = seed
        self.privacy = privacy

    def fit(self, X: Any, y: Any = None) -> CoresetClassifier:
        """Fit to the sites of a federation, or to samples on one machine.

        X is a federation, a mapping from names of sites to (X, y), or samples (n, d). Only samples
        come with labels y (n,).
        """
        is_federation = hasattr(type(X), "ask")
        # Some sparse matrices are mappings too; they are samples.
        if is_federation or (isinstance(X, Mapping) and not hasattr(X, "toarray")):
            if y is not None:
                raise InputError(
                    "y is given with a federation; its sites hold the labels, so leave y out."
                )
            return self._fit_federation(X if is_federation else local(X))
        self.schema_: Schema | None = None
        samples, labels = self._validate(X, y)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        replies = self._ask(local({"data": (samples, codes)}))
        self._keep_atoms(replies, tuple(range(len(self.classes_))))
        return self

    def _fit_federation(self, federation: Federation) -> CoresetClassifier:
        replies = self._ask(federation)
        class_names = all_label_names({site: reply.names for site, reply in replies.items()})
        self.classes_ = np.array(class_names)
        self._keep_atoms(replies, class_names)
        self.__dict__.pop("feature_names_in_", None)  # left from an earlier fit to a table
        self.schema_ = getattr(federation, "schema", None)
        features = getattr(federation, "features", None)
        if self.schema_ is None and features is not None:
            # With them, scikit-learn refuses tables whose columns differ in name or order.
            self.feature_names_in_ = np.array(features, dtype=object)
        return self

    def _ask(self, federation: Federation) -> dict[str, Prototypes]:
        """Ask all sites for their atoms."""
        atoms_per: Any = check_choice(self.atoms_per, "atoms_per", ("class", "site"))
        masses: Any = check_choice(self.masses, "masses", ("equal", "free"))
        check_integer(self.n_neighbors, "n_neighbors")
        size, seed = check_integer(self.size, "size"), check_integer(self.seed, "seed", 0)
        metered = MeteredFederation(federation)
        if self.privacy is None:
            request = PrototypesRequest(size, atoms_per, masses, seed)
            replies = ask_prototypes(metered, federation.names, request)
        else:
            guarantee = DP.of(self.privacy)
            if not guarantee.class_names:
                raise InputError(
                    "privacy has no labels; give fedwad.DP(..., labels=[the public names of"
                    " classes])."
                )
            guarantee = fill_clipping(federation, guarantee)
            replies = ask_private_prototypes(metered, federation.names, guarantee)
        self.failed_, self.traffic_ = dict(metered.failed), metered.traffic
        return replies

    def _keep_atoms(
        self, replies: Mapping[str, Prototypes], class_names: tuple[LabelName, ...]
    ) -> None:
        """Set the fitted attributes to the atoms of all sites together."""
        self.n_features_in_ = check_same_features(
            {site: reply.points.shape[1] for site, reply in replies.items()}
        )
        class_index = {name: index for index, name in enumerate(class_names)}
        self.sites_ = tuple(replies)
        self.points_ = np.concatenate([reply.points for reply in replies.values()])
        self.weights_ = np.concatenate([reply.weights for reply in replies.values()])
        self.labels_ = np.concatenate(
            [
                np.array([class_index[name] for name in reply.names])[reply.labels]
                for reply in replies.values()
            ]
        )
        self.owners_ = np.repeat(
            np.arange(len(replies)), [len(reply.points) for reply in replies.values()]
        )
        self.notes_ = {
            site: "left out classes of too few samples"
            for site, reply in replies.items()
            if not reply.complete
        }

    def predict(self, X: Any, classes: Sequence[Any] | None = None) -> NDArray[Any]:
        """The most frequent label among the nearest atoms, for each sample of X (n, d).

        With `classes`, only atoms with these labels vote: a site with samples of two classes may
        know that its new samples belong to one of the two.
        """
        best = self.predict_proba(X, classes).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any, classes: Sequence[Any] | None = None) -> Floats:
        """Fraction of the votes of the nearest atoms for each sample and class, (n, classes)."""
        check_is_fitted(self, "points_")
        samples = self._validate(X)
        chosen = np.arange(len(self.points_)) if classes is None else self._atoms_of(classes)
        points, labels = self.points_[chosen], self.labels_[chosen]
        n_neighbors = min(check_integer(self.n_neighbors, "n_neighbors"), len(points))
        votes = np.zeros((len(samples), len(self.classes_)))
        nearest = nearest_atoms(samples, points, n_neighbors)
        np.add.at(votes, (np.arange(len(samples))[:, None], labels[nearest]), 1 / n_neighbors)
        return votes

    def _atoms_of(self, classes: Sequence[Any]) -> NDArray[np.int64]:
        """Indices of the atoms with these labels."""
        unknown = [label for label in classes if label not in self.classes_]
        if unknown:
            raise InputError(f"No site has the label {unknown[0]!r}; the labels are in classes_.")
        chosen = np.flatnonzero(np.isin(self.classes_[self.labels_], np.asarray(classes)))
        if not len(chosen):
            raise InputError(
                "No atom has one of these labels; give more labels, or fit with a larger size."
            )
        return chosen

    def _validate(self, X: Any, *y: Any) -> Any:
        """Samples X, and labels where y is given, as scikit-learn's `validate_data` checks them.

        Labels are given in `fit` only. An error of scikit-learn, which may have several lines,
        becomes an InputError of one sentence.
        """
        options = {"y": y[0], "reset": True} if y else {"reset": False}
        schema: Schema | None = None if y else getattr(self, "schema_", None)
        if schema is not None and is_frame(X):
            X = schema.encode(X)
        try:
            checked = validate_data(self, X, dtype=np.float64, **options)
            return (checked[0], column_or_1d(checked[1], warn=True)) if y else checked
        except ValueError as error:
            text = str(error)
            if "Reshape your data" in text:
                sentence = f"X has shape {np.shape(X)}: Reshape your data to (samples, features)"
            elif "NaN" in text or "infinity" in text:
                which = "y" if "Input y" in text else "X"
                sentence = f"Input {which} contains NaN or infinity; remove or fill them first"
            else:
                sentence = text.splitlines()[0].rstrip(".")
                if "feature names should match" in sentence:
                    sentence += self._column_differences(X)
            raise InputError(f"{sentence}.") from None

    def _column_differences(self, X: Any) -> str:
        """How the columns of X differ from those of the fit, as the end of a sentence."""
        given, fitted = (list(map(str, names)) for names in (X.columns, self.feature_names_in_))
        missing = [name for name in fitted if name not in given]
        unknown = [name for name in given if name not in fitted]
        if not missing and not unknown:
            return " in their order; give X[list(model.feature_names_in_)]"
        differences = (
            f"{words} {', '.join(columns[:4])}"
            for words, columns in (("lacks", missing), ("has the extra columns", unknown))
            if columns
        )
        return f": X {' and '.join(differences)}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True  # for arrays; a federation brings its own labels
        return tags

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier as one .npz file, without pickled objects.

        If writing fails, no partial file is left.
        """
        from fedwad.learning._classifier_file import save

        check_is_fitted(self, "points_")
        save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> CoresetClassifier:
        """Read a classifier that `save` wrote; it predicts the same, bit for bit."""
        from fedwad.learning._classifier_file import load

        return load(cls, path)
