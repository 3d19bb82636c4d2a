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

__all__ = ["CHECKPOINTS_VARIABLE", "SERVER_MODELS_VARIABLE", "Job", "run"]

#: The environment variable in which a server's operator lists import paths of networks that jobs
#: may build, separated by commas; "*" allows any.
SERVER_MODELS_VARIABLE = "FEDWAD_SERVER_MODELS"
#: The environment variable that names the folder in which a server keeps the journals of runs.
CHECKPOINTS_VARIABLE = "FEDWAD_CHECKPOINTS"
_BUILT_IN_MODELS = ("mlp", "cnn")


@dataclass(frozen=True)
class Job:
    """An algorithm, the names of its clients, and its options.

    Parameters
    ----------
    algorithm : "distance", "matrix", "join", "embed", "coreset", "train" or "schema"
    clients : names of the clients; all of them if empty
    options : keywords of `fedwad.distance`, `fedwad.matrix`, `fedwad.embed`, `fedwad.coreset` or
        `fedwad.learning.train`. A "schema" has none, or under differential privacy "epsilon",
        "delta" and "draft", the TOML text of a schema file. A "join" has those that
        `fedwad._matrix.newcomers.join_options` returns.
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
        except InputError:  # which is a ValueError
            raise
        except (ValueError, KeyError, TypeError):
            raise InputError(
                "The job cannot be read; send JSON with algorithm, clients and options."
            ) from None


Algorithm = Callable[[Federation, Job], dict[str, Any]]


def run(
    job: Job, federation: Federation, checkpoint: str | Path | None = None, resume: bool = False
) -> dict[str, Any]:
    """Run a job on a federation and return its result as plain JSON types.

    The result has the algorithm as "kind". If the sites have tables and no schema, they agree on
    one first, which the result has as "agreed_schema".

    Parameters
    ----------
    checkpoint : path of a journal, which records every reply; no journal when left out
    resume : whether to use the replies that the journal has from an interrupted run
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


def _on_sites(function: Callable[..., Any]) -> Algorithm:
    """The algorithm that passes the sites and the options of a job to a function."""

    def algorithm(federation: Federation, job: Job) -> dict[str, Any]:
        return dict(function(federation, sites=job.clients or None, **job.options).to_dict())

    return algorithm


def _join(federation: Federation, job: Job) -> dict[str, Any]:
    """Replies of a new site to the requests that the sites of a saved matrix have answered.

    The policy of the new site must allow a server to keep them.
    `fedwad._matrix.newcomers.add_replies` adds the site to the matrix.
    """
    (name,) = job.clients
    text = job.options.get("schema")
    if text is not None:
        federation = with_schema(federation, Schema.from_toml(text), name)
    replies = ask_to_keep(federation, name, job.options.get("requests", ()))
    return {"replies": [reply.to_dict() for reply in replies]}


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
    """Raise InputError unless the server's operator lets jobs build this network.

    To build a network from an import path runs code that is installed on the server. The operator
    decides about that, not whoever submits the job.
    """
    allowed = [path.strip() for path in os.environ.get(SERVER_MODELS_VARIABLE, "").split(",")]
    if model not in (*_BUILT_IN_MODELS, *allowed) and "*" not in allowed:
        raise InputError(
            f"The model '{to_printable(str(model))}' is not built in, and the server's operator"
            f" does not list it in {SERVER_MODELS_VARIABLE}."
        )


_ALGORITHMS: dict[str, Algorithm] = {
    "distance": _distance,
    "matrix": _on_sites(matrix),
    "embed": _on_sites(embed),
    "join": _join,
    "coreset": _on_sites(coreset),
    "train": _train,
    "schema": _schema,
}
