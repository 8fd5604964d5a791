"""Preemption as it is: what a stopped training has saved, what it has lost, and what follows from that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiresias.core import facts as f
from tiresias.core.model import JobId
from tiresias.live.errors import Impossible
from tiresias.store import redecide, replay
from tiresias.testing.live import ADMIN, SETTINGS, LiveLab

QUICK = SETTINGS | {"judge_after_s": 0.0}
PLAIN = "import time, pathlib; print('begins', flush=True); time.sleep(600)"
SAVING = """
import os, pathlib, signal, sys, time
state = pathlib.Path(os.environ["TIRESIAS_CHECKPOINT_DIR"]) / "state"
def stop(*_):
    state.write_text("half")
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print("resumes" if state.exists() else "begins", flush=True)
time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("begins", flush=True)
time.sleep(600)
"""


def a_lab(home: Path, gpus: int = 4, **settings: float) -> LiveLab:
    return LiveLab(home, gpus=gpus, policy="las", set={"quantum_s": "0.2"}, settings=QUICK | settings)


def until_begun(lab: LiveLab, id: int, run: int = 1) -> None:
    lab.until(lambda: lab.output(id, run))  # type: ignore[arg-type]


def stop_once(lab: LiveLab, id: int) -> None:
    """Let its run be stopped as by a preemption, and wait until it has exited."""
    lab.manager.requests.requeue(ADMIN, id)  # type: ignore[arg-type]
    runs = lab.of(id).runs  # type: ignore[arg-type]
    lab.until(lambda: lab.manager.queries.runs(ADMIN, id)[runs - 1].exited_at is not None)  # type: ignore[arg-type]


def test_a_plain_script_among_saving_ones_is_told_its_loss_and_protected_from_then_on(tmp_path: Path) -> None:
    """Under las the job with the least service goes first, so each newcomer preempts somebody."""
    with a_lab(tmp_path, judge_after_s=1.0) as lab:
        plain = lab.submit(("python", "-c", PLAIN), name="plain")
        saving = [lab.submit(("python", "-c", SAVING), name=f"saving-{n}") for n in range(3)]
        for id in (plain, *saving):
            until_begun(lab, id)
        lab.until(lambda: lab.of(plain).service_gpu_s > 1.5)
        first = lab.submit(("python", "-c", SAVING), name="first")
        lab.until(lambda: lab.of(plain).resumable is not None)
        assert lab.of(plain).preemptions == 1, "it has had the most service, so it was preempted"
        job = lab.of(plain)
        assert job.resumable is False
        assert job.loss.startswith("began anew: ")
        assert job.lost_gpu_s > 0
        [event] = [e for e in lab.manager.queries.story(ADMIN, plain) if e.kind == "WorkLost"]
        assert event.text.startswith("began anew: ")
        assert event.text.endswith(" x 1 GPU lost")
        sentence = lab.manager.queries.runs(ADMIN, plain)[0].sentence
        assert sentence.startswith("It was stopped. It saved nothing: ")
        until_begun(lab, plain, run=2)

        others = [first, *saving, *(lab.submit(("python", "-c", SAVING), name=f"new-{n}") for n in range(6))]
        lab.until(lambda: all(lab.of(id).runs for id in others))
        assert lab.of(plain).runs == 2, "everybody has had a turn, and it still runs"
        assert lab.of(plain).preemptions == 1
        said = lab.manager.queries.detail(ADMIN, plain).protection
        assert said == "protected from preemption while it runs"
        assert sum(lab.of(id).preemptions for id in others) > 0, "others were preempted meanwhile"

        lab.restart()
        assert lab.of(plain).resumable is False
        entry = lab.manager.controller.entries[plain]
        assert entry.pinned, "a manager that was restarted protects it as well"
        [row] = lab.manager.queries.usage(ADMIN, "user")
        lost = [lab.of(id).lost_gpu_s for id in (plain, *others)]  # some were stopped before they could save
        assert row.lost_gpu_s == pytest.approx(sum(lost))
        lab.manager.flush()
        assert redecide(replay(lab.manager.store)) is None, "a replay of the journal decides the same"


def test_a_job_that_is_not_protected_although_it_does_not_save_says_why(tmp_path: Path) -> None:
    """A quarter of 4 GPUs is one GPU."""
    with a_lab(tmp_path) as lab:
        large = lab.submit(("python", "-c", PLAIN), name="large", gpus=2, resumable=False)
        first = lab.submit(("python", "-c", PLAIN), name="first", resumable=False)
        second = lab.submit(("python", "-c", PLAIN), name="second", resumable=False)
        saving = lab.submit(("python", "-c", SAVING), name="saving")
        until_begun(lab, first)

        def of(id: JobId) -> str:
            return lab.manager.queries.detail(ADMIN, id).protection

        assert of(large) == "not protected from preemption: protected jobs hold at most 1 GPU, and it needs 2"
        assert of(first) == "protected from preemption while it runs"
        assert of(second).startswith("not protected from preemption now: protected jobs hold at most 1 GPU")
        assert of(saving) == "", "it is not known not to save"
        lab.manager.requests.set_policy(ADMIN, "las", {"quantum_s": "0.2", "protect": "0"}, None, None)
        assert of(first) == "not protected: las preempts jobs that do not save (protect=0)"
        lab.manager.requests.set_policy(ADMIN, "fifo", {}, None, None)
        assert of(first) == "", "nobody is preempted"


def test_a_training_that_saves_is_known_by_the_files_that_it_writes(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab:
        id = lab.submit(("python", "-c", SAVING))
        until_begun(lab, id)
        stop_once(lab, id)
        assert lab.of(id).resumable is True
        assert lab.of(id).loss == ""
        sentence = lab.manager.queries.runs(ADMIN, id)[0].sentence
        assert "It has written 1 file in its checkpoint directory" in sentence
        until_begun(lab, id, run=2)
        assert "resumes" in lab.output(id, 2)


def test_a_training_that_reports_what_it_saved_is_known_by_that(tmp_path: Path) -> None:
    """It saves somewhere else, and says so."""
    script = """
