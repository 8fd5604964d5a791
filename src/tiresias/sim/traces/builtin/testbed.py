"""The trace of the Tiresias paper's testbed, reconstructed from what the paper states.

Sizes, models, the mean gap between arrivals and the share of short jobs are the paper's. That durations are
log-uniform within short (2 min - 800 s) and long (800 s - 2 h) is our choice.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tiresias.sim.traces.builtin.draw import Draw, Floats, quantiles
from tiresias.sim.traces.draft import complete

SIZES = {1: 240, 2: 40, 4: 80, 8: 90, 16: 25, 32: 5}
"""Jobs by number of GPUs."""
MODELS = (
    "VGG19",
    "VGG16",
    "VGG11",
    "AlexNet",
    "ResNet152",
    "ResNet101",
    "ResNet50",
    "Inception4",
    "Inception3",
    "GoogLeNet",
)
SMALL_GPUS = 4
SHORT_SMALL, SHORT_LARGE = 305, 79
"""Short jobs among the 360 of up to SMALL_GPUS, and among the 120 larger ones."""
SHORT_S, LONG_S = (120, 800), (800, 7200)
MEAN_GAP_S = 30.0


def jobs(draw: Draw) -> pl.DataFrame:
    count = sum(SIZES.values())
    gpus = np.repeat(list(SIZES), list(SIZES.values()))[draw.order(count)]
    models = np.repeat(MODELS, count // len(MODELS))[draw.order(count)]
    durations = np.empty(count)
    for chosen, short in ((gpus <= SMALL_GPUS, SHORT_SMALL), (gpus > SMALL_GPUS, SHORT_LARGE)):
        durations[chosen] = _durations(draw, int(chosen.sum()), short)
    arrivals_ms = np.concatenate([[0], np.cumsum(draw.gaps_ms(count - 1, MEAN_GAP_S))])
    return complete(
        pl.DataFrame(
            {
                "id": [str(number) for number in range(1, count + 1)],
                "submitted_at": arrivals_ms / 1000,
                "gpus": gpus,
                "duration_s": durations,
                "model": models.tolist(),
            }
        )
    )


def _durations(draw: Draw, count: int, short: int) -> Floats:
    """Whole seconds for `count` jobs, of which `short` are short, in random order."""
    drawn = np.concatenate([_log_uniform(draw, short, *SHORT_S), _log_uniform(draw, count - short, *LONG_S)])
    return drawn[draw.order(count)]


def _log_uniform(draw: Draw, count: int, least: int, most: int) -> Floats:
    """Whole seconds in [least, most)."""
    drawn = np.floor(quantiles(draw.uniform(count), [(0.0, least), (1.0, most)]))
    return np.clip(drawn, least, most - 1)
