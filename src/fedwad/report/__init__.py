"""Figures and pages of results. Matplotlib is imported when the first figure is drawn."""

from fedwad.report.coresets import coreset_curves, coreset_picture
from fedwad.report.page import write_drift, write_report, write_training
from fedwad.report.pictures import convergence, drift_history, eigengap

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
