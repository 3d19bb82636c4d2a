"""A job for an engine: one algorithm, its clients and its options; running it; its outcome."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedwad._words import pluralize, to_printable
from fedwad.compare import Reference, distance, embed, matrix, permutation_test
from fedwad.compare.drift import for_later_tables
from fedwad.compare.table_one import columns
from fedwad.coresets.api import coreset
from fedwad.errors import FederationError, FedwadError, InputError
from fedwad.federation import (
    Failure,
    Federation,
    Journal,
    SchemaFederation,
    Site,
    agreed_schema,
    ensure_schema,
    error_of,
    failure_of,
    private_schema,
)
from fedwad.federation.kept import ask_to_keep
from fedwad.federation.schemas import with_schema
from fedwad.learning import train
from fedwad.tables import Schema

#: The environment variable in which a server's operator lists import paths of networks that jobs
#: may build, separated by commas; "*" allows any.
SERVER_MODELS_VARIABLE = "FEDWAD_SERVER_MODELS"
#: The environment variable that names the folder in which a server keeps the journals of runs.
CHECKPOINTS_VARIABLE = "FEDWAD_CHECKPOINTS"
#: Seconds that a site may be away in a round, stopped or restarted, before the run does without it.
#: A Flower node that was killed is admitted again after 20 s, and FLARE's after a minute at most.
AWAY_SECONDS = 90.0
#: What a node answers that cannot open its data, so that no path leaves it.
CANNOT_OPEN = Failure(
    "federation",
    "the node cannot open its data, policy or ledger; its operator finds the reason in its log.",
    "cannot-open",
)


@dataclass(frozen=True)
class Job:
    """An algorithm, the names of its clients, and its options.

    Parameters
    ----------
    algorithm : "distance", "matrix", "test", "columns", "reference", "join", "embed", "coreset",
        "train" or "schema"
    clients : names of the clients; all of them if empty
    options : keywords of `fedwad.distance`, `fedwad.matrix`, `fedwad.columns`, `fedwad.embed`,
        `fedwad.coreset` or `fedwad.learning.train`, and "schema", the TOML text of a schema file,
        if sites are not to agree on one, or "agreed", that of an earlier agreement, which is for
        sites that hold tables. A "test" of two sites is `fedwad.permutation_test`, and of
        more the tests of `fedwad.matrix`. A "reference" has the seed of `fedwad.Reference`. A
        "schema" has none, or under differential privacy "epsilon", "delta" and "draft", the TOML
        text of a schema file. A "join" has "requests" and "schema", as
        `fedwad.compare.join_options` returns them.
    """

    algorithm: str
    clients: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.algorithm not in _ALGORITHMS:
            raise InputError(
                f"There is no algorithm {self.algorithm!r}; choose {' or '.join(_ALGORITHMS)}.",
                "unknown-method",
            )
        number = {"distance": 2, "join": 1, "reference": 1}.get(self.algorithm)
        if number is not None and len(self.clients) != number:
            raise InputError(
                f"A {self.algorithm} is of {pluralize(number, 'site')}, and {len(self.clients)}"
                " were named.",
                "bad-option",
            )

    @property
    def needs_agreement(self) -> bool:
        """Whether sites that hold tables must agree on a schema, also those not in `clients`."""
        has_schema = self.options.keys() & {"schema", "agreed"}
        return self.algorithm not in ("schema", "join", "reference") and not has_schema

    def to_json(self) -> str:
        content = {"clients": self.clients, "options": dict(self.options)}
        return json.dumps({"algorithm": self.algorithm, **content})

    @classmethod
    def from_json(cls, text: str) -> Job:
        try:
            content = json.loads(text)
            clients, options = tuple(map(str, content["clients"])), dict(content["options"])
            algorithm = content["algorithm"]
        except (ValueError, KeyError, TypeError):
            raise InputError(
                "The job cannot be read; send JSON with algorithm, clients and options.",
                "bad-request",
            ) from None
        return cls(algorithm, clients, options)


def need_engine(extra: str, *more: str) -> None:
    """Raise FederationError unless "flower" or "flare", and these further modules, are there."""
    name, module = {"flower": ("Flower", "flwr"), "flare": ("NVIDIA FLARE", "nvflare")}[extra]
    if any(find_spec(one) is None for one in (module, *more)):
        raise FederationError(
            f"{name} is not installed; run: pip install 'fedwad[{extra}]'.", "missing-package"
        )


def error_outcome(error: Exception) -> dict[str, Any]:
    """The outcome of a run that ended with an error, as plain JSON.

    An unexpected error is a bug; the log of the server has its traceback.
    """
    if isinstance(error, FedwadError):
        failure = failure_of(error)
        return {"error": failure.code, "sentence": failure.sentence, "code": failure.error}
    logging.getLogger("fedwad.server").error("The run failed.", exc_info=error)
    name = type(error).__name__
    return {"error": "internal", "sentence": f"The server failed with {name}; see its log."}


def result_of(outcome: dict[str, Any]) -> dict[str, Any]:
    """The result in an outcome. Raises the error if the outcome holds one."""
    if "error" not in outcome:
        return outcome
    sentence = str(outcome.get("sentence", "The run failed."))
    raise error_of(Failure(str(outcome["error"]), sentence, str(outcome.get("code", ""))))


def preload() -> None:
    """Load libraries and compiled code before the first round, in a process of its own.

    POT would load PyTorch if it is installed, which takes seconds and is not needed here.
    """
    os.environ.setdefault("POT_BACKEND_DISABLE_PYTORCH", "1")
    points = [[float(k), float(k % 3)] for k in range(40)]
    log = logging.getLogger("fedwad.client")
    log.disabled = True  # an operator would take its lines for questions of an analyst
    try:
        distance(points, points[::-1], method="fedwad", support=2, rounds=1)
    finally:
        log.disabled = False


def journal_path(folder: str | Path | None, key: str, resume: bool) -> Path | None:
    """The path of the journal of the job that `key` identifies; None if there is no folder for it.

    Unless the run resumes, an old journal of the same job is deleted.
    """
    name = hashlib.sha256(key.encode()).hexdigest()[:24]
    path = Path(folder) / f"{name}.journal" if folder else None
    if resume and (path is None or not path.exists()):
        raise InputError(
            "The server has no journal of an interrupted run of this job; start it without resume.",
            "no-journal",
        )
    if path is not None and not resume:
        path.unlink(missing_ok=True)
    return path


def run_with_journal(
    job: Job, federation: Federation, folder: str | Path | None, key: str, resume: bool
) -> dict[str, Any]:
    """Run a job at a server that keeps its journal in a folder until there is a result."""
    journal = journal_path(folder, key, resume)
    result = run(job, federation, journal, resume)
    if journal is not None:
        journal.unlink(missing_ok=True)  # it holds replies of sites, which nobody needs now
    return result


Algorithm = Callable[[Federation, Job], dict[str, Any]]


def run(
    job: Job, federation: Federation, checkpoint: str | Path | None = None, resume: bool = False
) -> dict[str, Any]:
    """Run a job on a federation and return its result as plain JSON types.

    The result has the algorithm as "kind". If sites hold tables, all sites of the federation that
    do agree on a schema first, unless the job has one; the result has it as "agreed_schema". A
    later job with its text as "agreed" asks in the same encoding.

    Parameters
    ----------
    checkpoint : path of a journal, which records every reply; no journal when left out
    resume : whether to use the replies that the journal has from an interrupted run
    """
    with ExitStack() as stack:
        if checkpoint is not None:
            journal = Journal(federation, checkpoint, resume, named=job.clients)
            federation = stack.enter_context(journal)
        given = None
        if job.algorithm not in ("schema", "join"):
            options = dict(job.options)
            text, earlier = options.pop("schema", None), options.pop("agreed", None)
            if text is not None:
                given = Schema.from_toml(str(text), "The given schema", public=True)
            agreed = None if earlier is None else Schema.from_toml(str(earlier), "The schema")
            federation = ensure_schema(federation, job.clients or None, given, agreed)
            job = replace(job, options=options)
        used = federation.schema if isinstance(federation, SchemaFederation) else None
        if job.algorithm == "reference" and used is not None and given is None:
            federation = for_later_tables(federation, used, job.clients[0]).federation
        result = {"kind": job.algorithm, **_ALGORITHMS[job.algorithm](federation, job)}
        if used is not None and given is None:
            result["agreed_schema"] = used.to_dict()
        return result


def _distance(federation: Federation, job: Job) -> dict[str, Any]:
    a, b = (Site(federation, name) for name in job.clients)
    return distance(a, b, **job.options).to_dict()


def _test(federation: Federation, job: Job) -> dict[str, Any]:
    names = job.clients or federation.names
    if len(names) != 2:
        return matrix(federation, sites=job.clients or None, **job.options).to_dict()
    a, b = (Site(federation, name) for name in names)
    return permutation_test(a, b, **job.options).to_dict()


def _reference(federation: Federation, job: Job) -> dict[str, Any]:
    (name,) = job.clients
    return Reference.from_data(Site(federation, name), **job.options).to_dict()


def _on_sites(function: Callable[..., Any]) -> Algorithm:
    """The algorithm that passes the sites and the options of a job to a function."""

    def algorithm(federation: Federation, job: Job) -> dict[str, Any]:
        return dict(function(federation, sites=job.clients or None, **job.options).to_dict())

    return algorithm


def _join(federation: Federation, job: Job) -> dict[str, Any]:
    """Replies of a new site to the requests that the sites of a saved matrix have answered.

    The policy of the new site must allow a server to keep them.
    `fedwad.compare.add_replies` adds the site to the matrix.
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
    """A trained model, if the server's operator lets jobs build its network.

    To build a network from an import path runs code that is installed on the server. The operator
    decides about that, not whoever submits the job.
    """
    model = job.options.get("model", "mlp")
    allowed = [path.strip() for path in os.environ.get(SERVER_MODELS_VARIABLE, "").split(",")]
    if model not in ("mlp", "cnn", *allowed) and "*" not in allowed:
        raise InputError(
            f"The model '{to_printable(str(model))}' is not built in, and the server's operator"
            f" does not list it in {SERVER_MODELS_VARIABLE}.",
            "unknown-model",
        )
    return train(federation, clients=job.clients or None, **job.options).to_dict()


_ALGORITHMS: dict[str, Algorithm] = {
    "distance": _distance,
    "matrix": _on_sites(matrix),
    "test": _test,
    "reference": _reference,
    "embed": _on_sites(embed),
    "columns": _on_sites(columns),
    "join": _join,
    "coreset": _on_sites(coreset),
    "train": _train,
    "schema": _schema,
}
