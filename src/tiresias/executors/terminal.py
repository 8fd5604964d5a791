"""The terminal of an interactive run. It belongs to the supervisor, so it outlives manager and clients.

The run has one side, as its controlling terminal. What it writes is copied into the log of the run, where all
readers find it. Input and the size of the window come through a socket in the directory of the run, which
only the user of the manager may open. A connection gets a byte whenever the log has grown.

Messages, one per packet:
    i  session (8 bytes)  number (8 bytes, big-endian)  input     answered: a (accepted) or f (full)
    w  rows (2 bytes, big-endian)  columns (2 bytes)              answered: a
Input is numbered by its session, and what was accepted before is not accepted again, so a client whose
connection broke may send it once more.

Standard library only: a supervisor imports it.
"""

from __future__ import annotations

import os
import select
import struct
from _socket import AF_UNIX, SO_PEERCRED, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_SEQPACKET, SOL_SOCKET
from _socket import socket as Socket

from tiresias.executors import procfs

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal

SOCKET = "terminal"  # its name in the directory of the run
INPUT, SIZE, ACCEPTED, FULL, GROWN = b"i", b"w", b"a", b"f", b"o"
MOST_INPUT_BYTES = 1 << 16  # of one message, and of all that the run has not read yet
MOST_CONNECTIONS = 64
MOST_SESSIONS = 64
USUAL_SIZE = (24, 80)  # rows and columns, until somebody is there to have another window


class Terminal:
    """`handlers` gets a function per descriptor, for the loop of the supervisor, whose `poll` it is."""

    def __init__(self, run_dir: str, poll: select.poll, handlers: dict[int, Callable[[], None]]):
        self._poll, self._handlers = poll, handlers
        self.master, self.slave = os.openpty()
        os.set_inheritable(self.master, False)
        os.fchmod(self.slave, 0o600)
        self._resize(*USUAL_SIZE)
        self._pending = b""  # input that the run has not taken yet
        self._seen: dict[bytes, int] = {}  # session: the number of its last input
        self._connections: dict[int, Socket] = {}
        self._is_asked = False  # the foreground was asked to end
        self.touched = True  # input or output since the last look
        self._directory = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listening = self._listen()
        poll.register(self._listening.fileno(), select.POLLIN)
        handlers[self._listening.fileno()] = self._accept

    def _listen(self) -> Socket:
        listening = Socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK)
        before = os.umask(0o177)
        try:  # through the descriptor: the path of a socket may have 107 bytes only
            listening.bind(f"/proc/self/fd/{self._directory}/{SOCKET}")
        finally:
            os.umask(before)
        listening.listen(MOST_CONNECTIONS)
        return listening

    def close(self) -> None:
        """Nobody can attach any more."""
        try:  # noqa: SIM105  (contextlib would have to be loaded)
            os.unlink(SOCKET, dir_fd=self._directory)
        except OSError:
            pass

    # --- connections -----------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            fd, _ = self._listening._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        connection = Socket(fileno=fd)
        connection.setblocking(False)
        _, uid, _ = struct.unpack("iII", connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))
        if uid not in (0, os.getuid()) or len(self._connections) >= MOST_CONNECTIONS:
            connection.close()
            return
        self._connections[fd] = connection
        self._handlers[fd] = lambda: self._receive(fd)
        self._poll.register(fd, select.POLLIN)

    def _receive(self, fd: int) -> None:
        connection = self._connections[fd]
        try:
            message = connection.recv(MOST_INPUT_BYTES + 64)
            if message:
                connection.send(self._take(message))
                return
        except BlockingIOError:  # it does not read the answers that it has asked for
            return
        except OSError:
            pass
        self._poll.unregister(fd)
        del self._handlers[fd], self._connections[fd]
        connection.close()

    def _take(self, message: bytes) -> bytes:
        if message[:1] == SIZE and len(message) == 5:
            self._resize(*struct.unpack(">HH", message[1:]))
            return ACCEPTED
        if message[:1] != INPUT or len(message) < 17:
            return FULL
        session, number, data = message[1:9], int.from_bytes(message[9:17], "big"), message[17:]
        if self._seen.get(session, -1) >= number:
            return ACCEPTED
        if len(self._pending) + len(data) > MOST_INPUT_BYTES:
            return FULL
        self._seen.pop(session, None)
        self._seen[session] = number
        if len(self._seen) > MOST_SESSIONS:
            del self._seen[next(iter(self._seen))]
        self._pending += data
        self.touched = True
        self.give_input()
        return ACCEPTED

    def has_grown(self) -> None:
        """The log has more output: wake all who are attached."""
        self.touched = True
        for connection in self._connections.values():
            try:
                connection.send(GROWN)
            except OSError:  # it has not read the last one yet, or is gone
                continue

    # --- the terminal ----------------------------------------------------------------------------------

    @property
    def has_input(self) -> bool:
        return bool(self._pending)

    def give_input(self) -> None:
        """Give the run as much of the input as it takes now."""
        try:
            while self._pending:
                self._pending = self._pending[os.write(self.master, self._pending) :]
        except BlockingIOError:
            pass
        except OSError:  # nobody has the terminal open
            self._pending = b""
        events = select.POLLIN | (select.POLLOUT if self._pending else 0)
        try:  # noqa: SIM105
            self._poll.modify(self.master, events)
        except OSError:  # it is not watched any more
            pass

    def _resize(self, rows: int, columns: int) -> None:
        import fcntl
        import termios

        # The kernel tells the foreground if the size has changed. Here it always does: a program that fills
        # the screen then draws it for who has come.
        for pixels in (1, 0):
            try:  # noqa: SIM105
                fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, pixels, 0))
            except OSError:
                pass

    def end(self, leader: int) -> None:
        """Ask the program in the foreground to end, and then the shell, which does not heed SIGTERM.

        To be called again until the run has ended. A shell that is hung up at once would hang up all its
        programs, which could then save nothing. One that is hung up just before it waits for input may notice
        only when it is hung up again.
        """
        try:
            foreground = os.tcgetpgrp(self.master)
            if foreground not in (0, leader):
                if self._is_asked:
                    return
                self._is_asked = True
                # Its number may be that of another group by now: only processes of our session count.
                asked = [
                    each
                    for each in procfs.all_processes()
                    if each.group == foreground and each.session == leader and each.alive
                ]
                for each in asked:
                    procfs.send(each, signal.SIGTERM)
                    procfs.send(each, signal.SIGCONT)
                if asked:
                    return
            os.killpg(leader, signal.SIGHUP)
        except OSError:  # it has ended just now
            pass


def take_terminal(slave: int) -> None:
    """Make it the controlling terminal of this process, which has just become the leader of a session."""
    import fcntl
    import termios

    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
