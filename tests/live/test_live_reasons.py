"""`ls`, `why` and the API show one reason for a job: the same code, and the same phrase."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.core.model import JobId
from tiresias.core.reasons import TEXT, ReasonCode
from tiresias.executors.causes import Kind
from tiresias.live.answers import Limits
from tiresias.live.manager import Manager
from tiresias.live.outcome import CODES
from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import still_manager

ADMIN = Caller("ann", is_admin=True)


def submit(manager: Manager, home: Path, **asked: object) -> JobId:
    [id] = manager.requests.submit(ADMIN, [Submission(("true",), str(home), {}, **asked)])
    manager.flush()
    manager.poll()
    manager.flush()
    return id


def reasons(manager: Manager) -> dict[int, str]:
    """What `ls` shows; `why` must say the same of each job."""
    found, *_ = manager.queries.summaries(ADMIN)
    for job in found:
        why = manager.queries.why(ADMIN, JobId(job.id))
        assert why.code == job.reason, ("why and ls differ", why, job)
        assert why.text.startswith(job.reason_text), (why.text, job.reason_text)
        assert manager.queries.summary(ADMIN, JobId(job.id)).reason == job.reason
    return {job.id: job.reason for job in found}


def test_a_job_larger_than_what_is_in_service(tmp_path: Path) -> None:
    with still_manager(tmp_path, 4) as (manager, _):
        manager.requests.drain(ADMIN, "box:3", "fan")
        job = submit(manager, tmp_path, gpus=4)
        assert reasons(manager) == {job: "OutOfService"}
        assert "3 of 4 are in service; out of service: box:3 (fan)" in manager.queries.why(ADMIN, job).text


def test_under_strict_fifo_jobs_wait_behind_the_blocked_head(tmp_path: Path) -> None:
    with still_manager(tmp_path, 4, "fifo") as (manager, _):
        running = submit(manager, tmp_path, gpus=3)
        head = submit(manager, tmp_path, gpus=2)
        small = submit(manager, tmp_path, gpus=1)
        assert reasons(manager) == {
            running: "Running",
            head: "BehindHigherRank",
            small: "BehindBlockedHead",
        }


@pytest.mark.parametrize("policy", ["fifo", "fifo-skip", "las", "tiresias-l"])
def test_everything_that_can_defer_a_job(tmp_path: Path, policy: str) -> None:
    with still_manager(tmp_path, 4, policy) as (manager, _):
        running = submit(manager, tmp_path, gpus=2)
        after = submit(manager, tmp_path, after=(running,))
        later = submit(manager, tmp_path, begin_at=manager.now() + 1000)
        first = submit(manager, tmp_path, array="a", array_limit=1)
        second = submit(manager, tmp_path, array="a", array_limit=1)
        held = submit(manager, tmp_path)
        manager.requests.hold(ADMIN, held)
        waiting = submit(manager, tmp_path, gpus=4)
        found = reasons(manager)
        assert {id: found[id] for id in (running, after, later, first, second)} == {
            running: "Running",
            after: "Dependency",
            later: "BeginTime",
            first: "Running",
            second: "ArrayLimit",
        }
        assert found[waiting] in ("BehindHigherRank", "WaitingForVictimsToExit")
        assert found[held] in ("Held", "Stopping")
        manager.requests.set_limits(ADMIN, "ann", Limits(max_running_gpus=3))
        assert reasons(manager)[waiting] == "Quota"
        manager.requests.cancel(ADMIN, running)
        assert reasons(manager)[running] == "Stopping"


def test_every_code_has_a_phrase_and_every_kind_of_failure_a_code() -> None:
    assert set(TEXT) == set(ReasonCode)
    assert len(set(TEXT.values())) == len(TEXT)
    assert set(CODES) == set(Kind)


def test_the_reference_lists_every_code_in_the_order_of_precedence() -> None:
    page = Path(__file__).parents[2] / "docs/reference/reasons.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ")[:2] for line in lines if line.startswith("| `")]
    assert rows == [[f"| `{code.value}`", TEXT[code]] for code in ReasonCode]
