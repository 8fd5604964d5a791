"""Jobs that wait for something other than their turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.live.answers import Limits
from tiresias.live.errors import Impossible, Invalid
from tiresias.live.submission import Caller, Submission
from tiresias.testing.live import ADMIN, LiveLab

BOB = Caller("bob")
REPORTING = (
    "import os, time\n"
    "from tiresias import job\n"
    "print('preflight', os.environ.get('TIRESIAS_PREFLIGHT'), flush=True)\n"
    "job.report(step=1, total_steps=2)\n"
    "if os.environ.get('TIRESIAS_PREFLIGHT'): time.sleep(600)\n"
)


def reasons(lab: LiveLab, *ids: int) -> list[str]:
    return [lab.of(id).reason for id in ids]


def test_a_job_starts_after_those_it_depends_on_have_succeeded(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        first = lab.submit(f"sh -c 'until [ -e {tmp_path}/go ]; do sleep 0.05; done'")
        second = lab.submit("true", after=(first,))
        lab.until_running(first)
        assert lab.of(second).reason == "Dependency"
        assert f"waits for other jobs: job {first} (RUNNING)" in lab.manager.queries.why(ADMIN, second).text
        lab.restart()
        assert lab.of(second).reason == "Dependency"
        (tmp_path / "go").touch()
        ends = lab.until_ended(first, second)
        assert [end.phase for end in ends] == ["SUCCEEDED", "SUCCEEDED"]
        assert ends[0].finished_at <= ends[1].first_started_at


def test_a_job_whose_dependency_fails_fails_with_all_that_depend_on_it(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        first = lab.submit("false", retries=0)
        second = lab.submit("true", after=(first,))
        third = lab.submit("true", after=(second,))
        ends = lab.until_ended(first, second, third)
        assert [end.phase for end in ends] == ["FAILED"] * 3
        assert [end.reason for end in ends[1:]] == ["DependencyFailed"] * 2
        assert [end.runs for end in ends] == [1, 0, 0]
        with pytest.raises(Impossible, match="has ended without success"):
            lab.submit("true", after=(first,))


def test_a_job_begins_no_sooner_than_asked(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        begin_at = lab.manager.now() + 1.0
        job = lab.submit("true", begin_at=begin_at)
        assert lab.of(job).reason == "BeginTime"
        [end] = lab.until_ended(job)
        assert end.first_started_at >= begin_at


def test_a_user_is_never_above_the_limit_of_running_gpus(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        lab.manager.requests.set_limits(ADMIN, "bob", Limits(max_running_gpus=2))
        bobs = [lab.submit("sleep 600", by=BOB) for _ in range(3)]
        assert reasons(lab, *bobs)[2] == "Quota"
        anns = lab.submit("sleep 600")
        lab.until_running(anns, *bobs[:2])
        with pytest.raises(Impossible, match="bob may use 2 at once"):
            lab.submit("true", by=BOB, gpus=3)
        lab.manager.requests.cancel(BOB, bobs[0])
        lab.until_running(bobs[2])
        lab.manager.requests.hold(BOB, bobs[2])
        lab.until(lambda: lab.of(bobs[2]).phase == "HELD")
        fourth = lab.submit("sleep 600", by=BOB)
        lab.until_running(fourth)
        lab.manager.requests.release(BOB, bobs[2])
        lab.turn()
        assert lab.of(bobs[2]).reason == "Quota", "its place was taken while it was held"
        lab.restart()
        assert lab.of(bobs[2]).reason == "Quota"
        lab.manager.requests.set_limits(ADMIN, "bob", Limits())
        lab.until_running(bobs[2])


def test_a_limit_on_active_jobs_refuses_one_more(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        lab.manager.requests.set_limits(ADMIN, "*", Limits(max_active_jobs=2))
        for _ in range(2):
            lab.submit("sleep 600", by=BOB)
        with pytest.raises(Impossible, match="bob may have 2 active jobs, has 2"):
            lab.submit("true", by=BOB)
        with pytest.raises(Invalid, match="max_running_gpus=-1"):
            lab.manager.requests.set_limits(ADMIN, "bob", Limits(max_running_gpus=-1))


def test_at_most_so_many_jobs_of_an_array_run_at_once(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        asked = [
            Submission(("/bin/sleep", "600"), str(tmp_path), array="a", array_index=i, array_limit=2)
            for i in range(4)
        ]
        ids = lab.manager.requests.submit(ADMIN, asked)
        lab.until_running(*ids[:2])
        assert reasons(lab, *ids[2:]) == ["ArrayLimit"] * 2
        lab.manager.requests.cancel(ADMIN, ids[0])
        lab.until_running(ids[2])
        assert reasons(lab, ids[3]) == ["ArrayLimit"]


def test_a_preflight_tries_the_command_on_one_gpu_first(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        job = lab.submit(("python", "-c", REPORTING), gpus=4, name="big", preflight=True)
        small = job + 1
        assert lab.of(job).reason == "Preflight"
        first, second = lab.until_ended(small, job)
        assert (first.phase, first.gpus, first.name) == ("SUCCEEDED", 1, "big (preflight)")
        assert (second.phase, second.gpus, second.runs) == ("SUCCEEDED", 4, 1)
        assert "preflight 1" in lab.output(small)
        assert "preflight None" in lab.output(job)


def test_a_gang_whose_preflight_fails_never_starts(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        job = lab.submit("python -c 'import no_such_module'", gpus=4, preflight=True)
        [end] = lab.until_ended(job)
        assert (end.phase, end.reason, end.runs) == ("FAILED", "PreflightFailed", 0)
        assert "No module named 'no_such_module'" in lab.manager.queries.why(ADMIN, job).text


def test_cancelling_a_job_cancels_its_preflight(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        job = lab.submit("sleep 600", gpus=2, preflight=True)
        lab.until_running(job + 1)
        lab.manager.requests.cancel(ADMIN, job)
        ends = lab.until_ended(job, job + 1)
        assert [end.phase for end in ends] == ["CANCELLED", "CANCELLED"]


def test_a_dry_run_tells_what_would_happen_and_changes_nothing(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        asked = Submission(("true",), str(tmp_path), gpus=2)
        plan = lab.manager.requests.dry_run(ADMIN, asked)
        assert plan.starts_now
        assert len(plan.slots) == 2
        running = lab.submit("sleep 600", gpus=2)
        lab.until_running(running)
        plan = lab.manager.requests.dry_run(ADMIN, asked)
        assert not plan.starts_now
        assert plan.why.code == "BehindHigherRank"
        lab.manager.requests.set_policy(ADMIN, "las", {"quantum_s": "0.001"})
        # The run counts its service from quantum to quantum, so the first one has to pass.
        lab.until(lambda: lab.manager.requests.dry_run(ADMIN, asked).displaces == [running])
        assert len(lab.summaries()) == 1
