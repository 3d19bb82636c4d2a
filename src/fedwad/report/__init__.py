"""Figures and pages of results. Matplotlib is imported when the first figure is drawn."""

from fedwad.report.page.pages import write_report
from fedwad.report.pictures import coreset_picture

__all__ = ["coreset_picture", "write_report"]
