"""Two rules that decide whether a job should wait for a consolidated allocation.

Both have a method `verdict(profile, choice)`. The paper's rule uses only the skew. Ours uses the network
model: it compares what spreading would cost over the expected run time with the expected wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tiresias.profiles.links import ALONE, Shape, Sharing, gpus_of, packed_shape, spread_shape
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.network import Network
from tiresias.profiles.packlimit import PACKLIMIT


class Verdict(NamedTuple):
    """Whether to consolidate, and the sentence that says why."""

    consolidate: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Two shapes for a gang: a packed one for which it would wait, and a spread one that it can have now."""

    packed: Shape
    spread: Shape
    run_s: float  # how long it is expected to run, at the speed of the packed shape
    wait_s: float  # how long until the packed shape is free
    sharing: Sharing = ALONE  # on the links of the spread shape

    @classmethod
    def usual(cls, gpus: int, node_gpus: int, run_s: float, wait_s: float) -> Choice:
        """The fewest nodes against one GPU on each of as many nodes as possible."""
        return cls(packed_shape(gpus, node_gpus), spread_shape(gpus, node_gpus, gpus), run_s, wait_s)


class Rule(Protocol):
    """A rule by which a placer decides."""

    name: str

    def verdict(self, profile: ModelProfile, choice: Choice) -> Verdict:
        """Whether this job should wait for the packed shape."""
        ...


class SkewRule:
    """The paper's rule: consolidate if the largest tensor's share of what is sent is above a limit."""

    name = "skew"

    def __init__(self, limit: float = PACKLIMIT):
        self.limit = limit

    def verdict(self, profile: ModelProfile, choice: Choice | None = None) -> Verdict:
        if choice is not None and gpus_of(choice.packed) == 1:
            return Verdict(False, "one GPU: there is nothing to consolidate")
        skew = profile.skew
        if skew is None:
            return Verdict(False, f"the tensors of {profile.name} are not known, so neither is its skew")
        if skew > self.limit:
            name = profile.largest.name if profile.largest else ""
            return Verdict(True, f"{name} is {skew:.1%} of what is sent, above the limit of {self.limit:.1%}")
        limit = f"the limit is {self.limit:.1%}"
        return Verdict(False, f"no tensor is more than {skew:.1%} of what is sent; {limit}")


class SlowdownRule:
    """Our rule: consolidate if spreading costs more time than the wait for the packed shape."""

    name = "slowdown"

    def __init__(self, network: Network, fallback: SkewRule | None = None):
        self.network = network
        self.fallback = fallback or SkewRule()

    def verdict(self, profile: ModelProfile, choice: Choice) -> Verdict:
        if gpus_of(choice.packed) == 1:
            return Verdict(False, "one GPU: there is nothing to consolidate")
        if profile.compute_s is None:
            by_skew = self.fallback.verdict(profile, choice)
            return Verdict(by_skew.consolidate, f"its compute time is not known; {by_skew.reason}")
        packed_s = self.network.iteration(profile, choice.packed).seconds
        spread_s = self.network.iteration(profile, choice.spread, choice.sharing).seconds
        slowdown = spread_s / packed_s
        loss_s = (slowdown - 1) * choice.run_s
        more = f"{max(0.0, loss_s):,.0f} s more in {choice.run_s:,.0f} s"
        cost = f"spread it runs {slowdown:.2f}x as long, {more}"
        if loss_s > choice.wait_s:
            return Verdict(True, f"{cost}: more than the wait of {choice.wait_s:,.0f} s")
        return Verdict(False, f"{cost}: no more than the wait of {choice.wait_s:,.0f} s")
