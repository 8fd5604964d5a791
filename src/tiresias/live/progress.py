"""What trainings have told of their progress, read when somebody asks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tiresias.core.model import RunId
from tiresias.job.progress import Progress, follow, outlook
from tiresias.job.reports import read_reports, reported_bytes
from tiresias.live.reports import ProgressReport

READ_BYTES = 64 * 1024  # some hundred reports: the last ten minutes of a training that tells much
MOST_READS = 4


@dataclass(slots=True)
class Reading:
    """How far the reports of a run are read, and what they say."""

    progress: Progress = Progress()
    offset: int = 0
    first: tuple[float, int | None] | None = None  # the first report: instant and step


class ProgressBook:
    """Reads on where it stopped; worker 0 speaks for the gang."""

    def __init__(self) -> None:
        self._read: dict[RunId, Reading] = {}

    def of(self, run_id: RunId, job_dir: Path, now: float) -> ProgressReport | None:
        """None as long as nothing was told."""
        reading = self._read.setdefault(run_id, Reading())
        self._read_on(reading, job_dir)
        progress = reading.progress
        if progress.reported_at is None:
            return None
        view = outlook(progress, now)
        return ProgressReport(
            progress.step,
            progress.total_steps,
            view.fraction,
            view.steps_per_s,
            view.eta_s,
            dict(progress.metrics or {}),
        )

    def _read_on(self, reading: Reading, job_dir: Path) -> None:
        """What is new; of much only the end: nobody shall wait for what a user's program may write."""
        for _ in range(MOST_READS):
            try:
                found = read_reports(job_dir, 0, reading.offset, READ_BYTES)
            except OSError:
                return  # it is the user's directory: whatever is wrong with it, the job has told nothing new
            if reading.first is None and found.reports:
                reading.first = found.reports[0].at, found.reports[0].step
            reading.progress = follow(reading.progress, found.reports)
            if found.offset == reading.offset:
                return
            reading.offset = max(found.offset, reported_bytes(job_dir) - READ_BYTES)

    def told(self, run_id: RunId, job_dir: Path, now: float) -> list[Any] | None:
        """The first and the last report of a run, each with its instant and step, for its record."""
        self.of(run_id, job_dir, now)
        reading = self._read[run_id]
        if reading.first is None:
            return None
        last = reading.progress
        return [list(reading.first), [last.stepped_at or last.reported_at, last.step]]

    def close(self, run_id: RunId, job_dir: Path, now: float) -> dict[str, Any] | None:
        """The last word of a run, to be kept."""
        told = self.of(run_id, job_dir, now)
        self._read.pop(run_id, None)
        return None if told is None else asdict(told) | {"steps_per_s": None, "eta_s": None}
