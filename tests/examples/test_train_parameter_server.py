"""The example with parameter servers learns, however many workers and servers it has, and ends."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest
from examples_runner import EXAMPLES


@functools.cache
def losses(*options: str) -> list[float]:
    command = [sys.executable, str(EXAMPLES / "train_parameter_server.py"), "--steps", "30", *options]
    env = dict(os.environ) | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    assert "8 tensors, 4,531,752 bytes, the largest 70.9%" in done.stdout
    return [float(line.split()[3]) for line in done.stdout.splitlines() if line.startswith("step ")]


@pytest.mark.parametrize(("workers", "servers"), [("1", "1"), ("2", "3")])
def test_it_learns(workers, servers):
    found = losses("--workers", workers, "--servers", servers)
    assert len(found) == 30
    assert sum(found[-10:]) < 0.7 * sum(found[:10])


def test_the_number_of_servers_changes_nothing_but_who_keeps_which_tensor():
    assert losses("--workers", "1", "--servers", "1") == losses("--workers", "1", "--servers", "3")
