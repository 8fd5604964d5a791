"""`compare` and `sweep` with `--on ray`: the same figures as here, also when workers and boxes are lost."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tiresias.testing.executors import until
from tiresias.testing.ray_bed import Bed

# Its simulations leave a mark, and wait until the file `go` is there: so they can be lost on purpose.
WAITING = """
import os, platform, time
from pathlib import Path
from tiresias.core.plugins import Policy, policies

MARKS = Path({marks!r})

@policies.register
class Waiting(Policy):
    \"\"\"First come, first served, once it is allowed.\"\"\"

    name = "waiting"

    def new_memory(self):
        (MARKS / f"{{platform.node()}}-{{os.getpid()}}-{{time.monotonic_ns()}}").touch()
        while not (MARKS / "go").exists():
            time.sleep(0.02)
        return None

    def rank(self, job, memory, at):
        return ()
"""
PATIENCE_S = 480.0  # on a busy machine a worker of Ray may take minutes to start
SIZES = ("1x2", "1x4", "1x6", "1x8", "1x10")


@pytest.fixture(scope="module")
def bed(bed: Bed) -> Bed:
    """Ray is started anew, because another test may have lost the raylet of the head.

    Ray connects a program to the head if that is among the raylets whose processes it sees, or else to any of
    them. The boxes see the processes of each other: without a head, a program gets the address of another
    box, and waits for ever for workers that look for it there.
    """
    for box in bed.boxes:
        box.end_ray()
    bed.start_ray()
    return bed


def rows(path: Path) -> list[tuple[str, str, str]]:
    with path.open(newline="") as file:
        return [(row["key"], row["cluster"], row["avg_jct_s"]) for row in csv.DictReader(file)]


def test_cells_of_a_lost_worker_and_of_a_lost_box_run_again_elsewhere(bed, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "waiting.py").write_text(WAITING.format(marks=str(marks)))
    sweep = ["tiresias", "--plugin", str(tmp_path / "waiting.py"), "sweep", "builtin:example"]
    sweep += ["--clusters", ",".join(SIZES), "--policies", "waiting"]
    away, here = tmp_path / "away.csv", tmp_path / "here.csv"
    on_ray = ["--on", "ray", "--address", bed.address, "--out", str(away)]
    begun = subprocess.Popen(
        bed.boxes[0].command([*sweep, *on_ray]), env=bed.env, stderr=subprocess.PIPE, text=True
    )
    try:
        until(lambda: len(list(marks.iterdir())) == len(bed.boxes), "each box simulates", within_s=PATIENCE_S)
        at_work = {name: int(pid) for name, pid, _ in (path.name.split("-") for path in marks.iterdir())}
        assert sorted(at_work) == bed.names
        os.kill(at_work["n1"], signal.SIGKILL)
        bed.boxes[3].end_ray()
        (marks / "go").touch()
        _, said = begun.communicate(timeout=PATIENCE_S)
    finally:
        begun.kill()
        begun.wait()
        begun.stderr.close()
        bed.boxes[3].start_node(labels="rack=r1")
    assert begun.returncode == 0, said
    assert "5 cells simulated, 0 taken" in said
    assert len(list(marks.iterdir())) - 1 == len(SIZES) + 2  # two of them were begun twice
    bed.boxes[0].run(*sweep, "--out", str(here), within_s=PATIENCE_S)
    assert sorted(rows(away)) == sorted(rows(here))


def test_a_comparison_on_ray_shows_what_one_on_this_machine_shows(bed):
    compare = ("tiresias", "compare", "builtin:testbed-480", "--cluster", "15x4", "--json")
    here = bed.boxes[1].run(*compare, within_s=PATIENCE_S)
    on_ray = ("--on", "ray", "--address", bed.address, "-j", "2")
    away = bed.boxes[1].run(*compare, *on_ray, within_s=PATIENCE_S)
    assert away.returncode == here.returncode == 0, away.stderr
    measured = [{k: v for k, v in each.items() if k != "wall_s"} for each in json.loads(away.stdout)]
    assert measured == [{k: v for k, v in each.items() if k != "wall_s"} for each in json.loads(here.stdout)]


def test_an_address_without_ray_is_refused(bed):
    nowhere = f"{bed.boxes[0].address}:1"
    compare = ("tiresias", "compare", "builtin:example", "--cluster", "1x2", "--on", "ray")
    refused = bed.boxes[0].run(*compare, "--address", nowhere)
    assert refused.returncode == 5
    assert f"no Ray answers at {nowhere}" in refused.stderr
    assert "Traceback" not in refused.stderr
