"""Progress, speed and remaining time, from reports alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.job.progress import Outlook, Progress, advance, follow, outlook
from tiresias.job.reports import Report


def at_pace(steps_per_s: float, seconds: int, total: int | None = 1000, every: int = 1, begin: int = 0):
    return [Report(100.0 + s, begin + int(s * steps_per_s), total) for s in range(0, seconds + 1, every)]


def test_before_any_report_nothing_is_known():
    assert outlook(Progress(), 5) == Outlook(None, None, None)


def test_one_report_gives_the_progress_but_no_speed():
    assert outlook(follow(Progress(), at_pace(2, 0, begin=250)), 100) == Outlook(0.25, None, None)


def test_steady_steps_give_the_speed_and_the_remaining_time():
    known = follow(Progress(), at_pace(2, 100))
    assert outlook(known, 200) == Outlook(0.2, pytest.approx(2), pytest.approx(400))


@pytest.mark.parametrize("every", [1, 7, 100, 1000])
def test_the_speed_does_not_depend_on_the_interval_of_reports(every):
    known = follow(Progress(), at_pace(0.5, 2000, total=2000, every=every))
    assert known.steps_per_s == pytest.approx(0.5, rel=0.02)


def test_the_remaining_time_shrinks_while_there_is_no_report():
    known = follow(Progress(), at_pace(2, 100))
    assert outlook(known, 201).eta_s == pytest.approx(399)


def test_the_speed_follows_a_change_within_minutes_and_not_at_once():
    fast = follow(Progress(), at_pace(10, 600, total=None))
    slow = [Report(700.0 + s, 6000 + s, None) for s in range(1, 301)]
    assert 8 < follow(fast, slow[:5]).steps_per_s < 10
    assert follow(fast, slow).steps_per_s == pytest.approx(1, abs=0.1)


def test_a_resumed_run_counts_the_steps_of_this_run_only():
    known = follow(Progress(), at_pace(2, 50, begin=800))
    assert outlook(known, 150) == Outlook(0.9, pytest.approx(2), pytest.approx(50))


def test_going_back_to_a_checkpoint_lowers_the_progress_and_keeps_the_speed():
    known = follow(Progress(), at_pace(2, 100))
    back = advance(known, Report(201.0, 50, 1000))
    assert back.fraction == 0.05
    assert back.steps_per_s == known.steps_per_s
    assert advance(back, Report(202.0, 52, 1000)).steps_per_s == pytest.approx(2)


def test_without_reports_the_speed_falls_and_the_remaining_time_grows():
    known = follow(Progress(), at_pace(2, 100))
    etas = [outlook(known, 200 + silent).eta_s for silent in (0, 60, 300, 3600)]
    assert etas[1:] == sorted(etas[1:])
    assert etas[3] > etas[0]
    assert outlook(known, 3800).steps_per_s < 0.1


def test_slow_steps_do_not_count_as_a_standstill():
    known = follow(Progress(), [Report(100.0 + 300 * s, s, 100) for s in range(5)])
    assert outlook(known, 1300 + 290).steps_per_s == pytest.approx(1 / 300, rel=0.01)


def test_reports_without_a_step_change_neither_progress_nor_speed():
    known = follow(Progress(), at_pace(2, 100))
    more = advance(known, Report(230.0, None, None, {"accuracy": 0.5}))
    assert (more.fraction, more.steps_per_s) == (known.fraction, known.steps_per_s)
    assert more.metrics == {"accuracy": 0.5}


def test_metrics_stay_until_they_are_reported_again_and_their_number_is_limited():
    first = advance(Progress(), Report(1, 1, 9, {"loss": 2.0, "accuracy": 0.1}))
    known = advance(first, Report(2, 2, 9, {"loss": 1.0}))
    assert known.metrics == {"loss": 1.0, "accuracy": 0.1}
    known = follow(known, [Report(3, 3, 9, {f"metric{number}": 1}) for number in range(1000)])
    assert len(known.metrics) <= 100


def test_more_steps_than_the_total_count_as_complete():
    assert outlook(follow(Progress(), at_pace(2, 100, total=150)), 200) == Outlook(1.0, pytest.approx(2), 0.0)


def test_the_total_is_remembered_and_may_change():
    known = follow(Progress(), [Report(1, 1, 10), Report(2, 2, None)])
    assert known.fraction == 0.2
    assert advance(known, Report(3, 3, 30)).fraction == 0.1


reported = st.builds(
    Report,
    at=st.floats(0, 1e12, exclude_max=True),
    step=st.none() | st.integers(0, 2**53),
    total_steps=st.none() | st.integers(1, 2**53),
)


@given(st.lists(reported, max_size=20), st.floats(0, 1e12))
def test_for_any_reports_the_outlook_is_in_range(reports, now):
    seen = outlook(follow(Progress(), reports), now)
    assert seen.fraction is None or 0 <= seen.fraction <= 1
    assert seen.steps_per_s is None or seen.steps_per_s >= 0
    assert seen.eta_s is None or seen.eta_s >= 0
