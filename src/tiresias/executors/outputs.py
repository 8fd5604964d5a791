"""What the workers of a run write to: their logs, or pipes or a terminal that are copied into the logs.

Standard library only: every supervisor imports it.
"""

from __future__ import annotations

import os
import select

from tiresias.executors.spawn_worker import open_log

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    from collections.abc import Callable

    from tiresias.executors.copied_output import CopiedOutput
    from tiresias.executors.log_cap import LogCap
    from tiresias.executors.spawn_worker import Account
    from tiresias.executors.terminal import Terminal


class Outputs:
    """`handlers` has a function per descriptor that `poll` watches because of them."""

    def __init__(self, run_dir: str, poll: select.poll, cap: LogCap, account: Account | None):
        self._run_dir, self._poll, self._cap, self._account = run_dir, poll, cap, account
        self.handlers: dict[int, Callable[[], None]] = {}
        self.terminal: Terminal | None = None
        self._copied: list[CopiedOutput] = []
        self._first = ""  # the path of the first log

    def open(self, path: str, *, is_terminal: bool) -> int:
        """What the worker with this log writes to. The caller closes it."""
        log = open_log(path, self._account)
        self._first = self._first or path
        if not is_terminal and not self._cap.is_small:
            return log
        from tiresias.executors import copied_output  # here, because most supervisors copy nothing

        if is_terminal:
            from tiresias.executors.terminal import Terminal

            self.terminal = Terminal(self._run_dir, self._poll, self.handlers)
            source, output = self.terminal.master, self.terminal.slave
            copied = copied_output.CopiedOutput(source, log, self._cap, self.terminal.has_grown)
        else:
            source, output = copied_output.make_pipe()
            copied = copied_output.CopiedOutput(source, log, self._cap)
        self._copied.append(copied)
        self.handlers[source] = lambda: self._copy(copied)
        self._poll.register(source, select.POLLIN)
        return output

    def _copy(self, output: CopiedOutput) -> None:
        if self.terminal is not None and self.terminal.has_input:
            self.terminal.give_input()
        output.copy()
        if output.is_over:
            self._poll.unregister(output.source)
            del self.handlers[output.source]

    def say(self, text: str) -> None:
        """A line in the first log that is not the run's own, and no use of its terminal."""
        line = f"\n[tiresias: {text}]\n".encode()
        if self._copied:
            self._copied[0].add(line.replace(b"\n", b"\r\n") if self.terminal is not None else line)
        else:
            try:
                log = open_log(self._first, self._account)
                os.write(log, line)
                os.close(log)
            except OSError:
                pass
        if self.terminal is not None:
            self.terminal.has_grown()
            self.terminal.touched = False

    def was_touched(self) -> bool:
        """Whether there was input or output at the terminal since this was asked last."""
        if self.terminal is None:
            return False
        was, self.terminal.touched = self.terminal.touched, False
        return was

    def close(self) -> None:
        """At the end of the run: copy what is left."""
        for output in self._copied:
            output.copy_rest()
        if self.terminal is not None:
            self.terminal.close()
