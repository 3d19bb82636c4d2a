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
    """A nearest-neighbour classifier of points that many sites send, in one message each.

    Each site reduces its samples to `size` labelled atoms, its Wasserstein coreset. All atoms
    together make one nearest-neighbour classifier, which every site can use. It follows the
    conventions of scikit-learn.

    Parameters
    ----------
    size : largest number of atoms of a site. With `atoms_per` "class", a site that has more classes
        sends one atom for each.
    atoms_per : "class": a site reduces each class by itself, with atoms in proportion to its
        samples. "site": a site reduces all its samples together, and an atom takes the label of
        the sample nearest to it, as in the paper.
    n_neighbors : number of atoms that vote on a sample, with one vote each
    masses : "equal": all atoms of a class (or site) represent equally many samples. "free": an
        atom represents the samples nearest to it, which is k-means.
    seed : seed of the random numbers; the same seed gives the same result, bit for bit
    privacy : fedwad.DP with the public names of classes as its `labels`. Sites then send noisy
        means of their classes under differential privacy, one atom per class, and `size`,
        `atoms_per`, `masses` and `seed` have no effect. The same guarantee in
        `fedwad.matrix` uses the same release, whose budget is spent once.

    Attributes
    ----------
    classes_ : array
        All labels of the sites, in ascending order.
    points_, weights_, labels_, owners_ : arrays
        The atoms (S, d), the fraction of its site's samples that each represents, the index of its
        label in `classes_`, and the index of its site in `sites_`.
    sites_ : tuple of str
        Sites that answered.
    failed_, notes_ : mappings
        Sites that did not answer, each with the reason; and sites that left out a part of their
        data, each with a note that says which.
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
        """Learn from a federation or a mapping from names to (X, y), or from samples X (n, d) with
        labels y (n,)."""
        is_federation = hasattr(type(X), "ask")
        # Some sparse matrices are mappings too; they are samples.
        if is_federation or (isinstance(X, Mapping) and not hasattr(X, "toarray")):
            if y is not None:
                raise InputError(
                    "y came beside a federation; its clients hold the labels, so leave y out."
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
        names = all_label_names({name: reply.names for name, reply in replies.items()})
        self.classes_ = np.array(names)
        self._keep_atoms(replies, names)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit to a table
        self.schema_ = getattr(federation, "schema", None)
        features = getattr(federation, "features", None)
        if self.schema_ is None and features is not None:
            # Then scikit-learn notices a table with columns in a different order.
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
                    "privacy came without labels; give fedwad.DP(..., labels=[the public names of"
                    " classes])."
                )
            guarantee = fill_clipping(federation, guarantee)
            replies = ask_private_prototypes(metered, federation.names, guarantee)
        self.failed_, self.traffic_ = dict(metered.failed), metered.traffic
        return replies

    def _keep_atoms(self, replies: Mapping[str, Prototypes], names: tuple[LabelName, ...]) -> None:
        """Set the fitted attributes to the atoms of all sites together."""
        self.n_features_in_ = check_same_features(
            {name: reply.points.shape[1] for name, reply in replies.items()}
        )
        index_of = {name: index for index, name in enumerate(names)}
        of_sites = replies.values()
        self.sites_ = tuple(replies)
        self.points_ = np.concatenate([reply.points for reply in of_sites])
        self.weights_ = np.concatenate([reply.weights for reply in of_sites])
        self.labels_ = np.concatenate(
            [np.array([index_of[name] for name in reply.names])[reply.labels] for reply in of_sites]
        )
        self.owners_ = np.repeat(
            np.arange(len(of_sites)), [len(reply.points) for reply in of_sites]
        )
        self.notes_ = {
            name: "left out classes of too few samples"
            for name, reply in replies.items()
            if not reply.complete
        }

    def predict(self, X: Any, classes: Sequence[Any] | None = None) -> NDArray[Any]:
        """The most frequent label among the nearest atoms, for each sample of X (n, d).

        With `classes`, only atoms with these labels vote. A site that has two classes may know that
        its new samples belong to one of the two.
        """
        best = self.predict_proba(X, classes).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any, classes: Sequence[Any] | None = None) -> Floats:
        """Fraction of the votes of the nearest atoms for each class, (n, number of classes)."""
        check_is_fitted(self, "points_")
        samples = self._validate(X)
        chosen = np.arange(len(self.points_)) if classes is None else self._atoms_of(classes)
        points, labels = self.points_[chosen], self.labels_[chosen]
        neighbors = min(check_integer(self.n_neighbors, "n_neighbors"), len(points))
        votes = np.zeros((len(samples), len(self.classes_)))
        nearest = nearest_atoms(samples, points, neighbors)
        np.add.at(votes, (np.arange(len(samples))[:, None], labels[nearest]), 1 / neighbors)
        return votes

    def _atoms_of(self, classes: Sequence[Any]) -> NDArray[np.int64]:
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
        """Samples X, with labels if y is given, checked by scikit-learn.

        Its errors, which may have several lines, become an InputError of one sentence.
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
        """The end of a sentence: how the columns of X differ from those of the fit."""
        given, fitted = (list(map(str, names)) for names in (X.columns, self.feature_names_in_))
        missing = [name for name in fitted if name not in given]
        unknown = [name for name in given if name not in fitted]
        if not missing and not unknown:
            return " in their order; give X[list(model.feature_names_in_)]"
        differences = (
            f"{word} {', '.join(names[:4])}"
            for word, names in (("without", missing), ("beside", unknown))
            if names
        )
        return f": X came {' and '.join(differences)}"

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
