"""Reading of the progress reports that trainings write into the directory of their run.

The manager must not trust these files, because programs of users write them. Lines that are not reports are
skipped, and only regular files are read: no pipe that would block the manager, no link to another file.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from dataclasses import dataclass, field
from typing import NamedTuple

from ._job import FINISHED

Metric = int | float | str | bool | None
CHUNK_BYTES = 1 << 20
MOST_STEPS = 2**53
LARGEST_WHOLE = 2**63 - 1  # of a metric; what encodes JSON for us takes no larger one


@dataclass(frozen=True, slots=True)
class Report:
    """One progress report: at `at` (epoch seconds) `step` of `total_steps` steps were done.

    All metrics can be encoded as JSON; nan and infinities are text. `saved`: the state after these steps was
    saved then.
    """

    at: float
    step: int | None = None
    total_steps: int | None = None
    metrics: dict[str, Metric] = field(default_factory=dict)
    saved: bool = False


class Read(NamedTuple):
    """Reports in the order in which they were written, and the offset in bytes for the next call."""

    reports: list[Report]
    offset: int


def reported_bytes(run_dir: str | os.PathLike[str], worker: int = 0) -> int:
    """The number of bytes that a worker has written; 0 if there is no file."""
    try:
        return os.lstat(_path(run_dir, worker)).st_size
    except OSError:
        return 0


def read_reports(
    run_dir: str | os.PathLike[str], worker: int = 0, offset: int = 0, most_bytes: int | None = None
) -> Read:
    """The reports of a worker from `offset` on; none if there is no file or nothing new in it.

    An incomplete last line is left for the next call. At most one mebibyte (or `most_bytes`) is read per
    call: call again until the offset stays the same.
    """
    path = _path(run_dir, worker)
    most = most_bytes or CHUNK_BYTES
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return Read([], offset)
        raise
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return Read([], offset)
        if found.st_size < offset:  # it is another file now: start from its beginning
            offset = 0
        chunk = os.pread(file, most, offset)
    finally:
        os.close(file)
    end = chunk.rfind(b"\n") + 1
    if end == 0:  # a line that is longer than a chunk is not a report: skip it
        return Read([], offset + len(chunk) if len(chunk) == most else offset)
    parsed = (parse(line) for line in chunk[:end].split(b"\n"))
    return Read([report for report in parsed if report is not None], offset + end)


def _path(run_dir: str | os.PathLike[str], worker: int) -> str:
    return os.path.join(run_dir, f"report-{worker}.jsonl")


def is_finished(run_dir: str | os.PathLike[str]) -> bool:
    """Whether a worker of the run has called `job.finished()`."""
    return os.path.lexists(os.path.join(run_dir, FINISHED))


def parse(line: bytes) -> Report | None:
    """The report in a line, or None if it is not a report. A field with a wrong value counts as not given."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    at = content.get("at")
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < 1e12:
        return None
    metrics = content.get("metrics")
    given = metrics.items() if isinstance(metrics, dict) else ()
    return Report(
        at=float(at),
        step=count(content.get("step")),
        total_steps=count(content.get("total_steps")) or None,
        metrics={name: metric(value) for name, value in given},
        saved=content.get("saved") is True,
    )


def count(value: object) -> int | None:
    """A number of steps, or None if it is not a sensible one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_STEPS else None


def metric(value: object) -> Metric:
    """The value of a metric, as text if JSON cannot hold it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:  # a float may not hold it either
        return str(value)[:200]
    return value if value is None or isinstance(value, int | float | str) else str(value)[:200]
