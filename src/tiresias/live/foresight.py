"""How good estimates of starts have been here, and what they say once that is taken into account.

An estimate of live/eta.py leaves things out: jobs that come later, preemptions, placement. How much that
matters differs from cluster to cluster and changes with the load, so it is measured: some estimates are kept
until their job starts. After each such start the p50 and the p90 are moved: up by a step if the job started
later than they would say now, else down by a step, where the two steps are in the ratio of the chances. So
each comes to rest where the right share of jobs starts in time, whatever was left out (the method is that of
adaptive conformal inference, Gibbs and Candes, 2021). Pure.

Rules: an estimate is corrected only by starts that were known before it; what is counted as right or wrong is
what was shown. Below LEAST starts nothing is claimed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from tiresias.live.eta import Estimate

CHANCES = (0.5, 0.9)
STEP = 0.2  # of the logarithm of a correction, for each start
FURTHEST = math.log(1000.0)
LEAST = 30  # starts
KEPT = 200  # starts, the latest
SMALL_S = 10.0  # added to times before they are multiplied: below it nobody cares
SLACK_S = 1.0  # within which a start is in time
TOLERANCE = 0.10  # of a share, beyond which a page says how far off estimates are


@dataclass(slots=True, frozen=True)
class Forecast:
    """What was estimated at an instant, p50 and p90: before the correction, and as it was shown."""

    at: float
    raw_s: tuple[float, float]
    shown_s: tuple[float, float]


class Record:
    """The corrections, and whether the latest starts were within the p50 and the p90 that were shown."""

    def __init__(self) -> None:
        self._logs = [0.0, 0.0]
        self.latest: deque[tuple[bool, bool]] = deque(maxlen=KEPT)

    def to_json(self) -> dict[str, Any]:
        return {"logs": self._logs, "latest": ["".join("01"[each] for each in pair) for pair in self.latest]}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        made = cls()
        made._logs = [float(each) for each in body["logs"]]
        made.latest.extend((pair[0] == "1", pair[1] == "1") for pair in body["latest"])
        return made

    def forecast(self, at: float, found: Estimate) -> Forecast | None:
        """The estimate of this instant; None if nothing can be said."""
        if found.p50_s is None or found.p90_s is None:
            return None
        raw_s = (found.p50_s, found.p90_s)
        return Forecast(at, raw_s, self._moved(raw_s))

    def corrected(self, found: Estimate) -> Estimate:
        """The estimate of a start as it is shown; the end is as much later or earlier."""
        forecast = self.forecast(0.0, found)
        if forecast is None:
            return found
        ends = []
        for end, raw_s, shown_s in zip(
            (found.ends_p50_s, found.ends_p90_s), forecast.raw_s, forecast.shown_s, strict=True
        ):
            ends.append(None if end is None else max(shown_s, end + shown_s - raw_s))
        p50_s, p90_s = forecast.shown_s
        return replace(found, p50_s=p50_s, p90_s=p90_s, ends_p50_s=ends[0], ends_p90_s=ends[1])

    def started(self, forecast: Forecast, at: float) -> None:
        """Learn from the start of a job for which there was a forecast."""
        waited_s = max(0.0, at - forecast.at)
        half, most = (waited_s <= shown_s + SLACK_S for shown_s in forecast.shown_s)
        self.latest.append((half, most))
        for number, chance in enumerate(CHANCES):
            is_late = waited_s > _times(forecast.raw_s[number], self._logs[number]) + SLACK_S
            moved = self._logs[number] + STEP * (chance if is_late else chance - 1)
            self._logs[number] = min(max(moved, -FURTHEST), FURTHEST)

    def _moved(self, raw_s: tuple[float, float]) -> tuple[float, float]:
        p50_s, p90_s = (_times(each, log) for each, log in zip(raw_s, self._logs, strict=True))
        return p50_s, max(p50_s, p90_s)

    def shares(self) -> tuple[float, float] | None:
        """Of the latest starts, how many were within the p50 and the p90 that were shown."""
        count = len(self.latest)
        if count < LEAST:
            return None
        return sum(half for half, _ in self.latest) / count, sum(most for _, most in self.latest) / count

    def in_words(self) -> str:
        """How good the latest estimates were, and how far off; empty if too few are known."""
        found = self.shares()
        if found is None:
            return ""
        text = (
            f"of the last {len(self.latest)} estimates here, {found[0]:.0%} of the jobs started within the"
            f" time that was given with a chance of 50 %, and {found[1]:.0%} within that of 90 %"
        )
        off = max(abs(share - chance) for share, chance in zip(found, CHANCES, strict=True))
        return text if off <= TOLERANCE else f"{text}: take them with care, they are off by {off:.0%}"


def _times(seconds: float, log: float) -> float:
    return max(0.0, (seconds + SMALL_S) * math.exp(log) - SMALL_S)
