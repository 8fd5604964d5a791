"""The PyTorch examples lose no step and repeat no step, alone and as a gang."""

from __future__ import annotations

import importlib.util
import signal

import pytest
from examples_runner import Example

from tiresias.job.reports import is_finished, read_reports

if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed (make test-torch installs it)", allow_module_level=True)

STEPS = 80


def uninterrupted(path, program: str, workers: int = 1) -> Example:
    made = Example(path, program, ["--steps", str(STEPS), "--out", "losses.csv"], workers)
    run = made.run()
    assert run.exit_codes == [0] * workers, run.errors
    return made


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return uninterrupted(tmp_path_factory.mktemp("alone"), "train_torch.py")


@pytest.fixture(scope="module")
def gang(tmp_path_factory):
    return uninterrupted(tmp_path_factory.mktemp("gang"), "train_torch_ddp.py", workers=2)


def assert_same(job: Example, other: Example) -> None:
    assert job.steps == other.steps
    assert (job.path / "losses.csv").read_bytes() == (other.path / "losses.csv").read_bytes()
    assert is_finished(job.runs[-1].run_dir)
    assert read_reports(job.runs[-1].run_dir).reports[-1].step == STEPS


def test_it_learns(alone, gang):
    for losses in ([float(loss) for _, loss in each.steps] for each in (alone, gang)):
        assert sum(losses[-10:]) < 0.7 * sum(losses[:10])


@pytest.mark.parametrize("loaders", [0, 2])
def test_preempted_it_does_every_step_once_with_the_same_loss(example, alone, loaders):
    """The signal reaches the data loaders' processes too: they outlive it, or the training could not save."""
    more = ("--loader-workers", str(loaders), "--out", "losses.csv")
    job = example("preempted", "train_torch.py", "--steps", str(STEPS), *more)
    for after_step in (1, 16, 20):
        run = job.run(signal.SIGTERM, after_step)
        assert run.exit_codes == [75], run.errors
    assert job.run().exit_codes == [0]
    assert_same(job, alone)


def test_a_preempted_gang_stops_at_one_step_and_does_every_step_once(example, gang):
    job = example("gang", "train_torch_ddp.py", "--steps", str(STEPS), "--out", "losses.csv", workers=2)
    for after_step in (1, 18):
        run = job.run(signal.SIGTERM, after_step)
        assert run.exit_codes == [75, 75], run.errors
    assert job.run().exit_codes == [0, 0]
    assert_same(job, gang)


def test_a_gang_stops_together_when_one_worker_has_got_the_signal(example, gang):
    job = example("one", "train_torch_ddp.py", "--steps", str(STEPS), "--out", "losses.csv", workers=2)
    run = job.run(signal.SIGTERM, 20, to=1)
    assert run.exit_codes == [75, 75], run.errors
    assert job.run().exit_codes == [0, 0]
    assert_same(job, gang)


def test_a_killed_gang_goes_on_from_its_last_checkpoint(example, gang):
    more = ("--save-every", "10", "--out", "losses.csv")
    job = example("killed", "train_torch_ddp.py", "--steps", str(STEPS), *more, workers=2)
    job.run(signal.SIGKILL, 25)
    assert job.run().exit_codes == [0, 0]
    assert sorted(set(job.steps)) == gang.steps
    assert job.runs[0].steps[-1][0] - job.runs[1].steps[0][0] < 10


def test_torchrun_passes_the_signal_on_and_its_processes_agree(tmp_path, gang):
    """It exits with 1, not 75: to the manager, any exit after its signal is that of a preempted run."""
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=PORT")
    options = ["--steps", str(STEPS), "--out", "losses.csv"]
    job = Example(tmp_path, "train_torch_ddp.py", options, launcher=torchrun)
    run = job.run(signal.SIGTERM, 20)
    assert run.exit_codes == [1]
    assert not is_finished(run.run_dir)
    assert sorted(path.name for path in run.run_dir.glob("report*")) == ["report-0.jsonl"]
    assert job.run().exit_codes == [0]
    assert_same(job, gang)
