"""Why runs had to stop, as the manager answers it."""

from __future__ import annotations

from pathlib import Path

from tiresias.core.model import Priority
from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import still_manager

ANN = Caller("ann", is_admin=True)


def asked(home: Path, **more: object) -> Submission:
    return Submission(("true",), str(home), {"PATH": "/bin"}, **more)  # type: ignore[arg-type]


def test_a_preempted_run_names_the_job_and_the_rule_in_show_why_and_events(tmp_path: Path):
    with still_manager(tmp_path, 2) as (manager, _):
        [plain] = manager.requests.submit(ANN, [asked(tmp_path, gpus=2)])
        manager.flush()
        manager.poll()
        [urgent] = manager.requests.submit(ANN, [asked(tmp_path, gpus=2, priority=Priority.HIGH)])
        manager.flush()
        manager.poll()
        manager.flush()
        [run] = manager.queries.runs(ANN, plain)
        assert (run.revoked_by, run.revoked_for, run.from_queue, run.to_queue) == ("priority", urgent, 1, 1)
        phrase = f"for job {urgent}, which has a higher priority class"
        assert run.revoked_text == phrase
        assert manager.queries.why(ANN, plain).stopped == phrase
        assert f"run 1 preempted {phrase}" in [each.text for each in manager.queries.story(ANN, plain)]


def test_a_run_that_its_user_stopped_says_so(tmp_path: Path):
    with still_manager(tmp_path, 1) as (manager, _):
        [id] = manager.requests.submit(ANN, [asked(tmp_path)])
        manager.flush()
        manager.poll()
        manager.requests.hold(ANN, id)
        manager.flush()
        [run] = manager.queries.runs(ANN, id)
        assert (run.revoked_by, run.revoked_for) == ("held", None)
        assert manager.queries.why(ANN, id).stopped == "because the job was put on hold"
