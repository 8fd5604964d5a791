"""What must not go wrong when something else does: disks, GPUs that are gone, restarts, odd requests."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any

import pytest

from tiresias.core.model import JobId, Phase, Pool, RunId
from tiresias.core.state import JobState, Run
from tiresias.executors import run_files
from tiresias.executors.base import RunGone
from tiresias.executors.gpus import Driver, Gpu
from tiresias.executors.topology import Topology
from tiresias.live import housekeeping
from tiresias.live.clock import Clock
from tiresias.live.errors import Conflict, Invalid
from tiresias.live.manager import Manager
from tiresias.live.repeated_failures import MOST_REMEMBERED
from tiresias.live.runs import ended_before
from tiresias.live.start import Options, open_manager
from tiresias.live.submission import Caller, Submission
from tiresias.store import Compacted, Store, StoreError, redecide, replay
from tiresias.testing.builders import a_job
from tiresias.testing.executors import processes_of, until
from tiresias.testing.live import ADMIN, LiveLab


def test_a_start_whose_submission_cannot_be_read_now_is_made_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        jobs = lab.manager.requests.submit(ADMIN, [Submission(("/bin/true",), str(tmp_path))] * 2)

        def broken(store: Store, id: int) -> None:
            raise StoreError("disk I/O error")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "submission", broken)
            with pytest.raises(StoreError):
                lab.manager.flush()
            assert lab.manager.queries.status().problem == "disk I/O error"
        ends = lab.until_ended(*jobs)
        assert [end.phase for end in ends] == ["SUCCEEDED", "SUCCEEDED"]
        assert lab.manager.queries.status().is_ready


@pytest.mark.parametrize("name", ["..", ".", "../jobs", "x/../..", "x/", "../../project"])
def test_a_snapshot_that_is_none_takes_nothing_with_it(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    (tmp_path / "project").mkdir()
    with LiveLab(home, gpus=1) as lab:
        (home / "snapshots" / "x").mkdir(parents=True)
        before = set(threading.enumerate())
        job = lab.submit("true", snapshot=f"{home}/snapshots/{name}")
        lab.until_ended(job)
        lab.turn()
        for removal in set(threading.enumerate()) - before:
            removal.join()
        assert (home / "journal.db").exists()
        assert (home / "jobs" / str(job)).is_dir()
        assert (home / "snapshots" / "x").is_dir()
        assert (tmp_path / "project").is_dir()


def test_a_snapshot_goes_with_the_last_job_that_runs_in_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with LiveLab(home, gpus=1) as lab:
        snapshot = home / "snapshots" / "s1"
        snapshot.mkdir(parents=True)
        first, last = (lab.submit("true", cwd=str(snapshot), snapshot=str(snapshot)) for _ in range(2))
        lab.manager.requests.hold(ADMIN, last)
        lab.until_ended(first)
        lab.turn()
        assert snapshot.is_dir(), "the other job needs it"
        lab.restart()
        lab.manager.requests.release(ADMIN, last)
        lab.until_ended(last)
        lab.until(lambda: not snapshot.exists())


def test_more_fake_gpus_stay_the_same_ones_over_restarts(tmp_path: Path) -> None:
    lab = LiveLab(tmp_path, gpus=2)
    try:
        seen = []
        for count in (4, 4, 2, 4):
            lab.options.fake_gpus = count
            lab.restart()
            lab.manager.flush()
            seen.append([[slot.state for slot in node.slots] for node in lab.manager.queries.nodes.all()])
        free, gone = ["free", "free"], ["out", "out"]
        assert seen == [[free, free], [free, free], [free, gone], [free, free]]
    finally:
        lab.close()


def test_a_slot_without_a_gpu_is_not_given_back(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        slot = lab.manager.queries.nodes.all()[0].slots[1].name
        lab.manager.requests.drain(ADMIN, slot, "to be repaired")
        lab.manager.flush()
        lab.options.fake_gpus = 1
        lab.restart()
        with pytest.raises(Conflict, match=f"{slot} has no GPU"):
            lab.manager.requests.undrain(ADMIN, slot)
        assert lab.manager.queries.status().free_slots == 1


class Cards(Driver):
    """Two GPUs, of which some may be ill, cannot be reached, or are gone."""

    def __init__(self) -> None:
        self.ill: dict[int, str] = {}
        self.mute: set[int] = set()
        self.gone: set[int] = set()

    def gpus(self) -> list[Gpu]:
        return [self._gpu(index) for index in range(2) if index not in self.gone]

    def _gpu(self, index: int) -> Gpu:
        if index in self.mute:
            return Gpu(index, "", "unknown", 0, "the driver cannot reach it")
        return Gpu(index, f"GPU-{index}", "a card", 2**30, self.ill.get(index, ""))

    def processes(self, uuid: str) -> list[int]:
        return []


class Neighbours(Cards):
    """Four GPUs, two and two."""

    groups: tuple[tuple[int, ...], ...] = ((0, 1), (2, 3))

    def gpus(self) -> list[Gpu]:
        return [self._gpu(index) for index in range(4) if index not in self.gone]

    def topology(self) -> Topology:
        return Topology(self.groups, "NVLink", 300.0, 24.0)


@contextmanager
def opened(home: Path, cards: Cards) -> Iterator[Manager]:
    options = Options(settings={"backoff_s": 0.2, "gpu_check_s": 0.0})
    manager = open_manager(home, options, driver=cards)
    try:
        manager.flush()
        yield manager
    finally:
        manager.executor.close()
        manager.store.close()


def states(manager: Manager) -> list[list[str]]:
    return [[slot.state for slot in node.slots] for node in manager.queries.nodes.all()]


def test_a_gpu_that_was_ill_at_the_start_serves_again_when_it_is_well(tmp_path: Path) -> None:
    cards = Cards()
    cards.ill[1] = "memory rows wait to be remapped"
    with opened(tmp_path, cards) as manager:
        assert states(manager) == [["free", "out"]]
        assert "memory rows" in manager.queries.nodes.all()[0].slots[1].reason
        cards.ill.clear()
        manager.tick()
        assert states(manager) == [["free", "free"]]


def test_a_gpu_that_falls_off_the_bus_is_not_handed_out(tmp_path: Path) -> None:
    cards = Cards()
    with opened(tmp_path, cards) as manager:
        cards.mute.add(0)
        manager.tick()
        assert states(manager) == [["out", "free"]]
        cards.mute.clear()
        cards.gone.add(1)
        manager.tick()
        assert states(manager) == [["free", "out"]]
        assert "does not show it any more" in manager.queries.nodes.all()[0].slots[1].reason


def test_a_gpu_that_cannot_be_reached_for_a_while_is_the_same_one_later(tmp_path: Path) -> None:
    cards = Cards()
    for mute, wanted in (((), "free"), ((1,), "out"), ((), "free")):
        cards.mute = set(mute)
        with opened(tmp_path, cards) as manager:
            manager.tick()
            manager.flush()
            assert states(manager) == [["free", wanted]]


def test_a_gpu_that_could_not_be_reached_at_first_finds_its_slot(tmp_path: Path) -> None:
    cards = Cards()
    cards.mute.add(0)
    with opened(tmp_path, cards) as manager:
        manager.tick()
        assert states(manager) == [["out", "free"]]
        manager.flush()
    cards.mute.clear()
    with opened(tmp_path, cards) as manager:
        assert states(manager) == [["free", "free"]]
        assert [gpu.uuid for gpu in manager.requests.machine.gpus.values()] == ["GPU-1", "GPU-0"]


def test_nothing_starts_on_a_gpu_that_is_gone_when_a_manager_starts(tmp_path: Path) -> None:
    cards = Cards()
    with opened(tmp_path, cards) as manager:
        asked = Submission(("/bin/sh", "-c", "exit 3"), str(tmp_path), gpus=1)
        [job] = manager.requests.submit(ADMIN, [asked])
        manager.flush()
        until(lambda: _turned(manager) and manager.state.jobs[job].deferred, "it is to be tried again")
        again_at = manager.state.jobs[job].deferred_until
    cards.gone.add(0)
    until(lambda: time() > again_at, "its pause is over")
    with opened(tmp_path, cards) as manager:
        assert states(manager) == [["out", "busy"]]
        manager.requests.cancel(ADMIN, job)
        until(lambda: _turned(manager) and not manager.state.runs, "nothing is left behind")


def _turned(manager: Manager) -> bool:
    manager.poll()
    manager.tick()
    manager.flush()
    return True


def test_a_journal_whose_policy_is_not_there_is_refused_in_words(tmp_path: Path) -> None:
    lab = LiveLab(tmp_path)
    lab.manager.store._write.execute("UPDATE policy SET name = 'mine'")
    lab.close()
    with pytest.raises(Invalid, match=r"journal.db: no policy 'mine'.*start the manager with what"):
        open_manager(tmp_path, lab.options)
    Store.open(tmp_path / "journal.db").close()  # it is not locked any more


@pytest.mark.parametrize("gpus", [0, 1025])
def test_a_number_of_fake_gpus_that_makes_no_sense_is_refused(tmp_path: Path, gpus: int) -> None:
    with pytest.raises(Invalid, match=f"--fake-gpus {gpus}: give a number from 1 to 1024"):
        open_manager(tmp_path, Options(fake_gpus=gpus))


def test_a_setting_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="the setting backoff_s is 'long'; give a number"):
        open_manager(tmp_path, Options(fake_gpus=1, settings={"backoff_s": "long"}))  # type: ignore[dict-item]


def test_of_commands_that_fail_only_so_many_are_remembered(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        kept = {"reason": "CodeError", "sentence": "so", "is_deterministic": True}
        for n in range(MOST_REMEMBERED + 50):
            lab.manager.failures.remember(JobId(n), Phase.FAILED, kept | {"fingerprint": str(n)})
        assert len(lab.manager.failures) == MOST_REMEMBERED
        assert "0" not in lab.manager.failures
        assert str(MOST_REMEMBERED + 49) in lab.manager.failures


def test_a_journal_catches_up_with_what_is_to_leave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "FACTS_PER_BITE", 3)
    monkeypatch.setattr(housekeeping, "BITE_EVERY_S", 0.0)
    with LiveLab(tmp_path, settings={"keep_facts_s": 0.5}) as lab:
        jobs = [lab.submit("true") for _ in range(5)]
        ends = lab.until_ended(*jobs)
        lab.manager.compaction.compact()  # keeps a State to replay from
        old_at = lab.manager.now() + 1.0
        lab.until(lambda: lab.manager.now() > old_at)
        lab.manager.compaction.next_due_at -= 3600.0  # an hour later
        lab.until(lambda: not any(lab.manager.store.facts_of_job(job) for job in jobs))
        assert [lab.of(job) for job in jobs] == ends, "their history stays"


def test_only_so_many_facts_leave_the_journal_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else can be committed meanwhile."""
    gone: list[int] = []
    compact = Store.compact

    def counted(store: Store, *args: Any, **options: Any) -> Compacted:
        done = compact(store, *args, **options)
        gone.append(done.facts)
        return done

    monkeypatch.setattr(Store, "compact", counted)
    monkeypatch.setattr(housekeeping, "FACTS_PER_BITE", 3)
    with LiveLab(tmp_path, settings={"keep_facts_s": 0.0}) as lab:
        jobs = [lab.submit("true") for _ in range(5)]
        lab.until_ended(*jobs)
        until_later(lab)
        lab.manager.compaction.compact()  # keeps a State to replay from
        until_later(lab)
        while any(lab.manager.store.facts_of_job(job) for job in jobs):
            lab.manager.compaction.compact()
        assert max(gone) == 3
        assert len(gone) > 5


