"""A gang that the placer refuses, while the manager restarts, compacts, or changes its placer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core import facts as f
from tiresias.core.controller import Controller, Step
from tiresias.core.facts import ExitCause
from tiresias.core.model import Cluster, JobId, Node, RunId
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.store import Batch, Chosen, Store, StoreError, redecide, replay
from tiresias.testing.builders import a_job

CHOSEN = Chosen("fifo-skip", {}, "profile", {"expected_s": "0", "measured": "vgg16:2:1x2=2.0"})
GANG = JobId(9)


class Scene:
    """Two groups of two GPUs, one of each in use. A gang of two, submitted at 100, is refused for 60 s."""

    def __init__(self, path: Path):
        self.store = Store.open(path / "journal.db")
        state = State(Cluster([Node("box", 4, sockets=((0, 1), (2, 3)))]))
        self.controller = Controller(state, policies.make(CHOSEN.policy), self._placer(CHOSEN))
        self.store.begin(self.controller, CHOSEN)
        for id, gpus in ((1, 1), (2, 2), (3, 1)):
            self.happens(f.JobSubmitted(1.0, a_job(id, gpus)))
        self.happens(f.RunExited(2.0, RunId(2), ExitCause.FINISHED, 1.0))
        self.happens(f.JobSubmitted(3.0, a_job(4, 1)))
        self.happens(f.RunExited(4.0, RunId(3), ExitCause.FINISHED, 1.0))
        self.happens(f.JobSubmitted(100.0, a_job(int(GANG), 2, model="vgg16")))
        assert not self.runs

    def _placer(self, chosen: Chosen):  # type: ignore[no-untyped-def]
        return placers.make(chosen.placer, chosen.placer_options)

    @property
    def runs(self) -> bool:
        return self.controller.state.jobs[GANG].run is not None

    def happens(self, fact: f.Fact) -> None:
        step, batch = Step(), Batch()
        self.controller.handle([fact], step)
        batch.add([fact], step)
        self.store.commit(self.controller, batch)

    def restart(self) -> None:
        loaded = self.store.load()
        self.controller = Controller(loaded.state, loaded.policy, self._placer(loaded.chosen))

    def change(self, chosen: Chosen) -> None:
        self.controller = Controller(self.controller.state, self.controller.policy, self._placer(chosen))
        self.store.commit(self.controller, Batch(chosen=chosen))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.store.close()


def test_it_waits_as_long_as_the_placer_may_refuse_it(scene: Scene) -> None:
    scene.happens(f.TimerFired(159.0))
    assert not scene.runs
    scene.happens(f.TimerFired(160.0))
    assert scene.runs
    assert redecide(replay(scene.store)) is None


def test_after_a_restart_the_wait_starts_from_zero_and_so_it_does_in_the_replay(scene: Scene) -> None:
    scene.restart()
    scene.happens(f.TimerFired(150.0))
    scene.happens(f.TimerFired(170.0))
    assert not scene.runs, "it waits since 150"
    scene.happens(f.TimerFired(210.0))
    assert scene.runs
    assert redecide(replay(scene.store)) is None


def test_a_base_contains_since_when_it_waits(scene: Scene) -> None:
    scene.store.compact(200.0, state=scene.controller.state)
    assert replay(scene.store).since == scene.store.last_seq
    scene.happens(f.TimerFired(160.0))
    assert scene.runs
    assert redecide(replay(scene.store)) is None


def test_new_options_of_the_placer_do_not_restart_the_wait(scene: Scene) -> None:
    scene.change(Chosen("fifo-skip", {}, "profile", {**CHOSEN.placer_options, "floor_s": "80"}))
    scene.happens(f.TimerFired(160.0))
    assert not scene.runs
    scene.happens(f.TimerFired(180.0))
    assert scene.runs, "80 s since 100"
    scene.store.compact(200.0, state=scene.controller.state)
    assert redecide(replay(scene.store)) is None


def test_a_run_that_has_ended_must_exit_in_the_same_step(scene: Scene) -> None:
    with pytest.raises(StoreError, match="run 1 has a RunEnded but no RunExited"):
        scene.happens(f.RunEnded(200.0, RunId(1), 150.0))


def test_a_restart_together_with_new_options_of_the_placer(scene: Scene) -> None:
    scene.restart()
    scene.change(Chosen("fifo-skip", {}, "profile", {**CHOSEN.placer_options, "floor_s": "80"}))
    scene.happens(f.TimerFired(150.0))
    scene.happens(f.TimerFired(200.0))
    assert not scene.runs
    scene.happens(f.TimerFired(230.0))
    assert scene.runs
    assert redecide(replay(scene.store)) is None
