"""The supervisor process of one run. Standard library only.

It outlives the manager and starts the workers of the run. It ends the gang if one worker fails or if the
manager wants the run to stop: SIGTERM and `stop.json`, or SIGINT if the gang must be killed at once and no
file can be written. It is a child subreaper: processes that the workers leave behind become its children, so
that it finds them. It writes the exit record once, and only when no process of the run is alive.

If the run shares its GPUs, the supervisor stops and continues the workers by turns (`turns.py`). SIGHUP makes
it read the turns again; supervisors of earlier versions ignore that signal.

If a supervisor is killed, the executor starts another one to `sweep`: it finds the processes of the run by
the mark in their environment and by the sessions of living workers, ends them, and writes an exit record that
says that the run was lost. While a supervisor lives, marks and sessions count for nothing, because a process
that only copied the environment of the run could carry them.

A supervisor with a lease keeps a heartbeat (`heartbeat.py`), and ends its workers when it could not for the
time of the lease. Whatever then happens to them must not depend on the folder, which may not answer: a thread
that never touches it sends the signals.
"""

from __future__ import annotations

import marshal
import os
import select
import time

from tiresias.executors import checkpoint_files, procfs, run_files
from tiresias.executors.cgroups import CGROUP, Cgroup, controllers_for
from tiresias.executors.log_cap import LogCap
from tiresias.executors.outputs import Outputs
from tiresias.executors.spawn_worker import protect, reason, spawn
from tiresias.executors.turns import Turns, now

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    import signal
    from typing import Any

    from tiresias.executors.heartbeat import Heart
    from tiresias.executors.idle import IdleWatch
else:
    import _signal as signal

PR_SET_CHILD_SUBREAPER = 36
FREEZE_ROUNDS = 50
CHILDREN_ROUNDS = 2000
QUICK_SCANS = 8
LOOK_AGAIN_S = 0.05  # the interval at which ending processes that are not our children are checked
ENDING_TERMINAL_S = 0.1  # the interval at which a terminal that must end is looked at


class Worker:
    def __init__(self) -> None:
        self.pid = 0
        self.pipe = -1  # open until the program is executed
        self.error = ""
        self.was_signalled = False  # we have sent it SIGTERM
        self.status: int | None = None  # as waitpid returns it; None while the worker is alive
        self.ended = False

    @property
    def failed(self) -> bool:
        return self.ended and not self.was_signalled and bool(self.status or self.error)

    def exit(self) -> dict[str, Any]:
        """The part of the exit record that is about this worker."""
        code = ended_by = None
        if self.status is not None and not self.error:
            result = os.waitstatus_to_exitcode(self.status)
            code, ended_by = (result, None) if result >= 0 else (None, -result)
        return {
            "code": code,
            "signal": ended_by,
            run_files.SIGNALLED: self.was_signalled,
            "error": self.error,
        }


