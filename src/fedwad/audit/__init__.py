"""The audit: attacks of a curious server, tried on the user's own data."""

from fedwad.audit.api import METHODS, Method, audit
from fedwad.audit.score import AuditResult, ReconstructionScorer, Row, Samples, Score
