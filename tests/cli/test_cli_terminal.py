"""The CDF drawn with characters."""

from __future__ import annotations

import numpy as np
import pytest

from tiresias.sim.terminal import MARKERS, cdf

FAST = np.geomspace(10, 1000, 200)
SLOW = FAST * 100


def lines(plot) -> list[str]:
    return plot.plain.split("\n")


def test_without_colour_each_curve_has_its_own_mark():
    plot = cdf({"fast": FAST, "slow": SLOW}, width=60, colour=False)
    assert lines(plot)[-1].split() == [MARKERS[0], "fast", MARKERS[1], "slow"]
    half = next(line for line in lines(plot) if "50%" in line)
    assert half.index(MARKERS[0]) < half.index(MARKERS[1])  # the faster curve is on the left


def test_with_colour_the_curves_are_dots_and_the_legend_shows_the_colours():
    plot = cdf({"fast": FAST, "slow": SLOW}, width=60)
    assert any("⠀" < mark <= "⣿" for mark in plot.plain)
    legend = [span.style for span in plot.spans if plot.plain[span.start : span.end] == "━━ "]
    assert len(set(legend)) == 2
    used = {span.style for span in plot.spans}
    assert set(legend) <= used
    assert all("#" not in str(style) for style in used)  # the terminal's own colours


def test_a_curve_is_where_its_quantiles_are():
    values = [10.0] * 50 + [1000.0] * 50
    plot = lines(cdf({"a": values}, width=27 + 20, colour=False))
    rows = {line.split("%")[0].strip(): line for line in plot if "%" in line}
    level = rows["50"].split("┤")[1]
    assert level.startswith(MARKERS[0])  # half are done at 10 s, the axis' left end
    assert level.rstrip().endswith(MARKERS[0])
    assert rows["100"].split("┤")[1].rstrip().endswith(MARKERS[0])
    assert rows["100"].split("┤")[1].count(MARKERS[0]) == 1  # and all only at 1,000 s, its right end


@pytest.mark.parametrize("width", [40, 60, 88, 200])
def test_it_fits_and_labels_never_touch(width):
    plot = lines(cdf({"fast": FAST, "slow": SLOW}, width=width, colour=False))
    assert all(len(line) <= width for line in plot[:-1])
    ticks = plot[-2].split()
    assert len(ticks) >= 3
    assert all(tick[0].isdigit() and tick[-1] in "smhd" for tick in ticks)


def test_a_terminal_without_unicode_gets_ascii():
    assert cdf({"a": FAST}, width=60, unicode=False).plain.isascii()


def test_no_room_or_no_values_is_said():
    assert "40 columns" in cdf({"a": FAST}, width=39).plain
    assert "no finished jobs" in cdf({"a": []}, width=80).plain
    assert "┤" in cdf({"a": [5.0]}, width=80).plain
    assert "┤" in cdf({"a": [0.0, 0.0]}, width=80).plain
