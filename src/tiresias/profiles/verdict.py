"""Whether a job deserves to wait for locality: the paper's rule, and a sharper one.

Both answer `verdict(profile, choice)`. The paper's looks at the skew alone. Ours asks the network model what
spreading would cost over the time that the job is expected to run, against the expected wait.
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
    """Two places for a gang: one to wait for, and one to have now."""

    packed: Shape
    spread: Shape
    run_s: float  # how long it is expected to run, at the speed of the packed place
    wait_s: float  # how long until the packed place is free
    sharing: Sharing = ALONE  # on the links of the spread place

    @classmethod
    def usual(cls, gpus: int, node_gpus: int, run_s: float, wait_s: float) -> Choice:
        """The fewest nodes, or a GPU on each of as many nodes as possible."""
        return cls(packed_shape(gpus, node_gpus), spread_shape(gpus, node_gpus, gpus), run_s, wait_s)


class Rule(Protocol):
    """What placers ask."""

    name: str

    def verdict(self, profile: ModelProfile, choice: Choice) -> Verdict:
        """Whether this job should wait for the packed place."""
        ...


class SkewRule:
    """The largest tensor's share above a limit: the paper's rule."""

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
    """Spreading costs more time than the wait for locality: our rule."""

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
        told = f"spread it runs {slowdown:.2f}x as long, {more}"
        if loss_s > choice.wait_s:
            return Verdict(True, f"{told}: more than the wait of {choice.wait_s:,.0f} s")
        return Verdict(False, f"{told}: no more than the wait of {choice.wait_s:,.0f} s")
