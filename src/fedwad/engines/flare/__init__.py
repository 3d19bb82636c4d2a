"""NVIDIA FLARE: long-lived nodes at the sites, mutual TLS, jobs that carry no code. FLARE loads
when first needed.

`submit` runs a job on a provisioned federation, `sites` tells who is connected to it, `simulate`
runs a job in FLARE's simulator on this machine.
"""

from fedwad.engines.flare.simulate import simulate
from fedwad.engines.flare.submit import sites, submit

__all__ = ["simulate", "sites", "submit"]
