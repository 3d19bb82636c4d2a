"""A job for an engine: one algorithm, its clients and its options."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedwad._coreset.api import coreset
from fedwad._distance.api import distance
from fedwad._embedding.api import embed
from fedwad._matrix.api import matrix
from fedwad._words import to_printable
from fedwad.errors import InputError
from fedwad.federation import (
    AgreedFederation,
    Federation,
    Journal,
    Site,
    agreed_schema,
    ask_to_keep,
    ensure_schema,
    private_schema,
    with_schema,
)
from fedwad.learning import train
from fedwad.tables import Schema

__all__ = ["SERVER_MODELS", "Job", "run"]

#: The variable in which a server's operator lists import paths of networks that jobs may build,
#: separated by commas; "*" for any.
SERVER_MODELS = "FEDWAD_SERVER_MODELS"
BUILT_IN_MODELS = ("mlp", "cnn")


@dataclass(frozen=True)
class Job:
    """An algorithm, the names of its clients, and its options.

    Parameters
    ----------
    algorithm : "distance", "matrix", "join", "embed", "coreset", "train" or "schema"
    clients : names of the clients; all of them if empty
    options : keywords of the function with the name of the algorithm; for a private schema
        "epsilon", "delta" and "draft", the text of the file; for "join", which asks a new site what
        those of a saved matrix were asked, "requests" and "schema", see `join_options`
    """

    algorithm: str
    clients: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.algorithm not in _ALGORITHMS:
            raise InputError(
                f"There is no algorithm {self.algorithm!r}; choose {' or '.join(_ALGORITHMS)}."
            )
        if self.algorithm == "distance" and len(self.clients) != 2:
            raise InputError(f"A distance needs two clients; {len(self.clients)} were named.")
        if self.algorithm == "join" and len(self.clients) != 1:
            raise InputError(f"One client joins at a time; {len(self.clients)} were named.")

    def to_json(self) -> str:
        return json.dumps(
            {
                "algorithm": self.algorithm,
                "clients": list(self.clients),
                "options": dict(self.options),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Job:
        try:
            content = json.loads(text)
            return cls(
                content["algorithm"], tuple(map(str, content["clients"])), dict(content["options"])
            )
        except (ValueError, KeyError, TypeError):
            raise InputError(
                "The job cannot be read; send JSON with algorithm, clients and options."
            ) from None


def run(
    job: Job, federation: Federation, checkpoint: str | Path | None = None, resume: bool = False
) -> dict[str, Any]:
    """Run a job on a federation and return its result as plain JSON types, with its "kind".

    "agreed_schema" is there if the sites' tables were encoded by a schema that they agreed on.

    If a checkpoint is given, that file records every reply. `resume` reuses the recorded replies.
    """
    with ExitStack() as stack:
        if checkpoint is not None:
            federation = stack.enter_context(Journal(federation, checkpoint, resume))
        if job.algorithm not in ("schema", "join"):
            federation = ensure_schema(federation, job.clients or None)
        result = {"kind": job.algorithm, **_ALGORITHMS[job.algorithm](federation, job)}
        if isinstance(federation, AgreedFederation):
            result["agreed_schema"] = federation.schema.to_dict()
        return result


def _distance(federation: Federation, job: Job) -> dict[str, Any]:
    a, b = (Site(federation, name) for name in job.clients)
    return distance(a, b, **job.options).to_dict()


def _matrix(federation: Federation, job: Job) -> dict[str, Any]:
    return matrix(federation, sites=job.clients or None, **job.options).to_dict()


def _embed(federation: Federation, job: Job) -> dict[str, Any]:
    return embed(federation, sites=job.clients or None, **job.options).to_dict()


def _join(federation: Federation, job: Job) -> dict[str, Any]:
    """The replies of a new site, which its policy must allow to be kept, see `add_replies`."""
    (name,) = job.clients
    text = job.options.get("schema")
    if text is not None:
        federation = with_schema(federation, Schema.from_toml(text), name)
    found = ask_to_keep(federation, name, job.options.get("requests", ()))
    return {"replies": [one.to_dict() for one in found]}


def _coreset(federation: Federation, job: Job) -> dict[str, Any]:
    return coreset(federation, sites=job.clients or None, **job.options).to_dict()


def _schema(federation: Federation, job: Job) -> dict[str, Any]:
    if not job.options:
        return agreed_schema(federation, job.clients or None).to_dict()
    options = dict(job.options)
    draft = Schema.from_toml(options.pop("draft"), "The draft", public=True)
    return private_schema(federation, draft, names=job.clients or None, **options).to_dict()


def _train(federation: Federation, job: Job) -> dict[str, Any]:
    _check_model(job.options.get("model", "mlp"))
    return train(federation, clients=job.clients or None, **job.options).to_dict()


def _check_model(model: Any) -> None:
    """InputError unless the server's operator lets jobs build this network.

    An import path runs code of a package that is installed on the server. Whoever submits a job
    does not decide that.
    """
    listed = [word.strip() for word in os.environ.get(SERVER_MODELS, "").split(",")]
    if model not in BUILT_IN_MODELS and model not in listed and "*" not in listed:
        raise InputError(
            f"The model '{to_printable(str(model))}' is not built in, and the server's operator"
            f" does not list it in {SERVER_MODELS}."
        )


_ALGORITHMS: dict[str, Callable[[Federation, Job], dict[str, Any]]] = {
    "distance": _distance,
    "matrix": _matrix,
    "embed": _embed,
    "join": _join,
    "coreset": _coreset,
    "train": _train,
    "schema": _schema,
}
