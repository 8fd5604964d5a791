"""The simulator: a trace, a cluster, a policy, and what would have happened."""

from tiresias.sim.result import Result
from tiresias.sim.simulate import simulate
from tiresias.sim.trace import Trace

__all__ = ["Result", "Trace", "simulate"]
