"""Real processes under a real manager: start, finish, fail, preempt, resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.core.model import Priority
from tiresias.live.errors import Conflict, Denied, Impossible, Invalid, NotFound
from tiresias.live.submission import Caller, Submission
from tiresias.store import redecide, replay
from tiresias.testing.live import ADMIN, LiveLab

BOB = Caller("bob")
SAVING = (  # runs until it is told to stop; finishes in its second run
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
    "print('run', os.environ['TIRESIAS_RUN'], 'resume', os.environ['TIRESIAS_RESUME'], flush=True)\n"
    "if os.environ['TIRESIAS_RESUME'] == '0': time.sleep(600)\n"
)


def test_a_job_runs_and_finishes(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        job = lab.submit("python -c 'print(1 + 1)'", gpus=2, name="sum")
        [end] = lab.until_ended(job)
        assert (end.phase, end.reason, end.exit_code, end.runs) == ("SUCCEEDED", "Finished", 0, 1)
        assert lab.output(job) == "2\n"
        assert end.service_gpu_s > 0
        assert lab.manager.state.ledger.free == 2


def test_a_job_is_preempted_for_a_higher_one_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        long = lab.submit(("python", "-c", SAVING), gpus=2)
        lab.until(lambda: "run 1 resume 0" in lab.output(long))
        urgent = lab.submit("python -c pass", gpus=1, priority=Priority.HIGH)
        first, second = lab.until_ended(urgent, long)
        assert first.phase == second.phase == "SUCCEEDED"
        assert (second.runs, second.preemptions) == (2, 1)
        assert lab.output(long, 1) == "run 1 resume 0\n"
        assert lab.output(long, 2) == "run 2 resume 1\n"


def test_a_manager_that_is_started_again_goes_on_with_what_runs(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        running = lab.submit(f"sh -c 'until [ -e {tmp_path}/go ]; do sleep 0.05; done'")
        waiting = lab.submit("python -c pass", gpus=2)
        lab.until_running(running)
        lab.restart()
        assert lab.of(running).phase == "RUNNING"
        assert lab.of(waiting).phase == "PENDING"
        (tmp_path / "go").touch()
        first, second = lab.until_ended(running, waiting)
        assert (first.phase, first.runs, second.phase) == ("SUCCEEDED", 1, "SUCCEEDED")
        assert redecide(replay(lab.manager.store)) is None


def test_a_run_granted_and_not_started_is_started_by_the_next_manager(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        [job] = lab.manager.requests.submit(
            ADMIN, [Submission(("true",), str(tmp_path), {"PATH": "/usr/bin:/bin"})]
        )
        lab.manager.journal.commit()  # and then it is killed
        lab.restart()
        [end] = lab.until_ended(job)
        assert (end.phase, end.runs) == ("SUCCEEDED", 1)


def test_what_a_retry_can_cure_is_tried_again(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        text = "import os, sys\nif os.environ['TIRESIAS_RUN'] != '3': sys.exit('ConnectionResetError: peer')"
        [end] = lab.until_ended(lab.submit(("python", "-c", text)))
        assert (end.phase, end.runs, end.preemptions) == ("SUCCEEDED", 3, 0)


def test_a_mistake_in_the_code_is_not_tried_again_and_says_why(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        job = lab.submit("python -c 'import no_such_module'")
        [end] = lab.until_ended(job)
        assert (end.phase, end.reason, end.runs, end.exit_code) == ("FAILED", "ImportError", 1, 1)
        detail = lab.manager.queries.detail(ADMIN, job)
        assert "No module named 'no_such_module'" in detail.runs[0].evidence
        assert "not tried again" in detail.runs[0].sentence


def test_retries_come_to_an_end(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        [end] = lab.until_ended(lab.submit("python -c 'raise SystemExit(3)'", retries=1))
        assert (end.phase, end.runs, end.exit_code) == ("FAILED", 2, 3)


def test_a_program_that_is_not_there_fails_at_once(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        job = lab.submit("no-such-program --x")
        [end] = lab.until_ended(job)
        assert (end.phase, end.reason, end.runs) == ("FAILED", "NotStarted", 1)
        assert "no-such-program" in lab.manager.queries.why(ADMIN, job).text


def test_a_working_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        job = lab.submit("true", cwd=str(tmp_path / "gone"))
        lab.until_ended(job)
        assert str(tmp_path / "gone") in lab.manager.queries.why(ADMIN, job).text


def test_the_same_mistake_again_and_again_is_refused(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        for _ in range(3):
            last = lab.submit("python -c 'import no_such_module'")
            lab.until_ended(last)
        with pytest.raises(Impossible, match=rf"the same way 3 times .*last in job {last}.*--force"):
            lab.submit("python -c 'import no_such_module'")
        lab.restart()
        with pytest.raises(Impossible):
            lab.submit("python -c 'import no_such_module'")
        lab.submit("python -c 'import no_such_module'", force=True)


def test_a_gpu_on_which_different_jobs_die_is_taken_out_of_service(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        dying = "import sys; sys.exit('RuntimeError: CUDA error: uncorrectable ECC error encountered')"
        jobs = [lab.submit(("python", "-c", dying, str(n)), retries=0) for n in range(3)]
        lab.until_ended(*jobs)
        [node] = lab.manager.queries.nodes.all()
        assert node.slots[0].state == "out"
        assert "jobs 1, 2, 3 died of it" in node.slots[0].reason
        waiting = lab.submit("true")
        assert lab.manager.queries.why(ADMIN, waiting).code == "OutOfService"
        lab.restart()
        assert lab.manager.queries.nodes.all()[0].slots[0].state == "out"
        lab.manager.requests.undrain(ADMIN, node.slots[0].name)
        lab.until_ended(waiting)


def test_cancel_hold_release_and_requeue(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit(("python", "-c", SAVING.replace("sys.exit(75)", "sys.exit(0)")))
        lab.until(lambda: "run 1" in lab.output(job))
        lab.manager.requests.hold(ADMIN, job)
        lab.until(lambda: lab.of(job).phase == "HELD")
        lab.manager.requests.release(ADMIN, job)
        lab.until(lambda: lab.of(job).runs == 2 or lab.of(job).phase == "SUCCEEDED")
        lab.until_ended(job)
        sleeper = lab.submit("sleep 600")
        lab.until_running(sleeper)
        lab.manager.requests.requeue(ADMIN, sleeper)
        lab.until(lambda: lab.of(sleeper).runs == 2)
        lab.manager.requests.cancel(ADMIN, sleeper)
        [end] = lab.until_ended(sleeper)
        assert (end.phase, end.reason) == ("CANCELLED", "Cancelled")
        with pytest.raises(Conflict, match=r"has ended \(CANCELLED\)"):
            lab.manager.requests.hold(ADMIN, sleeper)
        with pytest.raises(NotFound, match="there is no job 99"):
            lab.manager.requests.cancel(ADMIN, 99)


def test_a_job_whose_end_is_not_durable_yet_is_told_as_ended(tmp_path: Path) -> None:
    """Between its end and the commit it is neither active nor in the journal's history."""
    with LiveLab(tmp_path, gpus=1) as lab:
        before = lab.submit("true", name="same")
        lab.until_ended(before)
        running, waiting = lab.submit("sleep 600"), lab.submit("sleep 600", name="same")
        lab.until_running(running)
        lab.manager.requests.cancel(
            ADMIN, waiting
        )  # it holds nothing: it ends at once, and nothing is flushed here
        page, *_ = lab.manager.queries.summaries(ADMIN, ended=True)
        assert [(job.id, job.phase, job.reason) for job in page] == [
            (running, "RUNNING", "Running"),
            (waiting, "CANCELLED", "Cancelled"),
            (before, "SUCCEEDED", "Finished"),
        ]
        assert lab.manager.queries.status().jobs == {"RUNNING": 1, "CANCELLED": 1, "SUCCEEDED": 1}
        assert lab.manager.queries.find(ADMIN, "same") == waiting
        assert lab.manager.queries.detail(ADMIN, waiting).summary.phase == "CANCELLED"
        assert lab.manager.queries.why(ADMIN, waiting).text == "It was cancelled."
        with pytest.raises(Conflict, match=rf"job {waiting} has ended \(CANCELLED\)"):
            lab.manager.requests.cancel(ADMIN, waiting)
        unflushed = lab.manager.queries.summary(ADMIN, waiting)
        lab.manager.flush()
        assert lab.manager.queries.summary(ADMIN, waiting) == unflushed
        assert [job.id for job in lab.manager.queries.summaries(ADMIN, ended=True)[0]] == [
            running,
            waiting,
            before,
        ]