def until_later(lab: LiveLab) -> None:
    """Until the clock of the manager shows another instant than that of the last fact."""
    lab.until(lambda: lab.manager.now() > lab.manager.state.at)


SAVES_SLOWLY = (  # told to stop, it waits for a word; its second run ends by itself
    "import os, signal, sys, time\n"
    "def save(*_):\n"
    "    while not os.path.exists('go'): time.sleep(0.05)\n"
    "    sys.exit(75)\n"
    "signal.signal(signal.SIGTERM, save)\n"
    "print('on', flush=True)\n"
    "if os.environ['TIRESIAS_RESUME'] == '0': time.sleep(600)\n"
)


def test_a_time_limit_that_is_raised_while_the_job_saves_lets_it_go_on(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit(("python", "-c", SAVES_SLOWLY), time_limit_s=3.0, grace_s=60.0)
        lab.until(lambda: lab.output(job) == "on\n")
        lab.until(lambda: lab.of(job).phase == "STOPPING")
        lab.manager.requests.change(ADMIN, job, {"time_limit_s": 600.0})
        (tmp_path / "go").touch()
        [end] = lab.until_ended(job)
        assert (end.phase, end.runs) == ("SUCCEEDED", 2)


LOSS = {"loss": 0.25}
TELLS = "from tiresias import job; job.report(step=1, total_steps=2, loss=0.25)"


def test_what_a_training_measures_is_for_its_owner(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit(("python", "-c", f"{TELLS}; import time; time.sleep(600)"), by=Caller("bob"))
        lab.until(lambda: lab.of(job).progress is not None)
        for _ in range(2):
            for caller, metrics in ((Caller("bob"), LOSS), (ADMIN, LOSS), (Caller("eve"), {})):
                [line] = lab.manager.queries.summaries(caller, ended=True)[0]
                assert line.progress is not None
                assert (line.progress.step, line.progress.metrics) == (1, metrics), caller
            if job in lab.manager.state.jobs:
                lab.manager.requests.cancel(ADMIN, job)
                lab.until_ended(job)


def test_groups_of_gpus_are_known_by_slot_and_told_anew_when_they_differ(tmp_path: Path) -> None:
    cards = Neighbours()
    cards.groups = ()
    with opened(tmp_path, cards) as manager:
        assert manager.queries.nodes.all()[0].groups == []
    cards.groups = ((0, 2), (1, 3))
    with opened(tmp_path, cards) as manager:
        assert manager.queries.nodes.all()[0].groups == [[0, 2], [1, 3]]
        allocation = manager.controller.placer.place(JobState(a_job(1, 2)), manager.state.ledger, 0.0, 0.0)
        assert allocation == ((0, 0b0101),), "two that are near each other"
    cards.gone, cards.groups = {3}, ((0, 2),)
    with opened(tmp_path, cards) as manager:
        assert manager.queries.nodes.all()[0].groups == [[0, 2], [1, 3]], "who is missing comes back"
        assert redecide(replay(manager.store)) is None


def test_groups_count_among_the_gpus_that_were_chosen(tmp_path: Path) -> None:
    manager = open_manager(tmp_path, Options(gpus="1-3"), driver=Neighbours())
    try:
        [node] = manager.queries.nodes.all()
        assert node.groups == [[1, 2]], "GPUs 2 and 3 are slots 1 and 2, GPU 1 is alone"
    finally:
        manager.executor.close()
        manager.store.close()


def as_if_later(lab: LiveLab, seconds: float) -> None:
    """Let more time have elapsed since the runs of this manager ended than really has."""
    clock = lab.manager.journal.clock
    real = clock._steady
    clock._steady = lambda: real() + seconds


def test_a_run_that_ended_while_no_manager_was_there_has_had_no_more_service(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        job = lab.submit(f"sh -c 'until [ -e {tmp_path}/go ]; do sleep 0.02; done'", gpus=2)
        lab.until_running(job)
        lab.close()
        (tmp_path / "go").touch()
        until(lambda: (tmp_path / "executor").exists() and not processes_of(tmp_path))
        lab.manager = open_manager(lab.home, lab.options)
        as_if_later(lab, 10_000)  # so long was it away
        [end] = lab.until_ended(job)
        assert end.phase == "SUCCEEDED"
        assert end.service_gpu_s < 2 * 1000
        assert end.finished_at is not None
        assert end.finished_at - end.submitted_at > 9_000, "that it ended is known only now"
        [run] = lab.manager.queries.runs(ADMIN, job)
        assert run.exited_at is not None
        assert run.exited_at - run.granted_at == pytest.approx(end.service_gpu_s / 2)
        assert redecide(replay(lab.manager.store)) is None


def test_a_clock_that_was_set_back_makes_no_run_end_before_it_began(tmp_path: Path) -> None:
    run = Run(RunId(1), JobId(1), ((0, 1),), Pool.GPUS, granted_at=100.0, progress_s=0.0)
    clock = Clock()
    assert ended_before(run, RunGone(RunId(1), ended_at=50.0), 200.0, clock) == 100.0
    assert ended_before(run, RunGone(RunId(1), ended_at=150.0), 200.0, clock) == 150.0
    assert ended_before(run, RunGone(RunId(1), ended_at=199.5), 200.0, clock) is None, "as usual"
    assert ended_before(run, RunGone(RunId(1), ended_at=300.0), 200.0, clock) is None
    assert ended_before(run, RunGone(RunId(1)), 200.0, clock) is None, "nobody knows"


def test_a_running_job_whose_run_is_nowhere_after_a_restart_runs_again(tmp_path: Path) -> None:
    """For example because the machine lost its disk and the home comes from a backup."""
    once = "if [ -e done ]; then exit 0; fi; touch done; exec sleep 600"
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit(("/bin/sh", "-c", once))
        lab.until_running(job)
        lab.until((tmp_path / "done").exists)
        [claim] = (tmp_path / "jobs").glob("*/**/claim.json")
        supervisor = run_files.read(str(claim.parent), run_files.CLAIM)
        assert supervisor is not None
        lab.close()
        for pid in (supervisor["pid"], *processes_of(tmp_path)):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not processes_of(tmp_path), "all processes of the run have ended")
        shutil.rmtree(claim.parent)
        lab.manager = open_manager(lab.home, lab.options)
        assert lab.of(job).phase == Phase.RUNNING, "what the journal says"
        [end] = lab.until_ended(job)
        assert (end.phase, end.runs) == ("SUCCEEDED", 2)


def test_a_job_whose_runs_are_lost_again_and_again_fails(tmp_path: Path) -> None:
    """Each run kills its own supervisor."""
    settings = {"backoff_s": 0.01, "most_lost_runs": 2}
    with LiveLab(tmp_path, gpus=1, settings=settings) as lab:
        job = lab.submit(("/bin/sh", "-c", "kill -9 $PPID; exec sleep 600"), retries=0)
        lab.until(lambda: job not in lab.manager.state.jobs or lab.of(job).runs > 3)
        assert (lab.of(job).phase, lab.of(job).runs) == ("FAILED", 3)
        assert lab.of(job).reason == "Lost"
