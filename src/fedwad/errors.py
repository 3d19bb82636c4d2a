"""The four errors that a user can cause, their common parent, and a warning about data.

Each message is one sentence that says what arrived and what to do about it, and each error has a
`code`, which stays the same when the sentence is reworded. The command line prints the sentence and
exits with status 2.
"""

from __future__ import annotations


class FedwadError(Exception):
    """Parent of every error that fedwad raises on purpose.

    `code` names the kind of mistake in a few words with hyphens, such as "unknown-column".
    """

    code = "error"

    def __init__(self, sentence: str = "", code: str | None = None) -> None:
        super().__init__(sentence)
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[type[FedwadError], tuple[str, str]]:
        return type(self), (str(self), self.code)


class InputError(FedwadError, ValueError):
    """The data or an option cannot be used as given."""

    code = "input"


class PolicyError(FedwadError):
    """A client's policy refuses the request."""

    code = "policy"


class FederationError(FedwadError):
    """A client did not answer, or its reply is invalid."""

    code = "federation"


class CertificateError(FedwadError):
    """A computed optimum failed its proof of optimality, so it is not returned."""

    code = "certificate"


class DataWarning(UserWarning):
    """Sites contradict each other about a column, or a column looks wrong at one of them."""
