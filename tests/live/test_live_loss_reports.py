"""Losses that real trainings report become facts, thinned, and reach an allocator that learns from them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tiresias.core import facts as f
from tiresias.core.model import JobId, Phase
from tiresias.testing.live import SETTINGS, LiveLab

QUICK = SETTINGS | {"loss_every_s": 0.05}
TRAINING = """
import os, sys, time
from pathlib import Path
from tiresias import job
from tiresias.job import _reporter
_reporter.EVERY_S = 0.0
go_on, steps = Path(sys.argv[1]), int(sys.argv[2])
for step in range(1, steps + 1):
    job.report(step=step, loss=1.0 / step, epoch=step / 10)
    time.sleep(0.002)
job.report(step=steps + 1, loss=float("nan"))
while not go_on.exists():
    time.sleep(0.01)
"""


def losses(lab: LiveLab, id: JobId) -> list[f.LossReported]:
    found = lab.manager.journal.store.facts_of_job(id)
    return [each.fact for each in found if isinstance(each.fact, f.LossReported)]


def a_training(tmp_path: Path, steps: int = 200) -> tuple[str, ...]:
    return ("python", "-c", TRAINING, str(tmp_path / "go-on"), str(steps))


def test_reported_losses_become_facts_each_a_tenth_further(tmp_path: Path) -> None:
    with LiveLab(tmp_path / "home", gpus=1, policy="optimus", settings=QUICK) as lab:
        id = lab.submit(a_training(tmp_path))
        lab.until(lambda: (found := losses(lab, id)) and found[-1].step >= 150)
        (tmp_path / "go-on").touch()
        lab.until_ended(id)
        steps = [fact.step for fact in losses(lab, id)]
        assert all(after > 1.1 * before for before, after in pairwise(steps)), steps
        assert all(fact.loss == 1.0 / fact.step and fact.epoch == fact.step / 10 for fact in losses(lab, id))


def test_a_loss_that_is_no_number_is_skipped_and_counted(tmp_path: Path) -> None:
    with LiveLab(tmp_path / "home", gpus=1, policy="optimus", settings=QUICK) as lab:
        id = lab.submit(a_training(tmp_path, steps=5))
        lab.until(lambda: (shown := lab.of(id).progress) is not None and shown.skipped_losses)
        lab.until(lambda: losses(lab, id))
        assert lab.of(id).progress.skipped_losses == 1  # type: ignore[union-attr]
        assert [fact.step for fact in losses(lab, id)][-1] == 5, "the last that was a number"
        (tmp_path / "go-on").touch()
        lab.until_ended(id)


def test_after_a_restart_the_losses_of_runs_that_go_on_are_read_on(tmp_path: Path) -> None:
    with LiveLab(tmp_path / "home", gpus=1, policy="optimus", settings=QUICK) as lab:
        id = lab.submit(a_training(tmp_path))
        lab.until(lambda: losses(lab, id))
        lab.restart()
        known = len(losses(lab, id))
        lab.until(lambda: (found := losses(lab, id)) and len(found) > known and found[-1].step >= 150)
        assert lab.manager.state.memory.trainings.of[id].points[-1][0] >= 15, "the allocator knows of it"
        (tmp_path / "go-on").touch()
        lab.until_ended(id)


HUGE = "1" + "0" * 400
ABSURD = (
    f'{{"at": 1000.0, "step": 5, "metrics": {{"loss": {HUGE}, "epoch": {HUGE}}}}}',
    '{"at": 1000.0, "step": 5, "metrics": {"loss": 1e308, "epoch": 5e-324}}',
    '{"at": 1000.0, "step": 5, "metrics": {"loss": -1e308, "epoch": -1e308, "\\ud800": "\\udfff"}}',
)
REPORTING_TEXT = """
import os, sys, time
from pathlib import Path
go_on, text = Path(sys.argv[1]), sys.argv[2]
with open(os.path.join(os.environ["TIRESIAS_RUN_DIR"], "report-0.jsonl"), "a") as file:
    file.write(text + chr(10))
while not go_on.exists():
    time.sleep(0.01)
"""


@pytest.mark.parametrize("text", ABSURD)
def test_a_report_that_no_number_can_hold_disturbs_nobody(tmp_path: Path, text: str) -> None:
    with LiveLab(tmp_path / "home", gpus=1, policy="optimus", settings=QUICK) as lab:
        id = lab.submit(("python", "-c", REPORTING_TEXT, str(tmp_path / "go-on"), text))
        lab.until(lambda: (shown := lab.of(id).progress) is not None and shown.step == 5)
        other = lab.submit(("true",))
        looked = lab.manager.losses.next_due_at
        lab.until(lambda: lab.manager.losses.next_due_at > looked)
        (tmp_path / "go-on").touch()
        assert {each.phase for each in lab.until_ended(id, other)} == {Phase.SUCCEEDED}
        assert lab.manager.queries.policy()["name"] == "optimus", "its policy was not replaced"
