"""Jobs that do not save: they are not preempted again, up to a share of the cluster."""

from __future__ import annotations

import pytest

from tiresias.core.plugins import OptionError, policies
from tiresias.core.protection import protected_gpus
from tiresias.testing.harness import Harness

LAS = {"quantum_s": "100"}


def test_a_job_that_lost_its_work_is_not_preempted_again() -> None:
    scene = Harness("las", gpus=4, options=LAS).running("plain", 1, service_s=500)
    scene.submit("other", 3)
    assert scene.submit("new", 1).preempted == ["plain"], "nothing is known about it yet"
    assert scene.lose("plain").started == ["new"]
    scene.finish("new")
    assert scene.job("plain").run is not None, "it has begun anew"
    scene.wait(1000)
    assert scene.submit("newer", 1).preempted == ["other"], "the next one takes the GPUs of a job that saves"
    assert scene.job("plain").phase == "RUNNING"


def test_it_waits_for_its_turn_like_any_other_job() -> None:
    scene = Harness("las", gpus=2, options=LAS)
    scene.suspended("plain", 1, service_s=9000, resumable=False).running("fresh", 2)
    assert scene.plan().started == []
    assert scene.ranked() == ["fresh", "plain"]


def test_protected_runs_hold_no_more_than_their_share() -> None:
    """A quarter of 16 GPUs: of three runs of two GPUs that do not save, two are protected."""
    scene = Harness("las", gpus=16, options=LAS)
    for name in ("one", "two", "three"):
        scene.running(name, 2, service_s=5000, resumable=False)
    scene.running("saving", 10, service_s=100)
    scene.plan()
    assert scene.submit("new", 16).preempted == [], "it does not fit beside what is protected"
    assert set(scene.submit("small", 12).preempted) == {"saving", "three"}


def test_the_runs_that_were_granted_first_are_protected_first_and_stay_protected() -> None:
    """The second is too large for what is left of the share of 4, so those behind it wait for it to end."""
    scene = Harness("las", gpus=16, options=LAS)
    scene.running("first", 2, service_s=900, resumable=False).running(
        "second", 3, service_s=800, resumable=False
    )
    scene.running("third", 1, service_s=700, resumable=False)
    scene.plan()
    assert {entry.id for entry in scene.controller.pinned()} == {scene.job("first").id}
    scene.finish("first")
    assert {entry.id for entry in scene.controller.pinned()} == {scene.job(n).id for n in ("second", "third")}


def test_a_run_that_is_larger_than_the_protected_share_does_not_keep_smaller_ones_from_protection() -> None:
    scene = Harness("las", gpus=8, options=LAS)
    scene.running("large", 4, service_s=900, resumable=False).running(
        "small", 1, service_s=800, resumable=False
    )
    scene.plan()
    assert [entry.id for entry in scene.controller.pinned()] == [scene.job("small").id]


def test_a_job_that_saves_after_all_is_preempted_like_any_other_one() -> None:
    scene = Harness("las", gpus=4, options=LAS).running("plain", 1, service_s=500, resumable=False)
    scene.running("other", 3, service_s=10)
    scene.plan()
    scene.save("plain")
    assert scene.submit("new", 1).preempted == ["plain"]


def test_when_the_share_is_freed_the_next_run_is_protected_from_then_on() -> None:
    scene = Harness("las", gpus=4, options=LAS)
    scene.running("first", 1, service_s=900, resumable=False).running(
        "second", 1, service_s=900, resumable=False
    )
    scene.running("other", 2, service_s=150)
    scene.plan()
    scene.finish("first")
    scene.submit("third", 1)
    assert scene.submit("new", 2).preempted == ["other"]


def test_with_a_share_of_0_nothing_is_protected() -> None:
    scene = Harness("las", gpus=4, options=LAS | {"protect": "0"}).running(
        "plain", 1, service_s=500, resumable=False
    )
    scene.running("other", 3, service_s=10)
    scene.plan()
    assert scene.submit("new", 1).preempted == ["plain"]


def test_a_run_that_does_not_save_never_migrates_for_another() -> None:
    """The gang of 4 needs a whole node; only `small` could leave one, and it would lose its work."""
    options = {"migrations": "1"}
    for resumable, migrates in ((None, ["small"]), (False, [])):
        scene = Harness(
            "tiresias-l",
            gpus=4,
            nodes=2,
            options={"protect": "0"},
            placer="consolidated",
            placer_options=options,
        )
        scene.running("small", 1, service_s=9000, on={"n0": 1}, resumable=resumable)
        scene.running("half", 2, service_s=9000, on={"n1": 2}, preemptible=False)
        assert scene.submit("gang", 4).preempted == migrates


@pytest.mark.parametrize(
    ("share", "gpus", "protected"), [(0.25, 64, 16), (0.25, 3, 1), (0.25, 1, 1), (1, 8, 8), (0, 8, 0)]
)
def test_the_share_is_rounded_down_but_at_least_one_gpu(share: float, gpus: int, protected: int) -> None:
    assert protected_gpus(share, gpus) == protected


@pytest.mark.parametrize("text", ["1.5", "-0.1", "much"])
def test_a_share_is_a_number_from_0_to_1(text: str) -> None:
    with pytest.raises(OptionError, match="protect"):
        policies.make("las", {"protect": text})
