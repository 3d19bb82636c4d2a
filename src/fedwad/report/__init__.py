"""Figures and pages of results. Matplotlib is imported when the first figure is drawn."""

from fedwad.report.coresets import coreset_curves, coreset_picture
from fedwad.report.drift import drift_history
from fedwad.report.page import write_drift, write_report, write_training
from fedwad.report.pictures import convergence, eigengap

__all__ = [
    "convergence",
    "coreset_curves",
    "coreset_picture",
    "drift_history",
    "eigengap",
    "write_drift",
    "write_report",
    "write_training",
]
