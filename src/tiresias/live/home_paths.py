"""Where the files of a manager are: in its home, and those of its runs in the folder that its nodes share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tiresias.core.model import JobId


@dataclass(slots=True, frozen=True)
class HomePaths:
    """`home` holds all files of one manager; those that its runs need are in `shared`, if there is one."""

    home: Path
    shared: Path | None = None

    @classmethod
    def of(cls, home: Path) -> Self:
        """Those of a manager that need not run: the options in its home tell of a shared folder."""
        try:
            shared = json.loads((home / "options.json").read_text(encoding="utf-8")).get("shared")
        except (OSError, ValueError, AttributeError):
            shared = None
        return cls(home, Path(shared) if isinstance(shared, str) and shared else None)

    @property
    def files(self) -> Path:
        """The directory for all that runs read and write."""
        return self.shared or self.home

    @property
    def journal(self) -> Path:
        return self.home / "journal.db"

    @property
    def executor(self) -> Path:
        return self.home / "executor"

    @property
    def snapshots(self) -> Path:
        return self.files / "snapshots"

    @property
    def sdk(self) -> Path:
        return self.files / "sdk"

    @property
    def jobs(self) -> Path:
        return self.files / "jobs"

    def job(self, id: JobId) -> Path:
        return self.files.joinpath("jobs", str(id))

    def checkpoint(self, id: JobId) -> Path:
        return self.job(id) / "checkpoint"

    def run(self, id: JobId, number: int) -> Path:
        return self.files.joinpath("jobs", str(id), "runs", str(number))

    def reports(self, id: JobId, number: int) -> Path:
        """The directory in which the training of a run leaves its progress reports; see RunSpec.job_dir."""
        return self.files.joinpath("jobs", str(id), "runs", str(number), "job")
