"""Scripts for the Trainer of Hugging Face, without a line about Tiresias, are resumed to the last bit."""

from __future__ import annotations

import pytest
from frameworks_bench import UNLIMITED, eventually

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


def test_the_processes_of_torchrun_stop_after_the_same_step(bench, training):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    alone = training("hf_train.py", "0", "40", name="alone", launcher=launcher)
    alone.run_alone(bench.python)
    mine = training("hf_train.py", "0", "40", launcher=launcher)
    mine.allow(12)
    id = bench.submit(mine, "--auto")
    bench.preempted_often(id, mine, times=2, every=12)  # they agree at least after every tenth step
    assert [mine.trained(0), mine.trained(1)] == [alone.trained(0), alone.trained(1)] == [40, 40]
    assert weights(mine) == weights(alone)


def test_a_checkpoint_that_was_cut_is_named_and_the_one_before_is_used(bench, training):
    mine = training("hf_train.py", "0", "20", "save")
    mine.allow(10)
    id = bench.submit(mine, "--auto")
    eventually(lambda: mine.trained() >= 10, "step 10")
    bench.client.hold(id)
    eventually(lambda: (bench.run_dirs(id)[0] / "job/stop").exists(), "the request to stop")
    mine.allow(UNLIMITED)
    eventually(lambda: bench.phase(id) not in ("RUNNING", "STOPPING"), "the end of the run")
    cut = mine.directory / "out/checkpoint-10/model.safetensors"
    cut.write_bytes(cut.read_bytes()[:100])
    bench.client.release(id)
    bench.succeeded(id)
    log = bench.log(id)
    assert log.count("is not used: model.safetensors has 100 bytes and not") == 1
    assert f"resuming from {mine.directory}/out/checkpoint-7\n" in log
    assert mine.trained() == 20 + 3  # steps 8 to 10 were done again


def test_two_jobs_in_one_directory_leave_each_other_alone(bench, training):
    mine = training("hf_train.py", "0", "12", "save")
    mine.allow(9)
    first = bench.submit(mine, "--auto", "-n", "first")
    bench.preempt(first, mine, 9, 9 + 12)  # it waits in its second run, at the last step that is allowed
    eventually(lambda: bench.runs(first) == 2, "the second run")
    bench.client.hold(first)
    eventually(lambda: bench.phase(first) not in ("RUNNING", "STOPPING", "STARTING"), "the first job is held")
    before = mine.trained()
    mine.allow(UNLIMITED)
    second = bench.submit(mine, "--auto", "-n", "second")
    bench.succeeded(second)
    assert mine.trained() == before + 12
    assert bench.log(second).count("has the checkpoints of another job") == 1
    bench.client.release(first)
    bench.succeeded(first)
    assert "is not used" not in bench.log(first)
    assert "trained 12\n" in bench.log(first)


def test_a_user_who_has_said_no_gets_no_hook(bench, training):
    mine = training("hf_train.py", "0", "2")
    id = bench.submit(mine, "--auto", TIRESIAS_AUTO="0")
    bench.succeeded(id)
    assert not list(mine.directory.glob("out/.tiresias-job"))
