"""Scripts for Lightning, without a line about Tiresias, are resumed after the step at which they stopped."""

from __future__ import annotations

import subprocess

import pytest

EPOCHS, PER_EPOCH = 3, 10
STEPS = EPOCHS * PER_EPOCH
SAME = (
    "import sys, torch; a, b = map(torch.load, sys.argv[1:]); print(all(torch.equal(a[k], b[k]) for k in a))"
)


def are_same(python: str, one, other) -> bool:
    """Whether both have trained the same weights, to the last bit."""
    paths = [each.directory / "final.pt" for each in (one, other)]
    return subprocess.check_output([python, "-c", SAME, *paths], text=True) == "True\n"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["stateful", "plain"])
def test_an_unchanged_script_is_preempted_five_times(bench, training, kind, workers):
    options = (str(workers), str(EPOCHS), kind)
    alone = training("lightning_train.py", *options, name="alone")
    assert f"trained {STEPS}\n" in alone.run_alone(bench.python)
    mine = training("lightning_train.py", *options)
    mine.allow(4)
    id = bench.submit(mine, "--auto")
    bench.preempted_often(id, mine, times=5, every=4)
    assert mine.trained() == alone.trained() == STEPS
    assert f"trained {STEPS}\n" in bench.log(id)
    assert are_same(bench.python, alone, mine)


def test_two_processes_stop_after_the_same_step(bench, training):
    options = ("0", "8", "plain", "ddp")
    alone = training("lightning_train.py", *options, name="alone")
    alone.run_alone(bench.python)
    mine = training("lightning_train.py", *options)
    mine.allow(12)
    id = bench.submit(mine, "--auto")
    bench.preempted_often(id, mine, times=2, every=12)  # they agree at least after every tenth step
    assert mine.trained() == alone.trained()
    assert are_same(bench.python, alone, mine)
