"""The manager's side of what trainings tell: reads the files that they leave in a run's directory.

What is read was written by a user's program. Lines that are no reports are skipped, and nothing but a regular
file is opened: no pipe that would block the manager, no link that leads elsewhere.
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


@dataclass(frozen=True, slots=True)
class Report:
    """What a training told at `at` (epoch seconds): `step` steps of `total_steps` done, and its metrics.

    Metrics can be written as JSON as they are: nan and infinities have become text.
    """

    at: float
    step: int | None = None
    total_steps: int | None = None
    metrics: dict[str, Metric] = field(default_factory=dict)


class Read(NamedTuple):
    """Reports in the order written, and the offset in bytes at which to read on."""

    reports: list[Report]
    offset: int


def reported_bytes(run_dir: str | os.PathLike[str], worker: int = 0) -> int:
    """How much a worker has written; 0 when there is no file."""
    try:
        return os.lstat(_path(run_dir, worker)).st_size
    except OSError:
        return 0


def read_reports(
    run_dir: str | os.PathLike[str], worker: int = 0, offset: int = 0, most_bytes: int | None = None
) -> Read:
    """The reports of a worker from `offset` on; none when there is no file, or nothing new in it.

    A last line without its end is left for the next call. At most a mebibyte (or `most_bytes`) is read at
    once: call again until the offset stays the same.
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
        if found.st_size < offset:  # not the file that it was: begin again
            offset = 0
        chunk = os.pread(file, most, offset)
    finally:
        os.close(file)
    end = chunk.rfind(b"\n") + 1
    if end == 0:  # a line longer than a chunk is no report: skip it
        return Read([], offset + len(chunk) if len(chunk) == most else offset)
    parsed = (parse(line) for line in chunk[:end].split(b"\n"))
    return Read([report for report in parsed if report is not None], offset + end)


def _path(run_dir: str | os.PathLike[str], worker: int) -> str:
    return os.path.join(run_dir, f"report-{worker}.jsonl")


def is_finished(run_dir: str | os.PathLike[str]) -> bool:
    """Whether a worker of the run has said that the job's work is complete."""
    return os.path.lexists(os.path.join(run_dir, FINISHED))


def parse(line: bytes) -> Report | None:
    """A line as a report, None if it is none; a field that makes no sense counts as not given."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    at = record.get("at")
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at < 1e12:
        return None
    metrics = record.get("metrics")
    given = metrics.items() if isinstance(metrics, dict) else ()
    return Report(
        at=float(at),
        step=count(record.get("step")),
        total_steps=count(record.get("total_steps")) or None,
        metrics={name: metric(value) for name, value in given},
    )


def count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_STEPS else None


def metric(value: object) -> Metric:
    """Something that JSON can say, whatever it was."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, int | float | str) else str(value)[:200]
