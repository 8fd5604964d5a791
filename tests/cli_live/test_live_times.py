"""Durations, instants and sizes as people write them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tiresias.cli.errors import Stop
from tiresias.cli.live.sizes import parse_size, written
from tiresias.cli.live.times import duration_s, short, slurm_duration_s, when
from tiresias.spec.times import read_instant

NOON = datetime(2026, 1, 30, 12, 0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("8h", 28800),
        ("1d12h", 129600),
        ("1.5h", 5400),
        ("30 min", 1800),
        ("2w", 1209600),
        ("08:30:00", 30600),
        ("2-00:00:01", 172801),
    ],
)
def test_a_duration_has_a_unit(text, seconds):
    assert duration_s(text, "--time") == seconds


@pytest.mark.parametrize("text", ["90", "8 apples", "", "h", "-3h", "1h2", "nan"])
def test_what_is_no_duration_is_refused_with_its_option_and_an_example(text):
    with pytest.raises(Stop, match=r"--time .*: not a duration; write .*(8h|90m)"):
        duration_s(text, "--time")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 1800), ("1:30", 90), ("2:00:00", 7200), ("1-12", 129600), ("1-0:30", 88200), ("1-0:0:1", 86401)],
)
def test_slurm_counts_minutes(text, seconds):
    assert slurm_duration_s(text, "--time") == seconds


def test_what_slurm_does_not_know_is_refused():
    with pytest.raises(Stop, match="not a time of Slurm"):
        slurm_duration_s("8h", "--time")


@pytest.mark.parametrize(
    ("text", "later"),
    [
        ("+2h", timedelta(hours=2)),
        ("now+90s", timedelta(seconds=90)),
        ("now", timedelta()),
        ("22:00", timedelta(hours=10)),
        ("11:30", timedelta(hours=23, minutes=30)),  # that of tomorrow
        ("2026-01-31T12:00", timedelta(days=1)),
        ("2026-01-31", timedelta(hours=12)),
    ],
)
def test_an_instant_may_be_relative_or_a_clock_or_a_date(text, later):
    assert read_instant(text, NOON) == pytest.approx((NOON + later).timestamp())


@pytest.mark.parametrize("text", ["tomorrow", "25:00", "+soon", "2026-13-01"])
def test_what_is_no_instant_is_refused(text):
    with pytest.raises(ValueError, match=r"not an? (instant|duration); write"):
        read_instant(text, NOON)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (-5, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (95, "1m35s"),
        (3599, "59m"),
        (3600, "1h"),
        (12000, "3h20m"),
        (86400, "1d"),
        (187200, "2d4h"),
    ],
)
def test_a_short_duration_has_two_units_at_most(seconds, text):
    assert short(seconds) == text


def test_an_instant_of_today_is_a_clock_and_an_earlier_one_has_its_date():
    now = NOON.timestamp()
    assert when(now - 3600, now) == "11:00:00"
    assert when(now - 86400, now) == "2026-01-29 12:00"
    assert when(None, now) == "–"


@pytest.mark.parametrize(("text", "size"), [("500M", 524288000), ("1g", 2**30), ("1.5GiB", 1610612736)])
def test_sizes(text, size):
    assert parse_size(text, "--snapshot-limit") == size


def test_what_is_no_size_is_refused():
    with pytest.raises(Stop, match="--snapshot-limit 'big': not a size"):
        parse_size("big", "--snapshot-limit")
    assert written(1536) == "1.5 KiB"
    assert written(12) == "12 bytes"
