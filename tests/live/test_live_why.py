"""Why a job is where it is: the code, the values that are the evidence, and a next step, for every reason."""

from __future__ import annotations

import re
from pathlib import Path

from tiresias.core.model import JobId, Phase
from tiresias.live.answers import Explanation, Limits
from tiresias.live.submission import Caller
from tiresias.testing.live import ADMIN, LiveLab

BOB = Caller("bob")
SAVES_LONG = "trap '' TERM; touch on; while :; do sleep 0.05; done"  # it ends only when it is killed


def why(lab: LiveLab, job: JobId) -> Explanation:
    return lab.manager.queries.why(ADMIN, job)


def seconds_left(report: Explanation) -> int:
    found = re.search(r"in (\d+) s", report.text)
    assert found, report
    return int(found.group(1))


def test_a_job_that_waits_for_an_instant_a_limit_or_its_array_says_for_which(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        lab.manager.requests.set_limits(ADMIN, "bob", Limits(max_running_gpus=1))
        begins = lab.submit("true", begin_at=lab.manager.now() + 5000)
        runs, limited = (lab.submit("sleep 600", by=BOB) for _ in range(2))
        in_array = {"array": "a", "array_limit": 1}
        lab.submit("sleep 600", **in_array, array_index=0)
        second = lab.submit("sleep 600", **in_array, array_index=1)
        lab.until_running(runs)
        found = why(lab, begins)
        assert found.code == lab.of(begins).reason == "BeginTime"
        assert 4000 < seconds_left(found) <= 5000
        found = why(lab, limited)
        assert found.code == lab.of(limited).reason == "Quota"
        assert "bob may use 1 GPU" in found.text
        found = why(lab, second)
        assert found.code == lab.of(second).reason == "ArrayLimit"
        assert "at most 1 job" in found.text
        assert all(why(lab, job).next_step for job in (begins, limited, second))


def test_a_job_whose_command_is_tried_first_names_the_preflight(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        job = lab.submit("sleep 600", gpus=2, preflight=True, preflight_limit_s=600.0)
        [preflight] = [id for id in lab.manager.state.jobs if id != job]
        found = why(lab, job)
        assert f"job {preflight}" in found.text
        assert found.next_step == f"`tir logs {preflight}`"


def test_a_job_that_is_tried_again_later_says_what_failed_and_when_it_is_tried(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1, settings={"backoff_s": 5000.0, "most_backoff_s": 5000.0}) as lab:
        job = lab.submit(("python", "-c", "raise SystemExit('ConnectionResetError: peer')"), retries=3)
        lab.until(lambda: lab.of(job).reason == "BackoffAfterFailure")
        found = why(lab, job)
        assert found.code == "BackoffAfterFailure"
        assert "network" in found.text
        assert 4000 < seconds_left(found) <= 5000
        assert "(retry 1 of 3)" in found.text
        assert found.next_step == f"`tir logs {job}`"


def test_a_run_that_is_stopping_says_for_what(tmp_path: Path) -> None:
    words = {}
    for name in ("cancel", "hold", "requeue"):
        home = tmp_path / name
        home.mkdir()
        with LiveLab(home, gpus=1) as lab:
            job = lab.submit(("/bin/sh", "-c", SAVES_LONG), grace_s=600.0)
            lab.until((home / "on").exists)
            lab.until_running(job)
            getattr(lab.manager.requests, name)(ADMIN, job)
            lab.manager.flush()
            assert lab.of(job).phase == Phase.STOPPING
            found = why(lab, job)
            assert found.code == "Stopping"
            words[name] = found.text
    assert "cancelled" in words["cancel"]
    assert "held" in words["hold"] or "on hold" in words["hold"]
    assert "run again" in words["requeue"] or "runs again" in words["requeue"]


def test_jobs_ahead_are_named_the_first_of_them_first(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1, policy="fifo") as lab:
        jobs = [lab.submit("sleep 600") for _ in range(3)]
        lab.until_running(jobs[0])
        found = why(lab, jobs[2])
        assert found.code == "BehindBlockedHead"
        assert (found.ahead_jobs, found.ahead_gpus, found.free_gpus) == (1, 1, 0)
        assert found.ahead == [jobs[0]]
        assert "`tir ls`" in found.next_step


def test_how_a_job_ended_is_for_its_owner_and_others_learn_the_reason_only(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        job = lab.submit("python -c 'import no_such_module'", by=BOB)
        lab.until_ended(job)
        own, others = (lab.manager.queries.why(Caller(user), job) for user in ("bob", "ada"))
        assert own.code == others.code == "ImportError"
        assert "no_such_module" in own.text
        assert own.next_step == f"`tir logs {job}`"
        assert "no_such_module" not in others.text
        assert not others.next_step
