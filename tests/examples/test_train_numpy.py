"""The NumPy example loses no step, repeats no step, and learns."""

from __future__ import annotations

import signal
from itertools import pairwise

import pytest
from examples_runner import Example

from tiresias.job.progress import Progress, follow
from tiresias.job.reports import is_finished, read_reports

STEPS = 150


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("uninterrupted")
    example = Example(path, "train_numpy.py", ["--steps", str(STEPS), "--out", "losses.csv"])
    run = example.run()
    assert (run.exit_codes, run.errors) == ([0], "")
    return example


def test_it_learns(example):
    losses = [float(loss) for _, loss in example("learns", "train_numpy.py", "--steps", "600").run().steps]
    assert sum(losses[-20:]) < 0.5 * sum(losses[:20])


def test_preempted_again_and_again_it_does_every_step_once_with_the_same_loss(example, uninterrupted):
    job = example("preempted", "train_numpy.py", "--steps", str(STEPS), "--out", "losses.csv")
    for after_step in (1, 2, 15, 16, 30, 33):
        run = job.run(signal.SIGTERM, after_step)
        assert (run.exit_codes, run.errors) == ([75], "")
        assert not is_finished(run.run_dir)
    last = job.run()
    assert (last.exit_codes, last.errors) == ([0], "")
    assert job.steps == uninterrupted.steps
    curves = [(each.path / "losses.csv").read_bytes() for each in (job, uninterrupted)]
    assert curves[0] == curves[1]
    assert is_finished(last.run_dir)


def test_preempted_while_it_starts_it_loses_nothing(example, uninterrupted):
    job = example("starting", "train_numpy.py", "--steps", str(STEPS))
    for _ in range(3):
        run = job.run(signal.SIGTERM)
        assert run.exit_codes in ([75], [-signal.SIGTERM])
    job.run()
    assert job.steps == uninterrupted.steps


def test_killed_it_goes_on_from_its_last_checkpoint(example, uninterrupted):
    job = example("killed", "train_numpy.py", "--steps", str(STEPS), "--save-every", "10")
    for after_step in (12, 20, 35):
        assert job.run(signal.SIGKILL, after_step).exit_codes == [-signal.SIGKILL]
    job.run()
    assert sorted(set(job.steps)) == uninterrupted.steps
    for before, after in pairwise(job.runs):
        repeated = before.steps[-1][0] - after.steps[0][0] + 1
        assert 0 <= repeated <= 10


def test_its_reports_tell_its_progress(example):
    job = example("reports", "train_numpy.py", "--steps", "100")
    first, last = job.run(signal.SIGTERM, 3), job.run()
    halfway = follow(Progress(), read_reports(first.run_dir).reports)
    assert halfway.step == first.steps[-1][0]
    done = follow(Progress(), read_reports(last.run_dir).reports)
    assert (done.fraction, str(done.metrics["loss"])) == (1.0, last.steps[-1][1])


def test_run_again_after_its_end_it_has_nothing_to_do(example):
    job = example("again", "train_numpy.py", "--steps", "5")
    job.run()
    again = job.run()
    assert (again.exit_codes, again.steps) == ([0], [])
    assert is_finished(again.run_dir)


def test_each_worker_of_a_gang_trains_in_a_file_of_its_own(example):
    job = example("gang", "train_numpy.py", "--steps", "400", workers=2)
    assert job.run(signal.SIGTERM, 3).exit_codes == [75, 75]
    last = job.run()
    assert last.exit_codes == [0, 0]
    assert not is_finished(last.run_dir)
    assert sorted(path.name for path in (job.path / "ckpt").iterdir()) == ["numpy-0.npz", "numpy-1.npz"]


def test_a_checkpoint_of_another_seed_is_refused(example):
    job = example("seed", "train_numpy.py", "--steps", "5")
    job.run()
    job.options += ["--seed", "7"]
    run = job.run()
    assert run.exit_codes == [1]
    assert run.errors.endswith("numpy-0.npz was saved with seed 0, not 7; remove it to start again\n")
