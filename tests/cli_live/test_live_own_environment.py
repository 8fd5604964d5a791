"""The first minute of a user whose own Python environment has nothing of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from live_cli import eventually

TRAINING = """
import json, pathlib, sys, time
from tiresias import job

state = job.checkpoint_dir / "state.json"
step = json.loads(state.read_text()) if state.exists() else 0
print("begins at step", step)
while step < 6:
    if job.should_stop():
        job.save(state, lambda file: file.write(json.dumps(step).encode()))
        job.preempted()
    step += 1
    job.report(step=step, total_steps=6)
    print("step", step)
    while step == 3 and not job.resuming and not job.should_stop():
        time.sleep(0.01)
job.finished()
print("trained", "numpy" in sys.modules, [name for name in sys.modules if name.startswith("tiresias")])
"""


@pytest.fixture
def users_python(tmp_path):
    """The interpreter of an environment in which not even pip is installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    return str(tmp_path / "venv/bin/python")


def output(tir, id: int) -> str:
    return tir("logs", str(id), "--all-runs").out


def test_a_training_is_preempted_and_resumed_with_nothing_of_ours_installed(tir, client, users_python):
    Path("train.py").write_text(TRAINING)
    missing = subprocess.run([users_python, "-c", "import tiresias"], capture_output=True, check=False)
    assert b"ModuleNotFoundError" in missing.stderr
    id = tir("submit", "-g", "2", "-n", "mine", "--", users_python, "train.py").id
    eventually(lambda: "step 3" in tir("logs", "mine").out)  # printed, and not kept in a buffer
    client.requeue(id)
    assert tir("wait", "mine").out == f"job {id} (mine): SUCCEEDED\n"
    assert tir("logs", "mine").out.splitlines()[:2] == ["begins at step 3", "step 4"]
    assert "tiresias.job" in tir("logs", "mine").out


def test_a_framework_that_returns_early_does_not_end_the_job(tir, client, users_python):
    """It hides SIGTERM, saves, and returns from training as if it were complete."""
    Path("train.py").write_text("""
import os, pathlib, signal, time
from tiresias import job

stops = []
signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
done = 400 if job.resuming else 118
print("began")
while not job.resuming and not stops:
    time.sleep(0.01)
job.finished(step=done, total_steps=400)
""")
    id = tir("submit", "-n", "early", "--", users_python, "train.py").id
    eventually(lambda: "began" in tir("logs", "early").out)
    client.requeue(id)
    tir("wait", "early")
    summary = client.job(id)["summary"]
    assert (summary["phase"], summary["runs"]) == ("SUCCEEDED", 2)


HAS_HOOK = "import os, sys; print(os.environ.get('TIRESIAS_AUTO'), '_tiresias_hook' in sys.modules)"


def hook_in(program, python: str, *options: str) -> str:
    id = program("submit", *options, "--", python, "-c", HAS_HOOK).id
    program("wait", str(id))
    return program("logs", str(id)).out


def test_a_job_may_ask_for_the_hook(tir, users_python):
    assert hook_in(tir, users_python) == "None False\n"
    assert hook_in(tir, users_python, "--auto") == "1 True\n"


def test_a_lab_may_give_the_hook_to_every_job_and_remembers_it(fresh, users_python):
    fresh("up", "--fake-gpus", "1", "--auto")
    assert hook_in(fresh, users_python) == "1 True\n"
    assert hook_in(fresh, users_python, "--env", "TIRESIAS_AUTO=0") == "None False\n"
    assert "--auto and --no-auto cannot be combined" in fresh("up", "--auto", "--no-auto").err
    fresh("down")
    fresh("up")
    assert hook_in(fresh, users_python) == "1 True\n"
    fresh("down")
    fresh("up", "--no-auto")
    assert hook_in(fresh, users_python) == "None False\n"
