"""Tiresias' placer: only who suffers when spread waits for a place together.

Who suffers is told by the paper's rule (the skew of the model) or by ours (the network model). A gang that
suffers waits no longer than spreading it over the best slots there are now would cost: with unknown
durations, a job is expected to run for about as long as it has run so far, and for some time at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.model import INFINITY
from tiresias.core.plugins import Placer, option, placers
from tiresias.core.state import JobState
from tiresias.placers.fits import fewest_ever, fewest_now, one_rack_now, too_scattered
from tiresias.placers.groups import Groups, most_in_one, with_node_link
from tiresias.placers.shapes import ideal, shape, worst
from tiresias.profiles.known import find as known
from tiresias.profiles.links import PRESETS, Shape, Sharing, gpus_of, packed_shape, spread_shape
from tiresias.profiles.measured import Place, checked, parse, shape_word
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
        expected_s: float = option(900.0, "seconds that a job is expected to run at least")
        floor_s: float = option(60.0, "seconds that a gang that suffers waits at least")
        moves: int = option(3, "runs that may be moved at once to make a place for a gang that waits")
        near: float = option(0.0, "GB/s between GPUs of one group of a node; 0: as the network's")
        far: float = option(0.0, "GB/s between groups of a node; 0: as inside of one")
        measured: str = option("", "slowdowns that runs have shown: model:gpus:NODESxGROUPS=1.45,…", checked)

        def __post_init__(self) -> None:
            if not (0 <= self.limit <= 1 <= self.sharing < INFINITY and 0 <= self.floor_s < INFINITY):
                raise ValueError("limit must be from 0 to 1, sharing 1 or more, floor_s 0 or more")
            if not 0 <= self.expected_s < INFINITY or self.moves < 0:
                raise ValueError("expected_s and moves must be 0 or more")
            if not (0 <= self.near < INFINITY and 0 <= self.far < INFINITY):
                raise ValueError("near and far must be 0 or more")

    def __init__(self, options: Any = None):
        super().__init__(options)
        near = with_node_link(PRESETS[self.options.network], self.options.near)
        self._network = Network(near)
        self._measured = parse(self.options.measured)
        self._groups = Groups(near, with_node_link(near, self.options.far), self._measured)
        self._sharing = Sharing(rack=self.options.sharing, cross=self.options.sharing)
        self._asked: tuple[JobState, Holes, int, float] | None = None
        self._answer: tuple[Allocation, float] = (), 0.0

    def place(self, job: JobState, holes: Holes, at: float) -> Allocation | None:
        if job.gpus > holes.free:
            return None
        now, patience_s = self._judge(job, holes, at)
        waited_s = at - min(job.refused_since, at)
        return now if waited_s + BLINK_S >= patience_s else None

    def claim(self, job: JobState, holes: Holes, at: float) -> Allocation:
        profile = known(job.job.model)
        if profile is not None and (near := self._groups.claim(profile, job.gpus, holes)):
            return near
        return holes.emptiest(job.gpus) if self._suffers(job, holes) else ()

    def retry_at(self, job: JobState, holes: Holes, at: float) -> float:
        return min(job.refused_since, at) + self._judge(job, holes, at)[1]

    def refusal(self, job: JobState, holes: Holes, at: float) -> str:
        waits_s = self.retry_at(job, holes, at) - at
        now, _ = self._judge(job, holes, at)
        profile = known(job.job.model)
        if len(now) == 1 and profile is not None:
            most = most_in_one(now, holes)
            text = f"{holes.free} free, at most {most} in one group, needs {job.gpus} in one"
            loss = self._groups.loss(profile, now, holes)
            why = f"{profile.name} would take {loss:.2f}x as long across groups"
            return f"{text} ({why}), for another {waits_s:.0f} s at most"
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
        spread = spread_shape(job.gpus, node_gpus, job.gpus)
        slowdown = self._slowdown(profile, spread, packed_shape(job.gpus, node_gpus))
        what = "kept together" if slowdown > ACCEPTABLE else "may be spread"
        return f"{profile.name} {what}: over {job.gpus} nodes it would take {slowdown:.2f}x as long"

    def predicted(self, place: Place) -> float | None:
        """The slowdown there by the network model alone; None if it cannot tell."""
        profile, nodes = known(place.model), int(place.shape.partition("x")[0])
        if profile is None or profile.compute_s is None:
            return None
        if nodes == 1:
            return self._groups.predicted(profile, place.gpus, int(place.shape.partition("x")[2]))
        few, more = divmod(place.gpus, nodes)
        spread = ((few + 1,) * more + (few,) * (nodes - more),)
        return self._predicted(profile, spread, ((place.gpus,),))

    def _judge(self, job: JobState, holes: Holes, at: float) -> tuple[Allocation, float]:
        """(the best place of now, how long it is worth to wait for a better one).

        A refusal is followed by the question for how long: the last answer is kept for it.
        """
        asked = (job, holes, holes.changes, at)
        if self._asked != asked:
            now = self._best_now(job, holes)
            patience_s = self._patience_s(job, now, holes, at)
            self._asked, self._answer = asked, (now, patience_s)
        return self._answer

    def _best_now(self, job: JobState, holes: Holes) -> Allocation:
        """The fewest nodes its size allows, in one rack; or else of two places the one that slows it less."""
        need = job.gpus
        together = fewest_ever(need, holes)
        if together is not None and (len(together) == 1 or len(holes.racks) == 1):
            return together
        now = fewest_now(need, holes) if together is None else together
        near = one_rack_now(need, holes) if len(holes.racks) > 1 else None
        if near is None or len(shape(now, holes)) == 1:
            return now
        profile = known(job.job.model)
        if profile is None or profile.compute_s is None:
            return near
        best = ideal(need, holes)
        loss, near_loss = (self._slowdown(profile, shape(each, holes), best) for each in (now, near))
        return near if near_loss <= loss else now

    def _suffers(self, job: JobState, holes: Holes) -> bool:
        """Whether there are places so bad for it that it would rather wait."""
        profile = known(job.job.model) if job.gpus > 1 and holes.gpus and len(holes.nodes) > 1 else None
        if profile is None:
            return False
        key = self, profile.name, job.gpus
        answer: bool | None = holes.memo.get(key)
        if answer is None:
            answer = holes.memo[key] = self._may_suffer(profile, job.gpus, holes)
        return answer

    def _may_suffer(self, profile: ModelProfile, gpus: int, holes: Holes) -> bool:
        if self.options.rule == "skew" or profile.compute_s is None:
            return (profile.skew or 0.0) > float(self.options.limit)
        return self._slowdown(profile, worst(gpus, holes), ideal(gpus, holes)) > ACCEPTABLE

    def _slowdown(self, profile: ModelProfile, here: Shape, best: Shape) -> float:
        """How many times as long as alone in the best place, as runs have shown, or as predicted.

        A spread gang shares its links.
        """
        if here == best:
            return 1.0
        if self._measured:
            places = (Place(profile.name, gpus_of(here), _word(each)) for each in (here, best))
            shown, base = map(self._measured.get, places)
            if shown is not None:
                return shown / (base or 1.0)
        return self._predicted(profile, here, best)

    def _predicted(self, profile: ModelProfile, here: Shape, best: Shape) -> float:
        iteration = self._network.iteration
        return iteration(profile, here, self._sharing).seconds / iteration(profile, best).seconds

    def _patience_s(self, job: JobState, now: Allocation, holes: Holes, at: float) -> float:
        """What the best place of now would cost over the time that the job is expected to run."""
        if len(now) == 1 and not holes.sockets[now[0][0]]:
            return 0.0  # no place is better
        profile = known(job.job.model) if job.gpus > 1 else None
        if profile is None or holes.free == holes.gpus:
            return 0.0  # nothing to go by, or nobody to wait for
        if len(now) == 1:
            loss = self._groups.loss(profile, now, holes)
            return self._worth_s(job, loss, at) if loss > ACCEPTABLE else 0.0
        here, best = shape(now, holes), ideal(job.gpus, holes)
        if here == best:
            return 0.0
        by_skew = self.options.rule == "skew" or profile.compute_s is None
        if by_skew and (profile.skew or 0.0) <= self.options.limit:
            return 0.0
        slowdown = UNTIMED if profile.compute_s is None else self._slowdown(profile, here, best)
        if slowdown <= ACCEPTABLE and not by_skew:
            return 0.0
        return self._worth_s(job, slowdown, at)

    def _worth_s(self, job: JobState, slowdown: float, at: float) -> float:
        """How long to wait for a place without this slowdown."""
        run_s = max(job.executed_at(at), float(self.options.expected_s))
        return max(float(self.options.floor_s), (slowdown - 1) * run_s)


def _word(shape: Shape) -> str:
    return shape_word(sum(map(len, shape)))

