"""What users are answered about their jobs while these wait, run, stop and have ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, get_args

import pytest

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import JobId, Node, Phase, Priority
from tiresias.core.reasons import ReasonCode
from tiresias.live.answers import Limits
from tiresias.live.errors import Invalid
from tiresias.live.events import event_of
from tiresias.live.service import Service
from tiresias.live.submission import Caller, Submission
from tiresias.store import StoredFact
from tiresias.testing.builders import a_job
from tiresias.testing.live import ADMIN, LiveLab

BOB = Caller("bob")
SAVES_LONG = "trap '' TERM; touch on; while :; do sleep 0.05; done"  # it ends only when it is killed


def test_a_request_is_answered_only_after_its_commit(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        service = Service(lab.manager)

        async def submit() -> JobId:
            [id] = lab.manager.requests.submit(ADMIN, [Submission(("true",), str(tmp_path))])
            assert lab.manager.store.submission(id) is None, "it is not durable yet"
            await service.committed()
            return id

        async def serve() -> JobId:
            running = asyncio.create_task(service.run())
            await asyncio.sleep(0)  # lets it begin
            id = await submit()
            assert lab.manager.store.submission(id) is not None
            service.stop()
            await running
            return id

        lab.until_ended(asyncio.run(serve()))


def test_a_dry_run_knows_the_limit_of_its_user_and_counts_the_jobs_ahead(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2, policy="fifo-skip") as lab:
        lab.manager.requests.set_limits(ADMIN, "bob", Limits(max_running_gpus=1))
        asked = Submission(("true",), str(tmp_path), user="bob")
        assert lab.manager.requests.dry_run(BOB, asked).starts_now
        lab.until_running(lab.submit("sleep 600", by=BOB))
        plan = lab.manager.requests.dry_run(BOB, asked)
        assert not plan.starts_now
        assert plan.why is not None
        assert plan.why.code == "Quota"
        lab.submit("sleep 600", gpus=2)
        lab.until_running(lab.submit("sleep 600"))
        plan = lab.manager.requests.dry_run(ADMIN, Submission(("true",), str(tmp_path)))
        assert plan.why is not None
        assert (plan.why.code, plan.why.ahead_gpus) == ("BehindHigherRank", 2)


def test_a_dry_run_counts_the_ranked_jobs_that_would_be_ahead(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        lab.until_running(lab.submit("sleep 600", priority=Priority.HIGH))
        plan = lab.manager.requests.dry_run(ADMIN, Submission(("true",), str(tmp_path)))
        assert plan.why is not None
        assert (plan.why.code, plan.why.ahead_jobs) == ("BehindHigherRank", 1)


def test_of_several_limits_of_one_array_the_lowest_counts(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        jobs = [
            lab.submit("sleep 600", array="a", array_index=index, array_limit=limit)
            for index, limit in enumerate((3, 1, 3))
        ]
        lab.until_running(jobs[0])
        lab.turn()
        assert [lab.of(job).reason for job in jobs[1:]] == ["ArrayLimit", "ArrayLimit"]


def test_a_summary_shows_the_queue_and_since_when_a_job_is_in_its_phase(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        lab.manager.requests.set_policy(ADMIN, "tiresias-l", {"queues": "1000000"})
        job = lab.submit(("/bin/sh", "-c", SAVES_LONG), grace_s=600.0)
        assert lab.of(job).queue == 1
        lab.manager.requests.set_policy(ADMIN, "tiresias-l", {"queues": "0.05"})
        lab.until((tmp_path / "on").exists)
        lab.until_running(job)
        lab.until(lambda: lab.of(job).queue == 2)
        run = lab.manager.state.jobs[job].run
        assert run is not None
        assert lab.of(job).since_at == run.started_at
        assert not lab.manager.queries.log_file(ADMIN, job).is_over
        lab.manager.requests.hold(ADMIN, job)
        lab.manager.flush()
        assert (lab.of(job).phase, lab.of(job).since_at) == (Phase.STOPPING, None)
        lab.manager.executor.stop(run.id, 0.0)
        lab.until(lambda: lab.of(job).phase == Phase.HELD)
        assert lab.of(job).since_at == lab.manager.state.jobs[job].waiting_since
        log = lab.manager.queries.log_file(ADMIN, job)
        assert (log.is_over, log.run, log.job_over) == (True, 1, False)


def test_only_a_job_that_has_failed_after_a_run_is_referred_to_its_output(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        good, bad = lab.submit("true"), lab.submit("false", retries=0)
        lab.until_ended(good, bad)
        behind = lab.submit("true", begin_at=lab.manager.now() + 5000)
        lab.manager.requests.cancel(ADMIN, behind)
        lab.until_ended(behind)
        steps = [lab.manager.queries.why(ADMIN, job).next_step for job in (good, bad, behind)]
        assert steps == ["", f"`tir logs {bad}`", ""]


@pytest.mark.parametrize("change", [{"time_limit_s": -1.0}, {"time_limit_s": 2e9}, {"grace_s": -1.0}])
def test_a_change_to_a_number_that_makes_no_sense_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit("sleep 600")
        before = lab.manager.queries.detail(ADMIN, job)
        with pytest.raises(Invalid):
            lab.manager.requests.change(ADMIN, job, change)
        after = lab.manager.queries.detail(ADMIN, job)
        assert (after.time_limit_s, after.grace_s) == (before.time_limit_s, before.grace_s)


VALUES = {
    "at": 5.0,
    "job": a_job(7, 2, user="ann", name="net"),
    "job_id": 7,
    "run_id": 3,
    "node": "box",
    "index": 1,
    "cause": ExitCause.FINISHED,
    "reason": "Quota",
    "progress_s": 60.0,
    "lost_gpu_s": 7200.0,
    "speed": 1.0,
    "ended_at": 4.0,
    "lost_s": 720.0,
    "gpus": 8,
    "sockets": ((0, 1), (2, 3)),
    "cpus": 8,
    "allocation": ((0, 3),),
    "shares": {"lab": 2.0},
    "by": "leased",
    "turn": 0,
    "turns": 2,
    "given": (f.Allotment(JobId(7), 2),),
    "withdrawn": (JobId(8),),
    "step": 100.0,
    "loss": 0.25,
    "problem": "it names job 9, which has ended or never was",
}


@pytest.mark.parametrize("kind", get_args(f.Fact), ids=lambda kind: kind.__name__)
def test_every_fact_is_an_event_in_words_with_what_it_is_about(kind: type) -> None:
    values = {name: value for name, value in VALUES.items() if name in kind.__dataclass_fields__}  # type: ignore[attr-defined]
    if kind in (f.NodeAdded, f.NodeChanged):
        values["node"] = Node("box", 4)
    event = event_of(StoredFact(9, 2, False, kind(**values), JobId(7)), run=2 if "run_id" in values else None)
    assert (event.seq, event.at, event.kind) == (9, 5.0, kind.__name__)
    assert event.text
    assert "{" not in event.text
    for name, value in (("node", "box"), ("run_id", "run 2")):
        assert name not in values or value in event.text


def test_an_event_says_in_words_why_a_job_does_not_queue_yet():
    fact = f.JobDeferred(5.0, JobId(7), ReasonCode.DEPENDENCY)
    event = event_of(StoredFact(9, 2, False, fact, JobId(7)))
    assert event.text == "does not queue yet: waits for other jobs"
