"""Writes results as files, and summarises a grid of results.

Rules: the same results give the same bytes, whatever the hash seed. A file appears as a whole or not at all,
except the table of a sweep, which grows by one line per cell and survives a kill at any instant.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tiresias.sim.errors import InputError
from tiresias.sim.fabric import OFF

if TYPE_CHECKING:
    import polars as pl

    from tiresias.core.model import Cluster
    from tiresias.sim import Result
    from tiresias.sim.picture import Moment

Value = str | int | float | None

JOB_COLUMNS = (
    "id",
    "gpus",
    "submitted_at",
    "first_started_at",
    "finished_at",
    "jct_s",
    "wait_s",
    "runs",
    "preemptions",
    "service_gpu_s",
    "model",
    "nodes",
    "slowdown",
    "fragmented_s",
    "moved_resumes",
)
TIMELINE_COLUMNS = ("at", "busy_gpus", "running", "waiting")
OBJECTS = ("shares", "tenants")
"""What a summary has beside its figures: it is in no table."""
SUMMARY_KEYS = (
    "policy",
    "placer",
    "network",
    "models",
    "jobs",
    "rejected_jobs",
    "gpus",
    "avg_jct_s",
    "p50_jct_s",
    "p95_jct_s",
    "p99_jct_s",
    "max_jct_s",
    "avg_wait_s",
    "p95_wait_s",
    "makespan_s",
    "preemptions",
    "lost_gpu_s",
    "gpu_utilization",
    "avg_slowdown",
    "work_slowdown",
    "avg_nodes_per_job",
    "fragmentation_wait_s",
    "migrations",
    "moved_resumes",
    "max_rho",
    "p99_rho",
    "p50_rho",
    "jain",
    "events",
    "wall_s",
)
FAILURE_KEYS = ("failed_jobs", "failed_runs", "failed_gpu_s")
"""What a summary has only if trials were made to fail; the table of a sweep always has these columns."""
WORDS = ("policy", "placer", "network", "models")
"""The values of a summary that are not numbers."""
SWEEP_KEYS = ("key", "version", "trace", "seed", "cluster", "policy", "options", "preemption_cost_s")
SWEEP_COLUMNS = (*SWEEP_KEYS, *(name for name in SUMMARY_KEYS if name != "policy"), *FAILURE_KEYS)


def to_json(value: Any) -> str:
    """Indented JSON; a figure that does not exist, because no job finished, is null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_directory(path: Path) -> None:
    """Make the directory; call this before time is spent on what goes into it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InputError(f"--out {path}: a file of that name is in the way; name a directory") from error


def write_result(result: Result, directory: Path) -> list[Path]:
    """Write jobs.csv, timeline.csv, summary.json and the plots; return the paths."""
    from tiresias.sim import plots

    make_directory(directory)
    written = {
        "jobs.csv": _writes_table(result.jobs, JOB_COLUMNS),
        "timeline.csv": _writes_table(result.timeline, TIMELINE_COLUMNS),
        "summary.json": _writes_text(to_json(result.summary()) + "\n"),
        "jct-cdf.png": lambda path: plots.draw_jct_cdf([result], path),
        "timeline.png": lambda path: plots.draw_timeline(result, path),
    }
    return [_write(directory / name, write) for name, write in written.items()]


def write_comparison(results: Sequence[Result], directory: Path) -> list[Path]:
    """Write each result into a directory of its own, and plots of all results; return the paths."""
    from tiresias.sim import placement_plots, plots

    summaries = [result.summary() for result in results]
    written = [
        path
        for name, result in zip(short_names(summaries), results, strict=True)
        for path in write_result(result, directory / name)
    ]
    written.append(_write(directory / "summary.json", _writes_text(to_json(summaries) + "\n")))
    written.append(_write(directory / "jct-cdf.png", lambda path: plots.draw_jct_cdf(results, path)))
    if any(each["max_rho"] is not None for each in summaries):
        scatter = directory / "fairness.png"
        written.append(_write(scatter, lambda path: plots.draw_fairness(results, path)))
    if any(result.network != OFF for result in results):
        slowdown = directory / "slowdown.png"
        written.append(_write(slowdown, lambda path: placement_plots.draw_slowdown(results, path)))
    return written


def write_picture(moment: Moment, cluster: Cluster, title: str, directory: Path) -> Path:
    """Write cluster.png, which shows where each job is at a moment."""
    from tiresias.sim import placement_plots

    path = directory / "cluster.png"
    return _write(path, lambda part: placement_plots.draw_cluster(moment, cluster, title, part))


def short_names(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A short name for each of several results: its policy, its placer, or both, whichever differ."""
    if len({each["placer"] for each in summaries}) < 2:
        return [each["policy"] for each in summaries]
    if len({each["policy"] for each in summaries}) < 2:
        return [each["placer"] for each in summaries]
    return [f"{each['policy']}, {each['placer']}" for each in summaries]


def _write(path: Path, write: Callable[[Path], None]) -> Path:
    part = path.with_name(f".{path.name}.part")
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _writes_table(table: pl.DataFrame, columns: Sequence[str]) -> Callable[[Path], None]:
    return lambda path: table.select(columns).write_csv(path)


