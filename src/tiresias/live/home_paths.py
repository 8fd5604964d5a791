"""Where the files of a manager are in its home."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tiresias.core.model import JobId


@dataclass(slots=True, frozen=True)
class HomePaths:
    """`home` holds all files of one manager."""

    home: Path

    @property
    def journal(self) -> Path:
        return self.home / "journal.db"

    @property
    def executor(self) -> Path:
        return self.home / "executor"

    @property
    def snapshots(self) -> Path:
        return self.home / "snapshots"

    @property
    def sdk(self) -> Path:
        return self.home / "sdk"

    @property
    def jobs(self) -> Path:
        return self.home / "jobs"

    def job(self, id: JobId) -> Path:
        return self.jobs / str(id)

    def checkpoint(self, id: JobId) -> Path:
        return self.job(id) / "checkpoint"

    def run(self, id: JobId, number: int) -> Path:
        return self.job(id) / "runs" / str(number)

    def reports(self, id: JobId, number: int) -> Path:
        """The directory in which the training of a run leaves its progress reports; see RunSpec.job_dir."""
        return self.run(id, number) / "job"
