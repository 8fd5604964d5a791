"""The process that stands between the manager and one run. Standard library only.

It outlives the manager, starts the run's workers, ends the gang if one fails or if it is told to (SIGTERM
and `stop.json`), and records the exit once. It is a child subreaper: whatever the workers leave behind
becomes its child, so nothing of the run can hide. Only when nothing of the run is alive is the exit
recorded.

If a supervisor is killed, another one is started to `sweep`: it finds the run's processes by the marks in
their environment and by the workers' sessions, ends them, and records the run as lost.
"""

from __future__ import annotations

import marshal
import os
import select
import time

from tiresias.executors import procfs, records
from tiresias.executors.spawn import protect, spawn

TYPE_CHECKING = False  # so that a supervisor need not load typing and enum: that halves its time to start
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal

PR_SET_CHILD_SUBREAPER = 36
LOOK_AGAIN_S = 0.05  # between two looks at processes that are not our children while they end


class Worker:
    def __init__(self) -> None:
        self.pid = 0
        self.pipe = -1  # open until the program is executed
        self.error = ""
        self.told = False
        self.status: int | None = None  # as from waitpid; None while it lives
        self.ended = False

    @property
    def failed(self) -> bool:
        return self.ended and not self.told and bool(self.status or self.error)

    def exit(self) -> dict[str, Any]:
        code = signalled = None
        if self.status is not None and not self.error:
            result = os.waitstatus_to_exitcode(self.status)
            code, signalled = (result, None) if result >= 0 else (None, -result)
        return {"code": code, "signal": signalled, "told": self.told, "error": self.error}


