"""Writing of progress reports to a file: one JSON object per line, appended with a single write.

The file outlives both processes. The manager continues to read where it stopped; a training that is killed
leaves whole lines. If a line is cut all the same (by a full disk or a loss of power), the next report starts
on a new line, and the reader skips the damaged one.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import RLock

EVERY_S = 1.0
AT_MOST_S = 10.0
SLOWER_AFTER_S = 3600.0
LONGEST_LINE_BYTES = 16_384


class Reporter:
    """Keeps the latest report and writes it at most once per second, and at exit.

    After one hour the interval grows with the age of the process, up to ten seconds, so that months of
    training leave a file of megabytes and not of gigabytes.
    """

    def __init__(self, path: str) -> None:
        """If `path` is empty, reports are kept but not written."""
        self.path = path
        self._lock = RLock()  # reentrant, because a signal handler may report while its thread reports
        self._began = time.monotonic()
        self._wall_less_monotonic = time.time() - self._began
        self._due = 0.0
        self._reported: float | None = None
        self._step: object = None
        self._total_steps: object = None
        self._metrics: dict[str, object] = {}
        self._complained = False

    def report(self, *, step: object = None, total_steps: object = None, **metrics: object) -> None:
        """Report that `step` of `total_steps` steps are done, and any metrics."""
        with self._lock:
            self._reported = now = time.monotonic()
            if step is not None:
                self._step = step
            if total_steps is not None:
                self._total_steps = total_steps
            if metrics:
                self._metrics.update(metrics)
            if now >= self._due:
                self._write(now)

    def saved(self, step: object = None) -> None:
        """Write at once that the state after `step` steps is saved; None: after the last reported step."""
        with self._lock:
            if step is None:
                step = self._step
            else:
                self._step = step
            at = self._wall_less_monotonic + time.monotonic()
            self._write_line(encoded(at, step, self._total_steps, {}, saved=True))

    @property
    def steps(self) -> tuple[object, object]:
        """The step and the total number of steps that were last reported, as plain values."""
        return plain(self._step), plain(self._total_steps)

    def is_incomplete(self) -> bool:
        """Whether both are numbers, and the last reported step is not the last of all."""
        done, total = self.steps
        return isinstance(done, (int, float)) and isinstance(total, (int, float)) and done < total

    def flush(self) -> None:
        """Write the latest report, unless it is written already."""
        with self._lock:
            if self._reported is not None:
                self._write(self._reported)

    def after_fork(self) -> None:
        """Drop, in a forked child, what the parent has not written yet: the parent will write it."""
        self._lock = RLock()
        self._reported = None
        self._metrics = {}

    def _write(self, at: float) -> None:
        if self._due == 0.0:
            import atexit

            atexit.register(self.flush)
        self._due = at + min(AT_MOST_S, max(EVERY_S, (at - self._began) / SLOWER_AFTER_S))
        self._reported = None
        metrics, self._metrics = self._metrics, {}
        self._write_line(encoded(self._wall_less_monotonic + at, self._step, self._total_steps, metrics))

    def _write_line(self, line: bytes) -> None:
        if not self.path:
            return
        try:
            append(self.path, line)
        except OSError as error:
            if not self._complained:
                self._complained = True
                complain(
                    f"cannot write {self.path}: {error.strerror};"
                    " the training continues, but its progress is not shown"
                )


def encoded(
    at: float, step: object, total_steps: object, metrics: dict[str, object], *, saved: bool = False
) -> bytes:
    """A report as one line of JSON, without its metrics if they make it too long."""
    import json

    plain_metrics = {name: plain(value) for name, value in metrics.items()}
    report: dict[str, object] = {
        "at": round(at, 3),
        "step": plain(step),
        "total_steps": plain(total_steps),
        "metrics": plain_metrics,
    }
    if saved:
        report["saved"] = True
    line = json.dumps(report, separators=(",", ":")).encode() + b"\n"
    if len(line) > LONGEST_LINE_BYTES:
        report["metrics"] = {}
        line = json.dumps(report, separators=(",", ":")).encode() + b"\n"
    return line


def plain(value: object) -> object:
    """The value as a number, short text, boolean or None, which JSON can hold.

    Scalars of NumPy and PyTorch become numbers of Python; nan and infinities become text.
    """
    if value is None or isinstance(value, bool):
        return value
    if hasattr(value, "item"):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):  # not a scalar
            return str(value)[:200]
    if isinstance(value, int):
        return value if value.bit_length() < 64 else hex(value)[:200]  # readers refuse long integers
    if isinstance(value, float):
        return float(value) if value - value == 0 else str(float(value))  # JSON has no nan and no inf
    return str(value)[:200]


def append(path: str, line: bytes) -> None:
    """Append with one write. The file is opened for each call, so that forks do no harm."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line
        os.write(file, line)
    finally:
        os.close(file)


def complain(text: str) -> None:
    print(f"tiresias.job: {text}", file=sys.stderr, flush=True)