class Supervisor:
    def __init__(self, plan: dict[str, Any]):
        self.plan = plan
        self.run_dir: str = plan["run_dir"]
        self.marks: list[bytes] = plan["marks"]
        self.cgroup = Cgroup(plan["cgroup"]) if plan["cgroup"] else None
        self.workers: list[Worker] = []
        try:
            self._directory = os.open(self.run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self._directory = -1
        self.logs = LogCap(self.run_dir, plan["log_bytes"], plan["reserve_bytes"])
        self.deadline: float | None = None  # when processes that are still alive get SIGKILL (monotonic)
        self.stopped = self.lost = self.killed = self.is_up = False
        self.error = ""
        self.first_failed: int | None = None
        self.escaped: set[tuple[int, int]] = set()  # (pid, start) of processes that outlived the workers
        self.sessions: dict[int, int] = {}  # the workers of a killed supervisor: pid -> start
        self.oom_kills = procfs.oom_kills()
        self.files: checkpoint_files.Files | None = None  # in the checkpoint directory before the run
        self.heart = self._heart()
        self.turns = Turns(self.run_dir)
        self.is_fenced = False  # the workers were ended because the lease was over
        self.idle: IdleWatch | None = None
        self.is_idle = False  # the run was ended because nobody used it
        self.poll = select.poll()
        self.outputs = Outputs(self.run_dir, self.poll, self.logs, plan["account"])
        self.wakeup = self._listen()

    def _listen(self) -> int:
        """Turn signals into bytes in a pipe, so that one poll waits for them and for everything else."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self.poll.register(reader, select.POLLIN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return reader

    def _heart(self) -> Heart | None:
        if not self.plan["lease_s"] or self.plan["sweeps"]:
            return None
        from tiresias.executors.heartbeat import Heart  # here, because most supervisors have no lease

        return Heart(self.run_dir, self.plan["lease_s"], self._check_stop, self._lease_is_over)

    # --- the whole run ---------------------------------------------------------------------------------

    def supervise(self) -> None:
        """Start the workers, unless another supervisor has claimed the run, and wait for their end."""
        me = procfs.look(os.getpid())
        assert me is not None
        claimed = run_files.claim(
            self.run_dir,
            journal=self.plan["journal"],
            run_id=self.plan["run_id"],
            boot=procfs.boot_id(),
            pid=me.pid,
            start=me.start,
            port=self.plan["port"],
        )
        if not claimed:
            return
        self._tell_parent()
        if run_files.exists(self.run_dir, run_files.STOP):
            self.stopped = True
        else:
            self._start()
        while not self._is_over():
            self._wait()
        self._write_exit()

    def sweep(self) -> None:
        """End the processes that a killed supervisor left behind."""
        self.lost = True
        self.error = self.plan["error"]
        self.stopped = run_files.exists(self.run_dir, run_files.STOP)
        up = run_files.read(self.run_dir, run_files.UP) or {}
        if up.get("boot_id") == procfs.boot_id():
            self.sessions = {int(pid): start for pid, start in up.get("workers", [])}
        self._end_by(self.plan["grace_s"])
        while not self._is_over():
            self._wait()
        self._write_exit()

    def _start(self) -> None:
        try:
            run_files.reserve_exit(self.run_dir)
        except OSError as error:
            self.error = f"cannot reserve space for the exit record in {self.run_dir}: {error.strerror}"
            return
        try:
            if self.heart is not None:
                self.heart.start()
        except OSError as error:
            self.error = f"cannot write a heartbeat in {self.run_dir}: {error.strerror}"
            return
        if not self._make_cgroup():
            return
        self.files = checkpoint_files.look_as(self.plan["account"], self.plan["checkpoint_dir"])
        for each in self.plan["workers"]:
            worker = Worker()
            self.workers.append(worker)
            try:
                output = self.outputs.open(each["log"], is_terminal=self.plan["terminal"])
            except OSError as error:
                worker.error = f"cannot open the output file {each['log']}: {reason(error)}"
                self._ended(worker, None)
                break
            worker.pid, worker.pipe, worker.error = spawn(
                each,
                self.plan["cwd"],
                self.plan["account"],
                self.cgroup.path if self.cgroup else "",
                output,
                is_terminal=self.plan["terminal"],
            )
            if worker.pid:
                self.poll.register(worker.pipe, select.POLLIN)
            else:
                self._ended(worker, None)
                break
        if self.heart is not None:  # not before: a process with one thread is forked
            self.heart.go_on()
        self.logs.watch([each["log"] for each in self.plan["workers"]])
        if self.plan["idle_limit_s"]:
            self._watch_idle()

    def _watch_idle(self) -> None:
        from tiresias.executors.idle import IdleWatch

        limit_s, job_dir = self.plan["idle_limit_s"], self.plan["job_dir"]
        self.idle = IdleWatch(limit_s, job_dir, self._cpu_s, self.outputs.was_touched)

    def _cpu_s(self) -> float:
        """The processor time of the run so far."""
        from tiresias.executors.idle import cpu_s

        ended = os.times()
        return cpu_s(each.pid for each in self._leftovers()) + ended.children_user + ended.children_system

    def _check_idle(self) -> None:
        """Warn whoever is there that the run is about to be ended, or end it."""
        if self.idle is None or self.deadline is not None:
            return
        verdict, limit_min = self.idle.look(), self.idle.limit_s / 60
        if verdict == "warn":
            in_min = self.idle.warn_s / 60
            unused_min = limit_min - in_min
            self.outputs.say(
                f"nobody has used this run for {unused_min:.3g} min; it is ended in {in_min:.3g} min"
            )
        elif verdict == "end":
            self.outputs.say(f"nobody has used this run for {limit_min:.3g} min; it is ended")
            self.is_idle = self.stopped = True
            self._end_gang(self.plan["grace_s"])

    def _tell_parent(self) -> None:
        """Let the parent of a detached supervisor end: the claim says which process this is."""
        if self.plan["parent"] >= 0:
            os.write(self.plan["parent"], b"c")
            os.close(self.plan["parent"])

    def _make_cgroup(self) -> bool:
        """Make the cgroup and note it before a worker is started, so that a sweep knows where to look.

        False if the run has limits and they cannot be set: it must not run without them.
        """
        cpus, memory_bytes = self.plan["cpus"], self.plan["memory_bytes"]
        if self.cgroup is None:
            return True
        try:
            # First the note: if we are killed in between, the sweep finds the cgroup, and removes it.
            run_files.put(self.run_dir, CGROUP, {"boot_id": procfs.boot_id(), "path": self.cgroup.path})
            self.cgroup.make(cpus, memory_bytes)
        except OSError as error:
            problem = f"cannot make the cgroup {self.cgroup.path}: {error}"
            _log(problem)
            run_files.remove(self.run_dir, CGROUP)
            self.cgroup.remove()
            self.cgroup = None
            if controllers_for(cpus, memory_bytes):
                self.error = f"cannot limit the run: {problem}"
                return False
        return True  # perhaps without a cgroup

    def _is_over(self) -> bool:
        """Whether no process of the run is alive. Also ends processes that outlived the workers."""
        try:
            return self._end_rest()
        except OSError:  # no descriptor is left, or no memory, to look at processes: look again
            return False

    def _end_rest(self) -> bool:
        is_childless = self._reap()
        if any(not worker.ended for worker in self.workers):
            return False
        self.turns.close()
        rest = self._leftovers()
        if not rest and is_childless and not self._was_missed():
            return True  # else a scan has missed a process that forks again and again
        if self.deadline is None:
            self._end_by(self.plan["linger_s"])
        signalled = {worker.pid for worker in self.workers if worker.was_signalled}
        if self._is_late():
            if self.cgroup is not None:
                self.cgroup.kill()
            rest = self._freeze()
        for process in rest:
            if self._is_late():
                procfs.send(process, signal.SIGKILL)
            elif (process.pid, process.start) not in self.escaped and process.group not in signalled:
                procfs.send(process, signal.SIGTERM)
                procfs.send(process, signal.SIGCONT)
            self.escaped.add((process.pid, process.start))
        return False

    def _leftovers(self) -> list[procfs.Process]:
        """The live processes of the run: those in its cgroup, descendants, and orphans of a lost run."""
        processes = procfs.all_processes()
        roots = self._orphans(processes) if self.lost else set()
        if self.cgroup is not None:
            roots.update(self.cgroup.pids())
        found = roots | procfs.descendants([os.getpid(), *roots], processes)
        found -= {os.getpid(), self.turns.keeper}
        return [each for each in processes if each.pid in found and each.alive]

    def _orphans(self, processes: list[procfs.Process]) -> set[int]:
        """What a killed supervisor left behind: by the mark, or in the session of a worker that is alive.

        The number of a session whose leader is gone proves nothing: it may have been used again by another
        process, which then left a daemon in it.
        """
        if self.cgroup is not None:  # which has every process that has executed its program
            return {each.pid for each in processes if self._is_before_exec(each.pid)}
        starts = {each.pid: each.start for each in processes}
        sessions = {pid for pid, start in self.sessions.items() if starts.get(pid) == start}
        return {each.pid for each in processes if each.session in sessions or self._is_marked(each.pid)}

    def _is_marked(self, pid: int) -> bool:
        # A child of the killed supervisor has the command line of the supervisor until it executes the
        # program of the worker, and from then on the mark. To check in this order misses none.
        if self._is_before_exec(pid):
            return True
        return procfs.carries(pid, self.marks) and procfs.real_uid(pid) == self.plan["uid"]

    def _is_before_exec(self, pid: int) -> bool:
        if procfs.command_line(pid)[-2:] != self.plan["command_line"]:
            return False
        return procfs.real_uid(pid) in (os.getuid(), self.plan["uid"])

    def _was_missed(self) -> bool:
        """Whether a scan that has found nothing has missed a process that forks again and again.

        The cgroup knows, and while the supervisor lives such a process is its child. Otherwise quick scans,
        newest process first, may find it.
        """
        if self.cgroup is not None or not self.lost:
            return self.cgroup is not None and self.cgroup.is_populated()
        return any(self._is_marked(pid) for _ in range(QUICK_SCANS) for pid in procfs.newest_first())

    def _freeze(self) -> list[procfs.Process]:
        """Stop (SIGSTOP) the processes of the run until no running one appears, and return all of them.

        Killing them one by one would never catch up with a process that forks again and again.
        """
        for _ in range(FREEZE_ROUNDS):
            self._freeze_newest()
            rest = self._leftovers()
            running = [each for each in rest if each.state not in "TtD"]
            if not running:
                return rest
            for each in running:
                procfs.send(each, signal.SIGSTOP)
            for each in running:
                self._freeze_group(each)
        return self._leftovers()

    def _freeze_newest(self) -> None:
        """Stop what was started a moment ago. A whole scan takes longer than some processes live."""
        if self.lost:
            if self.cgroup is not None:
                return  # its processes were ended at once
            for pid in procfs.newest_first():
                if self._is_marked(pid) and (process := procfs.look(pid)):
                    procfs.send(process, signal.SIGSTOP)
            return
        frozen: set[int] = set()
        for _ in range(CHILDREN_ROUNDS):
            self._reap()
            now = set(procfs.children()) - {self.turns.keeper}  # a stopped keeper would never end
            if now <= frozen:
                return
            for pid in now - frozen:  # a child that was not waited for keeps its pid
                try:  # noqa: SIM105  (contextlib would have to be loaded)
                    os.kill(pid, signal.SIGSTOP)
                except OSError:  # a set-user-ID program, if the manager is not root
                    pass
            frozen = now

    def _freeze_group(self, process: procfs.Process) -> None:
        """Stop the group of a process that is stopped: it cannot end, so the number is still its group's."""
        now = procfs.look(process.pid)
        if now and now.start == process.start and now.state == "T" and now.group != os.getpgrp():
            try:  # noqa: SIM105
                os.killpg(now.group, signal.SIGSTOP)
            except OSError:
                pass

    # --- waiting ---------------------------------------------------------------------------------------

    def _wait(self) -> None:
        for fd, _ in self.poll.poll(self._timeout_ms()):
            if fd == self.wakeup:
                signals = os.read(fd, 4096)
                if signal.SIGHUP in signals:
                    self.turns.read()
                if signal.SIGINT in signals:
                    self._stop(at_once=True)
                elif signal.SIGTERM in signals:
                    self._stop()
            elif fd in self.outputs.handlers:
                self.outputs.handlers[fd]()
            else:
                self._read_pipe(next(worker for worker in self.workers if worker.pipe == fd))
        if self._is_late():
            self._kill()
        self._take_turns()
        self.logs.look()
        self._check_idle()
        terminal = self.outputs.terminal
        if terminal is not None and self.deadline is not None and not self.workers[0].ended:
            terminal.end(self.workers[0].pid)

    def _take_turns(self) -> None:
        """Stop or continue the processes of the run, if it has lost or got the turn."""
        turns = self.turns
        works = turns.may_work(now()) or self.deadline is not None or self.lost  # who must end works
        if not self.is_up:
            return
        try:
            if works is not turns.are_stopped and (works or not turns.has_escaped()):
                return
            if works:
                turns.resume(self._leftovers())
            elif any(not worker.ended for worker in self.workers):
                turns.stop(self._leftovers())
                rest = self._freeze()  # also what has forked meanwhile
                turns.tell_keeper(rest)
                if self.deadline is not None:  # a worker has failed meanwhile
                    turns.resume(rest)
        except OSError as error:  # no descriptor is left, for example: it works in the meantime
            _log(f"cannot take turns: {error}")

    def _timeout_ms(self) -> float | None:
        waits = self._until_end_s(), self.logs.wait_s, self.turns.wait_s(now())
        to_wait_s = [each for each in waits if each is not None]
        if self.idle is not None and self.deadline is None:
            to_wait_s.append(self.idle.wait_s)
        if self.outputs.terminal is not None and self.deadline is not None:
            to_wait_s.append(ENDING_TERMINAL_S)
        return min(to_wait_s) * 1000 + 1 if to_wait_s else None

    def _until_end_s(self) -> float | None:
        if all(worker.ended for worker in self.workers):
            return LOOK_AGAIN_S
        if self.deadline is None or self.killed:
            return None
        return max(0.0, self.deadline - time.monotonic())

    def _read_pipe(self, worker: Worker) -> None:
        """Read the error of a worker; at the end of the pipe its program is executed or will not be."""
        text = os.read(worker.pipe, 65536)
        worker.error += text.decode(errors="replace")
        if not text:
            self.poll.unregister(worker.pipe)
            os.close(worker.pipe)
            worker.pipe = -1
            self._announce()

    def _announce(self) -> None:
        """Write `up.json` and wake the manager as soon as every worker executes its program."""
        if self.is_up or any(worker.pipe >= 0 or worker.error for worker in self.workers):
            return
        self.is_up = True
        try:
            found = [(each.pid, process.start) for each in self.workers if (process := procfs.look(each.pid))]
            run_files.put(self.run_dir, run_files.UP, {"boot_id": procfs.boot_id(), "workers": found})
        except OSError as error:  # the run itself is not affected
            _log(f"cannot write {run_files.UP}: {error}")
        try:
            pipe = os.open(self.plan["news"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(pipe, b"u")
            os.close(pipe)
        except OSError:
            pass  # no manager is running; the next one reads up.json

    def _reap(self) -> bool:
        """Collect the workers that have ended; True if no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if not pid:
                return False
            for worker in self.workers:
                if worker.pid == pid and not worker.ended:
                    self._ended(worker, status)

    def _ended(self, worker: Worker, status: int | None) -> None:
        while worker.pipe >= 0:
            self._read_pipe(worker)  # the worker has ended, so this cannot block for long
        worker.status, worker.ended = status, True
        if worker.failed:
            if self.first_failed is None:
                self.first_failed = self.workers.index(worker)
            self._end_gang(self.plan["grace_s"])

    # --- ending ----------------------------------------------------------------------------------------

    def _stop(self, *, at_once: bool = False) -> None:
        self._reap()  # workers that have ended by now were not signalled
        request = {"grace_s": 0.0} if at_once else run_files.read(self.run_dir, run_files.STOP) or {}
        if any(not worker.ended for worker in self.workers):
            self.stopped = True
        self._end_gang(float(request.get("grace_s", self.plan["grace_s"])))

    def _end_gang(self, grace_s: float) -> None:
        self._end_by(grace_s)
        self._take_turns()  # so that all of them get SIGTERM
        run_files.ask_job_to_stop(self.run_dir)
        for worker in self.workers:
            if worker.ended or worker.was_signalled or not worker.pid:
                continue
            worker.was_signalled = True
            _send_group(worker.pid, signal.SIGTERM)
            _send_group(worker.pid, signal.SIGCONT)  # a suspended process gets SIGTERM only when it continues

    def _end_by(self, grace_s: float) -> None:
        deadline = time.monotonic() + grace_s
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _kill(self) -> None:
        for worker in self.workers:
            if not worker.ended and worker.pid:
                self.killed = True
                _send_group(worker.pid, signal.SIGKILL)

    # --- the lease -------------------------------------------------------------------------------------

    def _check_stop(self) -> None:
        """After a beat, in its thread: a stop may come through the folder alone."""
        if not self.stopped and run_files.exists(self.run_dir, run_files.STOP):
            os.kill(os.getpid(), signal.SIGTERM)
        if self.turns.has_changed():
            os.kill(os.getpid(), signal.SIGHUP)

    def _lease_is_over(self) -> None:
        """End the workers without touching the folder. Runs in a thread: the others may be blocked there."""
        if all(worker.ended for worker in self.workers):
            return  # what is left is to write how they ended
        self.is_fenced = True
        self.error = f"the shared folder could not be written for {self.plan['lease_s']:g} s"
        self._end_by(self.plan["grace_s"])
        for worker in self.workers:
            if not worker.ended and worker.pid and not worker.was_signalled:
                worker.was_signalled = True
                _send_group(worker.pid, signal.SIGTERM)
                _send_group(worker.pid, signal.SIGCONT)
        os.kill(os.getpid(), signal.SIGCHLD)  # the main thread must know the deadline
        while True:
            time.sleep(LOOK_AGAIN_S)
            if self._is_late():
                for process in self._leftovers():
                    procfs.send(process, signal.SIGKILL)

    def _write_exit(self) -> None:
        own_oom_kills = over_memory_bytes = None
        if self.cgroup is not None:
            own_oom_kills = self.cgroup.oom_kills()
            over_memory_bytes = self.plan["memory_bytes"] if self.cgroup.is_over_memory() else None
            self.cgroup.remove()
        self.outputs.close()
        saved, last_saved_at = checkpoint_files.changed(
            self.plan["checkpoint_dir"], self.files, self.plan["account"]
        )
        self.logs.look(is_last=True)
        record = {
            "journal": self.plan["journal"],
            "run_id": self.plan["run_id"],
            "exits": [worker.exit() for worker in self.workers],
            "stopped": self.stopped,
            "lost": self.lost or self.is_fenced,
            "error": self.error,
            "first_failed": self.first_failed,
            "killed": self.killed,
            "escaped": 0 if self.lost else len(self.escaped),
            "idle": self.is_idle,
            "files_saved": saved,
            "last_saved_at": last_saved_at,
            "oom_kills": procfs.oom_kills() - self.oom_kills,
            "own_oom_kills": own_oom_kills,
            "over_memory_bytes": over_memory_bytes,
            "ended_at": time.time(),
            "boot_id": procfs.boot_id(),
            "ended_elapsed_s": time.clock_gettime(time.CLOCK_BOOTTIME),
        }
        while True:
            try:
                return run_files.write_exit(self.run_dir, record)
            except OSError as error:  # the slots are not free before the exit record is safe
                if self._is_removed():
                    _log("the directory of the run was removed, so nobody will ask how it ended")
                    return
                _log(f"cannot write the exit record, trying again: {error}")
                time.sleep(1)

    def _is_removed(self) -> bool:
        """Whether the directory of the run has been deleted, and not only cannot be reached at present."""
        return self._directory >= 0 and os.fstat(self._directory).st_nlink == 0


def _send_group(leader: int, number: int) -> None:
    """Signal the group of a worker that has not been waited for, so that its pid cannot have been reused."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:  # it has not made its group yet
        os.kill(leader, number)
    except PermissionError as error:  # all processes of the group belong to another user (sudo)
        _log(f"cannot send signal {number} to group {leader}: {error}")


def _adopt_orphans() -> None:
    """Become the parent of every descendant that loses its parent."""
    arguments = (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:  # to load ctypes itself would take a quarter of the time to start
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, arguments)
    except (ImportError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(*arguments)


def _log(text: str) -> None:
    """Write to the log of the supervisor, if that is possible."""
    try:  # noqa: SIM105  (contextlib would have to be loaded)
        os.write(2, text.encode(errors="replace") + b"\n")
    except OSError:
        pass


def _detach() -> int:
    """Go on in a child that leads a session of its own; the parent ends when the child has claimed the run.

    Some programs end their direct children when they end, as workers of Ray do. Returns the descriptor to
    write to after the claim. If the child ends before, the parent ends in the same way.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.setsid()
        return writer
    os.close(writer)
    if os.read(reader, 1):
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(code)


def main() -> None:
    """Read the plan from standard input. The exit code is the errno of a failure to claim the run."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    with open(0, "rb") as file:
        plan = marshal.load(file)
    os.open(os.devnull, os.O_RDONLY)  # becomes standard input
    plan["parent"] = _detach() if plan["detached"] else -1
    _adopt_orphans()
    protect(-500)
    supervisor = Supervisor(plan)
    try:
        if plan["sweeps"]:
            supervisor.sweep()
        else:
            supervisor.supervise()
    except OSError as error:
        _log(str(error))
        os._exit(error.errno or 1)  # sys.exit would change the code if the disk of the log is full
    if supervisor.heart is not None:
        os._exit(0)  # its threads never end
