"""When a waiting job starts, from the present queue and the durations of jobs that have ended."""

from __future__ import annotations

from pathlib import Path

from tiresias.live.eta import Ahead, Queue, estimate
from tiresias.live.why import in_words
from tiresias.testing.live import LiveLab

HOURS = [3600.0] * 40


def test_a_job_starts_when_the_jobs_ahead_have_ended():
    full = Queue((Ahead(4, 600.0),), capacity=4, gpus=1)
    found = estimate(full, HOURS, seed=1)
    assert (found.p50_s, found.p90_s) == (3000.0, 3000.0), "an hour, of which ten minutes are over"
    behind_two = Queue((Ahead(4, 0.0), Ahead(4, 0.0)), capacity=4, gpus=4)
    assert estimate(behind_two, HOURS, seed=1).p50_s == 7200.0
    assert estimate(Queue((Ahead(2, 0.0),), capacity=4, gpus=2), HOURS, seed=1).p50_s == 0.0


def test_a_small_job_passes_a_large_one_unless_the_order_is_strict():
    ahead = (Ahead(3, 0.0), Ahead(4, 0.0))
    assert estimate(Queue(ahead, capacity=4, gpus=1), HOURS, seed=1).p50_s == 0.0
    assert estimate(Queue(ahead, capacity=4, gpus=1, is_strict=True), HOURS, seed=1).p50_s == 7200.0


def test_a_job_that_ran_longer_than_any_before_is_expected_to_run_as_long_again():
    queue = Queue((Ahead(1, 7200.0),), capacity=1, gpus=1)
    assert estimate(queue, HOURS, seed=1).p50_s == 7200.0


def test_the_p90_is_later_than_the_median_where_durations_differ_and_the_same_seed_says_the_same():
    mixed = [60.0] * 30 + [36000.0] * 10
    queue = Queue((Ahead(1, 0.0),), capacity=1, gpus=1)
    found = estimate(queue, mixed, seed=7)
    assert (found.p50_s, found.p90_s) == (60.0, 36000.0)
    assert estimate(queue, mixed, seed=7) == found


def test_what_cannot_be_known_is_said():
    queue = Queue((Ahead(1, 0.0),), capacity=1, gpus=1)
    assert "only 29 jobs have ended" in in_words(estimate(queue, HOURS[:29], seed=1))
    assert estimate(Queue(queue.ahead * 2001, 1, 1), HOURS, seed=1).unknown
    assert "in service" in estimate(Queue((), capacity=1, gpus=2), HOURS, seed=1).unknown
    assert "within 60 s with a chance of 50 %" in in_words(estimate(queue, [60.0] * 30, seed=1))


def test_the_manager_asks_about_jobs_that_wait_for_their_rank_only(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2, policy="fifo") as lab:
        lab.until_ended(lab.submit("true"))
        runs = lab.submit("sleep 600", gpus=2)
        lab.until_running(runs)
        waits, held = lab.submit("true", gpus=1), lab.submit("true", hold=True)
        question = lab.manager.queries.outlooks.start(waits)
        assert question is not None
        queue, durations = question
        assert [(each.gpus, queue.capacity, queue.gpus) for each in queue.ahead] == [(2, 2, 1)]
        assert len(durations) == 1
        assert lab.manager.queries.outlooks.start(runs) is None
        assert lab.manager.queries.outlooks.start(held) is None


def test_a_training_that_reports_its_progress_is_believed():
    reports = Queue((Ahead(4, 600.0, 77.0),), capacity=4, gpus=1)
    assert estimate(reports, HOURS, seed=1).p50_s == 77.0
    runs = Queue((), capacity=4, gpus=4, executed_s=7200.0, left_s=30.0)
    assert estimate(runs, HOURS, seed=1).ends_p90_s == 30.0


TELLS = """
import time
from tiresias import job
for step in range(1, 100):
    job.report(step=step, total_steps=10_000)
    time.sleep(0.02)
time.sleep(600)
"""


def test_what_is_left_by_the_reports_of_a_run_counts_for_the_start_of_those_behind_it(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2, policy="fifo") as lab:
        runs = lab.submit(("python", "-c", TELLS), gpus=2)
        lab.until_running(runs)
        waits = lab.submit("true", gpus=1)

        def left_s() -> float | None:
            question = lab.manager.queries.outlooks.start(waits)
            assert question is not None
            return question[0].ahead[0].left_s

        lab.until(lambda: left_s() is not None)
        question = lab.manager.queries.outlooks.end(runs)
        assert question is not None
        assert question[0].left_s is not None
