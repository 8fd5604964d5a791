"""Estimates of starts are measured by what became of them, and corrected by it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tiresias.live.eta import Estimate
from tiresias.live.foresight import LEAST, Record
from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import still_manager

ANN = Caller("ann", is_admin=True)


def estimate(p50_s: float, p90_s: float) -> Estimate:
    return Estimate(p50_s, p90_s, 100, "", p50_s + 600, p90_s + 1200)


def taught(record: Record, factor: float, starts: int, seed: int = 1) -> Record:
    """Jobs wait `factor` times as long as was estimated, give or take; estimates are of many sizes."""
    random = Random(seed)
    for number in range(starts):
        typical_s = random.choice((60.0, 600.0, 6000.0))
        forecast = record.forecast(number, estimate(typical_s, 3 * typical_s))
        assert forecast is not None
        record.started(forecast, number + typical_s * factor * random.lognormvariate(0, 1))
    return record


def test_nothing_is_claimed_before_enough_jobs_have_started():
    record = taught(Record(), 5.0, LEAST - 1)
    assert (record.shares(), record.in_words()) == (None, "")


@pytest.mark.parametrize("factor", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_right_shares_of_jobs_start_in_time_whatever_was_left_out(factor: float, seed: int):
    record = taught(Record(), factor, 400, seed)
    found = record.shares()
    assert found is not None
    assert found[0] == pytest.approx(0.5, abs=0.1)
    assert found[1] == pytest.approx(0.9, abs=0.1)
    assert "take them with care" not in record.in_words()


def test_how_far_off_they_are_is_said_until_they_are_right():
    record = taught(Record(), 1000.0, LEAST)
    assert "take them with care, they are off by" in record.in_words()


def test_the_end_moves_with_the_start_and_the_p90_is_never_before_the_p50():
    record = taught(Record(), 8.0, 200)
    found = record.corrected(estimate(60.0, 61.0))
    assert found.p50_s is not None
    assert found.p90_s is not None
    assert found.ends_p50_s is not None
    assert 60.0 < found.p50_s <= found.p90_s
    assert found.ends_p50_s - found.p50_s == pytest.approx(600.0)
    assert record.corrected(Estimate(unknown="few")) == Estimate(unknown="few")


def test_what_was_learned_is_stored_and_read_again():
    record = taught(Record(), 8.0, 50)
    again = Record.from_json(record.to_json())
    assert again.shares() == record.shares()
    assert again.corrected(estimate(60.0, 90.0)) == record.corrected(estimate(60.0, 90.0))


def test_the_manager_learns_when_a_job_starts_and_remembers_it(tmp_path: Path):
    with still_manager(tmp_path, 1) as (manager, _):
        asked = [Submission(("true",), str(tmp_path), {"PATH": "/bin"}) for _ in range(2)]
        first, second = manager.requests.submit(ANN, asked)
        manager.flush()
        manager.poll()
        assert manager.forecasts.next_job() == second, "the other runs already"
        manager.forecasts.keep(second, manager.now(), estimate(3600.0, 7200.0))
        manager.requests.cancel(ANN, first)
        manager.flush()
        manager.poll()
        manager.flush()
        assert list(manager.forecasts.record.latest) == [(True, True)]
    with still_manager(tmp_path, 1) as (manager, _):
        assert list(manager.forecasts.record.latest) == [(True, True)]
