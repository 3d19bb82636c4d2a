"""Flower: sites behind a SuperLink, or simulated on this machine.

Flower itself is imported when it is first used.
"""

from fedwad.engines.flower.simulate import simulate
from fedwad.engines.flower.submit import submit

__all__ = ["simulate", "submit"]
