"""The executor for runs on this machine: it starts one supervisor process per run.

The executor itself keeps nothing on disk: after a restart it finds supervisors again by the files that they
wrote in the directories of their runs. When a supervisor ends, its pidfd becomes readable; when its workers
are up, it writes a byte into a named pipe. Both are in one epoll set, whose descriptor is `fileno`.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from tiresias.core.model import JobId, RunId
from tiresias.executors import cgroup_parent, procfs, run_files
from tiresias.executors.base import Adopted, RunGone, RunSpec, RunUp, RunUpdate
from tiresias.executors.cgroup_parent import CgroupParent
from tiresias.executors.cgroups import CGROUP, Cgroup
from tiresias.executors.directories import make, make_passage
from tiresias.executors.exits import run_gone
from tiresias.executors.gpus import Driver, GpuProcesses
from tiresias.executors.kernel import KERNEL
from tiresias.executors.launchers import launchers
from tiresias.executors.marks import Marks
from tiresias.executors.preparation import make_run_dir, prepare
from tiresias.executors.spawn_supervisor import command_line, spawn_supervisor
from tiresias.executors.wake_pipe import WakePipe

if TYPE_CHECKING:
    from tiresias.executors.kernel import Kernel

MASTER_ADDR = "127.0.0.1"
LINGER_S = 2.0  # how long processes that outlive the workers may take to end by themselves
DEFAULT_UMASK = 0o022  # of a submitter whose process is not known, such as one with a token
GPU_RELEASE_S = 10.0  # how long to wait for the driver to release a GPU whose processes have ended


@dataclass(slots=True)
class _Run:
    spec: RunSpec
    pidfd: int = -1  # of its supervisor, while one is watched
    pid: int = 0
    is_child: bool = False  # the supervisor is a child of this process, which must wait for it
    port: int = 0
    is_up: bool = False
    is_stopping: bool = False
    is_killed_at_once: bool = False  # by a signal, because no grace of 0 could be written
    cgroup: str = ""  # its directory; empty if the run has none
    is_swept: bool = False  # its supervisor was killed; another one ends what it left behind
    is_paced: bool = False  # `pace.json` says which turns it has
    knows_turns: bool = False  # this process has signalled its supervisor since that was written last
    may_begin: bool = False  # a supervisor was started, by this process or by one before it
    why: Mapping[str, Any] = field(default_factory=dict)  # in its exit record, if it has not begun
    gone: RunGone | None = None
    release_by: float = 0.0  # monotonic: after this the end is reported though a GPU looks used
    dir: str = ""  # in which the files of the supervisor are

    def __post_init__(self) -> None:
        self.dir = str(self.spec.part_dir)


class LocalExecutor:
    """Implements `base.Executor`. `root` is a directory that belongs to this executor alone."""

    def __init__(
        self,
        root: Path,
        *,
        driver: Driver | None = None,
        linger_s: float = LINGER_S,
        cgroups: CgroupParent | None = None,
        sdk: Path | None = None,
        kernel: Kernel = KERNEL,
        detached: bool = False,
        lease_s: float = 0.0,
    ):
        """`cgroups`: where the runs get cgroups; None: where this process may make them.

        `sdk`: what `sdk.publish` has returned; None: the runs get no SDK. `kernel`: the operating system.
        `detached`: supervisors are no children of this process, which may end its children when it ends.
        `lease_s`: supervisors keep a heartbeat and end their workers if they cannot for so long; 0: no lease.
        """
        self._detached, self._lease_s = detached, lease_s
        self._root, self._kernel = root, kernel
        self._sdk = sdk
        self._cgroups = cgroup_parent.find() if cgroups is None else cgroups
        self.limiting = self._cgroups.enable()  # which limits runs can have here
        self._gpus = None if driver is None else GpuProcesses(driver, self.owns)
        self._linger_s = linger_s
        self._runs: dict[RunId, _Run] = {}
        self._by_pidfd: dict[int, _Run] = {}
        self._starting: dict[RunId, _Run] = {}  # no RunUp was returned yet
        self._unresolved: dict[RunId, _Run] = {}  # the machine kept us from what `poll` then tries again
        self._settling: dict[RunId, _Run] = {}  # ended, but the driver has not released a GPU
        self._updates: list[RunUpdate] = []
        make_passage(root.parent, kernel)
        make(root, kernel=kernel)
        self._marks = Marks(root, kernel)
        self._pipe = WakePipe(root, kernel)
        self._epoll = kernel.epoll()
        self._epoll.register(self._pipe.fd, select.EPOLLIN)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def close(self) -> None:
        self._pipe.end_timer()
        for pidfd in self._by_pidfd:
            self._kernel.close(pidfd)
        self._epoll.close()
        self._pipe.close()

    # --- commands --------------------------------------------------------------------------------------

    def start(self, spec: RunSpec) -> None:
        run = self._runs.get(spec.run_id)
        if run is not None and (run.gone is not None or run.pidfd >= 0):
            return
        may_begin = run is not None and run.may_begin
        self._unresolved.pop(spec.run_id, None)
        run = self._runs[spec.run_id] = _Run(spec, may_begin=may_begin)
        if not self._resume(run):
            self._begin(run)

    def stop(self, run_id: RunId, grace_s: float | None = None) -> None:
        run = self._runs.get(run_id)
        if run is None or run.gone is not None:
            return
        if run.pidfd < 0 and self._is_of_another_run(run):
            return
        run.is_stopping = True
        grace_s = run.spec.grace_s if grace_s is None else grace_s
        try:
            make_run_dir(run.spec, self._kernel)
            earlier = run_files.read(run.dir, run_files.STOP, self._kernel) or {}
            grace_s = min(grace_s, earlier.get("grace_s", grace_s))  # it may not have been read yet
            run_files.put(run.dir, run_files.STOP, {"grace_s": grace_s}, self._kernel)
        except OSError:  # on a full disk the grace of the run counts, unless the run is to be killed at once
            run.is_killed_at_once = run.is_killed_at_once or grace_s <= 0
        if run.pidfd >= 0:
            self._signal(run)
        else:
            self._void(run, stopped=True)

    def pace(self, run_id: RunId, turn: int, turns: int, slice_s: float) -> None:
        run = self._runs.get(run_id)
        if run is None or run.gone is not None or (run.pidfd < 0 and self._is_of_another_run(run)):
            return
        wanted = {"turn": turn, "turns": turns, "slice_s": slice_s}
        known = run_files.read(run.dir, run_files.PACE, self._kernel)
        if known is None and turns == 1:
            return
        run.is_paced = True
        if known is None or not wanted.items() <= known.items():
            make_run_dir(run.spec, self._kernel)
            run.knows_turns = False
            run_files.put(run.dir, run_files.PACE, wanted, self._kernel)
        self._signal_turns(run)

    def _signal_turns(self, run: _Run) -> None:
        """Let its supervisor read the turns, if it can be signalled and was not signalled for these.

        A process before this one may have been killed after it had written them.
        """
        if run.is_paced and not run.knows_turns and run.pidfd >= 0:
            run.knows_turns = True
            with suppress(ProcessLookupError):  # it has just ended
                self._kernel.pidfd_send_signal(run.pidfd, signal.SIGHUP)

    def refuse(self, spec: RunSpec, error: str) -> None:
        """End a run that must not begin on this machine; one that has begun is left as it is."""
        run = self._runs.setdefault(spec.run_id, _Run(spec))
        if run.gone is None and run.pidfd < 0 and not self._resume(run):
            self._void(run, error=error)

    def adopt(self, expected: Iterable[RunSpec]) -> Adopted:
        adopted = Adopted()
        for spec in expected:
            run = self._runs.setdefault(spec.run_id, _Run(spec, may_begin=True))
            is_known = True
            if run.gone is None and run.pidfd < 0:
                is_known = self._take_over(run)
            if run.gone is not None:
                adopted.gone.append(spec.run_id)
            elif run.pidfd >= 0 or not is_known or spec.run_id in self._unresolved:
                adopted.running.append(spec.run_id)
            else:
                adopted.absent.append(spec.run_id)
        return adopted

    def _take_over(self, run: _Run) -> bool:
        """Continue from the files of the run; False if the machine does not allow it now."""
        try:
            self._resume(run)
        except OSError:
            run.why = {"stopped": True}  # if it turns out that it has not begun
            self._try_again(run)
            return False
        return True

    def forget(self, run_id: RunId) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            self._unwatch(run)
            self._starting.pop(run_id, None)
            self._settling.pop(run_id, None)
            self._unresolved.pop(run_id, None)
            if run.cgroup and run.gone is not None:
                Cgroup(run.cgroup).remove()  # usually the supervisor has done it

    def poll(self) -> list[RunUpdate]:
        for fd, _ in self._epoll.poll(0):
            if fd == self._pipe.fd:
                self._pipe.drain()
            elif fd in self._by_pidfd:
                self._supervisor_ended(self._by_pidfd[fd])
        for run in list(self._starting.values()):
            self._check_up(run)
        for run in [self._unresolved.pop(id) for id in list(self._unresolved)]:
            self._resolve(run)
        for run in list(self._settling.values()):
            self._settle(run)
        updates, self._updates = self._updates, []
        return updates

    # --- GPUs ------------------------------------------------------------------------------------------

    def owns(self, pid: int) -> bool:
        """Whether this process belongs to one of our runs."""
        return self._run_of(pid) is not None

    def _run_of(self, pid: int) -> _Run | None:
        """The run to which a process belongs, by its ancestors.

        The processes that a killed supervisor left behind have lost theirs. Until they are ended, their
        cgroup or else the mark in their environment counts.
        """
        supervisors = {run.pid: run for run in self._by_pidfd.values()}
        above: int | None = pid
        while above and above not in supervisors:
            process = procfs.look(above)
            above = process.parent if process is not None else None
        if above:
            return supervisors[above]
        swept = (run for run in self._runs.values() if run.is_swept and run.gone is None)
        return next((run for run in swept if self._is_orphan_of(run, pid)), None)

    def _is_orphan_of(self, run: _Run, pid: int) -> bool:
        if run.cgroup:
            return pid in Cgroup(run.cgroup).pids()
        return procfs.real_uid(pid) == _uid(run.spec) and procfs.carries(pid, self._marks.of(run.spec))

    def foreign(self, uuids: Iterable[str]) -> dict[str, list[int]]:
        """Those of the GPUs that processes other than those of our runs use, and their pids."""
        return {} if self._gpus is None else self._gpus.foreign(uuids)

    def misused(self, uuids: Iterable[str]) -> dict[str, list[tuple[JobId, int]]]:
        """Those of the GPUs that runs use without having been given them: the jobs, and the pids."""
        found: dict[str, list[tuple[JobId, int]]] = {}
        for uuid, pids in ({} if self._gpus is None else self._gpus.used(uuids)).items():
            for pid in pids:
                run = self._run_of(pid)
                if run is not None and uuid not in {slot.uuid for slot in run.spec.slots}:
                    found.setdefault(uuid, []).append((run.spec.job_id, pid))
        return found

    # --- starting and resuming -------------------------------------------------------------------------

    def _resume(self, run: _Run) -> bool:
        """Continue from the files in the directory of the run; False if the run has never begun."""
        if self._is_of_another_run(run) or self._has_exit(run):
            return True
        claim = run_files.read(run.dir, run_files.CLAIM, self._kernel)
        if claim is None:
            return False
        boot = procfs.boot_id(self._kernel)
        run.port = claim.get("port", 0)
        found = run_files.read(run.dir, CGROUP, self._kernel) or {}
        run.cgroup = found.get("path", "") if found.get("boot_id") == boot else ""
        if claim.get("boot_id") != boot:
            self._sweep(run, "the machine was restarted during the run")
            return True
        pid, start = claim["pid"], claim["start"]
        if not pid:  # no supervisor will ever claim it
            error = "the manager was killed as it gave up starting the run"
            self._write_void(run, {"error": error, "lost": True})
            return True
        pidfd = procfs.open_pidfd(pid, start, self._kernel)
        if pidfd is not None:
            self._watch(run, pid, pidfd, is_child=pid == run.pid)
        elif not self._has_exit(run):  # it may have ended since the first check
            self._sweep(run, f"the supervisor of the run (pid {pid}) was killed; its processes were ended")
        return True

    def _is_of_another_run(self, run: _Run) -> bool:
        """End a run whose directory belongs to a run of another journal. Nothing there is read or changed."""
        spec = run.spec
        run_id, kernel = int(spec.run_id), self._kernel
        other = run_files.other_owner(run.dir, journal=spec.journal, run_id=run_id, kernel=kernel)
        if other:
            error = (
                f"the directory {run.dir} belongs to another run: {other}; the journal is older than the"
                " directory, or from another home. Move the directory away, and submit the job again"
            )
            self._finish(run, RunGone(spec.run_id, error=error))
        return bool(other)

    def _has_exit(self, run: _Run) -> bool:
        record = run_files.read(run.dir, run_files.EXIT, self._kernel)
        if record is None:
            return False
        gone = run_gone(run.spec, record, self._kernel)
        self._check_up(run)
        self._finish(run, gone)
        return True

    def _begin(self, run: _Run) -> None:
        try:
            launcher = launchers.get(run.spec.launcher)()
            spec = run.spec = replace(run.spec, workers=launcher.workers(run.spec), sdk=self._sdk)
            prepare(spec, self.limiting, self._kernel)
            run.port = spec.master_port or self.free_port(spec)
            address = spec.master_addr or MASTER_ADDR
            workers = [
                {
                    "argv": list(launcher.command(spec, index)),
                    "env": self._marks.added(spec, launcher.environment(spec, index, address, run.port)),
                    "log": str(spec.log(index)),
                }
                for index in _workers(spec)
            ]
            run.cgroup = self._cgroups.choose(self._root.absolute(), run.spec.run_id)
            self._spawn(run, {"workers": workers, "sweeps": False})
        except (OSError, ValueError) as error:
            self._void(run, error=str(error))

    def free_port(self, spec: RunSpec) -> int:
        """A port of this machine at which the workers of the run can meet; OSError if none is free."""
        taken = {each.port for each in self._runs.values()}
        return self._kernel.free_port(taken, crc32(str(spec.part_dir).encode()))

    def _spawn(self, run: _Run, plan: dict[str, Any]) -> None:
        spec, account = run.spec, None
        if (who := spec.identity) is not None and os.geteuid() == 0:
            umask = DEFAULT_UMASK if who.umask is None else who.umask
            account = (who.uid, who.gid, who.groups, umask, who.limits)
        pid = spawn_supervisor(
            run.dir,
            {
                "journal": spec.journal,
                "run_id": int(spec.run_id),
                "run_dir": run.dir,
                "marks": self._marks.of(spec),
                "uid": _uid(spec),
                "command_line": command_line(run.dir),
                "cwd": spec.cwd,
                "account": account,
                "cgroup": run.cgroup,
                "cpus": spec.cpus,
                "memory_bytes": spec.memory_bytes,
                "grace_s": spec.grace_s,
                "checkpoint_dir": spec.checkpoint_dir,
                "linger_s": self._linger_s,
                "news": self._pipe.path,
                "port": run.port,
                "terminal": spec.terminal,
                "idle_limit_s": spec.idle_limit_s,
                "job_dir": str(spec.job_dir),
                "log_bytes": spec.log_bytes,
                "reserve_bytes": spec.reserve_bytes,
                "lease_s": self._lease_s,
                # One that sweeps begins again if it is ended, and must be waited for.
                "detached": self._detached and not plan["sweeps"],
            }
            | plan,
            self._kernel,
        )
        run.pid, run.may_begin = pid, True
        self._watch(run, pid, self._kernel.pidfd_open(pid), is_child=True)

    def _sweep(self, run: _Run, error: str) -> None:
        """Start another supervisor after one that left no exit: it ends what is left and writes the exit."""
        run.is_swept = True
        try:
            self._spawn(run, {"sweeps": True, "error": error})
        except OSError:
            self._try_again(run)

    def _void(self, run: _Run, **why: Any) -> None:
        """Write the exit of a run that has not begun, so that it never begins; `why` goes into its record."""
        journal, run_id = run.spec.journal, int(run.spec.run_id)
        run.why = why
        try:
            make_run_dir(run.spec, self._kernel)
            boot, kernel = procfs.boot_id(self._kernel), self._kernel
            is_claimed = run_files.claim(
                run.dir, journal=journal, run_id=run_id, boot=boot, pid=0, start=0, kernel=kernel
            )
            if not is_claimed:
                run.may_begin = True
                self._resume(run)  # another process has just started it
                return
        except OSError as problem:
            if run.may_begin:
                self._try_again(run)  # without a claim a slow supervisor would still begin the run
                return
            self._end_void(run, why, problem)
            return
        self._write_void(run, why)

    def _write_void(self, run: _Run, why: Mapping[str, Any]) -> None:
        """Write the exit of a run that is claimed, so that no supervisor will begin it."""
        try:
            run_files.write_exit(run.dir, _void_record(run.spec, why), self._kernel)
        except OSError as problem:
            self._end_void(run, why, problem)
        else:
            self._end_void(run, why)

    def _end_void(self, run: _Run, why: Mapping[str, Any], problem: OSError | None = None) -> None:
        record = _void_record(run.spec, why)
        if problem is not None and not record["error"]:
            record["error"] = f"cannot write in {run.dir}: {problem.strerror}"
        self._finish(run, run_gone(run.spec, record, self._kernel))

    def _try_again(self, run: _Run) -> None:
        """Let `poll` look after this run, because the machine does not allow it now."""
        self._unresolved[run.spec.run_id] = run
        self._pipe.wake_later()

    def _resolve(self, run: _Run) -> None:
        """Find out again what has become of a run; one that has not begun must not begin any more."""
        if run.gone is not None or run.pidfd >= 0:  # a command has found it out meanwhile
            return
        try:
            if not self._resume(run):
                self._void(run, **{"stopped": run.is_stopping, **run.why})
        except OSError:
            self._try_again(run)

    # --- supervisors -----------------------------------------------------------------------------------

    def _watch(self, run: _Run, pid: int, pidfd: int, *, is_child: bool = False) -> None:
        run.pid, run.pidfd, run.is_child = pid, pidfd, is_child
        self._by_pidfd[pidfd] = run
        self._epoll.register(pidfd, select.EPOLLIN)
        if not run.is_up:
            self._starting[run.spec.run_id] = run
            self._pipe.wake()
        self._signal_turns(run)
        if run.is_stopping:
            self._signal(run)

    def _unwatch(self, run: _Run) -> None:
        if run.pidfd >= 0:
            self._epoll.unregister(run.pidfd)
            del self._by_pidfd[run.pidfd]
            self._kernel.close(run.pidfd)
            run.pidfd = -1

    def _signal(self, run: _Run) -> None:
        """Make the supervisor read `stop.json` and end the gang, or kill the gang without a file.

        Supervisors that an earlier version started ignore SIGINT. For them the grace of the run counts.
        """
        with suppress(ProcessLookupError):  # it has just ended
            self._kernel.pidfd_send_signal(run.pidfd, signal.SIGTERM)
            if run.is_killed_at_once:
                self._kernel.pidfd_send_signal(run.pidfd, signal.SIGINT)

    def _supervisor_ended(self, run: _Run) -> None:
        status = 0
        if run.is_child:
            with suppress(ChildProcessError):  # other code may wait for all children of this process
                _, status = self._kernel.waitpid(run.pid, os.WNOHANG)
        self._unwatch(run)
        code = os.waitstatus_to_exitcode(status)
        why = os.strerror(code).lower() if code > 0 else f"ended by signal {-code}"
        error = f"the supervisor of the run could not begin in {run.dir}: {why}"
        run.why = {"error": error, "lost": code < 0}  # a supervisor that was killed says nothing of the job
        self._resolve(run)

    def _check_up(self, run: _Run) -> None:
        if run.is_up or run.gone is not None:
            return
        if run_files.exists(run.dir, run_files.UP, self._kernel):
            run.is_up = True
            self._starting.pop(run.spec.run_id, None)
            self._updates.append(RunUp(run.spec.run_id))

    # --- the end ---------------------------------------------------------------------------------------

    def _finish(self, run: _Run, gone: RunGone) -> None:
        run.gone = gone
        run.release_by = self._kernel.monotonic() + GPU_RELEASE_S
        self._starting.pop(run.spec.run_id, None)
        self._settle(run)

    def _settle(self, run: _Run) -> None:
        """Report the end as soon as the driver shows no process on the GPUs of the run."""
        assert run.gone is not None
        part = run.spec.part
        uuids = [slot.uuid for slot in (run.spec.slots if part is None else part.slots) if slot.uuid]
        busy = self._gpus.in_use(uuids) if self._gpus is not None and uuids else ()
        if busy and self._kernel.monotonic() < run.release_by:
            self._settling[run.spec.run_id] = run
            self._pipe.wake_later()
            return
        self._settling.pop(run.spec.run_id, None)
        self._updates.append(replace(run.gone, busy_gpus=busy))
        self._pipe.wake()


def _workers(spec: RunSpec) -> range:
    """The numbers of the workers that are started on this machine."""
    part = spec.part
    return range(spec.workers) if part is None else range(part.first_worker, part.first_worker + part.workers)


def _void_record(spec: RunSpec, why: Mapping[str, Any]) -> dict[str, Any]:
    """The exit record of a run that has not begun. A manager that finds it later must know that as well."""
    base = {"journal": spec.journal, "run_id": int(spec.run_id), "error": "", "stopped": False}
    return {**base, **why, "never_begun": True}


def _uid(spec: RunSpec) -> int:
    """The user id of the workers."""
    return os.getuid() if spec.identity is None or os.geteuid() != 0 else spec.identity.uid
