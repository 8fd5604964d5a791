"""Output of jobs that ended long ago leaves the disk; nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.core.model import JobId
from tiresias.live.errors import NotFound
from tiresias.live.home_paths import HomePaths
from tiresias.live.prune import Pruned, prune
from tiresias.live.submission import Caller
from tiresias.testing.live import ADMIN, LiveLab

BOB = Caller("bob", is_admin=True)
SAVES = ("sh", "-c", "echo hello; echo 1 > $TIRESIAS_CHECKPOINT_DIR/state")


def pruned(lab: LiveLab, *, user: str | None = None, checkpoints: bool = False, dry: bool = False) -> Pruned:
    """Whatever has ended before now."""
    before_at = lab.manager.now() + 1
    return prune(HomePaths(lab.home), before_at=before_at, user=user, checkpoints=checkpoints, is_dry_run=dry)


def files(lab: LiveLab, id: JobId, what: str) -> list[Path]:
    return [path for path in (lab.home / "jobs" / str(id) / what).rglob("*") if path.is_file()]


def test_the_output_of_an_ended_job_is_removed_and_said_to_be(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        job = lab.submit(SAVES)
        lab.until_ended(job)
        found = pruned(lab)
        assert found.jobs == 1
        assert found.bytes > 0
        assert files(lab, job, "runs") == []
        assert len(files(lab, job, "checkpoint")) == 1
        with pytest.raises(NotFound, match="was removed"):
            lab.manager.queries.log_file(ADMIN, job)
        assert lab.of(job).phase == "SUCCEEDED"
        assert pruned(lab).jobs == 0
        lab.restart()  # the journal and the directories still belong together
        again = lab.submit("echo again")
        lab.until_ended(again)
        assert lab.output(again) == "again\n"


def test_a_job_that_has_not_ended_keeps_everything(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        job = lab.submit(("sh", "-c", "echo hello; sleep 600"))
        lab.until(lambda: lab.output(job) == "hello\n")
        assert pruned(lab, checkpoints=True).jobs == 0
        assert lab.output(job) == "hello\n"


def test_jobs_that_ended_later_and_those_of_others_are_kept(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        ours, theirs = lab.submit(SAVES), lab.submit(SAVES, by=BOB)
        lab.until_ended(ours, theirs)
        early = prune(
            HomePaths(tmp_path),
            before_at=lab.of(ours).submitted_at,
            user=None,
            checkpoints=True,
            is_dry_run=False,
        )
        assert early.jobs == 0
        assert pruned(lab, user="bob").jobs == 1
        assert files(lab, ours, "runs")
        assert not files(lab, theirs, "runs")


def test_a_dry_run_removes_nothing_and_counts_the_same(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        job = lab.submit(SAVES)
        lab.until_ended(job)
        asked = pruned(lab, checkpoints=True, dry=True)
        assert files(lab, job, "runs")
        assert files(lab, job, "checkpoint")
        done = pruned(lab, checkpoints=True)
        assert (done.jobs, done.bytes) == (asked.jobs, asked.bytes)
        assert not files(lab, job, "checkpoint")


def test_a_link_in_a_run_directory_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    with LiveLab(tmp_path / "home") as lab:
        job = lab.submit(("sh", "-c", f"ln -s {outside} $TIRESIAS_RUN_DIR/link"))
        lab.until_ended(job)
        assert pruned(lab).jobs == 1
        assert (outside / "precious").exists()
