"""NVIDIA FLARE: long-lived nodes at the sites, mutual TLS, and jobs that contain no code.

`submit` runs a job on a provisioned federation. `sites` lists the sites that are connected to it.
`simulate` runs a job in FLARE's simulator on this machine. `clustered` makes one job of anybody's
recipe for each cluster of sites. FLARE itself is imported when it is first used.
"""

from fedwad.engines._clusters import nearest_sites
from fedwad.engines.flare.clusters import clustered
from fedwad.engines.flare.simulate import simulate
from fedwad.engines.flare.submit import sites, submit

__all__ = ["clustered", "nearest_sites", "simulate", "sites", "submit"]
