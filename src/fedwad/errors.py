"""The four errors that a user can cause, and their common parent.

Each message is one sentence that says what arrived and what to do about it.
The command line prints that sentence and exits with status 2.
"""

__all__ = ["CertificateError", "FederationError", "FedwadError", "InputError", "PolicyError"]


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
