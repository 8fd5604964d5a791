"""A policy of one's own on the command line, also in the workers of compare."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

WIDEST = """
from tiresias.core.plugins import Policy, policies


@policies.register
class WidestFirst(Policy):
    name = "widest-first"

    def rank(self, job, memory, at):
        return (-job.gpus,)
"""


def tiresias(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "TIRESIAS_PLUGINS"}
    command = [sys.executable, "-m", "tiresias.cli.main", *arguments]
    return subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=120)


def test_a_plugin_is_known_to_simulate_and_to_the_workers_of_compare(tmp_path: Path) -> None:
    (tmp_path / "widest.py").write_text(WIDEST)
    given = ("--plugin", "widest.py")
    trace = ("builtin:example", "--cluster", "1x2", "--preemption-cost", "0", "--json")
    one = tiresias(*given, "simulate", *trace, "--policy", "widest-first", cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    assert json.loads(one.stdout)["avg_jct_s"] == (2 + 8 + 16) / 3  # J1, then J3, then J2
    both = tiresias(*given, "compare", *trace, "--policies", "fifo,widest-first", cwd=tmp_path)
    assert both.returncode == 0, both.stderr
    assert [row["policy"] for row in json.loads(both.stdout)] == ["fifo", "widest-first"]


def test_a_plugin_that_is_missing_or_broken_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    wrong = {"nowhere.py": "no such file", "broken.py": "ZeroDivisionError", "no_module": "no_module"}
    for name, message in wrong.items():
        done = tiresias("--plugin", name, "policies", cwd=tmp_path)
        assert done.returncode == 2, done
        assert message in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
