"""Nodes that are drained, restored and added while jobs run."""

from __future__ import annotations

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


def test_what_runs_on_a_drained_node_goes_on_and_is_nobodys_victim() -> None:
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


def test_an_added_node_is_used_at_once() -> None:
    lab = Harness("tiresias-l", gpus=4, options=OPTIONS).running("a", gpus=4).pending("b", gpus=4)
    lab.plan()
    step = Step()
    lab.controller.handle([f.NodeAdded(1.0, Node("new", 4))], step)
    invariants.check_plan(lab.controller)
    assert [type(fact) for fact in step.facts] == [f.RunGranted]
