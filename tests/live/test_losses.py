"""What interruptions cost a job, worked out from the records of its runs."""

from __future__ import annotations

import pytest

from tiresias.live.losses import Losses, losses, seconds_per_step
from tiresias.store import RunSpan


def test_a_job_that_was_never_interrupted_has_lost_nothing():
    run = RunSpan(100.0, 100.5, None, 160.0, (103.0, 1), (159.0, 57))
    assert losses([run]) == Losses(0, 0.0, startup_s=2.0)  # a step takes a second: it worked from 102 on
    assert losses([]) == Losses()


def test_a_preemption_costs_what_lies_between_the_steps_told_before_and_after():
    """Stopped at 20 after step 10, saved until 23; granted at 50, loaded until 54, step 11 done at 55."""
    runs = [
        RunSpan(9.0, 9.5, 20.0, 23.0, (11.0, 1), (20.0, 10)),
        RunSpan(50.0, 50.5, None, 60.0, (55.0, 11), (59.0, 15)),
    ]
    assert seconds_per_step(runs) == 1.0
    assert losses(runs) == Losses(1, 3.0 + 4.0, startup_s=1.0)


def test_steps_that_are_done_again_are_part_of_the_cost():
    """Killed after step 10, with a checkpoint of step 4: steps 5 to 10 are done twice."""
    runs = [
        RunSpan(9.0, 9.5, 20.0, 23.0, (11.0, 1), (20.0, 10)),
        RunSpan(50.0, 50.5, None, 70.0, (55.0, 5), (65.0, 15)),
    ]
    assert losses(runs).lost_s == 3.0 + 4.0 + 6.0


def test_it_does_not_matter_how_often_a_training_reports():
    """It tells every tenth step; a step takes a second, saving 3 s, loading 4 s."""
    runs = [
        RunSpan(0.0, 0.5, 25.0, 28.0, (11.0, 10), (21.0, 20)),
        RunSpan(50.0, 50.5, None, 80.0, (60.0, 30), (70.0, 40)),
    ]
    # It had done 24 steps when it was stopped, and told of 20.
    assert losses(runs).lost_s == pytest.approx(3.0 + 4.0)


def test_a_run_stopped_before_its_first_step_was_in_vain():
    told = RunSpan(20.0, 20.5, None, 40.0, (23.0, 1), (39.0, 17))
    in_vain = RunSpan(0.0, 0.5, 2.0, 3.0)
    assert losses([in_vain, told]).lost_s == 3.0
    resumed = RunSpan(60.0, 60.5, None, 70.0, (63.0, 18), (69.0, 24))
    stopped = RunSpan(20.0, 20.5, 39.0, 40.0, (23.0, 1), (39.0, 17))
    # One second to save, three in vain, two to load.
    assert losses([stopped, RunSpan(50.0, 50.5, 52.0, 53.0), resumed]) == Losses(2, 6.0, startup_s=2.0)


def test_of_a_training_that_tells_nothing_only_saving_and_starting_are_known():
    runs = [
        RunSpan(0.0, 0.5, 20.0, 23.0),
        RunSpan(50.0, 50.25, 60.0, 61.0),
        RunSpan(80.0, None, None, 81.0),  # it never started
    ]
    assert losses(runs) == Losses(2, 3.0 + 0.25 + 1.0 + 1.0, startup_s=0.5)


def test_a_run_that_failed_by_itself_is_no_interruption():
    runs = [
        RunSpan(0.0, 0.5, None, 20.0, (2.0, 1), (19.0, 18)),
        RunSpan(50.0, 50.5, None, 70.0, (52.0, 1), (69.0, 18)),
    ]
    assert losses(runs).interruptions == 0
    assert losses(runs).lost_s == 0.0


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ((-500.0, 1), (-480.0, 10)),
        ((11.0, 1), (500.0, 10)),
        ((11.0, None), (20.0, None)),
        ((12.0, 9), (12.0, 1)),
    ],
    ids=["its clock is behind", "its clock is ahead", "no steps", "steps that go back"],
)
def test_what_cannot_be_true_is_not_used(first, last):
    runs = [RunSpan(10.0, 10.5, 20.0, 23.0, first, last), RunSpan(50.0, 50.5, None, 60.0, first, last)]
    assert losses(runs) == Losses(1, 3.5, startup_s=0.5)
