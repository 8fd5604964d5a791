"""Tiresias' placer: only who suffers when spread waits for a place together.

Who suffers is told by the paper's rule (the skew of the model) or by ours (the network model). A gang that
suffers waits no longer than spreading it over the best slots there are now would cost: with unknown
durations, a job is expected to run for about as long as it has run so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.model import INFINITY
from tiresias.core.plugins import Placer, option, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import fewest_ever, fewest_now, too_scattered
from tiresias.profiles import zoo
from tiresias.profiles.links import PRESETS, Shape, Sharing, packed_shape, shape_of, spread_shape
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.network import Network
from tiresias.profiles.packlimit import ACCEPTABLE, PACKLIMIT

BLINK_S = 1e-6  # an instant may be a hair early by rounding
UNTIMED = 1.5  # the slowdown assumed of a skewed model whose compute time is not known


def one_of(*names: str) -> Any:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"it is one of {', '.join(names)}")
        return text

    return parse


def known(model: str) -> ModelProfile | None:
    """The profile of a model of this name, if there is one."""
    return zoo.find(model) if zoo.knows(model) else None


@placers.register
class Profile(Placer):
    """Gangs whose model suffers when spread wait for the fewest nodes, no longer than that pays."""

    name = "profile"
    waits = True

    @dataclass(slots=True)
    class Options:
        rule: str = option(
            "network", "who suffers: network (predicted slowdown) or skew", one_of("network", "skew")
        )
        limit: float = option(PACKLIMIT, "with rule=skew: who has a tensor of a larger share than this")
        network: str = option(
            "tiresias-testbed", f"the links, one of {', '.join(PRESETS)}", one_of(*PRESETS)
        )
        sharing: float = option(2.0, "jobs that are expected to share the links of a spread gang, itself one")
        floor_s: float = option(60.0, "seconds that a gang that suffers waits at least")

        def __post_init__(self) -> None:
            if not (0 <= self.limit <= 1 <= self.sharing < INFINITY and 0 <= self.floor_s < INFINITY):
                raise ValueError("limit must be from 0 to 1, sharing 1 or more, floor_s 0 or more")

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._network = Network(PRESETS[self.options.network])
        self._sharing = Sharing(rack=self.options.sharing, cross=self.options.sharing)

    def place(self, job: JobState, holes: Holes, at: float) -> Allocation | None:
        need = job.gpus
        if need > holes.free:
            return None
        together = fewest_ever(need, holes)
        if together is not None:
            return together
        now = fewest_now(need, holes)
        if not self._suffers(job, holes):
            return now
        waited_s = at - min(job.refused_since, at)
        return now if waited_s + BLINK_S >= self._patience_s(job, now, holes, at) else None

    def claim(self, job: JobState, holes: Holes, at: float) -> Allocation:
        return holes.emptiest(job.gpus) if self._suffers(job, holes) else ()

    def retry_at(self, job: JobState, holes: Holes, at: float) -> float:
        now = fewest_now(job.gpus, holes)
        return job.refused_since + self._patience_s(job, now, holes, at)

    def refusal(self, job: JobState, holes: Holes, at: float) -> str:
        waits_s = self.retry_at(job, holes, at) - at
        return f"{too_scattered(job.gpus, holes)} ({self.verdict(job)}), for another {waits_s:.0f} s at most"

    def verdict(self, job: JobState) -> str:
        profile = known(job.job.model)
        if profile is None:
            return f"nothing is known of its model ({job.job.model or 'none named'}), so it may be spread"
        if self.options.rule == "skew" or profile.compute_s is None:
            skew, limit = profile.skew or 0.0, self.options.limit
            what = "kept together" if skew > limit else "may be spread"
            return f"{profile.name} {what}: its largest tensor is {skew:.1%} of it, the limit {limit:.1%}"
        node_gpus = self._network.links.node_gpus
        slowdown = self._worst(profile, job.gpus, node_gpus, job.gpus)
        what = "kept together" if slowdown > ACCEPTABLE else "may be spread"
        return f"{profile.name} {what}: spread it would take {slowdown:.2f}x as long"

    def _suffers(self, job: JobState, holes: Holes) -> bool:
        profile = known(job.job.model) if job.gpus > 1 and holes.gpus else None
        if profile is None:
            return False
        if self.options.rule == "skew" or profile.compute_s is None:
            return (profile.skew or 0.0) > float(self.options.limit)
        size, nodes = holes.sizes()[0]
        return self._worst(profile, job.gpus, size, nodes.bit_count()) > ACCEPTABLE

    def _worst(self, profile: ModelProfile, gpus: int, node_gpus: int, nodes: int) -> float:
        """The slowdown over as many nodes as there are."""
        nodes = max(nodes, -(-gpus // node_gpus))
        return self._slowdown(profile, spread_shape(gpus, node_gpus, nodes), gpus, node_gpus)

    def _slowdown(self, profile: ModelProfile, shape: Shape, gpus: int, node_gpus: int) -> float:
        best = packed_shape(gpus, max(node_gpus, max(map(max, shape))))
        iteration = self._network.iteration
        return iteration(profile, shape, self._sharing).seconds / iteration(profile, best).seconds

    def _patience_s(self, job: JobState, now: Allocation, holes: Holes, at: float) -> float:
        """What the best slots of now would cost over as long as the job has run so far."""
        profile = known(job.job.model)
        slowdown = UNTIMED
        if profile is not None and profile.compute_s is not None:
            nodes = holes.nodes
            shape = shape_of((nodes[n].rack, nodes[n].name, slots.bit_count()) for n, slots in now)
            slowdown = self._slowdown(profile, shape, job.gpus, holes.sizes()[0][0])
        if slowdown <= ACCEPTABLE and self.options.rule != "skew":
            return 0.0
        return max(float(self.options.floor_s), (slowdown - 1) * job.executed_at(at))
