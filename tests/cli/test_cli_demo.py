"""`tiresias demo --simulate`: a table, a plot, and one sentence that the figures support."""

from __future__ import annotations

import re

import pytest

from tiresias.cli.demo import POLICIES, meaning


def test_the_policies_a_plot_and_what_it_means(tiresias):
    outcome = tiresias("demo", "--simulate")
    assert outcome.code == 0
    for policy in POLICIES:
        assert re.search(rf"^{policy} +\d", outcome.out, re.MULTILINE)
    plot = outcome.out.split("(log scale)\n\n")[1]
    assert plot.splitlines()[0].startswith(" 100% ┤")
    assert "o fifo   x fifo-skip   + srtf   * srsf   # tiresias   @ tiresias-l   % tiresias-g" in plot
    assert "\x1b" not in outcome.out  # no colour in a pipe
    assert "Without knowing how long any job runs" in outcome.out


def test_a_narrow_terminal_has_the_figures_without_the_plot(tiresias, monkeypatch):
    monkeypatch.setenv("COLUMNS", "34")
    outcome = tiresias("demo", "--simulate")
    assert outcome.code == 0
    assert max(map(len, outcome.out.splitlines())) <= 34
    assert "┤" not in outcome.out
    assert "Without knowing" in outcome.out


def summaries(**hours: float) -> list[dict[str, object]]:
    return [{"policy": name.replace("_", "-"), "avg_jct_s": value * 3600} for name, value in hours.items()]


def test_the_sentence_follows_the_figures():
    said = meaning(summaries(fifo=3.0, fifo_skip=1.5, srsf=1.0, tiresias_l=1.25, tiresias_g=1.5))
    assert "tiresias-l completes a job in 1.25 hours on average" in said
    assert "2.40 times as fast as fifo (3.00 hours) and 1.20 times as fast as fifo-skip (1.50 hours)" in said
    assert "takes 1.00 hours: knowing them would save 20% more" in said


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"fifo": 1.0, "srsf": 1.0, "tiresias_l": 2.0, "tiresias_g": 1.5}, "tiresias-g completes a job in"),
        ({"fifo": 1.0, "srsf": 1.0, "tiresias_l": 2.0, "tiresias_g": 1.5}, "no faster than fifo (1.00"),
        ({"fifo": 1.0, "srsf": 1.0, "tiresias_l": 2.0, "tiresias_g": 1.5}, "no faster than fifo-skip (1.00"),
        ({"fifo": 2.0, "srsf": 1.0, "tiresias_l": 1.0, "tiresias_g": 1.5}, "would save nothing more here"),
    ],
)
def test_the_sentence_does_not_flatter(figures, expected):
    assert expected in meaning(summaries(fifo_skip=1.0, **figures))
