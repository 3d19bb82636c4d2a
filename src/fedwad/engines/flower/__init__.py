"""Flower: sites behind a SuperLink, or simulated on this machine. Flower itself loads when first
needed."""

from fedwad.engines.flower.simulate import simulate
from fedwad.engines.flower.submit import submit

__all__ = ["simulate", "submit"]
