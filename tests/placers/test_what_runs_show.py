"""`profile` does not guess: unknown models wait on slow networks, and it learns from how runs went."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tiresias.core import facts as f
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Allocation, ExitCause
from tiresias.core.model import Cluster, JobId, Node, RunId
from tiresias.core.plugins import placers, policies
from tiresias.core.state import JobState, State
from tiresias.placers.learned import UNKNOWN, Learned
from tiresias.placers.profile import Profile
from tiresias.profiles import zoo
from tiresias.profiles.links import GBIT, PRESETS, Links
from tiresias.profiles.network import Network
from tiresias.sim import Trace, simulate, traces
from tiresias.sim.fabric import Fabric
from tiresias.testing import Harness
from tiresias.testing.builders import a_job


def links(rack_gbps: float, cross_gbps: float) -> Links:
    base = PRESETS["philly"]
    return base._replace(
        rack=base.rack._replace(bandwidth_Bps=rack_gbps * GBIT),
        cross=base.cross._replace(bandwidth_Bps=cross_gbps * GBIT),
    )


def fragmented(network: Links, **job: object) -> Harness:
    """Two nodes of eight GPUs with four free each, and a gang of eight."""
    lab = Harness("fifo-skip", nodes=2, gpus=8, placer="profile", placer_options={"network": network})
    for node, name in enumerate("ab"):
        lab.running(name, gpus=4, on={f"n{node}": 4}, duration_s=1e5)
    lab.plan()
    lab.submit("gang", gpus=8, **job)
    return lab


def test_a_gang_whose_model_is_not_known_waits_on_a_slow_network_and_not_on_a_fast_one() -> None:
    assert fragmented(links(10, 10)).why("gang").code == "Fragmented"  # type: ignore[union-attr]
    assert fragmented(links(10, 10), model="my-net").why("gang").code == "Fragmented"  # type: ignore[union-attr]
    for network, waits_s in ((links(10, 10), 600.0), (links(10_000, 10_000), 60.0)):
        lab = fragmented(network)
        assert lab.wait(waits_s - 1.0).started == []
    assert lab.wait(2.0).started == ["gang"]
    assert lab.nodes_of("gang") == {"n0": 4, "n1": 4}


def test_the_reason_says_what_the_unknown_model_is_taken_for() -> None:
    said = fragmented(links(10, 10), model="my-net").why("gang")
    assert said is not None
    assert "nothing is known of its model (my-net), kept together" in said.text
    assert "the paper's models on average" in said.text


def test_where_there_is_one_node_nothing_is_said_about_others() -> None:
    for nodes, said in ((1, "it is running"), (2, "it is running: on 1 node, because nothing is known of")):
        lab = Harness("fifo-skip", nodes=nodes, gpus=8, placer="profile")
        lab.submit("gang", gpus=4)
        reason = lab.why("gang")
        assert reason is not None
        assert reason.text.startswith(said)
        assert nodes > 1 or reason.text == said


class Lab:
    """A Controller with `profile` on two racks, in which runs go as fast as is said."""

    def __init__(self, believed: Links, memory: dict[str, object] | None = None):
        cluster = Cluster([Node(f"n{i}", 8, rack="ab"[i // 4]) for i in range(8)])
        self.state = State(cluster)
        self.state.placing = memory
        self.placer: Profile = placers.make("profile", {"network": believed})
        self.controller = Controller(self.state, policies.make("fifo-skip"), self.placer)
        self.at, self.jobs = 0.0, 0

    def ran(self, slots: Allocation, speed: float, model: str = "") -> JobState:
        """A job runs on these slots at this speed for a minute and is preempted; then it is on hold."""
        self.jobs += 1
        id, run = JobId(self.jobs), RunId(self.state.next_run_id)
        gpus = sum(some.bit_count() for _, some in slots)
        at, self.at = self.at, self.at + 60.0
        for fact in (
            f.JobSubmitted(at, a_job(self.jobs, gpus, model=model)),
            f.RunGranted(at, run, id, slots),
            f.RunStarted(at, run),
            f.RunProgressed(at, run, 0.0, speed),
            f.RunProgressed(at + 30.0, run, 30 * speed, speed),
            f.JobHeld(at + 50.0, id),
            f.RunExited(at + 59.0, run, ExitCause.PREEMPTED, 50 * speed),
        ):
            self.controller._apply(fact, Step())
        return self.state.jobs[id]

    def slowdown(self, model: str) -> float:
        profile = zoo.find(model)
        return self.placer._slowdown(profile, ((4,), (4,)), ((8,),))


ACROSS: Allocation = ((0, 0b1111), (4, 0b1111))
NEAR: Allocation = ((0, 0b1111), (1, 0b1111))


def true_speed(network: Links, model: str, across: bool = True) -> float:
    shape = ((4,), (4,)) if across else ((4, 4),)
    return 1 / Network(network).slowdown(zoo.find(model), shape)


@pytest.mark.parametrize(("believed", "true"), [(100, 10), (40, 10), (10, 100), (10, 40), (1000, 100)])
def test_bandwidths_that_are_wrong_are_corrected_by_what_runs_show(believed: int, true: int) -> None:
    lab = Lab(links(1000, believed))
    models = ("vgg16", "resnet50", "alexnet", "inception3")
    before = lab.slowdown("vgg19")
    for number in range(16):
        model = models[number % len(models)]
        lab.ran(ACROSS, true_speed(links(1000, true), model), model)
    sharing = lab.placer._sharing
    right = Network(links(1000, true)).slowdown(zoo.find("vgg19"), ((4,), (4,)), sharing)
    assert before / right > 1.5 or right / before > 1.5
    assert 0.6 < lab.slowdown("vgg19") / right < 1.7


def test_bandwidths_that_are_right_are_left_alone() -> None:
    lab = Lab(links(100, 10))
    before = lab.slowdown("vgg16")
    for number in range(40):
        model = sorted(zoo.CNNS)[number % len(zoo.CNNS)]
        lab.ran(ACROSS, true_speed(links(100, 10), model), model)
        lab.ran(NEAR, true_speed(links(100, 10), model, across=False), model)
    assert lab.slowdown("vgg16") == before


def test_a_few_runs_change_nothing() -> None:
    lab = Lab(links(1000, 100))
    before = lab.slowdown("vgg16")
    for _ in range(5):
        lab.ran(ACROSS, 0.05, "vgg16")
    assert lab.slowdown("vgg16") == before


def test_an_unknown_model_is_taken_for_one_that_would_have_run_as_fast() -> None:
    network = links(100, 10)
    lab = Lab(network)
    suffers = lab.ran(ACROSS, true_speed(network, "vgg16"))
    bears_it = lab.ran(ACROSS, true_speed(network, "resnet50"))
    new = JobState(a_job(99, 8))
    skews = [lab.placer._profile(job).skew for job in (suffers, bears_it)]
    assert [skew is not None and skew > 0.5 for skew in skews] == [True, False]
    assert lab.placer._profile(new) is UNKNOWN


def test_jobs_that_name_the_same_unknown_model_share_what_is_known() -> None:
    network = links(100, 10)
    lab = Lab(network)
    lab.ran(ACROSS, true_speed(network, "vgg16"), model="my-net")
    later = JobState(a_job(99, 8, model="my-net"))
    assert lab.placer._profile(later).skew > 0.5  # type: ignore[operator]


def test_the_memory_can_be_stored_and_leads_to_the_same_decisions() -> None:
    lab = Lab(links(1000, 100))
    for number in range(16):
        lab.ran(ACROSS, 0.1, ("vgg16", "")[number % 2])
    stored = json.loads(json.dumps(lab.state.placing))
    again = Lab(links(1000, 100), stored)
    assert again.state.placing == lab.state.placing
    assert again.slowdown("vgg16") == lab.slowdown("vgg16")
    assert again.slowdown("vgg16") != Lab(links(1000, 100)).slowdown("vgg16")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiresias.placers.learned.MOST_TAKEN", 10)
    lab = Lab(links(100, 10))
    for _ in range(30):
        lab.ran(ACROSS, 0.1)
    assert lab.state.placing is not None
    assert len(lab.state.placing["taken_for"]) == 10
    assert isinstance(lab.placer._learned, Learned)


SLOW = links(25, 2.5)


def jct(placer: str, believed: Links, true: Links, *, named: bool = True) -> float:
    """The average JCT of the testbed mix on eight nodes in two racks."""
    mix = traces.generate("builtin:testbed-480", seed=2)
    models = mix.jobs["model"].to_list()
    if not named:
        mix = Trace(mix.name, mix.jobs.with_columns(pl.lit("").alias("model")), mix.format)
    options = {"network": believed} if placer == "profile" else {}
    made = placers.make(placer, options)
    return simulate(
        mix,
        "2*4x8",
        "tiresias-l",
        placer=made,
        network=Fabric("test", true),
        profile_of=lambda job: zoo.find(models[job.id]),
    ).summary()["avg_jct_s"]


@pytest.mark.parametrize(
    ("believed", "true", "named"),
    [
        (SLOW, SLOW, False),
        (links(250, 25), SLOW, True),
        (SLOW, links(250, 25), True),
        (links(250, 25), SLOW, False),
    ],
    ids=["models not known", "slower than believed", "faster than believed", "both"],
)
def test_little_is_lost_when_little_is_known(believed: Links, true: Links, named: bool) -> None:
    better = min(jct("consolidated", true, true), jct("profile", true, true))
    assert jct("profile", believed, true, named=named) < 1.05 * better
