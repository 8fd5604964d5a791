"""`gandiva` beside `tiresias-l`, and what packing gains by model."""

from __future__ import annotations

import os
import time
from pathlib import Path

import polars as pl

from tiresias.profiles.utilisation import BUSY, slowdown
from tiresias.sim import simulate, traces
from tiresias.sim.trace import Trace


def gandiva() -> None:
    """The whole trace of Philly on 64x8 as multiples of tiresias-l, then packing by model."""
    folder = os.environ.get("TIRESIAS_DATA", "")
    path = Path(folder) / "philly.csv.gz"
    if folder and path.exists():
        _philly(path)
    else:
        print("  set TIRESIAS_DATA to the directory of philly.csv.gz to compare on that trace")
    for model, part in BUSY.items():
        two, four = (100 * (number / slowdown([part] * number) - 1) for number in (2, 4))
        print(
            f"  {model:10} busy {part:.1%}: two {two:+.0f} %, four {four:+.0f} %;"
            f" gandiva {_four(model):+.0f} %"
        )


def _philly(path: Path) -> None:
    trace = traces.load(path)
    base = _measured(trace, "tiresias-l", {})
    for packing in ("off", "on"):
        ours = _measured(trace, "gandiva", {"packing": packing})
        for key in ("avg_jct_s", "p50_jct_s", "preemptions", "cpu_s"):
            print(f"  packing {packing}, {key}: {ours[key] / base[key]:.2f} times tiresias-l")


def _measured(trace: Trace, policy: str, options: dict[str, str]) -> dict[str, float]:
    began = time.process_time()
    figures = simulate(trace, "64x8", policy, options=options).summary()
    return figures | {"cpu_s": time.process_time() - began}


def _four(model: str) -> float:
    """The gain in average JCT by packing, of four jobs of ten hours on one GPU."""
    columns = {"submitted_at": 0.0, "gpus": 1, "duration_s": 36000.0, "model": model}
    jobs = pl.DataFrame({name: [value] * 4 for name, value in columns.items()})
    packed, turns = (
        simulate(jobs, "1x1", "gandiva", options={"packing": packing}).summary()["avg_jct_s"]
        for packing in ("on", "off")
    )
    return 100 * (turns / packed - 1)
