"""The audit: attacks of a curious server, tried on the user's own data."""

from fedwad._audit._result import AuditResult, Row, Samples
from fedwad._audit._score import ReconstructionScorer, Score
from fedwad._audit.api import METHODS, Method, audit

__all__ = [
    "METHODS",
    "AuditResult",
    "Method",
    "ReconstructionScorer",
    "Row",
    "Samples",
    "Score",
    "audit",
]
