"""Where things are in the manager's home."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tiresias.core.model import JobId


@dataclass(slots=True, frozen=True)
class Places:
    """`home` holds all state of one manager."""

    home: Path

    @property
    def journal(self) -> Path:
        return self.home / "journal.db"

    @property
    def executor(self) -> Path:
        return self.home / "executor"

    def job(self, id: JobId) -> Path:
        return self.home / "jobs" / str(id)

    def checkpoint(self, id: JobId) -> Path:
        return self.job(id) / "checkpoint"

    def run(self, id: JobId, number: int) -> Path:
        return self.job(id) / "runs" / str(number)

    def told(self, id: JobId, number: int) -> Path:
        """Where a run's training leaves what it tells; see RunSpec.job_dir."""
        return self.run(id, number) / "job"
