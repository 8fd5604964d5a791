"""`philly`: quotas and lending, preemption above 90 % in use, gangs that gather and back off."""

from __future__ import annotations

from typing import Any

import pytest

from tiresias.core import facts as f
from tiresias.core.plugins import OptionError, policies
from tiresias.sim.errors import InputError
from tiresias.sim.simulate import simulate
from tiresias.testing import Harness, a_trace

QUOTAS = {"quotas": "a:4,b:4"}


def lab(**options: Any) -> Harness:
    return Harness("philly", gpus=8, options={**QUOTAS, **options})


def test_idle_quota_is_lent_and_a_gang_above_its_quota_runs_on_lent_gpus() -> None:
    scene = lab()
    scene.pending("large", gpus=8, tenant="a")
    assert scene.plan().started == ["large"]
    assert scene.state.wish is not None
    assert scene.state.wish.jobs[scene.job("large").id].lent


def test_nobody_is_preempted_while_less_than_90_percent_are_in_use() -> None:
    scene = lab()
    scene.running("a0", gpus=7, tenant="a").plan()
    assert scene.submit("b0", gpus=2, tenant="b").preempted == []


def test_above_90_percent_the_latest_runs_of_tenants_above_their_quotas_are_preempted() -> None:
    scene = lab()
    for nth in range(8):
        scene.running(f"a{nth}", tenant="a", service_s=float(80 - nth))
    scene.plan()
    assert sorted(scene.submit("b0", gpus=2, tenant="b").preempted) == ["a6", "a7"]
    assert scene.submit("b1", gpus=3, tenant="b").preempted == [], "b would have more than its quota"


def test_no_tenant_is_preempted_below_its_quota() -> None:
    scene = lab(quotas="a:6,b:2")
    scene.running("a0", gpus=6, tenant="a").running("b0", gpus=2, tenant="b").plan()
    assert scene.submit("a1", tenant="a").preempted == []
    assert scene.submit("b1", tenant="b").preempted == []


def test_a_gang_gathers_what_is_free_and_then_backs_off() -> None:
    scene = lab()
    scene.running("a0", gpus=6, tenant="a").plan()
    scene.submit("gang", gpus=4, tenant="a")
    assert scene.submit("small", tenant="a").started == [], "the gang keeps what is free"
    assert scene.wait(149).started == []
    assert scene.wait(1).started == ["small"], "now it backs off"
    assert "backs off" in (scene.why("gang") or Any).text


def test_who_uses_the_smallest_part_of_its_quota_is_served_first() -> None:
    scene = lab(quotas="a:2,b:6")
    scene.running("a0", tenant="a").running("b0", gpus=2, tenant="b")
    scene.running("c0", gpus=4, tenant="c", preemptible=False).running("c1", tenant="c", preemptible=False)
    scene.pending("a1", tenant="a").pending("b1", tenant="b").plan()
    assert scene.finish("c1").started == ["b1"], "2 of 6 are less than 1 of 2"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quotas": "a=4"}, "TENANT:GPUS"),
        ({"quotas": "a:-4"}, "TENANT:GPUS"),
        ({"quotas": "a:0,b:0"}, "all quotas are 0"),
        ({"quotas": "a:1,a:2"}, "twice"),
        ({"preempt_above": "1.5"}, "0 to 1"),
        ({"timeout_s": "0"}, "more than 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        policies.make("philly", options)


@pytest.mark.parametrize(("quotas", "said"), [("a:9", "quotas=a:9.*8 GPUs"), ("a:5,b:5", "10 GPUs together")])
def test_a_quota_above_the_cluster_is_refused(quotas: str, said: str) -> None:
    trace = a_trace([(0.0, 1, 10.0)], tenant=["a"])
    with pytest.raises(OptionError, match=said):
        simulate(trace, "1x8", "philly", options={"quotas": quotas})


def test_a_quota_of_a_tenant_that_the_trace_does_not_have_is_refused() -> None:
    trace = a_trace([(0.0, 1, 10.0)], tenant=["a"])
    said = "philly: quotas=zz:4: no job of the trace has the tenant 'zz'; its tenants are 'a'"
    with pytest.raises(InputError, match=said):
        simulate(trace, "1x8", "philly", options={"quotas": "a:4,zz:4"})
    assert len(simulate(trace, "1x8", "philly", options={"quotas": "a:4,zz:4"}, may_lack_tenants=True).jobs)


def test_it_brings_its_own_placer_without_migrations() -> None:
    rows = [(0.0, 1, 500.0), (1.0, 4, 100.0)]
    assert simulate(a_trace(rows, tenant=["a", "b"]), "2x4", "philly").placer == "relaxing"
    assert simulate(a_trace(rows, tenant=["a", "b"]), "2x4", "philly", placer="packed").placer == "packed"


def test_shares_are_quotas_unless_quotas_are_given() -> None:
    scene = Harness("philly", gpus=8)
    scene.running("a0", gpus=8, tenant="a").plan()
    scene._happen(f.SharesSet(scene.at, {"a": 1.0, "b": 3.0}))
    scene.submit("b0", gpus=6, tenant="b")
    assert "quota of 6 GPUs" in (scene.why("b0") or Any).text
