"""Pictures of results. Matplotlib loads when the first one is drawn."""

from fedwad.report.pictures import convergence, demo_picture

__all__ = ["convergence", "demo_picture"]
