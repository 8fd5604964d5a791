"""Runs on Ray have the niceness of the Ray node, and not that of Ray's workers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
from tiresias.executors.ray_agent import NodeAgent
os.nice(15)
NodeAgent("a")
print(os.nice(0))
"""


def niceness_of_an_agent(**env: str) -> int:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=kept | env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may have less niceness")
def test_an_agent_has_the_niceness_of_what_has_started_it():
    assert niceness_of_an_agent() == os.nice(0)


def test_an_administrator_who_has_told_ray_which_niceness_is_heeded():
    assert niceness_of_an_agent(RAY_worker_niceness="15") == min(os.nice(0) + 15, 19)
