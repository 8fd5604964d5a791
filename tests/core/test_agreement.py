"""The core and the engine against the naive reference: the same finish times and preemptions, job by job.

Whole seconds and powers of two make many exact ties; the other traces make none. Where jobs are promoted the
thresholds are long: with a preemption cost two jobs could otherwise take turns at loading for ever.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tiresias.sim.simulate import simulate
from tiresias.testing import a_trace, random_trace
from tiresias.testing.builders import Row
from tiresias.testing.reference import Settings, reference

GPUS = 8
ORDERS = ["first-start", "running-first", "last-preempted-first"]
POWERS, ANY_SIZE = (1, 1, 2, 4, 8), (1, 2, 3, 5, 7, 8)


def options_of(chosen: Settings) -> dict[str, Any]:
    """The same for the core. The reference ranks as the paper does, whatever preemptions cost (`cost=0`)."""
    if chosen.policy == "tiresias-l":
        queues = {"queues": list(chosen.thresholds), "order": chosen.order, "cost": 0}
        return queues | {"promote_knob": chosen.promote_knob, "min_run_s": chosen.min_run_s}
    if chosen.policy == "las":
        return {"quantum_s": chosen.quantum_s, "min_run_s": chosen.min_run_s}
    return {"min_run_s": chosen.min_run_s} if chosen.preempts else {}


def agree(rows: list[Row], chosen: Settings, cost_s: float, **columns: list[Any]) -> None:
    """Both tell the same story."""
    more = {row: {key: values[row] for key, values in columns.items()} for row in range(len(rows))}
    levels = {"high": 0, "normal": 1, "low": 2}
    for fields in more.values():
        if "priority" in fields:
            fields["priority"] = levels[fields["priority"]]
        if "preemption_cost_s" in fields:
            own_s = fields.pop("preemption_cost_s")
            fields["cost_s"] = own_s if cost_s and own_s is not None else cost_s
    expected = reference(rows, GPUS, chosen, cost_s=cost_s, more=more)
    trace = a_trace(rows, **columns)
    found = simulate(
        trace, "1x8", chosen.policy, options=options_of(chosen), placer="count", preemption_cost_s=cost_s
    )
    assert found.jobs["preemptions"].to_list() == [job.preemptions for job in expected.jobs]
    assert found.jobs["runs"].to_list() == [job.runs for job in expected.jobs]
    assert found.jobs["first_started_at"].to_list() == pytest.approx(
        [job.first_started_at for job in expected.jobs], abs=1e-6
    )
    assert found.jobs["finished_at"].to_list() == pytest.approx(
        [job.finished_at for job in expected.jobs], abs=1e-6
    )
    assert found.lost_gpu_s == pytest.approx(expected.lost_gpu_s, abs=1e-6)


def trace_of(seed: int) -> list[Row]:
    rng = Random(seed)
    whole = seed % 2 == 0
    return random_trace(rng, rng.randrange(2, 30), whole=whole, sizes=POWERS if whole else ANY_SIZE)


SEEDS = st.integers(0, 10**9)
NO_SHRINKING = [Phase.generate]  # a seed gets no simpler
COSTS = st.sampled_from([0.0, 60.0])
SHORTEST = st.sampled_from([0.0, 0.0, 30.0, 128.0])


@pytest.mark.parametrize("policy", ["fifo", "fifo-skip", "sjf"])
@settings(max_examples=40, phases=NO_SHRINKING)
@given(seed=SEEDS)
def test_policies_that_never_preempt(policy: str, seed: int) -> None:
    agree(trace_of(seed), Settings(policy), 60.0)


@pytest.mark.parametrize("policy", ["srtf", "srsf"])
@settings(max_examples=100, phases=NO_SHRINKING)
@given(seed=SEEDS, cost_s=COSTS, min_run_s=SHORTEST)
def test_oracles(policy: str, seed: int, cost_s: float, min_run_s: float) -> None:
    agree(trace_of(seed), Settings(policy, min_run_s=min_run_s), cost_s)


@settings(max_examples=150, phases=NO_SHRINKING)
@given(seed=SEEDS, cost_s=COSTS, min_run_s=SHORTEST, quantum_s=st.sampled_from([16.0, 32.0, 100.0, 300.0]))
def test_las(seed: int, cost_s: float, min_run_s: float, quantum_s: float) -> None:
    whole = trace_of(2 * seed)  # in others jobs of one size have equal services but for rounding
    agree(whole, Settings("las", min_run_s=min_run_s, quantum_s=quantum_s), cost_s)


THRESHOLDS = st.lists(st.sampled_from([16, 50, 64, 128, 256, 512, 1000]), min_size=1, max_size=4, unique=True)


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=100, phases=NO_SHRINKING)
@given(seed=SEEDS, cost_s=COSTS, min_run_s=st.sampled_from([0.0, 0.0, 64.0]), thresholds=THRESHOLDS)
def test_tiresias_l(order: str, seed: int, cost_s: float, min_run_s: float, thresholds: list[float]) -> None:
    chosen = Settings("tiresias-l", order, sorted(thresholds), min_run_s=min_run_s)
    agree(trace_of(seed), chosen, cost_s)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cost_s", [0.0, 60.0])
def test_tiresias_l_with_promotion(order: str, cost_s: float, within: Any) -> None:
    for seed in range(12):
        rng = Random(seed)
        rows = random_trace(rng, 20, sizes=POWERS, longest_s=1500)
        thresholds = sorted(rng.sample([512, 1024, 2048], rng.randrange(1, 3)))
        chosen = Settings("tiresias-l", order, thresholds, promote_knob=rng.choice([0.5, 1, 2, 8]))
        chosen.min_run_s = rng.choice([0.0, 128.0])
        with within(2):
            agree(rows, chosen, cost_s)


@pytest.mark.parametrize("policy", ["fifo", "fifo-skip", "srsf", "las", "tiresias-l"])
@settings(max_examples=25, phases=NO_SHRINKING)
@given(seed=SEEDS, cost_s=COSTS)
def test_priorities_and_costs_of_single_jobs(policy: str, seed: int, cost_s: float) -> None:
    rows, rng = trace_of(2 * seed if policy == "las" else seed), Random(seed)
    chosen = Settings(policy, "running-first", thresholds=(128, 512) if policy == "tiresias-l" else ())
    agree(
        rows,
        chosen,
        cost_s,
        priority=[rng.choice(["high", "normal", "normal", "low"]) for _ in rows],
        preemption_cost_s=[rng.choice([None, 0.0, 12.0, 120.0]) for _ in rows],
    )
