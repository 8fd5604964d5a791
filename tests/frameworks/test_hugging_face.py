"""Scripts for the Trainer of Hugging Face, without a line about Tiresias, are resumed to the last bit."""

from __future__ import annotations

import pytest

STEPS = 30


def weights(training) -> bytes:
    return (training.directory / "final/model.safetensors").read_bytes()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_unchanged_script_is_preempted_five_times_and_trains_the_same_weights(bench, training, workers):
    alone = training("hf_train.py", str(workers), str(STEPS), name="alone")
    assert alone.run_alone(bench.python).endswith(f"trained {STEPS}\n")
    mine = training("hf_train.py", str(workers), str(STEPS))
    mine.allow(5)
    id = bench.submit(mine, "--auto")
    bench.preempted_often(id, mine, times=5, every=5)
    assert mine.trained() == alone.trained() == STEPS
    assert weights(mine) == weights(alone)
