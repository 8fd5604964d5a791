"""The recipes of the how-to on resumable trainings: each is run with a preemption in the middle.

Those that need a framework are in tests/frameworks and tests/examples; here are the loop of one's own, and
what the page says about trying it by hand.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from docs_pages import ROOT, blocks

from tiresias.core.model import Priority
from tiresias.testing.live import LiveLab

PAGE = ROOT / "docs/howto/make-training-resumable.md"
WAITING_AT = 40  # of 100 steps: here the first run waits until it is asked to stop
WAITS = f"""
import os, random, time
from tiresias import job as _job

_gauss, _drawn = random.Random.gauss, []

def gauss(self, mean, deviation):
    print("a step", flush=True)
    _drawn.append(1)
    while len(_drawn) == {WAITING_AT} and os.environ.get("TIRESIAS_RESUME") != "1" and not _job.should_stop():
        time.sleep(0.01)
    return _gauss(self, mean, deviation)

if "TIRESIAS_RUN_DIR" in os.environ:  # without Tiresias it trains to its end
    random.Random.gauss = gauss
"""
TESTED_BY = {
    "Without changes": ("frameworks/test_hugging_face.py", "frameworks/test_lightning.py"),
    "One line": ("frameworks/test_framework_recipes.py",),
    "Accelerate and torch.distributed.checkpoint": ("frameworks/test_framework_recipes.py",),
    "A plain loop": ("docs/test_recipes.py",),
    "NumPy": ("examples/test_train_numpy.py",),
    "PyTorch": ("examples/test_train_torch.py",),
    "Another number of GPUs": ("cli_live/test_live_elastic.py",),
    "Trackers": ("frameworks/test_framework_recipes.py",),
    "Try it before you submit": ("docs/test_recipes.py",),
    "If the code must not be changed": ("live/test_live_honest.py",),
}


def written(directory: Path) -> Path:
    """The loop of the page as a file."""
    [loop] = [block.text for block in blocks(PAGE) if "def train(total_steps):" in block.text]
    path = directory / "train.py"
    path.write_text(WAITS + loop, encoding="utf-8")
    return path


def environment(**more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | more


def whole(tmp_path: Path) -> str:
    """What a training prints at its end that nobody stops."""
    directory = tmp_path / "whole"
    directory.mkdir()
    command = [sys.executable, written(directory)]
    return subprocess.check_output(command, cwd=directory, env=environment(), text=True)


def test_the_plain_loop_is_preempted_in_the_middle_and_does_each_step_once(tmp_path: Path) -> None:
    script = written(tmp_path)
    with LiveLab(tmp_path / "h", gpus=1) as lab:
        id = lab.submit((sys.executable, str(script)))
        lab.until(lambda: lab.output(id).count("a step\n") == WAITING_AT)
        urgent = lab.submit("true", priority=Priority.HIGH)
        lab.until_ended(urgent, id)
        job = lab.of(id)
        assert (job.phase, job.runs, job.preemptions, job.resumable) == ("SUCCEEDED", 2, 1, True)
        first, second = (lab.output(id, run).splitlines(keepends=True) for run in (1, 2))
    assert first.count("a step\n") + second.count("a step\n") == 100
    assert second[-1] == whole(tmp_path)


def test_what_tiresias_does_can_be_done_by_hand(tmp_path: Path) -> None:
    written(tmp_path)
    [lines] = [block.text for block in blocks(PAGE) if "mktemp -d" in block.text]
    wait = f"until [ $(grep -c step begun) = {WAITING_AT} ]; do sleep 0.05; done;"
    by_hand = lines.replace("train.py & sleep 20;", f"train.py > begun & {wait}")
    assert by_hand != lines
    done = subprocess.check_output(["bash", "-c", by_hand], cwd=tmp_path, env=environment(), text=True)
    said, reports = done.split(whole(tmp_path))
    assert said == "75\n" + "a step\n" * (100 - WAITING_AT)
    assert json.loads(reports.splitlines()[-1])["step"] == 100


def test_every_section_with_a_recipe_has_a_test() -> None:
    """Whoever adds a recipe to the page says here which test runs it."""
    sections = [line[3:] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
    assert sections == list(TESTED_BY)
    for name in {name for names in TESTED_BY.values() for name in names}:
        text = (ROOT / "tests" / name).read_text(encoding="utf-8")
        assert "preempt" in text or "resize" in text, name
