"""The outcome of a run as plain JSON: a result, or the code and the sentence of an error."""

from __future__ import annotations

from typing import Any

from fedwad.errors import FedwadError
from fedwad.federation import Failure, error_of, failure_of

__all__ = ["error_outcome", "internal_outcome", "result_of"]


def error_outcome(error: FedwadError) -> dict[str, Any]:
    """The outcome of a run that ended with an error that a user can correct."""
    failure = failure_of(error)
    return {"error": failure.code, "sentence": failure.sentence}


def internal_outcome(error: Exception) -> dict[str, Any]:
    """The outcome of a run that ended with an unexpected error, which is a bug.

    The log of the server has the traceback.
    """
    name = type(error).__name__
    return {"error": "internal", "sentence": f"The server failed with {name}; see its log."}


def result_of(outcome: dict[str, Any]) -> dict[str, Any]:
    """The result in an outcome. Raises the error if the outcome holds one."""
    if "error" not in outcome:
        return outcome
    sentence = str(outcome.get("sentence", "The run failed."))
    raise error_of(Failure(str(outcome["error"]), sentence))
