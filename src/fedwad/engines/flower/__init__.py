"""Flower: sites behind a SuperLink, or simulated on this machine, and clusters for any Flower app.

Flower itself is imported when it is first used.
"""

from typing import TYPE_CHECKING, Any

from fedwad.engines._clusters import nearest_sites
from fedwad.engines.flower.simulate import simulate
from fedwad.engines.flower.submit import submit

if TYPE_CHECKING:
    from fedwad.engines.flower.strategies import Clustered, learning_only, personal_layers

__all__ = [
    "Clustered",
    "learning_only",
    "nearest_sites",
    "personal_layers",
    "simulate",
    "submit",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'fedwad.engines.flower' has no attribute '{name}'")
    from fedwad.engines.flower import strategies

    return getattr(strategies, name)
