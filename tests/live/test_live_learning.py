"""What runs have shown corrects what was predicted, and the journal still gives the same decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.core.model import JobId
from tiresias.live.placer_feedback import MEASURED
from tiresias.live.speeds import ENOUGH, KEPT, MOST, Speeds, corrected, steps_per_s
from tiresias.profiles.measured import GangShape
from tiresias.store import StoreError, redecide, replay
from tiresias.testing.live import ADMIN, LiveLab

QUICK = {"backoff_s": 0.1, "measure_s": 1.0, "correct_every_s": 0.0}
TOLD = r"""printf '{"at":1000.0,"step":0}\n{"at":1100.0,"step":%d}\n' """
ACROSS = GangShape("vgg16", 2, "1x2")


def train(lab: LiveLab, steps: int, **asked: object) -> JobId:
    """A job that tells that it made so many steps in a hundred seconds."""
    script = f"{TOLD} {steps} > $TIRESIAS_RUN_DIR/report-0.jsonl"
    return lab.submit(("sh", "-c", script), **{"gpus": 2, "model": "vgg16", **asked})


def block(lab: LiveLab, gpus: int = 1) -> JobId:
    job = lab.submit("sleep 600", gpus=gpus)
    lab.until_running(job)
    return job


def cancel(lab: LiveLab, job: JobId) -> None:
    lab.manager.requests.cancel(ADMIN, job)
    lab.manager.flush()
    lab.until_ended(job)


def leave_two_apart(lab: LiveLab) -> list[JobId]:
    """Of two groups of two GPUs, one of each is taken."""
    first, both, second = block(lab), block(lab, 2), block(lab)
    cancel(lab, both)
    other = block(lab)
    cancel(lab, second)
    assert lab.manager.state.ledger.free_slots == [0b1010]
    return [first, other]


def measured(lab: LiveLab) -> str:
    return str(lab.manager.journal.chosen.placer_options.get(MEASURED, ""))


def lab_of_two_groups(home: Path) -> LiveLab:
    return LiveLab(home, gpus=4, fake_groups=2, policy="fifo-skip", settings=QUICK)


def show_the_difference(lab: LiveLab, slow: int = 500) -> list[JobId]:
    """Three runs in one group, then three across; the jobs that make a gang lie across go on."""
    for _ in range(ENOUGH):
        lab.until_ended(train(lab, 1000))
    blockers = leave_two_apart(lab)
    for _ in range(ENOUGH):
        lab.until_ended(train(lab, slow))
    return blockers


def show_and_learn(lab: LiveLab) -> JobId:
    """The job of which cancelling makes a group free."""
    _, other = show_the_difference(lab)
    lab.until(lambda: measured(lab))
    return other


def test_a_model_that_has_shown_to_suffer_waits_for_a_group_from_then_on(tmp_path: Path) -> None:
    with lab_of_two_groups(tmp_path) as lab:
        other = show_and_learn(lab)
        assert measured(lab) == "vgg16:2:1x2=2.00"
        rows = {row.shape: row for row in lab.manager.queries.slowdowns()}
        assert (rows["1x1"].steps_per_s, rows["1x2"].steps_per_s) == (10.0, 5.0)
        assert (rows["1x2"].predicted, rows["1x2"].measured, rows["1x2"].used) == (1.0, 2.0, 2.0)
        gang = train(lab, 1000)
        why = lab.manager.queries.why(ADMIN, gang)
        assert (why.code, "2.00x as long across groups" in why.text) == ("Fragmented", True)
        cancel(lab, other)
        lab.until_ended(gang)
        assert redecide(replay(lab.manager.store)) is None


def test_what_was_learned_outlives_the_manager_and_its_decisions_can_be_made_again(tmp_path: Path) -> None:
    with lab_of_two_groups(tmp_path) as lab:
        other = show_and_learn(lab)
        gang = train(lab, 1000)
        assert lab.of(gang).reason == "Fragmented"
        lab.restart()
        assert measured(lab) == "vgg16:2:1x2=2.00"
        lab.manager.flush()
        assert lab.of(gang).reason == "Fragmented", "it waits anew"
        assert {row.shape: row.runs for row in lab.manager.queries.slowdowns()} == {
            "1x1": ENOUGH,
            "1x2": ENOUGH,
        }
        cancel(lab, other)
        lab.until_ended(gang)
        assert redecide(replay(lab.manager.store)) is None


def test_a_stored_state_has_the_instant_since_when_a_job_is_refused(tmp_path: Path) -> None:
    with lab_of_two_groups(tmp_path) as lab:
        other = show_and_learn(lab)
        gang = train(lab, 1000)
        since = lab.manager.state.refused_since[gang]
        store, now = lab.manager.store, lab.manager.now
        store.compact(now() + 1, state=lab.manager.state)
        story = replay(store)
        assert story.since == store.last_seq, "it begins here"
        assert story.state.refused_since[gang] == since
        cancel(lab, other)
        lab.until_ended(gang)
        assert redecide(replay(store)) is None


def test_a_gang_that_does_not_suffer_does_not_wait(tmp_path: Path) -> None:
    with lab_of_two_groups(tmp_path) as lab:
        show_the_difference(lab, slow=950)
        assert measured(lab) == "", "less than a tenth more than predicted: nothing to correct"
        assert lab.manager.feedback.speeds.slowdowns()[ACROSS] == pytest.approx(1.0526, abs=1e-3)
        [end] = lab.until_ended(train(lab, 950))
        assert end.phase == "SUCCEEDED"


def test_jobs_without_a_model_or_steps_and_single_gpus_show_nothing(tmp_path: Path) -> None:
    with lab_of_two_groups(tmp_path) as lab:
        jobs = [train(lab, 1000, model=""), train(lab, 1000, gpus=1), train(lab, 5)]
        lab.until_ended(*jobs)
        assert lab.manager.queries.slowdowns() == []


def test_options_that_a_person_gives_the_placer_leave_what_was_learned(tmp_path: Path) -> None:
    with lab_of_two_groups(tmp_path) as lab:
        for blocker in show_the_difference(lab):
            cancel(lab, blocker)
        lab.until(lambda: measured(lab))
        lab.manager.requests.set_policy(ADMIN, "fifo-skip", {}, "profile", {"floor_s": "5"})
        told = lab.manager.queries.policy()
        assert told["placer_options"] == {"floor_s": "5"}
        assert told["placer_learned"] == {MEASURED: "vgg16:2:1x2=2.00"}
        lab.manager.requests.set_policy(ADMIN, "fifo-skip", {}, "packed", {})
        assert lab.manager.queries.policy()["placer_learned"] == {}
        lab.manager.requests.set_policy(ADMIN, "fifo-skip", {}, "profile", {MEASURED: "vgg16:2:1x2=1.00"})
        assert measured(lab) == "vgg16:2:1x2=1.00", "who says so himself is believed"
        lab.until_ended(train(lab, 1000))
        lab.turn()
        assert measured(lab) == "vgg16:2:1x2=1.00"
        assert redecide(replay(lab.manager.store)) is None


def test_a_correction_that_cannot_be_stored_is_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lab_of_two_groups(tmp_path) as lab:
        commit = lab.manager.store.commit

        def full(controller, batch):  # type: ignore[no-untyped-def]
            if batch.chosen is not None:
                raise StoreError("disk full")
            return commit(controller, batch)

        monkeypatch.setattr(lab.manager.store, "commit", full)
        with pytest.raises(StoreError):
            show_and_learn(lab)
        assert measured(lab) == ""
        monkeypatch.undo()
        lab.until(lambda: measured(lab))
        assert lab.manager.feedback.speeds.slowdowns()[ACROSS] == 2.0


def test_the_policy_forgets_nothing_when_the_placer_changes(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        lab.until_ended(lab.submit("true"))
        memory = lab.manager.state.memory
        lab.manager.requests.set_policy(ADMIN, "tiresias-l", {}, "packed", {})
        assert lab.manager.state.memory is memory
        lab.until_ended(lab.submit("true"))
        assert redecide(replay(lab.manager.store)) is None


def test_speeds_are_bounded_and_medians() -> None:
    speeds = Speeds()
    for nth in range(MOST + 50):
        speeds.add(GangShape("m", nth + 1, "1x1"), 1.0)
    assert len(speeds.save()) == MOST
    near, far = GangShape("m", 4, "1x1"), GangShape("m", 4, "2x1")
    for value in (*range(1, 100), 1_000_000):
        speeds.add(near, float(value))
    for value in (10.0, 10.0, 0.001):
        speeds.add(far, value)
    assert speeds.slowdowns() == {far: 96 / 10}, "the median of the latest"
    again = Speeds(speeds.save())  # type: ignore[arg-type]
    assert again.slowdowns() == speeds.slowdowns()
    assert max(len(each[3]) for each in again.save()) == KEPT


def test_which_reports_tell_a_speed() -> None:
    assert steps_per_s((100.0, 0), (200.0, 1000), 30.0) == 10.0
    for first, last in (
        ((100.0, None), (200.0, 1000)),
        ((100.0, 0), (120.0, 1000)),
        ((100.0, 0), (200.0, 3)),
        ((200.0, 0), (100.0, 50)),
    ):
        assert steps_per_s(first, last, 30.0) is None


def test_only_what_tells_something_corrects() -> None:
    assert corrected({}, {ACROSS: 1.5}, {ACROSS: 1.45}) == {}
    assert corrected({}, {ACROSS: 1.5}, {ACROSS: 1.0}) == {ACROSS: 1.5}
    assert corrected({ACROSS: 1.5}, {ACROSS: 1.6}, {}) == {ACROSS: 1.5}
    assert corrected({ACROSS: 1.5}, {ACROSS: 1.7}, {}) == {ACROSS: 1.7}
    assert corrected({ACROSS: 1.5}, {}, {}) == {}, "long forgotten"
