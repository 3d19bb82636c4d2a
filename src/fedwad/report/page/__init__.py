"""The report: one HTML file to read, print and share. It loads nothing and stores nothing."""

from fedwad.report.page._audit import write_audit
from fedwad.report.page._drift import write_drift
from fedwad.report.page._frame import Section, write_page
from fedwad.report.page._training import write_training
from fedwad.report.page._write import write_report

__all__ = ["Section", "write_audit", "write_drift", "write_page", "write_report", "write_training"]
