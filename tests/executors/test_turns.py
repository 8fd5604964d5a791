"""Runs that share a GPU by turns: real supervisors, real SIGSTOP and SIGCONT, and real kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import sleep, time

import pytest

from tiresias.core.model import RunId
from tiresias.executors import run_files
from tiresias.executors.local import LocalExecutor
from tiresias.testing.executors import PYTHON, Bench, processes_of, until

SLICE_S = 0.5
STEPS = 200
# Each step takes about 10 ms of working time and appends one line with its instant.
TRAINING = f"""
import sys, time
with open(sys.argv[1], "a", buffering=1) as log:
    for step in range({STEPS}):
        time.sleep(0.01)
        log.write(f"{{step}} {{time.time()}}\\n")
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(LocalExecutor(tmp_path / "executor"), tmp_path)
    yield bench
    with closing(bench.executor):
        for run_id in bench.specs:
            bench.executor.stop(run_id, grace_s=0.0)
        until(lambda: not processes_of(tmp_path), "nothing of any run is left")


def another_manager(bench: Bench) -> None:
    """An executor that finds the runs of the one before, which has been closed."""
    bench.executor = LocalExecutor(bench.top / "executor")
    bench.executor.adopt(list(bench.specs.values()))


def train(bench: Bench, run: int, turn: int, turns: int, slice_s: float = SLICE_S) -> Path:
    """A training on the one GPU, with these turns; the file of its steps."""
    steps = bench.top / f"steps-{run}"
    bench.start(*PYTHON, TRAINING, str(steps), run=run)
    bench.executor.pace(RunId(run), turn, turns, slice_s)
    return steps


def instants(steps: Path) -> list[float]:
    if not steps.exists():
        return []
    return [float(line.split()[1]) for line in steps.read_text().splitlines()]


def supervisor_of(bench: Bench, run: int) -> int:
    claim = run_files.read(str(bench.specs[RunId(run)].run_dir), run_files.CLAIM)
    assert claim is not None
    return int(claim["pid"])


def states(bench: Bench) -> set[str]:
    """The states of the processes of all runs."""
    found = set()
    for pid in processes_of(bench.top):
        text = Path(f"/proc/{pid}/stat").read_text()
        found.add(text.rsplit(")", 1)[1].split()[0])
    return found


