"""The progress reports of trainings, read when they are needed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.core.model import RunId
from tiresias.job.progress import Progress, follow, outlook
from tiresias.job.reports import Metric, Report, read_reports, reported_bytes
from tiresias.live.answers import ProgressInfo

READ_BYTES = 64 * 1024  # some hundred reports: the last ten minutes of a training that reports often
MOST_READS = 4
LOSS, EPOCH = "loss", "epoch"  # metrics with a meaning of their own
LARGEST_LOSS = 1e30  # what is larger, or nearer to 0 epochs, would make infinities of what policies compute
LEAST_EPOCH, LARGEST_EPOCH = 1e-9, 1e9


class LossPoint(NamedTuple):
    """The loss after `step` steps of `total_steps`, which were `epoch` epochs; None: it does not say."""

    step: float
    loss: float
    epoch: float | None
    total_steps: float | None


@dataclass(slots=True)
class Reading:
    """How far the reports of a run are read, and what they say."""

    progress: Progress = Progress()
    offset: int = 0
    first: tuple[float, int | None] | None = None  # the first report: instant and step
    saved: tuple[float, int | None] | None = None  # the last report that something is saved, likewise
    loss: LossPoint | None = None  # the last that was a number
    skipped_losses: int = 0  # how many were none


class ProgressReader:
    """Continues where it stopped reading. The reports of worker 0 count for the whole gang."""

    def __init__(self) -> None:
        self._read: dict[RunId, Reading] = {}

    def latest(self, run_id: RunId, job_dir: Path, now: float) -> ProgressInfo | None:
        """How far the training of a run has come; None as long as it has reported nothing."""
        reading = self._read.setdefault(run_id, Reading())
        self._read_on(reading, job_dir)
        progress = reading.progress
        if progress.reported_at is None:
            return None
        view = outlook(progress, now)
        return ProgressInfo(
            progress.step,
            progress.total_steps,
            view.fraction,
            view.steps_per_s,
            view.eta_s,
            dict(progress.metrics or {}),
            reading.skipped_losses,
        )

    def _read_on(self, reading: Reading, job_dir: Path) -> None:
        """Read what is new. Of very much only the end is read: a user's program must not delay the others."""
        for _ in range(MOST_READS):
            try:
                found = read_reports(job_dir, 0, reading.offset, READ_BYTES)
            except OSError:
                return  # the directory belongs to the user: if it cannot be read, nothing new was reported
            if reading.first is None and found.reports:
                reading.first = found.reports[0].at, found.reports[0].step
            for report in found.reports:
                if report.saved:
                    reading.saved = report.at, report.step
                if LOSS in report.metrics:
                    read_loss(reading, report)
            reading.progress = follow(reading.progress, found.reports)
            if found.offset == reading.offset:
                return
            reading.offset = max(found.offset, reported_bytes(job_dir) - READ_BYTES)

    def first_and_last(self, run_id: RunId, job_dir: Path, now: float) -> list[Any] | None:
        """The first and the last report of a run, each with its instant and step, for its exit record."""
        self.latest(run_id, job_dir, now)
        reading = self._read[run_id]
        if reading.first is None:
            return None
        last = reading.progress
        return [list(reading.first), [last.stepped_at or last.reported_at, last.step]]

    def loss(self, run_id: RunId) -> LossPoint | None:
        """The last loss that a run has reported, as far as its reports were read."""
        reading = self._read.get(run_id)
        return None if reading is None else reading.loss

    def saved(self, run_id: RunId) -> tuple[float, int | None] | None:
        """The last report of a run that its state is saved, as far as its reports were read."""
        reading = self._read.get(run_id)
        return None if reading is None else reading.saved

    def close(self, run_id: RunId, job_dir: Path, now: float) -> dict[str, Any] | None:
        """The last report of a run that has exited, as it is stored; its reports are not read again."""
        report = self.latest(run_id, job_dir, now)
        self._read.pop(run_id, None)
        return None if report is None else asdict(report) | {"steps_per_s": None, "eta_s": None}


def read_loss(reading: Reading, report: Report) -> None:
    """Take in the loss of a report: a number, after a number of steps."""
    loss, epoch = number(report.metrics[LOSS]), number(report.metrics.get(EPOCH))
    if loss is None or abs(loss) > LARGEST_LOSS:
        reading.skipped_losses += 1
        return
    if epoch is not None and not (epoch == 0 or LEAST_EPOCH <= epoch <= LARGEST_EPOCH):
        epoch = None
    step = report.step if report.step is not None else reading.progress.step
    if step is not None:
        reading.loss = LossPoint(step, loss, epoch, report.total_steps or reading.progress.total_steps)


def number(value: Metric) -> float | None:
    """A finite number, or None: nan and infinities come as text."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return float(value)
