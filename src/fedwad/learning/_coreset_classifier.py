"""A nearest-neighbour classifier made of a few labelled points from each site."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fedwad._blas import single_threaded_blas
from fedwad._checks import check_choice, check_integer
from fedwad._files import write_atomically
from fedwad.errors import InputError
from fedwad.federation import (
    Federation,
    LabelName,
    MeteredFederation,
    PrivateReply,
    PrivateRequest,
    Prototypes,
    PrototypesRequest,
    agreed_names,
    check_same_features,
    completed_guarantee,
    local,
)
from fedwad.ot import Floats, ground_cost
from fedwad.privacy import DP, class_means
from fedwad.tables import Schema, is_frame

__all__ = ["CoresetClassifier"]

_FORMAT = "fedwad coreset classifier 3"
_BLOCK_ENTRIES = 1 << 22  # of a cost matrix that is computed at once
_ARRAYS = ("points_", "weights_", "labels_", "owners_", "classes_")


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
        # Some sparse matrices are mappings too; they are samples.
        is_mapping = isinstance(X, Mapping) and not hasattr(X, "toarray")
        if hasattr(type(X), "ask") or is_mapping:
            if y is not None:
                raise InputError(
                    "y came beside a federation; its clients hold the labels, so leave y out."
                )
            federation = X if hasattr(type(X), "ask") else local(X)
            replies = self._ask(federation)
            names = agreed_names({name: reply.names for name, reply in replies.items()})
            self.classes_ = np.array(names)
            self._keep_atoms(replies, names)
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit to a table
            self.schema_ = getattr(federation, "schema", None)
            features = getattr(federation, "features", None)
            if self.schema_ is None and features is not None:
                # Then scikit-learn notices a table with columns in a different order.
                self.feature_names_in_ = np.array(features, dtype=object)
            return self
        self.schema_ = None
        samples, labels = self._validated(X, y)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        replies = self._ask(local({"data": (samples, codes)}))
        self._keep_atoms(replies, tuple(range(len(self.classes_))))
        return self

    def _ask(self, federation: Federation) -> dict[str, Prototypes]:
        """The atoms of each site that answers as most sites do."""
        check_choice(self.atoms_per, "atoms_per", ("class", "site"))
        check_choice(self.masses, "masses", ("equal", "free"))
        check_integer(self.n_neighbors, "n_neighbors")
        size, seed = check_integer(self.size, "size"), check_integer(self.seed, "seed", 0)
        if self.privacy is not None:
            return self._ask_private(federation, DP.of(self.privacy))
        atoms_per: Any = self.atoms_per
        masses: Any = self.masses  # both were checked above
        request = PrototypesRequest(size, atoms_per, masses, seed)
        metered = MeteredFederation(federation)
        names = sorted(federation.names)  # the order in which sites are listed has no effect
        answers = metered.ask(dict.fromkeys(names, request), Prototypes, allow_failures=True)
        label_names = {name: answer.names for name, answer in answers.items()}
        of_one_type, _ = metered.label_names(answers, label_names)  # numbers, or words
        dimensions = {name: reply.points.shape[1] for name, reply in of_one_type.items()}
        replies = metered.agreeing(of_one_type, dimensions)
        self.failed_, self.traffic_ = dict(metered.failed), metered.traffic
        return replies

    def _ask_private(self, federation: Federation, guarantee: DP) -> dict[str, Prototypes]:
        """The class means of each site's release, as one atom for each class."""
        names = guarantee.class_names
        if not names:
            raise InputError(
                "privacy came without labels; give fedwad.DP(..., labels=[the public names of"
                " classes])."
            )
        metered = MeteredFederation(federation)
        request = PrivateRequest.of(completed_guarantee(federation, guarantee))
        answers = metered.ask(
            dict.fromkeys(federation.names, request), PrivateReply, allow_failures=True
        )
        dimensions = {name: len(answer.mean) for name, answer in answers.items()}
        replies = metered.agreeing(answers, dimensions)
        self.failed_, self.traffic_ = dict(metered.failed), metered.traffic
        atoms = {}
        for client, reply in sorted(replies.items()):
            present, weights, points = class_means(reply)
            if len(present):
                present_names = [names[index] for index in present]
                ordered = sorted(present_names)
                labels = np.array([ordered.index(name) for name in present_names], dtype=np.int64)
                atoms[client] = Prototypes(points, weights, labels, tuple(ordered), complete=True)
        if not atoms:
            raise InputError(
                "No class stands out of the noise at any site; take a larger epsilon, or fewer"
                " features."
            )
        return atoms

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
        samples = self._validated(X)
        chosen = np.arange(len(self.points_)) if classes is None else self._atoms_of(classes)
        points, labels = self.points_[chosen], self.labels_[chosen]
        neighbors = min(check_integer(self.n_neighbors, "n_neighbors"), len(points))
        votes = np.zeros((len(samples), len(self.classes_)))
        rows = max(1, _BLOCK_ENTRIES // len(points))
        with single_threaded_blas():
            for start in range(0, len(samples), rows):
                cost = ground_cost(samples[start : start + rows], points)
                nearest = (
                    cost.argmin(axis=1)[:, None]
                    if neighbors == 1
                    else np.argpartition(cost, neighbors - 1)[:, :neighbors]
                )
                np.add.at(
                    votes,
                    (np.arange(start, start + len(cost))[:, None], labels[nearest]),
                    1 / neighbors,
                )
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

    def _validated(self, X: Any, *y: Any) -> Any:
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
        given, wanted = (
            [str(name) for name in X.columns],
            [str(name) for name in self.feature_names_in_],
        )
        missing, unknown = (
            [name for name in names if name not in others]
            for names, others in ((wanted, given), (given, wanted))
        )
        if not missing and not unknown:
            return " in their order; give X[list(model.feature_names_in_)]"
        differences = (
            (f"{words} {', '.join(names[:4])}")
            for words, names in (("without", missing), ("beside", unknown))
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
        check_is_fitted(self, "points_")
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if arrays["classes_"].dtype.kind == "O":  # strings in an array of objects
            arrays["classes_"] = np.array(arrays["classes_"].tolist())
        if arrays["classes_"].dtype.kind == "O":
            raise InputError(
                "The labels are of a type that cannot be saved; give strings or numbers."
            )
        about = {
            "format": _FORMAT,
            "options": {name: _plain(value) for name, value in self.get_params().items()},
            "sites": list(self.sites_),
            "failed": self.failed_,
            "notes": self.notes_,
            "traffic": [self.traffic_.up, self.traffic_.down, self.traffic_.messages],
            "schema": "" if self.schema_ is None else self.schema_.to_toml(),
            "features": np.asarray(getattr(self, "feature_names_in_", [])).tolist(),
        }
        content = io.BytesIO()
        np.savez_compressed(content, about=np.array(json.dumps(about)), **arrays)
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> CoresetClassifier:
        """Read a classifier that `save` wrote; it predicts the same, bit for bit."""
        from fedwad.federation import Traffic

        arrays, about = _read_saved(path)
        try:
            model = cls(**about["options"])
            for name in _ARRAYS:
                setattr(model, name, arrays[name])
            model.sites_, model.failed_, model.notes_ = (
                tuple(about["sites"]),
                about["failed"],
                about["notes"],
            )
            model.traffic_ = Traffic(*about["traffic"])
            model.n_features_in_ = model.points_.shape[1]
            text = about.get("schema", "")
            model.schema_ = Schema.from_toml(text) if text else None
            if about["features"]:
                model.feature_names_in_ = np.array(about["features"], dtype=object)
            if not model._is_consistent():
                raise ValueError("inconsistent arrays")
        except (KeyError, TypeError, ValueError, IndexError):
            raise InputError(
                f"{path} is damaged: parts of the classifier are missing or were changed."
            ) from None
        return model

    def _is_consistent(self) -> bool:
        """Whether the shapes, types and indices of the arrays fit each other."""
        count = len(self.points_)
        return bool(
            count > 0
            and self.points_.dtype == self.weights_.dtype == np.float64
            and np.isfinite(self.points_).all()
            and self.weights_.shape == self.labels_.shape == self.owners_.shape == (count,)
            and 0 <= self.labels_.min() <= self.labels_.max() < len(self.classes_)
            and 0 <= self.owners_.min() <= self.owners_.max() < len(self.sites_)
        )


def _plain(value: Any) -> Any:
    """A NumPy number as a Python number, and a privacy guarantee as a dictionary, for JSON."""
    if isinstance(value, DP):
        return value.to_dict()
    return value.item() if isinstance(value, np.generic) else value


def _read_saved(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of a saved classifier, and the dictionary `about` that `save` wrote."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        about = json.loads(str(arrays.pop("about")))
    except FileNotFoundError:
        raise InputError(f"There is no file at {path}; check the path.") from None
    except Exception:  # NumPy raises many types of errors for files of other kinds
        about = None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:
        raise InputError(f"{path} is not a saved classifier; give a file written by `save`.")
    return arrays, about
