"""Nodes that are drained, restored and added while jobs run."""

from __future__ import annotations

from dataclasses import replace

from tiresias.core import facts as f
from tiresias.core import invariants
from tiresias.core.controller import Step
from tiresias.core.model import Node
from tiresias.testing import Harness

OPTIONS = {"queues": "1000", "order": "running-first"}


def test_nothing_new_starts_on_a_drained_node() -> None:
    lab = Harness("fifo-skip", nodes=2, gpus=4)
    lab.drain("n0")
    lab.submit("a", gpus=4)
    assert lab.job("a").run is not None
    assert lab.job("a").run.allocation == ((1, 0b1111),)
    assert lab.submit("b", gpus=1).started == []
    assert lab.restore("n0").started == ["b"]


def test_a_run_on_a_drained_node_goes_on_and_is_not_preempted() -> None:
    lab = Harness("tiresias-l", nodes=2, gpus=4, options=OPTIONS)
    lab.running("a", gpus=4, service_s=900).running("b", gpus=4, service_s=900).plan()
    lab.drain("n0")
    assert lab.submit("c", gpus=4).preempted == ["b"], "a's slots would serve no other job"


def test_when_a_drained_node_falls_empty_its_gpus_are_out_of_the_plan() -> None:
    lab = Harness("tiresias-l", nodes=2, gpus=4, options=OPTIONS)
    lab.running("a", gpus=4).running("b", gpus=4).pending("c", gpus=4).plan()
    lab.drain("n0")
    assert lab.finish("a").started == []
    why = lab.why("c")
    assert why is not None
    assert why.code == "BehindHigherRank"
    assert lab.finish("b").started == ["c"]


def test_a_saving_run_on_a_drained_node_frees_nothing() -> None:
    lab = Harness("tiresias-l", nodes=2, gpus=4, options=OPTIONS)
    lab.running("a", gpus=4, service_s=900).running("b", gpus=4, service_s=10).pending("c", gpus=4)
    assert lab.plan().preempted == ["a"]
    lab.drain("n0")
    assert lab.exit("a").started == []


def test_a_job_larger_than_what_is_left_in_service_waits_for_the_node() -> None:
    lab = Harness("fifo-skip", nodes=2, gpus=4)
    lab.drain("n1")
    assert lab.submit("a", gpus=8).started == []
    why = lab.why("a")
    assert why is not None
    assert why.code == "OutOfService"
    assert lab.restore("n1").started == ["a"]


def test_draining_twice_and_restoring_twice_is_the_same_as_once() -> None:
    lab = Harness("fifo-skip", nodes=2, gpus=4)
    lab.drain("n0")
    lab.drain("n0")
    assert lab.controller.view.free_gpus == 4
    lab.restore("n0")
    lab.restore("n0")
    assert lab.controller.view.free_gpus == 8


def test_nothing_new_starts_on_a_silent_node_even_if_it_is_restored() -> None:
    lab = Harness("fifo-skip", nodes=2, gpus=4)
    lab.fall_silent("n0")
    lab.submit("a", gpus=4)
    assert lab.job("a").run is not None
    assert lab.job("a").run.allocation == ((1, 0b1111),)
    lab.submit("b", gpus=1)
    lab.drain("n0")
    assert lab.restore("n0").started == []
    assert lab.come_back("n0").started == ["b"]


def test_a_drained_node_that_returns_stays_drained() -> None:
    lab = Harness("fifo-skip", nodes=1, gpus=4)
    lab.drain("n0")
    lab.fall_silent("n0")
    assert lab.submit("a", gpus=1).started == []
    assert lab.come_back("n0").started == []
    assert lab.restore("n0").started == ["a"]


def test_slots_of_a_silent_node_stay_out_of_use_when_its_run_is_given_up() -> None:
    lab = Harness("tiresias-l", nodes=2, gpus=4, options=OPTIONS)
    lab.running("a", gpus=8).plan()
    lab.fall_silent("n0")
    lab.submit("b", gpus=4)
    assert lab.exit("a").started == ["b"]
    assert lab.job("b").run is not None
    assert lab.job("b").run.allocation == ((1, 0b1111),)
    assert lab.controller.view.free_gpus == 0
    invariants.check_plan(lab.controller)
    lab.finish("b")
    assert lab.come_back("n0").started == ["a"]


def test_a_node_may_get_another_rack_and_type() -> None:
    lab = Harness("fifo-skip", nodes=2, gpus=4)
    lab.running("a", gpus=3).plan()
    node = lab.controller.state.ledger.nodes[0]
    step = Step()
    lab.controller.handle([f.NodeChanged(1.0, replace(node, rack="r9", gpu_type="A100"))], step)
    ledger = lab.controller.state.ledger
    assert ledger.racks == {"r0": 0b10, "r9": 0b01}
    assert ledger.kinds == {("", 1.0): 0b10, ("A100", 1.0): 0b01}
    assert ledger.free_by_rack() == {"r0": 4, "r9": 1}
    invariants.check_plan(lab.controller)


def test_an_added_node_is_used_at_once() -> None:
    lab = Harness("tiresias-l", gpus=4, options=OPTIONS).running("a", gpus=4).pending("b", gpus=4)
    lab.plan()
    step = Step()
    lab.controller.handle([f.NodeAdded(1.0, Node("new", 4))], step)
    invariants.check_plan(lab.controller)
    assert [type(fact) for fact in step.facts] == [f.RunGranted]
