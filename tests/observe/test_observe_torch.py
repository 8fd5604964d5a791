"""PyTorch's DistributedDataParallel over gloo: bytes and period are right, and skew is said to be hidden."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from observe_scenes import typical_step_s

from tiresias.observe import Pattern, observe

if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed (make test-torch installs it)", allow_module_level=True)

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples/train_torch_ddp.py"
EXAMPLE_BYTES = 4 * (20 * 64 + 64 + 64 + 1)
SECONDS = 200.0


@pytest.fixture(autouse=True)
def small(built, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.parametrize("workers", [2, 3])
def test_bytes_and_period_are_those_of_the_training(workers):
    from observe_ddp import PARAMETER_BYTES

    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as file:
        command = [sys.executable, str(HERE / "observe_ddp.py")]
        seen = observe(command, workers=workers, iterations=10**6, seconds=SECONDS, output=writing)
        os.close(writing)
        step_s = typical_step_s(file)
    assert seen.bytes_per_iteration == pytest.approx(2 * (workers - 1) * PARAMETER_BYTES, rel=0.05)
    assert seen.model_bytes == pytest.approx(PARAMETER_BYTES, rel=0.05)
    assert seen.period_s == pytest.approx(step_s, rel=0.15)
    assert seen.iterations > 50
    assert seen.workers == workers
    assert seen.pattern is Pattern.RING
    assert seen.skew is None
    assert "chunks" in seen.why


def test_the_example_under_torchrun(tmp_path):
    """The processes are torchrun's children; with so small a model a third of the bytes are gloo's own."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*torchrun, str(EXAMPLE), "--steps", "100000", "--step-seconds", "0.01"]
    seen = observe(command, seconds=SECONDS, cwd=tmp_path, output=subprocess.DEVNULL)
    assert seen.workers == 2
    assert 2 * EXAMPLE_BYTES < seen.bytes_per_iteration < 1.5 * 2 * EXAMPLE_BYTES
    assert seen.period_s > 0.01
    assert not seen.is_skew_visible
