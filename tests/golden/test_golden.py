"""Results that may only change on purpose: jobs.csv of small traces under every policy, byte for byte.

To write them anew after a change that is meant:  TIRESIAS_GOLDEN=write pytest tests/golden
"""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tiresias.sim.simulate import simulate
from tiresias.sim.trace import Trace
from tiresias.sim.traces import load

HERE = Path(__file__).parent
QUEUES = "3200,12000"
PAPER = {"queues": QUEUES, "cost": 0}  # ranks do not depend on what preemptions cost

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "fifo": ("fifo", {}),
    "fifo-skip": ("fifo-skip", {}),
    "sjf": ("sjf", {}),
    "srtf": ("srtf", {}),
    "srsf": ("srsf", {"min_run_s": 120}),
    "las": ("las", {"quantum_s": 300}),
    "tiresias-l-first-start": ("tiresias-l", {**PAPER, "order": "first-start"}),
    "tiresias-l-running-first": ("tiresias-l", {**PAPER, "order": "running-first"}),
    "tiresias-l-last-preempted-first": ("tiresias-l", {**PAPER, "order": "last-preempted-first"}),
    "tiresias-l-cost": ("tiresias-l", {"queues": QUEUES}),
    "tiresias-l": ("tiresias-l", {}),
    "tiresias": ("tiresias", {}),
    "tiresias-l-promoting": (
        "tiresias-l",
        {**PAPER, "order": "running-first", "promote_knob": 4, "min_run_s": 60},
    ),
    "tiresias-g-online": (
        "tiresias-g",
        {**PAPER, "order": "running-first", "index": "queue", "learn_after": 10, "same_within": 3},
    ),
    "tiresias-g-sup": (
        "tiresias-g",
        {
            **PAPER,
            "order": "first-start",
            "index": "sup",
            "distribution": [300, 900, 2500, 9000, 40000],
            "same_within": 1,
        },
    ),
}


def paper_testbed() -> Trace:
    """The first 80 jobs of the paper's testbed workload, on half of its GPUs."""
    trace = load("builtin:testbed-480")
    return Trace(trace.name, trace.jobs.head(80))


def jobs_csv(case: str) -> str:
    policy, options = CASES[case]
    return simulate(paper_testbed(), "8x4", policy, options=options).jobs.write_csv()


def example_csv() -> str:
    """The paper's example under every policy that needs no options."""
    plain = [
        simulate("builtin:example", "1x2", policy, preemption_cost_s=1.0)
        for policy in ("fifo", "srtf", "srsf")
    ]
    return "\n".join(f"{result.policy}\n{result.jobs.write_csv()}" for result in plain)


def is_golden(name: str, text: str) -> None:
    path = HERE / name
    if os.environ.get("TIRESIAS_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8", newline="")
    assert path.exists(), f"{name} is missing: write it with TIRESIAS_GOLDEN=write pytest tests/golden"
    before = path.read_bytes()
    if before == text.encode():
        return
    old, new = before.decode().splitlines(), text.splitlines()
    differing = [(a, b) for a, b in zip(old, new, strict=False) if a != b]
    pytest.fail(f"{name}: {len(differing)} rows differ, the first:\n  {differing[0][0]}\n  {differing[0][1]}")


@pytest.mark.parametrize("case", CASES)
def test_testbed(case: str) -> None:
    is_golden(f"testbed-{case}.csv", jobs_csv(case))


def test_example() -> None:
    is_golden("example.csv", example_csv())


def digest() -> str:
    """One line that stands for all cases."""
    return sha256("".join(jobs_csv(case) for case in CASES).encode()).hexdigest()


def test_the_order_of_hashes_does_not_matter() -> None:
    """The same bytes in two interpreters that hash strings differently."""
    script = f"import sys; sys.path.insert(0, {str(HERE)!r}); import test_golden; print(test_golden.digest())"
    told = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
        )
        told.append(done.stdout.strip())
    assert told == [digest()] * 2


def test_the_cases_differ() -> None:
    """Each file guards something of its own."""
    texts = {case: (HERE / f"testbed-{case}.csv").read_text() for case in CASES}
    assert len(set(texts.values())) == len(texts)
