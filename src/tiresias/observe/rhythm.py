"""Finds a period from bytes over time alone, for programs whose messages are cut at random by the socket.

The autocorrelation of the bytes per moment shows after how long they are repeated. Steps do not all take
equally long, which blurs it, and messages within a step have a period of their own. So the bytes are smoothed
with several widths, and the highest peak counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tiresias.observe.records import Numbers

Floats = npt.NDArray[np.float64]
MOMENTS = 4096
WIDTHS = (1, 4, 16, 64)
REPEATS = 5  # the fewest periods that count
WARM_UP = 0.2  # share of the time that is left out at the beginning
PEAK = 0.4  # the least autocorrelation that counts
NEARLY = 0.85  # a peak of this share of the highest is as good: the shortest such period is taken


def rhythm(at_ns: Numbers, sizes: Numbers) -> float | None:
    """Seconds after which the bytes are repeated; None if they are not."""
    if len(at_ns) < 2 * REPEATS:
        return None
    first, last = int(at_ns.min()), int(at_ns.max())
    first += int((last - first) * WARM_UP)
    if last <= first:
        return None
    inside = at_ns >= first
    per_moment, _ = np.histogram(at_ns[inside] - first, MOMENTS, (0, last - first + 1), weights=sizes[inside])
    found = []
    for width in WIDTHS:
        kernel = np.hanning(2 * width + 1)
        peak = _peak(_autocorrelation(np.convolve(per_moment, kernel / kernel.sum(), "same")))
        if peak is not None:
            found.append(peak)
    return max(found)[1] * (last - first) / MOMENTS / 1e9 if found else None


def _autocorrelation(values: Floats) -> Floats:
    """The autocorrelation by lag, 1 at lag 0, up to the longest lag that fits REPEATS times."""
    values = values - values.mean()
    power = np.abs(np.fft.rfft(values, 2 * len(values))) ** 2
    lags = len(values) // REPEATS
    raw = np.fft.irfft(power)[: lags + 1] / (len(values) - np.arange(lags + 1))
    return raw / raw[0] if raw[0] > 0 else np.zeros(lags + 1)


def _peak(correlation: Floats) -> tuple[float, float] | None:
    """The height of the best peak, and the lag of its period, which may be between two moments."""
    down = np.flatnonzero(correlation <= 0)
    if not len(down):
        return None
    inner = np.arange(max(2, int(down[0])), len(correlation) - 1)
    highs = inner[
        (correlation[inner] >= correlation[inner - 1]) & (correlation[inner] >= correlation[inner + 1])
    ]
    if not len(highs) or correlation[highs].max() < PEAK:
        return None
    lag = int(highs[correlation[highs] >= NEARLY * correlation[highs].max()][0])
    return float(correlation[lag]), _refined(correlation, lag)


def _refined(correlation: Floats, lag: int) -> float:
    """The same period, from its highest multiple that is still a peak, which divides the error."""
    period = float(lag)
    for times in range(2, len(correlation) // lag + 1):
        around = round(times * period)
        low, high = max(0, around - lag // 4 - 1), min(len(correlation), around + lag // 4 + 2)
        best = low + int(np.argmax(correlation[low:high]))
        if correlation[best] < PEAK / 2 or best in (low, high - 1):
            break
        period = best / times
    return period
