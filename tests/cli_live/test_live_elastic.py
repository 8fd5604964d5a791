"""An elastic training on fake GPUs: real workers, whose number an allocator changes while they work."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_cli import Program, eventually

from tiresias.api.client import Client

PATIENCE_S = 300.0  # for several starts and stops of trainings; the machine may be busy
EXAMPLES = Path(__file__).parents[2] / "examples"
POINTS, SAMPLES = 480, 480 * 50 + 24
# The example, which is slow until the test has seen what it wants to see.
TRAINING = f"""
import os, sys, time
sys.path.insert(0, {str(EXAMPLES)!r})
import train_elastic
train_elastic.pause = lambda seconds: None if os.path.exists(sys.argv[-1]) else time.sleep(seconds)
hurry = sys.argv[-1]
sys.argv[1:] = ["--samples", "{SAMPLES}", "--sample-seconds", "0.005"]
sys.argv.append(hurry)
parse = train_elastic.argparse.ArgumentParser.parse_args
train_elastic.argparse.ArgumentParser.parse_args = lambda self: parse(self, sys.argv[1:-1])
train_elastic.main()
"""


class Lab:
    """A manager whose allocator shares the GPUs out among all jobs, and an elastic training on it."""

    def __init__(self, tir: Program, tmp_path: Path):
        self.tir, self.hurry = tir, tmp_path / "hurry"
        self.checkpoint = tmp_path / "ckpt"
        plugin = ("--plugin", "tiresias.testing.own_allocators")
        started = tir(*plugin, "up", "--fake-gpus", "4", "--policy", "sized")
        assert started.code == 0, started.err
        self.client = Client(tir.home)

    def submit(self, gpus: str, *command: str, **options: str) -> int:
        given = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        return self.tir("submit", "-g", gpus, *given, "--", *command).id

    def train(self, gpus: str) -> int:
        script = (sys.executable, "-c", TRAINING, str(self.hurry))
        return self.submit(gpus, *script, launcher="per-gpu", ckpt_dir=str(self.checkpoint), name="training")

    def block(self, gpus: int) -> int:
        return self.submit(str(gpus), "sleep", "3600")

    def works_on(self, id: int, gpus: int) -> Any:
        """Wait until a run of so many workers has made progress."""

        def is_so() -> bool:
            found = self.client.job(id)["summary"]
            metrics = (found["progress"] or {}).get("metrics", {})
            is_it = found["phase"] == "RUNNING" and found["gpus"] == gpus and metrics.get("workers") == gpus
            assert found["phase"] not in ("FAILED", "SUCCEEDED"), found
            return is_it

        eventually(is_so, PATIENCE_S)

    def finishes(self, id: int) -> Any:
        self.hurry.touch()
        eventually(lambda: self.client.job(id)["summary"]["phase"] == "SUCCEEDED", PATIENCE_S)
        with np.load(self.checkpoint / "elastic.npz") as parts:
            samples, used = int(parts["samples"]), parts["used"]
        assert samples == SAMPLES
        assert used.sum() == SAMPLES
        assert sorted(set(used.tolist())) == [50, 51], "each point is used as often as any other"
        assert (used == 51).sum() == SAMPLES % POINTS

    def sizes(self, id: int) -> list[int]:
        return [len(run["slots"]) for run in self.client.runs(id)]


def why(tir: Program, id: int) -> str:
    return " ".join(tir("why", id).out.split())


@pytest.fixture
def lab(fresh: Program, tmp_path: Path):
    made = Lab(fresh, tmp_path)
    yield made
    made.client.close()


def test_a_training_goes_from_2_to_4_and_back_to_1_workers_and_uses_exactly_its_samples(lab: Lab) -> None:
    first = lab.block(2)
    training = lab.train("1..4")
    lab.works_on(training, 2)
    assert "2 of 1..4" in lab.tir("ls").out
    lab.client.cancel(first)
    lab.works_on(training, 4)
    assert "it has 4 of 1 to 4 GPUs, as sized wishes" in why(lab.tir, training)
    second = lab.block(3)
    lab.works_on(training, 1)
    events = " ".join(each["text"] for each in lab.client.job_events(training))
    assert "resized to go on with 4 GPUs, as the allocator wishes" in events
    assert "resized to go on with 1 GPU, as the allocator wishes" in events
    lab.finishes(training)
    assert lab.sizes(training) == [2, 4, 1]
    lab.client.cancel(second)


def test_a_manager_that_is_killed_in_the_middle_of_a_resize_ends_it_when_it_is_back(lab: Lab) -> None:
    first = lab.block(2)
    training = lab.train("1..4")
    lab.works_on(training, 2)
    pid = lab.client.status()["pid"]
    lab.client.cancel(first)
    eventually(lambda: any(run["revoked_at"] for run in lab.client.runs(training)), PATIENCE_S)
    os.kill(pid, signal.SIGKILL)
    started = lab.tir("up")
    assert started.code == 0, started.err
    lab.works_on(training, 4)
    second = lab.block(3)
    lab.works_on(training, 1)
    lab.finishes(training)
    assert lab.sizes(training) == [2, 4, 1]
    lab.client.cancel(second)


def test_a_range_that_makes_no_sense_is_refused(fresh: Program) -> None:
    assert fresh("up", "--fake-gpus", "2").code == 0
    for gpus, exit_code, what in (
        ("8..2", 2, "the smaller number comes first; write 2..8"),
        ("0..4", 2, "needs a GPU at least; write 1..4"),
        ("3..8", None, "asks for 3 GPUs, and there are 2 in all"),
    ):
        refused = fresh("submit", "-g", gpus, "--", "true")
        assert refused.code == exit_code or (exit_code is None and refused.code), refused
        assert what in refused.err.replace("\n", " "), refused.err
    refused = fresh("submit", "-g", "1..2", "--nodes", "1", "--", "true")
    assert refused.code
    assert "a gang on a number of nodes has one size" in refused.err.replace("\n", " ")
    job = fresh("submit", "-g", "1..8", "--hold", "--", "true").id
    assert "it has 1 of 1 to 8 GPUs: tiresias does not choose the sizes of jobs" in why(fresh, job)
