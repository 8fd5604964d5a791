"""The causes that people are shown are the decisions of the Controller: for each run, in random traces."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from tiresias.core.facts import RunRevoked
from tiresias.core.model import JobId, Phase, Priority
from tiresias.live.manager import Manager
from tiresias.live.submission import Caller, Submission
from tiresias.live.words import revoked
from tiresias.testing.still import NoProcesses, still_manager

ANN = Caller("ann", is_admin=True)
TRACES = int(os.environ.get("TIRESIAS_CAUSES", "25"))  # `make soak` takes 1,000
GPUS, EVENTS = 4, 30
SETTINGS = (
    ("tiresias-l", {"queues": "0.001,0.02"}),
    ("tiresias-l", {"queues": "0.005", "order": "running-first"}),
    ("las", {"quantum_s": "0.001"}),
    ("tiresias", {}),
)


def happen(manager: Manager, executor: NoProcesses, random: Random, home: Path) -> None:
    """One random thing: a submission mostly, or what a user or a training does."""
    jobs = list(manager.state.jobs.values())
    running = [job for job in jobs if job.phase is Phase.RUNNING]
    what = random.choice(("submit", "submit", "submit", "finish", "hold", "release", "requeue", "cancel"))
    if what == "submit" or not jobs:
        priority = random.choice((Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.LOW))
        gpus = random.choice((1, 1, 2, 4))
        asked = Submission(("true",), str(home), {"PATH": "/bin"}, gpus=gpus, priority=priority)
        manager.requests.submit(ANN, [asked])
    elif what == "finish" and running:
        executor.finish(random.choice(running).run.id)  # type: ignore[union-attr]
    elif what == "requeue" and running:
        manager.requests.requeue(ANN, random.choice(running).id)
    elif what == "release" and (held := [job for job in jobs if job.on_hold]):
        manager.requests.release(ANN, random.choice(held).id)
    elif what == "hold" and (free := [job for job in jobs if not job.on_hold]):
        manager.requests.hold(ANN, random.choice(free).id)
    elif what == "cancel":
        manager.requests.cancel(ANN, random.choice(jobs).id)
    manager.flush()
    manager.poll()
    manager.tick()
    manager.flush()


def check(manager: Manager) -> int:
    """Compare what is shown of each run with the decision that stopped it; returns how many there were."""
    store = manager.store
    decided = {
        each.fact.run_id: each.fact
        for each in store.all_facts(0)
        if each.is_decision and isinstance(each.fact, RunRevoked)
    }
    shown = 0
    for number in range(1, int(store.next_job_id)):
        id = JobId(number)
        told = [event.text for event in manager.queries.story(ANN, id)]
        for run in manager.queries.runs(ANN, id):
            fact = decided.get(run.id)  # type: ignore[call-overload]
            if fact is None:
                assert run.revoked_by in ("", "cancelled", "held", "requeued"), run
                assert run.revoked_for is None
                continue
            shown += 1
            assert fact.why is not None
            why = fact.why
            assert (run.revoked_by, run.revoked_for) == (why.rule.value, why.job_id)
            assert (run.from_queue, run.to_queue) == (why.from_queue, why.to_queue)
            assert run.revoked_text == revoked(why)
            assert f"run {run.number} preempted {revoked(why)}" in told
    return shown


@pytest.mark.parametrize("part", range(5))
def test_what_is_shown_of_each_run_is_what_was_decided(tmp_path: Path, part: int) -> None:
    shown = 0
    for seed in range(part, TRACES, 5):
        random = Random(seed)
        home = tmp_path / str(seed)
        home.mkdir()
        with still_manager(home, GPUS) as (manager, executor):
            policy, options = SETTINGS[seed % len(SETTINGS)]
            manager.requests.set_policy(ANN, policy, options, None, None)
            manager.flush()
            for _ in range(EVENTS):
                happen(manager, executor, random, home)
            shown += check(manager)
    assert shown >= TRACES // 5, "too few runs were preempted to say anything"
