"""Reports on their way into a file: one JSON object a line, each appended by a single write.

The file outlives both sides: the manager reads on from where it was, a trainer killed with -9 leaves whole
lines. Should a line be torn all the same (a full disk, a machine that lost power), the next one starts on a
line of its own, and the reader skips the torn one.
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
    """Keeps the newest of what is reported and writes it, at most once a second, and at exit.

    After an hour the pause grows with the age of the process, up to ten seconds: months of training leave a
    file of megabytes, not of gigabytes.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = RLock()  # a signal handler may report while its thread is reporting
        self._began = time.monotonic()
        self._wall_less_monotonic = time.time() - self._began
        self._due = 0.0
        self._reported: float | None = None
        self._step: object = None
        self._total_steps: object = None
        self._metrics: dict[str, object] = {}
        self._complained = False

    def report(self, *, step: object = None, total_steps: object = None, **metrics: object) -> None:
        """Tell how far the training is: `step` of `total_steps` steps done. Written once a second at most."""
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

    def flush(self) -> None:
        """Write what has not been written."""
        with self._lock:
            if self._reported is not None:
                self._write(self._reported)

    def after_fork(self) -> None:
        """What the parent has yet to write is the parent's."""
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
        line = encoded(self._wall_less_monotonic + at, self._step, self._total_steps, metrics)
        try:
            append(self.path, line)
        except OSError as error:
            if not self._complained:
                self._complained = True
                complain(
                    f"cannot write {self.path}: {error.strerror}; training goes on, its progress is not seen"
                )


def encoded(at: float, step: object, total_steps: object, metrics: dict[str, object]) -> bytes:
    """A report as a line; metrics that make it too long are left out."""
    import json

    plain_metrics = {name: plain(value) for name, value in metrics.items()}
    record = {
        "at": round(at, 3),
        "step": plain(step),
        "total_steps": plain(total_steps),
        "metrics": plain_metrics,
    }
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    if len(line) > LONGEST_LINE_BYTES:
        record["metrics"] = {}
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    return line


def plain(value: object) -> object:
    """A number, short text, truth value or None: NumPy's and PyTorch's scalars as Python's, nan as text."""
    if value is None or isinstance(value, bool):
        return value
    if hasattr(value, "item"):
        try:
            value = value.item()
        except (TypeError, ValueError, RuntimeError):  # not a scalar
            return str(value)[:200]
    if isinstance(value, int):
        return value if value.bit_length() < 64 else hex(value)[:200]  # more digits than a reader takes
    if isinstance(value, float):
        return float(value) if value - value == 0 else str(float(value))  # JSON has no nan and no inf
    return str(value)[:200]


def append(path: str, line: bytes) -> None:
    """Append with one write; opened each time, so that a fork or a closed descriptor does no harm."""
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
