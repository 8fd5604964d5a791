"""The reference page of the job SDK names everything that exists, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from tiresias import job

PAGE = (Path(__file__).parents[2] / "docs/reference/job-sdk.md").read_text(encoding="utf-8")


def first_cells(heading: str) -> list[str]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]


def test_every_public_name_is_documented_and_no_other():
    named = [re.findall(r"`(\w+)", cell)[0] for cell in first_cells("Functions")]
    assert sorted(named) == sorted(job.__all__)


def test_every_file_is_documented():
    assert [cell.strip(" `") for cell in first_cells("Files")] == ["report-WORKER.jsonl", "finished", "stop"]


def test_every_variable_that_is_read_is_documented():
    sources = Path(job.__file__).parent.glob("*.py")
    read = {name for path in sources for name in re.findall(r"TIRESIAS_[A-Z_]+", path.read_text("utf-8"))}
    assert read <= set(re.findall(r"TIRESIAS_[A-Z_]+", "".join(first_cells("Environment"))))
