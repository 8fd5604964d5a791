"""A State that is loaded from disk equals the State in memory, and leads to the same decisions."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from store_worlds import (
    NOT_STORED,
    POLICIES,
    Happening,
    Life,
    a_controller,
    a_store,
    assert_same,
    commit,
    hand,
)

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.controller import Controller, Step
from tiresias.core.model import Demand, Job, JobId, Node, Pool
from tiresias.core.plugins import placers
from tiresias.core.state import JobState, Run
from tiresias.store import Store, codec, redecide, replay

STORED = {
    *("id", "job", "phase", "run", "cancelled", "runs", "preemptions", "first_started_at"),
    *("last_preempted_at", "waiting_since", "executed_s", "service_gpu_s", "progress_s"),
    *("on_hold", "deferred", "deferred_until"),
}
OF_THE_JOB = {"gpus", "submitted_at", "priority", "preemptible", "resumable"}  # stored as part of the job
ENDS = {"ended_at"}  # infinite while a job is active; for a run it is stored with its exit
RUN = {"id", "job_id", "allocation", "granted_at", "started_at", "progress_s", "progress_at", "speed"}


def test_every_field_is_stored_or_known_to_need_no_storage() -> None:
    """Fails when the core gives a job or a run a new field: store it in rows.py, with a migration."""
    assert set(JobState.__slots__) == STORED | OF_THE_JOB | ENDS | NOT_STORED
    follow = {"gpus", "pool", "turn", "turns"}  # from the allocation, and from the wish
    assert set(Run.__slots__) == RUN | ENDS | follow | {"layer"}  # which is stored with the allocation


PHASES = (Phase.explicit, Phase.generate, Phase.shrink)  # the phase "explain" takes minutes
HAPPENINGS = st.lists(
    st.builds(
        Happening,
        st.integers(0, 19),
        st.integers(0, 50),
        st.sampled_from([0.0, 0.0, 0.5, 4.0, 8.0, 64.0]),
    ),
    min_size=5,
    max_size=60,
)


@pytest.mark.parametrize(("policy", "options"), POLICIES)
@settings(max_examples=20, phases=PHASES)
@given(happenings=HAPPENINGS, stop=st.integers(1, 60), group=st.integers(1, 4))
def test_a_loaded_state_equals_the_live_one_and_leads_to_the_same_decisions(
    policy: str, options: dict[str, Any], happenings: list[Happening], stop: int, group: int
) -> None:
    """A Controller with a loaded State decides exactly as one that was never stopped.

    All instants are exact here: after a restart the instants at which ranks change are computed again, and
    rounding could change the last bit of such an instant.
    """
    stop %= len(happenings)
    life = Life(a_controller(policy, options))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "journal.db"
        with a_store(path, life.controller, options) as store:
            steps = []
            for number, happening in enumerate(happenings[:stop], start=1):
                steps += life.live(happening)
                if number % group == 0 or number == stop:
                    commit(store, life.controller, steps)
                    steps = []
        with Store.open(path) as store:
            loaded = store.load()
            assert_same(life.state, loaded.state, loaded.policy.save)
            invariants.check(loaded.state)
            again = Controller(loaded.state, loaded.policy, placers.make("packed"))
            for happening in happenings[stop:]:
                steps = life.live(happening)
                for facts, step in steps:
                    mine = Step()
                    again.handle(facts, mine)
                    assert [codec.encode_fact(x) for x in mine.facts] == [
                        codec.encode_fact(x) for x in step.facts
                    ]
                commit(store, again, steps)
            assert_same(life.state, again.state, loaded.policy.save)
            assert redecide(replay(store)) is None


@pytest.mark.parametrize(("policy", "options"), POLICIES)
@settings(max_examples=10, phases=PHASES)
@given(happenings=HAPPENINGS, stops=st.sets(st.integers(1, 60), max_size=6), compacts=st.integers(1, 60))
def test_the_replay_of_a_journal_with_restarts_makes_the_same_decisions(
    policy: str, options: dict[str, Any], happenings: list[Happening], stops: set[int], compacts: int
) -> None:
    """With any sizes and instants, and also from a later base, after facts of ended jobs were deleted."""
    placer = placers.make("packed")
    life = Life(a_controller(policy, options), sizes=(1, 3, 2, 5, 7))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "journal.db"
        store = a_store(path, life.controller, options)
        try:
            for number, happening in enumerate(happenings):
                commit(store, life.controller, life.live(happening))
                if number == compacts:
                    store.compact(life.at - 8.0)
                if number in stops:
                    store.close()
                    store = Store.open(path)
                    loaded = store.load()
                    assert_same(life.state, loaded.state, loaded.policy.save)
                    steps = life.restart(Controller(loaded.state, loaded.policy, placer))
                    commit(store, life.controller, steps)
            store.compact(life.at - 64.0)
            replayed = replay(store)
            assert redecide(replayed) is None
            assert_same(life.state, replayed.state, replayed.policy.save)
        finally:
            store.close()


def test_a_run_on_cpus_is_loaded(tmp_path: Path) -> None:
    controller = a_controller()
    full = Job(JobId(1), Demand(8), 0.0)
    other = Job(JobId(2), Demand(2, cpu_speed=0.25), 0.0)
    nodes = f.NodeAdded(0.0, Node("c", 0, cpus=32)), f.SlotDrained(0.0, "c", 3)
    steps = [hand(controller, *nodes, f.JobSubmitted(0.0, full), f.JobSubmitted(0.0, other))]
    run = controller.state.jobs[other.id].run
    assert run is not None
    steps += [hand(controller, f.RunStarted(0.0, run.id, 0.25)), hand(controller, f.NodeDrained(8.0, "c"))]
    with a_store(tmp_path / "journal.db", a_controller()) as store:
        commit(store, controller, steps)
    with Store.open(tmp_path / "journal.db") as store:
        loaded = store.load()
    assert_same(controller.state, loaded.state, loaded.policy.save)
    assert [run.pool for run in loaded.state.runs.values()] == [Pool.GPUS, Pool.CPUS]
    assert loaded.state.cpus is not None
    assert (loaded.state.cpus.free, loaded.state.cpus.capacity) == (0, 2)


def test_a_journal_with_many_jobs_is_loaded(tmp_path: Path) -> None:
    """`python -m benchmarks store` measures how long it takes with 10,000."""
    controller = a_controller(nodes=4, gpus=8)
    jobs = [Job(JobId(id), Demand(1 + id % 4), 0.0) for id in range(1, 1001)]
    with a_store(tmp_path / "journal.db", controller) as store:
        for first in range(0, 1000, 100):
            facts = [f.JobSubmitted(0.0, job) for job in jobs[first : first + 100]]
            commit(store, controller, [hand(controller, *facts)])
    with Store.open(tmp_path / "journal.db") as store:
        loaded = store.load()
    assert len(loaded.state.jobs) == 1000
    assert_same(controller.state, loaded.state, loaded.policy.save)
