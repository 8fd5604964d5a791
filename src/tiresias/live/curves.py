"""The metrics that the runs of a job have reported, as curves over its steps.

Rules: it can run in another thread, because it reads files only. The files belong to users: they are read as
`job.reports` reads them, and only up to a bound, so that nobody can make the manager read for long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tiresias.job.reports import Report, read_reports, reported_bytes

MOST_BYTES = 4 * 1024 * 1024  # of reports, of all runs together; the latest count
MOST_POINTS = 400
MOST_METRICS = 24


@dataclass(slots=True)
class Curves:
    """`metrics` has a value or null for each of the `steps`; of a step done twice the last counts."""

    steps: list[int] = field(default_factory=list)
    metrics: dict[str, list[float | None]] = field(default_factory=dict)


def curves(folders: Sequence[Path]) -> Curves:
    """The curves of a job; `folders` are those of its runs, the first run first."""
    by_step: dict[int, dict[str, float]] = {}
    names: dict[str, None] = {}
    for report in _reports(folders):
        if report.step is None:
            continue
        numbers = {name: _number(given) for name, given in report.metrics.items()}
        values = {name: value for name, value in numbers.items() if value is not None}
        if values:
            names |= dict.fromkeys(values)
            by_step.setdefault(report.step, {}).update(values)
    steps = _thinned(sorted(by_step))
    kept = list(names)[:MOST_METRICS]
    return Curves(steps, {name: [by_step[step].get(name) for step in steps] for name in kept})


def _number(value: object) -> float | None:
    """The value if it is a number that JSON can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        return None
    return float(value)


def _thinned(steps: list[int]) -> list[int]:
    """At most MOST_POINTS of the steps, evenly, with the first and the last."""
    if len(steps) <= MOST_POINTS:
        return steps
    last = len(steps) - 1
    return [steps[number * last // (MOST_POINTS - 1)] for number in range(MOST_POINTS)]


def _reports(folders: Sequence[Path]) -> Iterator[Report]:
    left = MOST_BYTES
    begins: list[tuple[Path, int]] = []
    for folder in reversed(folders):
        size = reported_bytes(folder)
        begins.append((folder, max(0, size - left)))
        left -= size
        if left <= 0:
            break
    for folder, offset in reversed(begins):
        yield from _read(folder, offset)


def _read(folder: Path, offset: int) -> Iterator[Report]:
    for _ in range(MOST_BYTES // (1 << 20) + 2):
        try:
            found = read_reports(folder, 0, offset)
        except OSError:  # the directory belongs to the user
            return
        yield from found.reports
        if found.offset == offset:
            return
        offset = found.offset
