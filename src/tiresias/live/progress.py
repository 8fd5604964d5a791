"""What trainings have told of their progress, read when somebody asks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from tiresias.core.model import RunId
from tiresias.job.progress import Progress, follow, outlook
from tiresias.job.reports import read_reports
from tiresias.live.reports import ProgressReport


class ProgressBook:
    """Reads on where it stopped; worker 0 speaks for the gang."""

    def __init__(self) -> None:
        self._read: dict[RunId, tuple[Progress, int]] = {}

    def of(self, run_id: RunId, job_dir: Path, now: float) -> ProgressReport | None:
        """None as long as nothing was told."""
        progress, offset = self._read.get(run_id, (Progress(), 0))
        while True:
            try:
                found = read_reports(job_dir, 0, offset)
            except OSError:
                break  # it is the user's directory: whatever is wrong with it, the job has told nothing new
            progress = follow(progress, found.reports)
            if found.offset == offset:
                break
            offset = found.offset
        self._read[run_id] = progress, offset
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

    def close(self, run_id: RunId, job_dir: Path, now: float) -> dict[str, Any] | None:
        """The last word of a run, to be kept."""
        told = self.of(run_id, job_dir, now)
        self._read.pop(run_id, None)
        return None if told is None else asdict(told) | {"steps_per_s": None, "eta_s": None}