from tiresias import job
import time
job.report(step=12)
job.saved()
print("begins", flush=True)
time.sleep(600)
"""
    with a_lab(tmp_path) as lab:
        id = lab.submit(("python", "-c", script), env={"PATH": os.environ["PATH"]})
        until_begun(lab, id)
        stop_once(lab, id)
        assert lab.of(id).resumable is True
        sentence = lab.manager.queries.runs(ADMIN, id)[0].sentence
        assert "It reported that its state after step 12 is saved." in sentence


def test_a_cancelled_job_that_does_not_stop_is_said_to_have_been_killed(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab:
        id = lab.submit(("python", "-c", STUBBORN), grace_s=1.0)
        until_begun(lab, id)
        lab.manager.requests.cancel(ADMIN, id)
        [job] = lab.until_ended(id)
        assert job.reason_text == "cancelled; did not stop within 1 s; killed"
        text = lab.manager.queries.why(ADMIN, id).text
        assert text == "It was cancelled. It did not stop within 1 s and was killed."
        [event] = [e for e in lab.manager.queries.story(ADMIN, id) if e.kind == "RunExited"]
        assert event.text == "run 1 ended: cancelled; it did not stop in its grace period and was killed"


def test_a_job_that_is_cancelled_at_once_is_not_said_to_have_ignored_its_signal(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab:
        id = lab.submit(("python", "-c", STUBBORN))
        until_begun(lab, id)
        lab.manager.requests.cancel(ADMIN, id, now=True)
        [job] = lab.until_ended(id)
        assert job.reason_text == "cancelled; killed at once"
        [event] = [e for e in lab.manager.queries.story(ADMIN, id) if e.kind == "RunExited"]
        assert event.text == "run 1 ended: cancelled; it was killed at once"


def test_events_say_how_a_run_ended_and_call_only_preemptions_so(tmp_path: Path) -> None:
    endings = {
        "requeued": lambda lab, id: lab.manager.requests.requeue(ADMIN, id),
        "held": lambda lab, id: lab.manager.requests.hold(ADMIN, id),
        "cancelled": lambda lab, id: lab.manager.requests.cancel(ADMIN, id),
        "failed: time limit reached": lambda lab, id: lab.manager.requests.change(
            ADMIN, id, {"time_limit_s": 0.1}
        ),
    }
    with a_lab(tmp_path) as lab:
        for how, end in endings.items():
            id = lab.submit(("python", "-c", PLAIN))
            until_begun(lab, id)
            end(lab, id)
            lab.until(lambda id=id: "RunExited" in kinds(lab, id))
            [event, *_] = [e for e in lab.manager.queries.story(ADMIN, id) if e.kind == "RunExited"]
            assert event.text == f"run 1 ended: {how}"
            if how in ("requeued", "held"):
                lab.manager.requests.cancel(ADMIN, id)
        [first, *_] = lab.manager.queries.story(ADMIN, id)
        assert first.text.endswith("for 1 GPU")


def kinds(lab, id: int) -> list[str]:
    return [event.kind for event in lab.manager.queries.story(ADMIN, id)]


def test_whoever_repeats_a_script_that_lost_its_work_is_warned_also_after_a_restart(tmp_path: Path) -> None:
    from tiresias.live.submission import Submission

    with a_lab(tmp_path) as lab:
        command = ("python", "-c", PLAIN)
        id = lab.submit(command, name="plain")
        spec = lab.manager.journal.managed[id].spec
        assert lab.manager.requests.warnings(ADMIN, [spec]) == []
        until_begun(lab, id)
        stop_once(lab, id)
        renamed = Submission(("another", "command"), spec.cwd, name="plain")
        for asked in (spec, renamed):
            [loss, advice] = lab.manager.requests.warnings(ADMIN, [asked])
            assert loss.startswith(f"job {id} lost ")
            assert "--resumable" in advice
        lab.manager.requests.cancel(ADMIN, id)
        lab.until_ended(id)
        lab.restart()
        assert lab.manager.requests.warnings(ADMIN, [spec])
        said = Submission(spec.command, spec.cwd, name="plain", resumable=True)
        assert lab.manager.requests.warnings(ADMIN, [said]) == [], "its user has said that it saves"


def test_an_administrator_may_have_such_jobs_refused(tmp_path: Path) -> None:
    with a_lab(tmp_path, refuse_unresumable=1) as lab:
        with pytest.raises(Impossible, match="refuses jobs that do not save"):
            lab.submit("sleep 1", resumable=False)
        id = lab.submit(("python", "-c", PLAIN))
        until_begun(lab, id)
        stop_once(lab, id)
        with pytest.raises(Impossible, match=f"job {id} lost"):
            lab.submit(("python", "-c", PLAIN))
        lab.submit(("python", "-c", PLAIN), resumable=True)


def test_a_job_may_say_in_advance_that_it_does_not_save_and_is_protected_at_once(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab:
        id = lab.submit(("python", "-c", PLAIN), resumable=False)
        until_begun(lab, id)
        assert lab.manager.controller.entries[id].pinned
        lab.manager.requests.change(ADMIN, id, {"resumable": True})
        assert not lab.manager.controller.entries[id].pinned


def test_a_run_that_never_began_has_lost_nothing(tmp_path: Path) -> None:
    with a_lab(tmp_path) as lab:
        id = lab.submit(("python", "-c", PLAIN))
        lab.manager.requests.requeue(ADMIN, id)
        lab.until(lambda: lab.manager.queries.runs(ADMIN, id)[0].exited_at is not None)
        facts = [stored.fact for stored in lab.manager.store.facts_of_job(id)]
        lost = [fact for fact in facts if isinstance(fact, f.WorkLost)]
        began = [fact for fact in facts if isinstance(fact, f.RunStarted)]
        assert not lost or began, "only a run that had begun can lose work"
