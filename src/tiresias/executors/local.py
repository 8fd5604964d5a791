"""Runs on this machine: one supervisor process a run, found again by what it wrote in the run's directory.

The executor itself keeps nothing on disk. A supervisor that ends makes its pidfd readable; one whose
workers are up writes a byte into a named pipe. Both are in one epoll set, whose descriptor is `fileno`.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import Any
from zlib import crc32

from tiresias.core.model import RunId
from tiresias.executors import procfs, records
from tiresias.executors.base import Adopted, Report, RunGone, RunSpec, RunUp
from tiresias.executors.gpus import Driver, GpuProcesses
from tiresias.executors.launchers import launchers
from tiresias.executors.outcome import gone
from tiresias.executors.ports import free_port
from tiresias.executors.process import command_line, spawn_supervisor

MASTER_ADDR = "127.0.0.1"
LINGER_S = 2.0  # what the workers leave behind gets this long to end by itself
HAND_ON_S = 10.0  # so long we wait for the driver to let go of a GPU whose processes are gone
LOOK_AGAIN_S = 0.1


@dataclass(slots=True)
class _Run:
    spec: RunSpec
    pidfd: int = -1  # of its supervisor, while there is one to wait for
    pid: int = 0
    child: bool = False  # ours to wait for
    port: int = 0
    is_up: bool = False
    stops: bool = False
    gone: RunGone | None = None
    hand_on_by: float = 0.0

    @property
    def dir(self) -> str:
        return str(self.spec.run_dir)


class LocalExecutor:
    """`root` is this executor's own directory. See `base.Executor` for the contract."""

    def __init__(self, root: Path, *, driver: Driver | None = None, linger_s: float = LINGER_S):
        self._gpus = None if driver is None else GpuProcesses(driver, self.owns)
        self._linger_s = linger_s
        self._runs: dict[RunId, _Run] = {}
        self._by_pidfd: dict[int, _Run] = {}
        self._starting: dict[RunId, _Run] = {}  # not known to be up
        self._unswept: dict[RunId, _Run] = {}  # lost, and no process to be had to end the rest of it
        self._settling: dict[RunId, _Run] = {}  # over, but the driver has not let go of a GPU
        self._reports: list[Report] = []
        self._timer: Timer | None = None
        root.mkdir(parents=True, exist_ok=True)
        self._news_path = root / "news"
        if not self._news_path.is_fifo():
            self._news_path.unlink(missing_ok=True)
            os.mkfifo(self._news_path, 0o600)
        # Open for writing too, so that it never ends however many supervisors come and go.
        self._news = os.open(self._news_path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._news, select.EPOLLIN)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        for pidfd in self._by_pidfd:
            os.close(pidfd)
        self._epoll.close()
        os.close(self._news)

    # --- commands --------------------------------------------------------------------------------------

    def start(self, spec: RunSpec) -> None:
        run = self._runs.get(spec.run_id)
        if run is not None and (run.gone is not None or run.pidfd >= 0):
            return
        run = self._runs[spec.run_id] = _Run(spec)
        if not self._look(run):
            self._begin(run)

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        run = self._runs.get(run_id)
        if run is None or run.gone is not None:
            return
        run.stops = True
        grace_s = run.spec.grace_s if grace_s is None else grace_s
        with suppress(OSError):  # on a full disk the run's own grace counts
            run.spec.run_dir.mkdir(parents=True, exist_ok=True, mode=0o711)
            wish = records.read(run.dir, records.STOP) or {}
            grace_s = min(grace_s, wish.get("grace_s", grace_s))  # the last wish may not have been read yet
            records.put(run.dir, records.STOP, {"grace_s": grace_s})
        if run.pidfd >= 0:
            self._tell(run)
        else:
            self._void(run, "", stopped=True)

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        adopted = Adopted()
        for spec in expected:
            run = self._runs.setdefault(spec.run_id, _Run(spec))
            if run.gone is None and run.pidfd < 0:
                self._look(run)
            kind = adopted.gone if run.gone else adopted.running if run.pidfd >= 0 else adopted.absent
            kind.append(spec.run_id)
        return adopted

    def forget(self, run_id: RunId) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            self._unwatch(run)
            self._starting.pop(run_id, None)
            self._settling.pop(run_id, None)
            self._unswept.pop(run_id, None)

    def poll(self) -> list[Report]:
        for fd, _ in self._epoll.poll(0):
            if fd == self._news:
                self._drain()
            elif fd in self._by_pidfd:
                self._supervisor_ended(self._by_pidfd[fd])
        for run in list(self._starting.values()):
            self._check_up(run)
        for run in [self._unswept.pop(id) for id in list(self._unswept)]:
            self._look(run)
        for run in list(self._settling.values()):
            self._settle(run)
        reports, self._reports = self._reports, []
        return reports

    # --- GPUs ------------------------------------------------------------------------------------------

    def owns(self, pid: int) -> bool:
        """Whether this process belongs to one of our runs: by descent, or by its environment."""
        supervisors = {run.pid for run in self._by_pidfd.values()}
        above: int | None = pid
        while above and above not in supervisors:
            process = procfs.look(above)
            above = process.parent if process is not None else None
        return bool(above) or any(procfs.carries(pid, _marks(run.spec)) for run in self._runs.values())

    def foreign(self, uuids: Iterable[str]) -> dict[str, list[int]]:
        """Those of the GPUs that processes other than our runs' use, and their pids."""
        return {} if self._gpus is None else self._gpus.foreign(uuids)

    # --- what a run's directory says -------------------------------------------------------------------

    def _look(self, run: _Run) -> bool:
        """Take over what there is of the run; False if it has never begun."""
        if self._is_over(run):
            return True
        claim = records.read(run.dir, records.CLAIM)
        if claim is None:
            return False
        run.port = claim.get("port", 0)
        if claim.get("boot_id") != procfs.boot_id():
            self._sweep(run, "the machine was restarted during the run")
            return True
        pid, start = claim["pid"], claim["start"]
        pidfd = procfs.open_pidfd(pid, start) if pid else None
        if pidfd is not None:
            self._watch(run, pid, pidfd)
        elif not self._is_over(run):  # it may have ended between the two looks
            killed = f"the run's supervisor (pid {pid}) was killed; what it supervised was ended"
            self._sweep(run, killed if pid else "the manager was killed as it gave up starting the run")
        return True

    def _is_over(self, run: _Run) -> bool:
        record = records.read(run.dir, records.EXIT)
        if record is None:
            return False
        self._check_up(run)
        self._finish(run, gone(run.spec, record))
        return True

    def _begin(self, run: _Run) -> None:
        try:
            launcher = launchers.get(run.spec.launcher)()
            spec = run.spec = replace(run.spec, workers=launcher.workers(run.spec))
            self._prepare(spec)
            run.port = free_port({each.port for each in self._runs.values()}, seed=crc32(run.dir.encode()))
            workers = [
                {
                    "argv": list(launcher.command(spec, index)),
                    "env": launcher.environment(spec, index, MASTER_ADDR, run.port),
                    "log": str(spec.log(index)),
                }
                for index in range(spec.workers)
            ]
            self._spawn(run, {"workers": workers, "sweeps": False})
        except (OSError, ValueError) as error:
            self._void(run, str(error))

    def _prepare(self, spec: RunSpec) -> None:
        if not spec.command:
            raise ValueError("the command is empty; give a program after --")
        spec.run_dir.mkdir(parents=True, exist_ok=True, mode=0o711)
        spec.job_dir.mkdir(exist_ok=True, mode=0o700)
        who = spec.identity
        if who is None:
            return
        if os.geteuid() == 0:
            os.chown(spec.job_dir, who.uid, who.gid)
        elif who.uid != os.geteuid():
            us = os.geteuid()
            raise ValueError(f"cannot run as {who.user} (uid {who.uid}): the manager is uid {us}, not root")

    def _spawn(self, run: _Run, plan: dict[str, Any]) -> None:
        spec, who = run.spec, run.spec.identity
        root = os.geteuid() == 0
        pid = spawn_supervisor(
            run.dir,
            {
                "run_id": int(spec.run_id),
                "run_dir": run.dir,
                "marks": _marks(spec),
                "command_line": command_line(run.dir),
                "cwd": spec.cwd,
                "credentials": (who.uid, who.gid, who.groups) if who is not None and root else None,
                "grace_s": spec.grace_s,
                "linger_s": self._linger_s,
                "news": str(self._news_path),
                "port": run.port,
            }
            | plan,
        )
        self._watch(run, pid, os.pidfd_open(pid), child=True)

    def _sweep(self, run: _Run, error: str) -> None:
        """The supervisor is gone and left no exit: another one ends what is left and records that."""
        try:
            self._spawn(run, {"sweeps": True, "error": error})
        except OSError:
            self._unswept[run.spec.run_id] = run  # cannot fork now: looked at again before long
            self._look_again()

    def _void(self, run: _Run, error: str, *, stopped: bool = False) -> None:
        """See to it that a run that has not begun never will, and record that as its exit."""
        record = {"run_id": int(run.spec.run_id), "error": error, "stopped": stopped}
        try:
            run.spec.run_dir.mkdir(parents=True, exist_ok=True)
            if not records.claim(run.dir, boot=procfs.boot_id(), pid=0, start=0):
                self._look(run)  # somebody was about to start it
                return
            records.record_exit(run.dir, record)
        except OSError as problem:
            record["error"] = error or f"cannot write in {run.dir}: {problem.strerror}"
        self._finish(run, gone(run.spec, record))

    # --- supervisors -----------------------------------------------------------------------------------

    def _watch(self, run: _Run, pid: int, pidfd: int, *, child: bool = False) -> None:
        run.pid, run.pidfd, run.child = pid, pidfd, child
        self._by_pidfd[pidfd] = run
        self._epoll.register(pidfd, select.EPOLLIN)
        if not run.is_up:
            self._starting[run.spec.run_id] = run
            self._nudge()
        if run.stops:
            self._tell(run)

    def _unwatch(self, run: _Run) -> None:
        if run.pidfd >= 0:
            self._epoll.unregister(run.pidfd)
            del self._by_pidfd[run.pidfd]
            os.close(run.pidfd)
            run.pidfd = -1

    def _tell(self, run: _Run) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            signal.pidfd_send_signal(run.pidfd, signal.SIGTERM)

    def _supervisor_ended(self, run: _Run) -> None:
        status = 0
        if run.child:
            with suppress(ChildProcessError):  # somebody else waits for all children of this process
                _, status = os.waitpid(run.pid, os.WNOHANG)
        self._unwatch(run)
        if not self._look(run):
            code = os.waitstatus_to_exitcode(status)
            why = os.strerror(code).lower() if code > 0 else f"ended by signal {-code}"
            self._void(run, f"the run's supervisor could not begin in {run.dir}: {why}")

    def _check_up(self, run: _Run) -> None:
        if run.is_up or run.gone is not None:
            return
        if records.exists(run.dir, records.UP):
            run.is_up = True
            self._starting.pop(run.spec.run_id, None)
            self._reports.append(RunUp(run.spec.run_id))

    # --- the end ---------------------------------------------------------------------------------------

    def _finish(self, run: _Run, report: RunGone) -> None:
        run.gone = report
        run.hand_on_by = monotonic() + HAND_ON_S
        self._starting.pop(run.spec.run_id, None)
        self._settle(run)

    def _settle(self, run: _Run) -> None:
        """Report the end once the driver shows the run's GPUs empty."""
        assert run.gone is not None
        uuids = [slot.uuid for slot in run.spec.slots if slot.uuid]
        busy = self._gpus.in_use(uuids) if self._gpus is not None and uuids else ()
        if busy and monotonic() < run.hand_on_by:
            self._settling[run.spec.run_id] = run
            self._look_again()
            return
        self._settling.pop(run.spec.run_id, None)
        self._reports.append(replace(run.gone, busy_gpus=busy))
        self._nudge()

    def _look_again(self) -> None:
        """Wake up before long, only while there is something that makes no noise when it changes."""
        if self._timer is None or not self._timer.is_alive():
            self._timer = Timer(LOOK_AGAIN_S, self._nudge)
            self._timer.daemon = True
            self._timer.start()

    def _nudge(self) -> None:
        with suppress(BlockingIOError):  # full: it is readable anyway
            os.write(self._news, b"n")

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while len(os.read(self._news, 65536)) == 65536:
                pass


def _marks(spec: RunSpec) -> list[bytes]:
    """What the environment of the run's processes says. The directory tells managers on one machine apart."""
    return [b"TIRESIAS_RUN_ID=%d" % spec.run_id, b"TIRESIAS_RUN_DIR=" + os.fsencode(spec.job_dir)]
