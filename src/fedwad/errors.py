"""The four errors that a user can cause, their common parent, and a warning about data.

Each message is one sentence that says what arrived and what to do about it.
The command line prints that sentence and exits with status 2.
"""

__all__ = [
    "CertificateError",
    "DataWarning",
    "FederationError",
    "FedwadError",
    "InputError",
    "PolicyError",
]


class FedwadError(Exception):
    """Parent of every error that fedwad raises on purpose."""


class InputError(FedwadError, ValueError):
    """The data or an option cannot be used as given."""


class PolicyError(FedwadError):
    """A client's policy refuses the request."""


class FederationError(FedwadError):
    """A client did not answer, or its reply is invalid."""


class CertificateError(FedwadError):
    """A computed optimum failed its proof of optimality, so it is not returned."""


class DataWarning(UserWarning):
    """Sites contradict each other about a column, or a column looks wrong at one of them."""
