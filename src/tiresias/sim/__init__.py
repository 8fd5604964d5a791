"""The simulator replays a trace of jobs on a simulated cluster under a policy and measures the result."""

from tiresias.sim.result import Result
from tiresias.sim.simulate import simulate
from tiresias.sim.trace import Trace

__all__ = ["Result", "Trace", "simulate"]
