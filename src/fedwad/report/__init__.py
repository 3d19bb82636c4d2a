"""Pictures and pages of results. Matplotlib loads when the first picture is drawn."""

from fedwad.report.page import write_report
from fedwad.report.pictures import convergence, demo_picture, eigengap

__all__ = ["convergence", "demo_picture", "eigengap", "write_report"]
