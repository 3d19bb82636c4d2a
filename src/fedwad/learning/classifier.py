"""A nearest-neighbour classifier made of a few labelled points from each site.

Below the classifier: the points that sites send under differential privacy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fedwad._checks import check_choice, check_integer
from fedwad._files import DAMAGE_ERRORS, read_arrays, to_plain, write_arrays
from fedwad._html import data_frame
from fedwad._words import format_bytes, pluralize
from fedwad.coresets.result import rows_in_units
from fedwad.errors import InputError
from fedwad.federation import (
    Federation,
    LabelName,
    MeteredFederation,
    PrivateReply,
    PrivateRequest,
    Prototypes,
    PrototypesRequest,
    Traffic,
    all_label_names,
    check_same_features,
    fill_clipping,
    local,
)
from fedwad.privacy import DP, class_means
from fedwad.tables import Schema, is_frame
from fedwad.transport import Floats

if TYPE_CHECKING:
    import pandas as pd

_FORMAT = "fedwad coreset classifier 4"
_ARRAYS = ("points_", "weights_", "labels_", "owners_", "classes_")


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
                    "y is given with a federation; its sites hold the labels, so leave y out.",
                    "conflicting-options",
                )
            federation = X if is_federation else local(X)
            replies = self._ask(federation)
            names = all_label_names({site: reply.names for site, reply in replies.items()})
            self.classes_ = np.array(names)
            self.__dict__.pop("feature_names_in_", None)  # left from an earlier fit to a table
            self.schema_ = getattr(federation, "schema", None)
            features = getattr(federation, "features", None)
            if self.schema_ is None and features is not None:
                # With them, scikit-learn refuses tables whose columns differ in name or order.
                self.feature_names_in_ = np.array(features, dtype=object)
        else:
            self.schema_ = None
            samples, labels = self._validate(X, y)
            check_classification_targets(labels)
            self.classes_, codes = np.unique(labels, return_inverse=True)
            replies = self._ask(local({"data": (samples, codes)}))
            names = tuple(range(len(self.classes_)))
        self._keep_atoms(replies, names)
        return self

    def _ask(self, federation: Federation) -> dict[str, Prototypes]:
        """Ask all sites for their atoms."""
        atoms_per: Any = check_choice(self.atoms_per, "atoms_per", ("class", "site"))
        masses: Any = check_choice(self.masses, "masses", ("equal", "free"))
        check_integer(self.n_neighbors, "n_neighbors")
        size, seed = check_integer(self.size, "size"), check_integer(self.seed, "seed", 0)
        metered = MeteredFederation(federation)
        if self.privacy is None:
            # Sorted, so that the order of the sites has no effect.
            request = PrototypesRequest(size, atoms_per, masses, seed)
            replies = metered.ask(
                dict.fromkeys(sorted(federation.names), request), Prototypes, allow_failures=True
            )
            class_names = {site: reply.names for site, reply in replies.items()}
            replies, _ = metered.keep_most_frequent_label_type(replies, class_names)
            dimensions = {site: reply.points.shape[1] for site, reply in replies.items()}
            replies = metered.keep_most_frequent_dimension(replies, dimensions)
        else:
            guarantee = DP.of(self.privacy)
            if not guarantee.class_names:
                raise InputError(
                    "privacy has no labels; give fedwad.DP(..., labels=[the public names of"
                    " classes]).",
                    "missing-labels",
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

    def to_frame(self) -> pd.DataFrame:
        """Return the atoms as a pandas DataFrame with their site, label and weight.

        With a schema the columns are those of the tables, in their own units and likely levels.
        """
        check_is_fitted(self, "points_")
        about = {
            "site": [self.sites_[k] for k in self.owners_],
            "label": self.classes_[self.labels_].tolist(),
            "weight": self.weights_.tolist(),
        }
        if self.schema_ is not None:
            return data_frame(rows_in_units(self.schema_, self.points_, about))
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return data_frame(about | dict(zip(names, self.points_.T, strict=True)))

    @property
    def size_in_words_(self) -> str:
        """How small it is: its atoms, and what the sites sent."""
        check_is_fitted(self, "points_")
        atoms, sites = pluralize(len(self.points_), "atom"), pluralize(len(self.sites_), "site")
        return f"{atoms} of {sites}, {format_bytes(self.traffic_.up)} sent"

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        return f"<{text}: {self.size_in_words_}>" if hasattr(self, "points_") else text

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
        n_neighbors = min(check_integer(self.n_neighbors, "n_neighbors"), len(chosen))
        origin = self.points_.mean(axis=0)  # around which distances keep their digits
        neighbours = KNeighborsClassifier(n_neighbors, algorithm="brute")
        neighbours.fit(self.points_[chosen] - origin, self.labels_[chosen])
        votes = np.zeros((len(samples), len(self.classes_)))
        votes[:, neighbours.classes_] = neighbours.predict_proba(samples - origin)
        return votes

    def _atoms_of(self, classes: Sequence[Any]) -> NDArray[np.int64]:
        """Indices of the atoms with these labels."""
        unknown = [label for label in classes if label not in self.classes_]
        if unknown:
            raise InputError(
                f"No site has the label {unknown[0]!r}; the labels are in classes_.",
                "unknown-label",
            )
        chosen = np.flatnonzero(np.isin(self.classes_[self.labels_], np.asarray(classes)))
        if not len(chosen):
            raise InputError(
                "No atom has one of these labels; give more labels, or fit with a larger size.",
                "unknown-label",
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
            code = "bad-samples"
            sentence = text.splitlines()[0].rstrip(".")
            if "Reshape your data" in text:
                code = "wrong-shape"
                sentence = f"X has shape {np.shape(X)}: Reshape your data to (samples, features)"
            elif "NaN" in sentence or "infinity" in sentence:
                code = "missing-values"
            elif "feature names should match" in sentence:
                code = "different-columns"
                sentence += "; give X[list(model.feature_names_in_)]"
            raise InputError(f"{sentence}.", code) from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True  # for arrays; a federation brings its own labels
        return tags

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier as one .npz file, without pickled objects.

        If writing fails, no partial file is left.
        """
        check_is_fitted(self, "points_")
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if arrays["classes_"].dtype.kind == "O":  # such as strings: let NumPy find their type
            arrays["classes_"] = np.array(arrays["classes_"].tolist())
        if arrays["classes_"].dtype.kind == "O":
            raise InputError(
                "The labels are of a type that cannot be saved; give strings or numbers.",
                "bad-labels",
            )
        about = {"format": _FORMAT, "options": self.get_params(), "schema_": self.schema_}
        about |= {name: getattr(self, name) for name in ("sites_", "failed_", "notes_", "traffic_")}
        if hasattr(self, "feature_names_in_"):
            about["feature_names_in_"] = self.feature_names_in_
        write_arrays(path, {"about": np.array(json.dumps(to_plain(about))), **arrays})

    @classmethod
    def load(cls, path: str | Path) -> CoresetClassifier:
        """Read a classifier that `save` wrote; it predicts the same, bit for bit."""
        arrays = read_arrays(path)
        try:
            about = json.loads(str(arrays.pop("about", "null")))
        except ValueError:
            about = None
        if not isinstance(about, dict) or about.get("format") != _FORMAT:
            raise InputError(
                f"{path} is not a saved classifier; give a file written by `save`.", "wrong-format"
            )
        try:
            model = cls(**about["options"])
            for name in _ARRAYS:
                setattr(model, name, arrays[name])
            model.sites_, model.traffic_ = tuple(about["sites_"]), Traffic(**about["traffic_"])
            model.failed_, model.notes_ = about["failed_"], about["notes_"]
            model.schema_ = Schema.from_dict(about["schema_"]) if about["schema_"] else None
            model.n_features_in_ = model.points_.shape[1]
            if "feature_names_in_" in about:
                model.feature_names_in_ = np.array(about["feature_names_in_"], dtype=object)
            if not _is_consistent(model):
                raise ValueError("inconsistent arrays")
        except DAMAGE_ERRORS:
            raise InputError(
                f"{path} is damaged: parts of the classifier are missing or were changed.",
                "damaged-content",
            ) from None
        return model