class Supervisor:
    def __init__(self, plan: dict[str, Any]):
        self.plan = plan
        self.run_dir: str = plan["run_dir"]
        self.marks: list[bytes] = plan["marks"]
        self.workers: list[Worker] = []
        self.deadline: float | None = None  # when patience with what still runs ends (monotonic)
        self.stopped = self.lost = self.killed = self.is_up = False
        self.error = ""
        self.first_failed: int | None = None
        self.escaped: set[tuple[int, int]] = set()  # (pid, start) of what outlived the workers
        self.sessions: dict[int, int] = {}  # a killed supervisor's workers: pid -> start
        self.oom_kills = procfs.oom_kills()
        self.poll = select.poll()
        self.wakeup = self._listen()

    def _listen(self) -> int:
        """Signals become bytes in a pipe, so that one wait covers them and everything else."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        self.poll.register(reader, select.POLLIN)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return reader

    # --- a life ----------------------------------------------------------------------------------------

    def supervise(self) -> None:
        """Start the workers, unless somebody ever has, and see them to their end."""
        me = procfs.look(os.getpid())
        assert me is not None
        claimed = records.claim(
            self.run_dir, boot=procfs.boot_id(), pid=me.pid, start=me.start, port=self.plan["port"]
        )
        if not claimed:
            return
        if records.exists(self.run_dir, records.STOP):
            self.stopped = True
        else:
            self._start()
        while not self._is_over():
            self._wait()
        self._record()

    def sweep(self) -> None:
        """End what a killed supervisor left behind."""
        self.lost = True
        self.error = self.plan["error"]
        self.stopped = records.exists(self.run_dir, records.STOP)
        up = records.read(self.run_dir, records.UP) or {}
        if up.get("boot_id") == procfs.boot_id():
            self.sessions = {int(pid): start for pid, start in up.get("workers", [])}
        self._end_by(self.plan["grace_s"])
        while not self._is_over():
            self._wait()
        self._record()

    def _start(self) -> None:
        try:
            records.reserve_exit(self.run_dir)
        except OSError as error:
            self.error = f"cannot reserve room for the run's records in {self.run_dir}: {error.strerror}"
            return
        for each in self.plan["workers"]:
            worker = Worker()
            self.workers.append(worker)
            worker.pid, worker.pipe, worker.error = spawn(each, self.plan["cwd"], self.plan["credentials"])
            if worker.pid:
                self.poll.register(worker.pipe, select.POLLIN)
            else:
                self._ended(worker, None)
                break

    def _is_over(self) -> bool:
        """Whether nothing of the run lives; ends what outlived the workers."""
        is_childless = self._reap()
        if any(not worker.ended for worker in self.workers):
            return False
        rest = self._leftovers()
        if not rest:
            return is_childless  # one that is born and orphaned while we look can be missed, but is our child
        if self.deadline is None:
            self._end_by(self.plan["linger_s"])
        told = {worker.pid for worker in self.workers if worker.told}
        for process in rest:
            if self._is_late():
                procfs.send(process, signal.SIGKILL)
            elif (process.pid, process.start) not in self.escaped and process.group not in told:
                procfs.send(process, signal.SIGTERM)
                procfs.send(process, signal.SIGCONT)
            self.escaped.add((process.pid, process.start))
        return False

    def _leftovers(self) -> list[procfs.Process]:
        """Living processes of the run: ours by descent, by mark, or by a lost worker's session."""
        processes = procfs.all_processes()
        leaders = {each.pid: each.start for each in processes}
        sessions = {pid for pid, start in self.sessions.items() if leaders.get(pid, start) == start}
        roots = {each.pid for each in processes if each.session in sessions or self._is_marked(each.pid)}
        found = roots | procfs.descendants([os.getpid(), *roots], processes)
        found.discard(os.getpid())
        return [each for each in processes if each.pid in found and each.alive]

    def _is_marked(self, pid: int) -> bool:
        # The killed supervisor's child looks like that one until it executes the worker's program, and then
        # has the marks: in this order none slips through between the two looks.
        if self.lost and procfs.command_line(pid)[-2:] == self.plan["command_line"]:
            return True
        return procfs.carries(pid, self.marks)

    # --- waiting ---------------------------------------------------------------------------------------

    def _wait(self) -> None:
        for fd, _ in self.poll.poll(self._timeout_ms()):
            if fd == self.wakeup:
                if signal.SIGTERM in os.read(fd, 4096):
                    self._stop()
            else:
                self._hear(next(worker for worker in self.workers if worker.pipe == fd))
        if self._is_late():
            self._kill()

    def _timeout_ms(self) -> float | None:
        if all(worker.ended for worker in self.workers):
            return LOOK_AGAIN_S * 1000
        if self.deadline is None or self.killed:
            return None
        return max(0.0, self.deadline - time.monotonic()) * 1000 + 1

    def _hear(self, worker: Worker) -> None:
        """The program is executed, or will not be."""
        text = os.read(worker.pipe, 65536)
        worker.error += text.decode(errors="replace")
        if not text:
            self.poll.unregister(worker.pipe)
            os.close(worker.pipe)
            worker.pipe = -1
            self._announce()

    def _announce(self) -> None:
        if self.is_up or any(worker.pipe >= 0 or worker.error for worker in self.workers):
            return
        self.is_up = True
        found = [(each.pid, process.start) for each in self.workers if (process := procfs.look(each.pid))]
        try:
            records.put(self.run_dir, records.UP, {"boot_id": procfs.boot_id(), "workers": found})
        except OSError as error:  # the run is none the worse for it
            _say(f"cannot write {records.UP}: {error}")
        try:
            news = os.open(self.plan["news"], os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.write(news, b"u")
            os.close(news)
        except OSError:
            pass  # no manager listens: the next one reads the record

    def _reap(self) -> bool:
        """Note who has ended; whether no child is left."""
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
            self._hear(worker)  # it has ended, so this cannot block for long
        worker.status, worker.ended = status, True
        if worker.failed:
            if self.first_failed is None:
                self.first_failed = self.workers.index(worker)
            self._end_gang(self.plan["grace_s"])

    # --- ending ----------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._reap()  # whoever has ended by now was not told
        wish = records.read(self.run_dir, records.STOP) or {}
        if any(not worker.ended for worker in self.workers):
            self.stopped = True
        self._end_gang(float(wish.get("grace_s", self.plan["grace_s"])))

    def _end_gang(self, grace_s: float) -> None:
        self._end_by(grace_s)
        for worker in self.workers:
            if worker.ended or worker.told or not worker.pid:
                continue
            worker.told = True
            _send_group(worker.pid, signal.SIGTERM)
            _send_group(worker.pid, signal.SIGCONT)  # one that is suspended must hear it too

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

    def _record(self) -> None:
        record = {
            "run_id": self.plan["run_id"],
            "exits": [worker.exit() for worker in self.workers],
            "stopped": self.stopped,
            "lost": self.lost,
            "error": self.error,
            "first_failed": self.first_failed,
            "killed": self.killed,
            "escaped": 0 if self.lost else len(self.escaped),
            "oom_kills": procfs.oom_kills() - self.oom_kills,
            "ended_at": time.time(),
        }
        while True:
            try:
                return records.record_exit(self.run_dir, record)
            except OSError as error:  # a slot is not free before its run's exit is safe
                _say(f"cannot record the exit, trying again: {error}")
                time.sleep(1)


def _send_group(leader: int, number: int) -> None:
    """To the group of a worker that has not been waited for, so that the number is still its own."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:  # it has not made its group yet
        os.kill(leader, number)
    except PermissionError as error:  # all of the group are processes of another user (sudo)
        _say(f"cannot send signal {number} to group {leader}: {error}")


def _adopt_orphans() -> None:
    """Become the parent of whatever loses its own below us."""
    arguments = (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:  # what ctypes is made of: loading that would take a quarter of the time to start
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, arguments)
    except (ImportError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(*arguments)


def _say(text: str) -> None:
    """Into the supervisor's log, if that can be written."""
    try:  # noqa: SIM105  (contextlib would have to be loaded)
        os.write(2, text.encode(errors="replace") + b"\n")
    except OSError:
        pass


def main() -> None:
    """The plan comes on standard input. The exit code is the errno of what kept us from claiming the run."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    with open(0, "rb") as file:
        plan = marshal.load(file)
    os.open(os.devnull, os.O_RDONLY)  # in the place of standard input
    _adopt_orphans()
    protect(-500)
    supervisor = Supervisor(plan)
    try:
        if plan["sweeps"]:
            supervisor.sweep()
        else:
            supervisor.supervise()
    except OSError as error:
        _say(str(error))
        os._exit(error.errno or 1)  # sys.exit would change the code if the disk with our log is full
