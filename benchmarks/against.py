"""This tree beside others: `python -m benchmarks.against TREE... [--rounds 6] [--instructions | --restart]`.

A manager without processes (`tiresias.testing.still`) does the same work in every tree, by turns, each time
in a new process: it is filled with jobs, it decides and commits submissions, cancellations and exits, and it
is opened again. Processor time is shown as the median over the rounds, because wall time depends on what else
the machine does. With `--instructions` valgrind counts the instructions, which do not depend on that at all.

With `--restart` each tree gets a real manager with jobs that wait instead. It is killed and started again, by
turns; the figure is its processor time until it is ready.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.managers import ManagerProcess, manager_process

HERE = Path(__file__).resolve().parent.parent
WORK = Path(__file__).with_name("against_work.py")
STAGES = ("fill", "decide", "open")
Measure = Callable[[Path, int], dict[str, float]]  # of a tree and a number of jobs: a figure per stage
MARKER = "os_getloadavg"  # the C function behind the one that `against_work` calls and that nothing else does


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE", help="another checkout of Tiresias")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each tree (default: 6)")
    parser.add_argument("--jobs", type=int, default=3000, help="jobs that wait (default: 3,000)")
    counts = "count instructions with valgrind, once per tree"
    parser.add_argument("--instructions", action="store_true", help=counts)
    parser.add_argument("--restart", action="store_true", help="restart real managers")
    given = parser.parse_args()
    trees = [HERE, *(tree.resolve() for tree in given.trees)]
    with ExitStack() as stack:
        if given.restart:
            measure, unit = stack.enter_context(_managers(trees, given.jobs)), "s of CPU"
        else:
            measure, unit = (_instructions, "G instructions") if given.instructions else (_cpu_s, "s of CPU")
        _compare(trees, measure, given.jobs, 1 if given.instructions else given.rounds, unit)


def _compare(trees: list[Path], measure: Measure, jobs: int, rounds: int, unit: str) -> None:
    figures: dict[Path, list[dict[str, float]]] = {tree: [] for tree in trees}
    for number in range(rounds):
        for tree in trees if number % 2 else reversed(trees):
            figures[tree].append(measure(tree, jobs))
            shown = ", ".join(f"{stage} {figure:.3f}" for stage, figure in figures[tree][-1].items())
            print(f"against: {tree.name}: {shown} {unit}", flush=True)
    for stage in figures[HERE][0]:
        here = median(each[stage] for each in figures[HERE])
        print(f"against: {stage}: {here:.3f} {unit} here")
        for tree in trees[1:]:
            there = median(each[stage] for each in figures[tree])
            print(f"against: {stage}: {there:.3f} {unit} in {tree.name}; here {here / there:.3f} times that")


def _run(tree: Path, jobs: int, *prefix: str) -> dict[str, float]:
    """Do the work in a new process with the code of that tree; return the processor time of each stage."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as folder:
        command = [*prefix, sys.executable, str(WORK), folder, str(jobs)]
        done = subprocess.run(command, env=environment, cwd=folder, stdout=subprocess.PIPE, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _cpu_s(tree: Path, jobs: int) -> dict[str, float]:
    return _run(tree, jobs)


@contextmanager
def _managers(trees: list[Path], jobs: int) -> Iterator[Measure]:
    """A manager per tree, with jobs that wait; the function given restarts that of a tree."""
    with ExitStack() as stack:
        managers: dict[Path, ManagerProcess] = {}
        for tree in trees:
            one = manager_process(policy="tiresias-l", code=tree / "src")
            managers[tree] = stack.enter_context(one)
            managers[tree].fill(jobs)

        def restart(tree: Path, jobs: int) -> dict[str, float]:
            managers[tree].kill()
            managers[tree].start()
            return {"restart": managers[tree].cpu_s()}

        yield restart


def _instructions(tree: Path, jobs: int) -> dict[str, float]:
    """Billions of instructions of each stage. Between two stages the work calls MARKER, where valgrind writes
    what it has counted since the last time."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "counted"
        options = (f"--callgrind-out-file={out}", f"--dump-before={MARKER}")
        _run(tree, jobs, "valgrind", "-q", "--tool=callgrind", *options)
        parts = sorted(Path(folder).glob("counted.*"), key=lambda part: int(part.suffix[1:]))
        if len(parts) != 1 + len(STAGES):
            sys.exit(f"{sys.executable} has no symbols by which valgrind could find {MARKER}")
        return {stage: _total(part) / 1e9 for stage, part in zip(STAGES, parts[1:], strict=True)}


def _total(counted: Path) -> int:
    [total] = [line for line in counted.read_text().splitlines() if line.startswith("totals:")]
    return int(total.split()[1])


if __name__ == "__main__":
    main()