def test_a_time_limit_ends_a_job(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        [end] = lab.until_ended(lab.submit("sleep 600", time_limit_s=1.0))
        assert (end.phase, end.reason) == ("FAILED", "TimeLimit")


def test_a_user_cannot_change_the_job_of_another(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit("sleep 600")
        for deed in (
            lab.manager.requests.cancel,
            lab.manager.requests.hold,
            lab.manager.requests.requeue,
            lab.manager.queries.detail,
        ):
            with pytest.raises(Denied, match="belongs to ann, and you are bob"):
                deed(BOB, job)
        with pytest.raises(Denied):
            lab.manager.queries.log_file(BOB, job)
        with pytest.raises(Denied, match="admin"):
            lab.manager.requests.drain(BOB, "box")
        with pytest.raises(Denied, match="priority high"):
            lab.submit("true", by=BOB, priority=Priority.HIGH)


def test_what_can_never_run_is_refused(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        with pytest.raises(Impossible, match="asks for 3 GPUs, and there are 2"):
            lab.submit("true", gpus=3)
        with pytest.raises(Invalid, match="the command is empty"):
            lab.submit(())
        with pytest.raises(NotFound, match="no job 77"):
            lab.submit("true", after=(77,))
        with pytest.raises(Invalid, match="launcher 'podman'"):
            lab.submit("true", launcher="podman")
        assert lab.summaries() == []


def test_the_same_key_gives_the_same_jobs(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        asked = [Submission(("true",), str(tmp_path))] * 2
        ids = lab.manager.requests.submit(ADMIN, asked, key="k1", digest="d")
        assert lab.manager.requests.submit(ADMIN, asked, key="k1", digest="d") == ids
        lab.manager.flush()
        lab.restart()
        assert lab.manager.requests.submit(ADMIN, asked, key="k1", digest="d") == ids
        with pytest.raises(Conflict, match="used for another submission"):
            lab.manager.requests.submit(ADMIN, asked[:1], key="k1", digest="other")
        assert lab.manager.requests.submit(BOB, asked[:1], key="k1", digest="other") != ids, (
            "keys are each user's own"
        )


def test_another_policy_takes_over_with_all_jobs(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        first = lab.submit("sleep 600")
        lab.until_running(first)
        others = [lab.submit("sleep 600") for _ in range(3)]
        lab.manager.requests.set_policy(ADMIN, "fifo", {})
        lab.turn()
        assert lab.of(first).phase == "RUNNING"
        assert lab.manager.queries.status().policy == "fifo"
        with pytest.raises(Invalid, match="no policy 'fif'; did you mean 'fifo'"):
            lab.manager.requests.set_policy(ADMIN, "fif", {})
        lab.restart()
        assert lab.manager.queries.status().policy == "fifo"
        assert [lab.of(id).phase for id in (first, *others)] == ["RUNNING", *["PENDING"] * 3]
        assert redecide(replay(lab.manager.store)) is None