def ask_private_prototypes(
    metered: MeteredFederation, sites: Sequence[str], guarantee: DP
) -> dict[str, Prototypes]:
    """The noisy class means of each site, as one atom for each class that stands out of the noise.

    A site without such a class is left out.
    """
    requests = dict.fromkeys(sites, PrivateRequest.of(guarantee))
    replies = metered.ask(requests, PrivateReply, allow_failures=True)
    dimensions = {site: len(reply.mean) for site, reply in replies.items()}
    atoms = {}
    for site, reply in sorted(metered.keep_most_frequent_dimension(replies, dimensions).items()):
        present, weights, points = class_means(reply)
        if len(present):
            class_names = [guarantee.class_names[index] for index in present]
            ordered = sorted(class_names)
            labels = np.array([ordered.index(name) for name in class_names], dtype=np.int64)
            atoms[site] = Prototypes(points, weights, labels, tuple(ordered), complete=True)
        else:
            metered.failed[site] = "No class of this site stands out of the noise."
    if not atoms:
        raise InputError(
            "No class stands out of the noise at any site; take a larger epsilon, or fewer"
            " features.",
            "noise-too-large",
        )
    return atoms


def _is_consistent(model: CoresetClassifier) -> bool:
    """Whether the shapes, types and indices of the arrays fit each other."""
    points, weights, labels, owners = (getattr(model, name) for name in _ARRAYS[:4])
    return bool(
        len(points) > 0
        and points.dtype == weights.dtype == np.float64
        and np.isfinite(points).all()
        and weights.shape == labels.shape == owners.shape == (len(points),)
        and 0 <= labels.min() <= labels.max() < len(model.classes_)
        and 0 <= owners.min() <= owners.max() < len(model.sites_)
    )
