"""Tiresias' placer: gangs wait until they fit together, for as long as spreading them would cost.

How much a gang suffers when spread follows from the paper's rule (the skew of the model) or from ours (the
network model). A gang waits no longer than spreading it over the best slots of now would cost. As durations
are not known, a job is expected to run for about as long as it has run so far, and for some time at least. A
gang that does not suffer waits for a short time too: where it is spread it breaks the holes of others, and a
migration may make room for it meanwhile.

A gang whose model is not known waits as the mix of the paper's models would on the average. What runs have
shown corrects the bandwidths that the placer believes in, and tells what an unknown model is like: see
learned.py.

The placer caches what it has worked out: slowdowns by model and shape, and answers by the state of the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tiresias.core.facts import Allocation, Fact
from tiresias.core.holes import EVERYWHERE, Holes
from tiresias.core.model import INFINITY
from tiresias.core.plugins import Placer, option, placers
from tiresias.core.state import JobState, State
from tiresias.placers.fits import (
    emptiest_rack,
    fewest_now,
    fullest_rack,
    nodes_for_fewest,
    on_one_node,
    too_fragmented,
)
from tiresias.placers.groups import Groups, most_in_one, with_node_link
from tiresias.placers.learned import UNKNOWN, Learned, new_memory, scaled
from tiresias.placers.options import check_migrations, migrations_option
from tiresias.placers.shapes import ideal, partitions, shape_now
from tiresias.profiles import zoo
from tiresias.profiles.known import Profiles
from tiresias.profiles.links import PRESETS, Links, Shape, Sharing, gpus_of, packed_shape, spread_shape
from tiresias.profiles.measured import GangShape, checked, parse, shape_word
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.network import Network
from tiresias.profiles.packlimit import ACCEPTABLE, refit

BLINK_S = 1e-6  # an instant may come this much too early by rounding
UNTIMED = 1.5  # the slowdown assumed of a skewed model whose compute time is not known
FITTED = "fitted"
MOST_SPLIT = 12  # GPUs of a gang for which all ways to split it are looked at
MOST_REMEMBERED = 4096  # answers for states of the nodes


def one_of(*names: str) -> Any:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"it is one of {', '.join(names)}")
        return text

    return parse


def limit_of(given: str | float) -> str | float:
    return given if given == FITTED else float(given)


def links_of(given: str | Links) -> Links:
    """The links of a preset by its name; in Python also any links."""
    if isinstance(given, Links):
        return given
    if given not in PRESETS:
        raise ValueError(f"it is one of {', '.join(PRESETS)}")
    return PRESETS[given]


@placers.register
class Profile(Placer):
    """Gangs wait for the fewest nodes, the longer the more their model suffers when it is spread."""

    name = "profile"
    waits = True
    learns = True
    needs = frozenset({"profiles"})

    @dataclass(slots=True)
    class Options:
        rule: str = option(
            "network",
            "which gangs suffer: by network (predicted slowdown) or by skew",
            one_of("network", "skew"),
        )
        limit: float | str = option(
            FITTED, "with rule=skew: models with a larger skew suffer; a share, or fitted to runs", limit_of
        )
        network: str | Links = option("tiresias-testbed", f"the links, one of {', '.join(PRESETS)}", links_of)
        sharing: float = option(2.0, "jobs that are expected to share the links of a spread gang, itself one")
        expected_s: float = option(900.0, "seconds that a job is expected to run at least")
        floor_s: float = option(60.0, "seconds that a gang of several GPUs waits at least")
        migrations: int = migrations_option()
        near: float = option(0.0, "GB/s between GPUs of one group of a node; 0: as the network's")
        far: float = option(0.0, "GB/s between groups of a node; 0: as inside of one")
        measured: str = option("", "slowdowns that runs have shown: model:gpus:NODESxGROUPS=1.45,…", checked)

        def __post_init__(self) -> None:
            if self.limit != FITTED and not 0 <= float(self.limit) <= 1:
                raise ValueError(f"limit must be from 0 to 1, or {FITTED}")
            if not (1 <= self.sharing < INFINITY and 0 <= self.floor_s < INFINITY):
                raise ValueError("sharing must be 1 or more, floor_s 0 or more")
            check_migrations(self.migrations)
            if not 0 <= self.expected_s < INFINITY:
                raise ValueError("expected_s must be 0 or more")
            if not (0 <= self.near < INFINITY and 0 <= self.far < INFINITY):
                raise ValueError("near and far must be 0 or more")

    def __init__(self, options: Any = None, profiles: Profiles | None = None):
        super().__init__(options)
        self._profile_of = (Profiles() if profiles is None else profiles).find
        near = with_node_link(links_of(self.options.network), self.options.near)
        self._network = Network(near)
        self._networks = {(0, 0): self._network}  # by the powers of two that were learned
        self._mix = [zoo.find(name) for name in zoo.CNNS]
        self._learned = Learned(self.new_memory(), self._slowdowns_of, self._mix)
        self._measured = parse(self.options.measured)
        self._groups = Groups(near, with_node_link(near, self.options.far), self._measured)
        self._sharing = Sharing(rack=self.options.sharing, cross=self.options.sharing)
        self._by_skew: bool = self.options.rule == "skew"
        self._floor_s, self._expected_s = float(self.options.floor_s), float(self.options.expected_s)
        self._asked: tuple[JobState | None, Holes | None, int, float, float] = None, None, 0, 0.0, 0.0
        self._answer_s = 0.0
        self._slowdowns: dict[tuple[str, Shape, Shape], float] = {}
        self._epoch = 0  # changes whenever slowdowns may have changed

    def new_memory(self) -> dict[str, Any]:
        return new_memory(self.name)

    def remember(self, memory: dict[str, Any]) -> None:
        self._learned = Learned(memory, self._slowdowns_of, self._mix)
        self._forget_answers()

    def learn(self, fact: Fact, job: JobState, state: State) -> None:
        if self._learned.see(fact, job, state, self._profile_of):
            self._forget_answers()

    def _forget_answers(self) -> None:
        self._slowdowns.clear()
        self._asked = None, None, 0, 0.0, 0.0
        self._epoch += 1

    def _slowdowns_of(
        self, profile: ModelProfile, shape: Shape, rack: int, cross: int
    ) -> tuple[float, float]:
        network = self._network_with(rack, cross)
        return network.slowdown(profile, shape), network.slowdown(profile, shape, self._sharing)

    def _network_with(self, rack: int, cross: int) -> Network:
        """The network model with these corrections."""
        found = self._networks.get((rack, cross))
        if found is None:
            found = self._networks[rack, cross] = Network(scaled(self._network.links, rack, cross))
        return found

    def _profile(self, job: JobState) -> ModelProfile:
        """What is known of the job's model, or what it is taken for."""
        return self._profile_of(job.job.model) or self._learned.profile(job)

    @cached_property
    def _limit(self) -> float:
        """Worked out when it is first needed: by then all models that have been measured are known."""
        if self.options.limit != FITTED:
            return float(self.options.limit)
        models = ((self._profile_of(place.model), slowdown) for place, slowdown in self._measured.items())
        return refit((model.skew, slowdown) for model, slowdown in models if model and model.skew is not None)

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        gpus = job.gpus
        if not holes.hold(gpus):
            return None
        together = None
        if gpus <= holes.best_hole() and len(holes.pieces) < 2:
            together = on_one_node(gpus, holes)
            if not self._groups.matter:
                return together
        if at - refused_since + BLINK_S < self._patience_s(job, holes, at, refused_since):
            return None
        if together is not None:
            return together
        return fewest_now(gpus, holes, self._best_now(self._profile(job), gpus, holes)[0])

    def claim(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation:
        if self._groups.matter:
            profile = self._profile_of(job.job.model)
            is_split = len(holes.pieces) > 1
            if (
                profile is not None
                and not is_split
                and (near := self._groups.claim(profile, job.gpus, holes))
            ):
                return near
        if not holes.pieces and (
            job.gpus == 1 or len(holes.nodes) == 1 or self._bears_it(self._profile(job))
        ):
            return ()
        rack = emptiest_rack(job.gpus, holes)
        return holes.among(rack).emptiest(job.gpus) if rack else holes.emptiest(job.gpus)

    def retry_at(self, job: JobState, holes: Holes, at: float, refused_since: float) -> float:
        if not holes.hold(job.gpus):
            return INFINITY
        return refused_since + self._patience_s(job, holes, at, refused_since)

    def refusal(self, job: JobState, holes: Holes, at: float, refused_since: float) -> str:
        if holes.pieces and not holes.hold(job.gpus):
            return holes.shortage(job.gpus)
        waits_s = refused_since + self._exact_patience_s(job, holes, at) - at
        now = on_one_node(job.gpus, holes)
        profile = self._profile_of(job.job.model)
        if now is not None and profile is not None:
            most = most_in_one(now, holes)
            text = f"{holes.free} free, at most {most} in one group, needs {job.gpus} in one"
            loss = self._groups.loss(profile, now, holes)
            why = f"{profile.name} would take {loss:.2f}x as long across groups"
            return f"{text} ({why}), for another {waits_s:.0f} s at most"
        return f"{too_fragmented(job.gpus, holes)} ({self.verdict(job)}), for another {waits_s:.0f} s at most"

    def verdict(self, job: JobState) -> str:
        profile = self._profile_of(job.job.model)
        if profile is None:
            return self._verdict_of_unknown(job)
        if self._uses_skew(profile):
            skew, limit = profile.skew or 0.0, self._limit
            what = "kept together" if skew > limit else "may be spread"
            return f"{profile.name} {what}: its largest tensor is {skew:.1%} of it, the limit {limit:.1%}"
        node_gpus = self._network.links.node_gpus
        spread = spread_shape(job.gpus, node_gpus, job.gpus)
        slowdown = self._slowdown(profile, spread, packed_shape(job.gpus, node_gpus))
        what = "kept together" if slowdown > ACCEPTABLE else "may be spread"
        return f"{profile.name} {what}: over {job.gpus} nodes it would take {slowdown:.2f}x as long"

    def _verdict_of_unknown(self, job: JobState) -> str:
        taken_for = self._learned.profile(job)
        node_gpus = self._network.links.node_gpus
        spread = spread_shape(job.gpus, node_gpus, job.gpus)
        slowdown = self._slowdown(taken_for, spread, packed_shape(job.gpus, node_gpus))
        what = "kept together" if slowdown > ACCEPTABLE else "may be spread"
        as_what = "the paper's models on average" if taken_for is UNKNOWN else f"{taken_for.name}, as it ran"
        return (
            f"nothing is known of its model ({job.job.model or 'none named'}), {what}: taken for "
            f"{as_what}, over {job.gpus} nodes it would take {slowdown:.2f}x as long"
        )

    def _uses_skew(self, profile: ModelProfile) -> bool:
        """Whether the skew decides; it cannot for a model of which nothing is known."""
        return profile is not UNKNOWN and (self._by_skew or profile.compute_s is None)

    def _bears_it(self, profile: ModelProfile) -> bool:
        """Whether its gangs do not wait by the paper's rule."""
        return self._uses_skew(profile) and (profile.skew or 0.0) <= self._limit

    def predicted(self, place: GangShape) -> float | None:
        """The slowdown there by the network model alone; None if it cannot predict."""
        profile, nodes = self._profile_of(place.model), int(place.shape.partition("x")[0])
        if profile is None or profile.compute_s is None:
            return None
        if nodes == 1:
            return self._groups.predicted(profile, place.gpus, int(place.shape.partition("x")[2]))
        few, more = divmod(place.gpus, nodes)
        spread = ((few + 1,) * more + (few,) * (nodes - more),)
        return self._predicted(profile, spread, ((place.gpus,),))

    def _best_now(self, profile: ModelProfile, need: int, holes: Holes) -> tuple[int, Shape]:
        """The nodes among which its best allocation of now is, and the shape of that.

        The fewest nodes its size allows, in one rack; or else the one of two shapes that slows it less.
        """
        among = nodes_for_fewest(need, holes) or EVERYWHERE
        here = shape_now(need, holes, among)
        rack = fullest_rack(need, holes) if len(here) > 1 else 0
        if not rack:
            return among, here
        near = shape_now(need, holes, rack)
        if profile.compute_s is not None:
            best = ideal(need, holes)
            if self._slowdown(profile, near, best) > self._slowdown(profile, here, best):
                return among, here
        return rack, near

    def _answers(self, holes: Holes) -> dict[Any, float]:
        """What was worked out for these nodes since slowdowns changed last."""
        known: tuple[int, dict[Any, float]] | None = holes.memo.get(self)
        if known is None or known[0] != self._epoch or len(known[1]) >= MOST_REMEMBERED:
            known = holes.memo[self] = self._epoch, {}
        return known[1]

    def _slowdown(self, profile: ModelProfile, here: Shape, best: Shape) -> float:
        """How many times as long as alone in the best shape, as runs have shown, or as predicted.

        A spread gang shares its links.
        """
        key = profile.name, here, best
        known = self._slowdowns.get(key)
        if known is None:
            known = 1.0 if here == best else self._shown_or_predicted(profile, here, best)
            self._slowdowns[key] = known
        return known

    def _shown_or_predicted(self, profile: ModelProfile, here: Shape, best: Shape) -> float:
        if self._measured:
            places = (GangShape(profile.name, gpus_of(here), _word(each)) for each in (here, best))
            shown, base = map(self._measured.get, places)
            if shown is not None:
                return shown / (base or 1.0)
        return self._predicted(profile, here, best)

    def _predicted(self, profile: ModelProfile, here: Shape, best: Shape) -> float:
        if profile is UNKNOWN:
            return sum(self._slowdown(each, here, best) for each in self._mix) / len(self._mix)
        iteration = self._network_with(*self._learned.factors(profile.name)).iteration
        return iteration(profile, here, self._sharing).seconds / iteration(profile, best).seconds

    def _patience_s(self, job: JobState, holes: Holes, at: float, refused_since: float) -> float:
        """A lower bound of what the best slots of now would cost over the time that the job may run.

        While it has not yet waited for as long as the mildest shape in such holes would be worth, that is the
        answer: it takes far less to work out. `place` and `retry_at` ask the same, so one answer is kept.
        """
        for_job, of_holes, *rest = self._asked
        if for_job is job and of_holes is holes and rest == [holes.changes, at, refused_since]:
            return self._answer_s
        patience_s = 0.0
        if slowdown := self._mildest(job, holes):
            patience_s = self._worth_s(job, slowdown, at)
        if at - refused_since + BLINK_S >= patience_s:
            patience_s = self._exact_patience_s(job, holes, at)
        self._asked, self._answer_s = (job, holes, holes.changes, at, refused_since), patience_s
        return patience_s

    def _exact_patience_s(self, job: JobState, holes: Holes, at: float) -> float:
        slowdown = self._slowdown_now(self._profile(job), job.gpus, holes) if job.gpus > 1 else 0.0
        return self._worth_s(job, slowdown, at) if slowdown else 0.0

    def _mildest(self, job: JobState, holes: Holes) -> float:
        """The least slowdown in holes no larger than the best of now; 0 where it need not wait at all."""
        profile, gpus, hole = self._profile(job), job.gpus, holes.best_hole()
        answers = self._answers(holes)
        key = profile.name, gpus, hole
        slowdown = answers.get(key)
        if slowdown is None:
            slowdown = answers[key] = self._mildest_in(profile, gpus, hole, holes)
        return slowdown

    def _mildest_in(self, profile: ModelProfile, gpus: int, hole: int, holes: Holes) -> float:
        if self._uses_skew(profile) or not 0 < hole < gpus <= MOST_SPLIT:
            return 0.0
        if holes.pieces or holes.fewest_nodes(gpus) > 1:
            return 0.0
        mildest = min(self._slowdown(profile, (split,), ((gpus,),)) for split in partitions(gpus, hole))
        return mildest if mildest > ACCEPTABLE else 1.0

    def _worth_s(self, job: JobState, slowdown: float, at: float) -> float:
        """How long to wait for slots without this slowdown."""
        return max(self._floor_s, (slowdown - 1) * max(job.executed_at(at), self._expected_s))

    def _slowdown_now(self, profile: ModelProfile, gpus: int, holes: Holes) -> float:
        """The slowdown on the best slots of now; 0 where it is not worth waiting for others.

        This is asked again at every plan while the nodes stay as full as they are, so answers are cached.
        """
        if self._groups.matter and (now := on_one_node(gpus, holes)) is not None:
            if profile is UNKNOWN:
                return 0.0
            loss = self._groups.loss(profile, now, holes)
            return loss if loss > ACCEPTABLE and holes.free < holes.gpus else 0.0
        answers = self._answers(holes)
        key = gpus, profile.name, *holes.buckets
        known_slowdown = answers.get(key)
        if known_slowdown is None:
            known_slowdown = answers[key] = self._worked_out(profile, gpus, holes)
        return known_slowdown

    def _worked_out(self, profile: ModelProfile, gpus: int, holes: Holes) -> float:
        if holes.free == holes.gpus:
            return 0.0  # no run to wait for
        here, best = self._best_now(profile, gpus, holes)[1], ideal(gpus, holes)
        if here == best or here == ((gpus,),):
            return 0.0
        if self._bears_it(profile):
            return 0.0
        return UNTIMED if profile.compute_s is None else max(1.0, self._slowdown(profile, here, best))


def _word(shape: Shape) -> str:
    return shape_word(sum(map(len, shape)))