def test_two_trainings_take_turns_on_one_gpu_and_do_exactly_their_steps(bench: Bench) -> None:
    files = [train(bench, run, turn=run - 1, turns=2) for run in (1, 2)]
    for run, file in zip((1, 2), files, strict=True):
        assert bench.gone(run).status == 0
        steps = [int(line.split()[0]) for line in file.read_text().splitlines()]
        assert steps == list(range(STEPS))
    first, second = (instants(file) for file in files)
    slices = {int(at // SLICE_S) for at in first + second}
    assert len(slices) >= 8, "they shared the GPU for several slices"
    # Within a slice a step may end late, after the signal that it was stopped by; most must be in turn.
    in_turn = sum(int(at // SLICE_S) % 2 == turn for turn, some in ((0, first), (1, second)) for at in some)
    assert in_turn >= 0.8 * 2 * STEPS, in_turn


def test_a_run_without_turns_does_nothing_until_it_gets_one_and_turns_go_on_without_a_manager(
    bench: Bench,
) -> None:
    steps = train(bench, 1, turn=0, turns=0)
    bench.up(1)
    until(lambda: states(bench) == {"T"}, "the training is stopped")
    before = len(instants(steps))
    sleep(0.3)
    assert len(instants(steps)) == before
    bench.executor.pace(RunId(1), 0, 2, SLICE_S)
    bench.executor.close()  # as if the manager were gone
    until(lambda: len(instants(steps)) == STEPS, "all steps are done")
    another_manager(bench)
    assert bench.gone(1).status == 0
    assert len(instants(steps)) == STEPS


def test_a_stopped_run_ends_at_once_when_it_must_stop(bench: Bench) -> None:
    train(bench, 1, turn=0, turns=0)
    bench.up(1)
    until(lambda: states(bench) == {"T"}, "the training is stopped")
    began = time()
    bench.executor.stop(RunId(1), grace_s=30.0)
    assert bench.gone(1).stopped
    assert time() - began < 20.0


def test_a_killed_supervisor_leaves_nobody_stopped_even_if_there_is_no_manager(bench: Bench) -> None:
    steps = train(bench, 1, turn=0, turns=0)
    bench.up(1)
    until(lambda: states(bench) == {"T"}, "the training is stopped")
    bench.executor.close()
    os.kill(supervisor_of(bench, 1), signal.SIGKILL)
    until(lambda: "T" not in states(bench), "the training continues")
    until(lambda: len(instants(steps)) == STEPS, "and does all its steps")
    another_manager(bench)
    assert bench.gone(1).lost


def test_a_run_that_has_taken_turns_is_killed_when_it_does_not_stop_in_time(bench: Bench) -> None:
    """Its keeper, which is a child of the supervisor as well, must not keep it from ending."""
    stubborn = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    bench.start(*PYTHON, stubborn, run=1)
    bench.executor.pace(RunId(1), 0, 0, SLICE_S)
    bench.up(1)
    until(lambda: states(bench) == {"T"}, "the training is stopped")
    bench.executor.stop(RunId(1), grace_s=0.0)
    assert bench.gone(1).stopped
    assert not processes_of(bench.top)


HOPPER = """
import os, sys, time
if os.fork():
    while True:
        time.sleep(60)
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.002)
    open(sys.argv[1], "a").write("0 0" + chr(10))
    if os.fork():
        os._exit(0)
"""


def stands_still(bench: Bench, hops: Path) -> bool:
    """Many looks, because each may miss a process that lives for 2 ms."""
    before = hops.stat().st_size
    return all(states(bench) == {"T"} for _ in range(20)) and hops.stat().st_size == before


def test_a_process_that_forks_every_2_ms_stands_still_with_its_run(bench: Bench) -> None:
    """One look at the processes of the run would miss what was forked since."""
    hops = bench.top / "hops"
    bench.start(*PYTHON, HOPPER, str(hops), run=1)
    bench.up(1)
    until(lambda: len(instants(hops)) > 20, "it hops")
    for _ in range(3):
        bench.executor.pace(RunId(1), 0, 0, SLICE_S)
        until(lambda: stands_still(bench, hops), "all of it stands still")
        before = len(instants(hops))
        bench.executor.pace(RunId(1), 0, 1, SLICE_S)
        until(lambda before=before: len(instants(hops)) > before, "it hops on")  # type: ignore[misc]


@pytest.mark.parametrize("is_worker", [True, False], ids=["the worker", "a child of it"])
def test_a_run_that_somebody_continues_out_of_its_turn_is_stopped_again(
    bench: Bench, is_worker: bool
) -> None:
    """Its user may send SIGCONT from elsewhere."""
    steps = bench.top / "steps-1"
    program = [*PYTHON, TRAINING, str(steps)]
    # Bash, because dash uses vfork: it cannot be stopped while its child is stopped before its exec.
    bench.start(*program if is_worker else ["/bin/bash", "-c", '"$@"; :', "bash", *program], run=1)
    bench.executor.pace(RunId(1), 0, 0, SLICE_S)
    bench.up(1)
    until(lambda: states(bench) == {"T"}, "the training is stopped")
    pid = max(processes_of(bench.top))
    for _ in range(3):
        os.kill(pid, signal.SIGCONT)
        until(lambda: states(bench) == {"T"}, "it is stopped again")
    assert len(instants(steps)) < STEPS


def test_a_keeper_that_was_killed_is_followed_by_another_one(bench: Bench) -> None:
    steps = train(bench, 1, turn=0, turns=0)
    bench.up(1)
    until(lambda: states(bench) == {"T"}, "the training is stopped")
    children = Path(f"/proc/{supervisor_of(bench, 1)}/task/{supervisor_of(bench, 1)}/children")
    worker = processes_of(bench.top)[0]
    [keeper] = {int(pid) for pid in children.read_text().split()} - {worker}
    os.kill(keeper, signal.SIGKILL)
    bench.executor.pace(RunId(1), 0, 1, SLICE_S)
    until(lambda: "T" not in states(bench), "it works")
    bench.executor.pace(RunId(1), 0, 0, SLICE_S)
    until(lambda: "T" in states(bench) or len(instants(steps)) == STEPS, "it is stopped")
    assert len(instants(steps)) < STEPS
