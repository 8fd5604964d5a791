"""Time: the manager's own elapses, the wall clock may be set, and no run is charged for that."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from tiresias.core.model import JobId
from tiresias.executors.local import LocalExecutor
from tiresias.live.clock import ANCHOR, Clock, elapsed_s
from tiresias.live.start import open_manager
from tiresias.store import StoreError
from tiresias.testing.live import ADMIN, LiveLab

DAY_S = 86_400.0
MONTH_S = 30 * DAY_S


class Wall:
    """Both clocks of a machine, with a wall clock that an administrator may set."""

    def __init__(self, lab: LiveLab):
        self.lab, self.offset_s, self.waited_s = lab, 0.0, 0.0
        self.use()

    def use(self) -> None:
        """Let the present manager of the lab read these clocks."""
        clock = self.lab.manager.journal.clock
        real_wall, real_steady = clock._wall, clock._steady
        clock._wall = lambda: real_wall() + self.offset_s + self.waited_s
        clock._steady = lambda: real_steady() + self.waited_s

    def set_by(self, seconds: float) -> None:
        self.offset_s += seconds

    def wait(self, seconds: float) -> None:
        self.waited_s += seconds


def why(lab: LiveLab, job: JobId) -> str:
    return lab.manager.queries.why(ADMIN, job).code


# --- a clock that is set while the manager runs --------------------------------------------------------


def test_a_clock_that_jumps_ahead_and_back_stops_no_run_with_a_time_limit(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        wall = Wall(lab)
        job = lab.submit("sleep 600", time_limit_s=DAY_S)
        lab.until_running(job)
        before = lab.manager.now()
        wall.set_by(MONTH_S)
        lab.turn()
        wall.set_by(-MONTH_S)
        lab.turn()
        assert lab.of(job).phase == "RUNNING"
        assert lab.manager.now() - before < DAY_S
        assert lab.of(job).service_gpu_s < DAY_S
        wall.wait(DAY_S)
        assert lab.until_ended(job)[0].reason == "TimeLimit"


def test_a_job_that_has_not_started_waits_again_when_the_clock_comes_back(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        wall = Wall(lab)
        first = lab.submit("sleep 600", preemptible=False)
        lab.until_running(first)
        second = lab.submit("sleep 600", begin_at=lab.manager.journal.wall() + DAY_S)
        assert why(lab, second) == "BeginTime"
        wall.set_by(MONTH_S)
        lab.turn()
        assert why(lab, second) == "BehindHigherRank"
        wall.set_by(-MONTH_S)
        lab.manager.requests.cancel(ADMIN, first)  # its GPU must not be given to the second job
        lab.until_ended(first)
        assert why(lab, second) == "BeginTime"
        assert lab.of(second).runs == 0
        wall.wait(DAY_S)
        lab.until_running(second)


def test_a_job_that_has_started_has_begun_whatever_the_clock_says(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        wall = Wall(lab)
        job = lab.submit("sleep 600", begin_at=lab.manager.journal.wall() + DAY_S)
        wall.set_by(MONTH_S)
        lab.until_running(job)
        wall.set_by(-MONTH_S)
        lab.manager.requests.requeue(ADMIN, job)
        lab.until(lambda: lab.of(job).runs == 2)


def test_the_wall_clock_is_looked_at_again_while_a_job_waits_for_its_begin_time(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        lab.manager.flush()
        lab.submit("true", begin_at=lab.manager.journal.wall() + MONTH_S)
        assert lab.manager.next_due_at - lab.manager.now() <= 10.0


def test_status_and_log_report_a_clock_that_was_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="tiresias")
    with LiveLab(tmp_path, gpus=1) as lab:
        wall = Wall(lab)
        assert lab.manager.queries.status().clock_problem == ""
        wall.set_by(MONTH_S)
        lab.turn()
        problem = lab.manager.queries.status().clock_problem
        assert problem.startswith("the wall clock is 30.0 days ahead of the manager's time; begin times")
        assert caplog.messages == [problem]
        wall.set_by(-MONTH_S)
        lab.turn()
        assert lab.manager.queries.status().clock_problem == ""
        assert caplog.messages[1:] == ["the wall clock is right again"]


# --- a clock that is set across a restart --------------------------------------------------------------


def set_across_restart(lab: LiveLab, monkeypatch: pytest.MonkeyPatch, by_s: float) -> None:
    """End the manager, set the wall clock, and start the next one."""
    lab.close()
    real = Clock.__init__

    def init(self: Clock, *args: object, **kwargs: object) -> None:
        real(self, *args, **kwargs)  # type: ignore[arg-type]
        wall = self._wall
        self._wall = lambda: wall() + by_s

    monkeypatch.setattr(Clock, "__init__", init)
    lab.manager = open_manager(lab.home, lab.options)


@pytest.mark.parametrize("by_s", [MONTH_S, -MONTH_S])
def test_a_clock_that_is_set_across_a_restart_is_charged_to_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_s: float
) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit("sleep 600", time_limit_s=DAY_S)
        lab.until_running(job)
        set_across_restart(lab, monkeypatch, by_s)
        for _ in range(3):
            lab.turn()
        assert lab.of(job).phase == "RUNNING"
        assert 0.0 < lab.of(job).service_gpu_s < DAY_S
        assert "30.0 days" in lab.manager.queries.status().clock_problem


def test_a_run_that_has_not_begun_when_its_manager_was_killed_is_not_charged_for_the_downtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        monkeypatch.setattr(lab.manager.dispatcher, "carry_out", lambda: None)  # killed after the commit
        job = lab.submit("sleep 600", time_limit_s=DAY_S)
        lab.manager.flush()
        assert lab.of(job).runs == 1
        lab.close()
        real = Clock.__init__

        def init(self: Clock, *args: object, **kwargs: object) -> None:
            real(self, *args, **kwargs)  # type: ignore[arg-type]
            wall, steady = self._wall, self._steady
            self._wall, self._steady = (lambda: wall() + MONTH_S), (lambda: steady() + MONTH_S)

        monkeypatch.setattr(Clock, "__init__", init)
        lab.manager = open_manager(lab.home, lab.options)
        lab.until_running(job)
        assert lab.of(job).runs == 2, "another run, granted now"
        assert lab.of(job).service_gpu_s < DAY_S


def test_a_run_that_was_granted_while_the_disk_was_full_is_not_charged_for_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        wall = Wall(lab)

        def full(*_: object) -> None:
            raise StoreError("cannot commit: the disk is full")

        with monkeypatch.context() as while_full:
            while_full.setattr(lab.manager.journal.store, "commit", full)
            with pytest.raises(StoreError):
                lab.submit("sleep 600", time_limit_s=DAY_S)
            wall.wait(MONTH_S)
        job = JobId(1)
        lab.until_running(job)
        assert lab.of(job).runs == 2, "another run, granted now"
        assert lab.of(job).service_gpu_s < DAY_S
        assert not (lab.home / "jobs" / str(job) / "runs" / "1").exists(), "the first one has never begun"


def test_a_run_of_the_manager_before_is_not_taken_for_unstarted_because_the_disk_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit("sleep 600")  # its supervisor is started, and the manager is killed before it is up

        def fails(*_: object) -> None:
            raise OSError(errno.EMFILE, "no descriptor is left")

        def full(*_: object) -> None:
            raise StoreError("cannot commit: the disk is full")

        with monkeypatch.context() as for_a_while:
            for_a_while.setattr(LocalExecutor, "_resume", fails)
            lab.restart()
            wall = Wall(lab)
            for_a_while.setattr(lab.manager.journal.store, "commit", full)
            with pytest.raises(StoreError):
                lab.submit("true")
            wall.wait(60.0)
        lab.until_running(job)
        assert lab.of(job).runs == 1, "the run goes on"


def test_without_runs_a_start_takes_the_time_from_the_wall_clock_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        lab.manager.flush()
        before = lab.manager.now()
        set_across_restart(lab, monkeypatch, MONTH_S)
        assert lab.manager.now() - before >= MONTH_S
        problem = lab.manager.queries.status().clock_problem
        assert problem.startswith("the wall clock was set forwards by 30.0 days between"), problem


class Machine:
    """The clocks of a machine that can be booted."""

    def __init__(self) -> None:
        self.true_at, self.booted_at, self.offset_s, self.boot = 1000.0, 0.0, 0.0, "one"

    def start(self, stored: object = None, last_at: float = 0.0, **runs: object) -> Clock:
        clock = Clock(
            wall=lambda: self.true_at + self.offset_s,
            steady=lambda: self.true_at - self.booted_at,
            boot_id=self.boot,
        )
        clock.resume(stored, last_at, **runs)  # type: ignore[arg-type]
        return clock

    def reboot(self) -> None:
        self.boot += "+"
        self.booted_at = self.true_at


def test_time_never_goes_back_before_what_is_stored() -> None:
    machine = Machine()
    clock = machine.start(last_at=5000.0)
    assert clock.now() == 5000.0
    machine.true_at += 10
    assert clock.now() == 5010.0


def test_a_boot_ends_the_runs_before_it_at_the_last_stored_instant() -> None:
    machine = Machine()
    first = machine.start()
    machine.true_at += 50
    machine.reboot()
    machine.offset_s = MONTH_S
    second = machine.start(first.stored(), 1040.0, open_runs=[7], next_run_id=8)
    assert second.now() == 1050.0 + MONTH_S, "nothing is alive, so the wall clock counts"
    assert second.last_before_boot(7) == 1040.0
    assert second.last_before_boot(8) is None, "it is granted after the boot"
    assert second.instant_of("one", 1030.0) == 1030.0, "an exit record of the boot before is understood"
    machine.true_at += 5
    machine.reboot()
    third = machine.start(second.stored(), 1041.0, open_runs=[7], next_run_id=9)
    assert third.last_before_boot(7) == 1040.0, "also after the next boot"
    assert third.last_before_boot(8) == 1041.0
    fourth = machine.start(third.stored(), 1042.0, open_runs=[], next_run_id=9)
    assert fourth.stored()["boots"] == [], "forgotten once the exits of these runs are stored"


def test_the_anchor_is_durable_before_anything_is_started(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit("sleep 600")
        lab.until_running(job)
        assert lab.manager.store.setting(ANCHOR, None) == lab.manager.journal.clock.stored()


def test_suspended_time_counts_where_the_system_counts_it() -> None:
    import time

    assert abs(elapsed_s() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60