def _writes_text(text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_text(text, encoding="utf-8")

    return write


@dataclass(slots=True)
class SweepRow:
    """One finished cell of a grid."""

    key: str
    version: str
    trace: str
    seed: int | None
    cluster: str
    policy: str
    options: str  # as key=value, separated by spaces
    preemption_cost_s: float
    figures: dict[str, Value] = field(default_factory=dict)  # SUMMARY_KEYS without the policy, FAILURE_KEYS

    def number(self, name: str) -> float:
        """The figure, or NaN if there is none because no job finished."""
        figure = self.figures[name]
        return math.nan if figure is None else float(figure)

    def cells(self) -> list[Value]:
        """The row in the order of SWEEP_COLUMNS."""
        own = [getattr(self, name) for name in SWEEP_KEYS]
        return ["" if cell is None else cell for cell in [*own, *self._measured()]]

    def _measured(self) -> list[Value]:
        return [self.figures.get(name) for name in SWEEP_COLUMNS[len(SWEEP_KEYS) :]]


class SweepFile:
    """The table of a sweep on disk, locked for one writer; `rows` holds the finished cells by key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, SweepRow] = {}

    def __enter__(self) -> Self:
        try:
            self._file = self.path.open("a+b")
        except FileNotFoundError as error:
            raise InputError(f"--out {self.path}: there is no directory {self.path.parent}") from error
        except IsADirectoryError as error:
            raise InputError(f"--out {self.path} is a directory; name a CSV file") from error
        try:
            self._open()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, row: SweepRow) -> None:
        """Add a finished cell; it is in the file when this returns."""
        self.rows[row.key] = row
        self._append(row.cells())

    def _append(self, cells: Iterable[Value]) -> None:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(
            [cell.replace("\n", " ") if isinstance(cell, str) else cell for cell in cells]
        )
        self._file.write(line.getvalue().encode())
        self._file.flush()

    def _open(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{self.path} is being written by another sweep; wait for it or choose another --out"
            ) from error
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.decode(errors="replace").split("\n")[:-1]
        header = ",".join(SWEEP_COLUMNS)
        if not (lines[:1] == [header] or (not lines and header.startswith(content.decode(errors="replace")))):
            raise InputError(
                f"{self.path} exists and is not the table of a sweep of this version; choose another --out"
            )
        for number, cells in enumerate(csv.reader(lines[1:]), start=2):
            row = _parsed(cells, f"{self.path}:{number}")
            self.rows[row.key] = row
        if len(whole) < len(content):  # a kill left half a line: that cell runs again
            os.truncate(self.path, len(whole))
        if not lines:
            self._append(SWEEP_COLUMNS)


def _parsed(cells: Sequence[str], place: str) -> SweepRow:
    try:
        named = dict(zip(SWEEP_COLUMNS, cells, strict=True))
        figures: dict[str, Value] = {name: named[name] for name in SWEEP_COLUMNS[len(SWEEP_KEYS) :]}
        for name in figures:
            if name not in WORDS:
                figures[name] = float(named[name] or "nan")
        return SweepRow(
            key=named["key"],
            version=named["version"],
            trace=named["trace"],
            seed=int(named["seed"]) if named["seed"] else None,
            cluster=named["cluster"],
            policy=named["policy"],
            options=named["options"],
            preemption_cost_s=float(named["preemption_cost_s"]),
            figures=figures,
        )
    except ValueError as error:
        raise InputError(f"{place}: not a row of a sweep ({error}); remove the line or the file") from error


@dataclass(slots=True)
class Point:
    """One cluster, policy and setting of a grid: means over its seeds."""

    cluster: str
    policy: str
    options: str
    seeds: int
    means: dict[str, float]
    is_best: bool = False  # the lowest average JCT on its cluster
    is_pareto: bool = False  # no other point has at most as many GPUs and a lower average JCT

    @property
    def gpus(self) -> int:
        return round(self.means["gpus"])

    @property
    def avg_jct_s(self) -> float:
        return self.means["avg_jct_s"]


def frontier(rows: Iterable[SweepRow]) -> list[Point]:
    """The points of a grid by size, cluster and average JCT, the best and the Pareto-optimal ones marked.

    Only comparable points can be marked: those with all seeds and with the fewest rejected jobs.
    """
    groups: dict[tuple[str, str, str], list[SweepRow]] = {}
    for row in rows:
        groups.setdefault((row.cluster, row.policy, row.options), []).append(row)
    points = [
        Point(*names, len(group), {name: _mean(group, name) for name in SUMMARY_KEYS if name in _NUMBERS})
        for names, group in groups.items()
    ]
    points.sort(key=lambda each: (each.gpus, each.cluster, each.avg_jct_s, each.policy, each.options))
    comparable = _comparable(points)
    for point in comparable:
        rivals = [each for each in comparable if each.cluster == point.cluster]
        point.is_best = point.avg_jct_s == min(each.avg_jct_s for each in rivals)
        point.is_pareto = not any(_dominates(each, point) for each in comparable)
    return points


_NUMBERS = frozenset(SUMMARY_KEYS) - frozenset(WORDS)


def _mean(rows: Sequence[SweepRow], name: str) -> float:
    return math.fsum(row.number(name) for row in rows) / len(rows)


def _comparable(points: Sequence[Point]) -> list[Point]:
    measured = [point for point in points if math.isfinite(point.avg_jct_s)]
    seeds = max((point.seeds for point in measured), default=0)
    rejected = min((point.means["rejected_jobs"] for point in measured), default=0)
    return [point for point in measured if point.seeds == seeds and point.means["rejected_jobs"] == rejected]


def _dominates(one: Point, other: Point) -> bool:
    no_worse = one.gpus <= other.gpus and one.avg_jct_s <= other.avg_jct_s
    return no_worse and (one.gpus, one.avg_jct_s) != (other.gpus, other.avg_jct_s)
