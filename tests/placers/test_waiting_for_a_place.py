"""Jobs that are refused though enough GPUs are free: what they keep, how long they wait, and why."""

from __future__ import annotations

import pytest

from tiresias.core.model import Cluster, Demand, Node
from tiresias.testing import Harness

VGG, RESNET = {"model": "vgg16"}, {"model": "resnet50"}


def fragmented(policy: str = "fifo-skip", placer: str = "consolidated", **more: object) -> Harness:
    """Three nodes of four GPUs with three free each."""
    lab = Harness(policy, nodes=3, gpus=4, placer=placer, **more)  # type: ignore[arg-type]
    for node, name in enumerate("abc"):
        lab.running(name, on={f"n{node}": 1}, duration_s=9.0)
    lab.plan()
    return lab


def test_the_reason_names_the_rule() -> None:
    lab = fragmented()
    assert lab.submit("d", gpus=4).started == []
    reason = lab.why("d")
    assert reason is not None
    assert reason.code == "Fragmented"
    assert reason.text == "free GPUs are too fragmented: 9 free, best hole 3, needs 4 on one node"
    assert (reason.free_gpus, reason.best_hole) == (9, 3)


def test_slots_are_kept_for_a_gang_that_waits() -> None:
    """Single-GPU jobs go on coming, and none of them gets the slots that it waits for."""
    lab = fragmented()
    lab.submit("d", gpus=4)
    for number in range(5):
        assert lab.submit(f"small{number}").started == [f"small{number}"]
        assert "n0" not in lab.nodes_of(f"small{number}")
    assert lab.submit("late").started == [], "four slots are free, and d is entitled to them"
    assert lab.finish("a").started == ["d", "late"]
    assert lab.nodes_of("d") == {"n0": 4}


def test_a_job_that_may_not_use_reserved_slots_is_explained_so() -> None:
    lab = Harness("fifo-skip", nodes=4, gpus=4, placer="consolidated")
    lab.running("a", gpus=1, on={"n0": 1})
    for node in (1, 2, 3):
        lab.running(f"b{node}", gpus=3, on={f"n{node}": 3})
    lab.plan()
    lab.submit("d", gpus=4)
    assert lab.submit("e", gpus=2).started == [], "two are free on n0 only, where d's place is built"
    reason = lab.why("e")
    assert reason is not None
    assert (reason.code, reason.free_gpus) == ("KeptForJobsAhead", 6)
    assert lab.cancel("d").started == ["e"]


def test_slots_are_kept_for_each_of_two_gangs_that_wait() -> None:
    lab = fragmented()
    lab.submit("d", gpus=4)
    lab.submit("e", gpus=4)
    assert lab.finish("b").started == ["d"], "the emptiest node, whichever waits first"
    assert lab.finish("a").started == ["e"]


def test_no_job_passes_a_refused_head_in_strict_order() -> None:
    lab = fragmented("fifo")
    lab.submit("d", gpus=4)
    assert lab.submit("e").started == []
    assert lab.finish("a").started == ["d", "e"]


def test_a_job_behind_takes_no_slot_of_a_hole_while_the_preempted_runs_are_saving() -> None:
    lab = Harness("srsf", nodes=2, gpus=4, placer="consolidated")
    lab.running("long", gpus=3, on={"n0": 3}, duration_s=9e5)
    lab.running("b", gpus=3, on={"n1": 3}, duration_s=9e3)
    lab.pending("first", gpus=4, duration_s=10.0)
    assert lab.plan().preempted == ["long"]
    assert lab.submit("second", gpus=1, duration_s=5e4).started == ["second"]
    assert lab.nodes_of("second") == {"n1": 1}, "the free one of n0 is for first"
    assert lab.exit("long").started == ["first"]
    assert lab.nodes_of("first") == {"n0": 4}


def test_how_long_it_waited_is_counted() -> None:
    lab = fragmented()
    lab.submit("d", gpus=4)
    lab.wait(100)
    lab.hold("d")
    lab.wait(100)
    lab.release("d")
    lab.wait(30)
    lab.finish("a")
    assert lab.job("d").fragmented_s == pytest.approx(130)


def test_time_in_which_too_few_are_free_is_not_counted() -> None:
    lab = Harness("srsf", nodes=3, gpus=4, placer="consolidated")
    for node, name in enumerate("abc"):
        lab.running(name, on={f"n{node}": 1}, duration_s=9.0)
    lab.running("victim", gpus=3, on={"n2": 3}, duration_s=9e5)
    lab.plan()
    assert lab.submit("d", gpus=4, duration_s=500.0).started == [], "3 free on n0 and on n1"
    lab.wait(10)
    plan = lab.submit("short", gpus=3, duration_s=10.0)
    assert (plan.preempted, plan.started) == (["victim"], ["short"])
    lab.wait(30)  # 3 are free while the victim saves, too few wherever they were
    assert lab.exit("victim").started == []
    lab.wait(30)  # 6 are free again, 3 on each of two nodes
    assert "d" in lab.finish("b").started
    assert lab.job("d").fragmented_s == pytest.approx(10 + 30)


def test_a_gang_that_waits_for_a_type_of_gpus_gets_them_before_jobs_behind_it() -> None:
    nodes = [Node("a0", 4, gpu_type="A100"), Node("v0", 4, gpu_type="V100")]
    lab = Harness("fifo-skip", placer="packed", cluster=Cluster(nodes))
    for number in range(4):
        lab.running(f"r{number}", on={"a0": 1})
    lab.plan()
    wish = Demand(2, gpu_type="A100")
    lab.submit("typed", demand=wish)
    reason = lab.why("typed")
    assert reason is not None
    assert (reason.code, reason.free_gpus) == ("WaitingForItsKind", 0)
    assert lab.finish("r0").started == []
    assert lab.submit("any").started == ["any"]
    assert lab.nodes_of("any") == {"v0": 1}, "the free A100 is kept"
    assert lab.finish("r1").started == ["typed"]
    assert lab.nodes_of("typed") == {"a0": 2}
    lab.submit("odd", demand=Demand(5, gpu_type="A100"))
    reason = lab.why("odd")
    assert reason is not None
    assert reason.code == "Impossible"


def test_profile_spreads_after_a_short_time_what_does_not_suffer() -> None:
    """Where it is spread it breaks the holes of others; meanwhile a hole may grow, or runs may migrate."""
    lab = fragmented(placer="profile", placer_options={"floor_s": 90})
    assert lab.submit("d", gpus=4, **RESNET).started == []
    assert lab.wait(89.0).started == []
    assert lab.wait(1.0).started == ["d"]


def test_profile_spreads_a_gang_that_does_not_suffer_at_once_if_waiting_is_off() -> None:
    lab = fragmented(placer="profile", placer_options={"floor_s": 0, "expected_s": 0})
    assert lab.submit("d", gpus=4, **RESNET).started == ["d"]
    assert len(lab.nodes_of("d")) == 2
    reason = lab.why("d")
    assert reason is not None
    assert reason.text.startswith("it is running: on 2 nodes, because resnet50 may be spread: ")


@pytest.mark.parametrize("rule", ["network", "skew"])
def test_profile_lets_a_gang_that_suffers_wait_no_longer_than_it_pays(rule: str) -> None:
    lab = fragmented(placer="profile", placer_options={"floor_s": 90, "expected_s": 0, "rule": rule})
    assert lab.submit("d", gpus=4, **VGG).started == []
    reason = lab.why("d")
    assert reason is not None
    assert reason.code == "Fragmented"
    assert "needs 4 on one node" in reason.text
    assert "vgg16 kept together" in reason.text
    assert "for another 90 s at most" in reason.text
    assert lab.wait(89).started == []
    assert lab.wait(2).started == ["d"], "it has run for no time yet: the least wait"
    assert len(lab.nodes_of("d")) == 2


def test_profile_lets_a_gang_wait_longer_that_has_run_for_long() -> None:
    lab = Harness("fifo-skip", nodes=3, gpus=4, placer="profile", placer_options={"expected_s": 0})
    lab.suspended("d", gpus=4, service_s=100_000, **VGG)
    for node, name in enumerate("abc"):
        lab.running(name, on={f"n{node}": 1})
    assert lab.plan().started == []
    assert lab.wait(3600).started == []
    assert lab.finish("c").started == ["d"]
    assert lab.nodes_of("d") == {"n2": 4}


def test_relaxing_waits_backs_off_and_relaxes() -> None:
    options = {"timeout_s": 100, "back_off_s": 50, "retries": 1}
    cluster = Cluster.of(2, 4, racks=2)
    lab = Harness("fifo-skip", placer="relaxing", placer_options=options, cluster=cluster)
    for node in range(4):
        lab.running(f"r{node}", gpus=2, on={f"n{node}": 2})
    lab.plan()
    lab.submit("d", gpus=4)
    assert lab.submit("e", gpus=2).started == ["e"]
    assert lab.nodes_of("e") == {"n1": 2}, "d keeps what is free of n0"
    lab.finish("e")
    lab.wait(100)
    reason = lab.why("d")
    assert reason is not None
    rule = "8 free, best hole 2, needs 4 on the fewest nodes; backs off for another 50 s"
    assert reason.text == f"free GPUs are too fragmented: {rule}"
    assert lab.submit("f", gpus=2).started == ["f"]
    assert lab.nodes_of("f") == {"n0": 2}, "what it had gathered is released"
    assert lab.wait(49).started == []
    assert lab.wait(2).started == ["d"], "one rack will do now"
    assert lab.nodes_of("d") == {"n2": 2, "n3": 2}


def test_relaxing_takes_anything_at_last() -> None:
    options = {"timeout_s": 100, "back_off_s": 50, "retries": 1}
    lab = Harness("fifo-skip", placer="relaxing", placer_options=options, cluster=Cluster.of(1, 4, racks=3))
    for node in range(3):
        lab.running(f"r{node}", gpus=2, on={f"n{node}": 2})
    lab.plan()
    lab.submit("d", gpus=4)
    assert lab.wait(299).started == []
    assert lab.wait(2).started == ["d"]


def test_profile_would_rather_have_one_rack_than_fewer_nodes() -> None:
    options = {"network": "philly", "floor_s": 0, "expected_s": 0}  # with slow links across racks
    lab = Harness("fifo-skip", placer="profile", placer_options=options, cluster=Cluster.of(3, 4, racks=2))
    for node, name in enumerate("abc"):
        lab.running(name, gpus=2, on={f"n{node}": 2})
    lab.running("d", gpus=3, on={"n3": 3}).running("e", gpus=4, on={"n4": 4})
    lab.plan()
    assert lab.submit("f", gpus=6, model="resnet50").started == ["f"]
    assert lab.nodes_of("f") == {"n0": 2, "n1": 2, "n2": 2}, "not four and two across racks"


def migrating(placer: str = "consolidated", migrations: int = 1, **first: object) -> Harness:
    """Three free on n0 and n1; a has run for an hour."""
    options = {"migrations": migrations}
    lab = Harness("tiresias-l", nodes=3, gpus=4, placer=placer, placer_options=options)
    lab.running("a", on={"n0": 1}, service_s=3600.0, **first)
    lab.running("b", on={"n1": 1}, service_s=7200.0).running("c", gpus=4, on={"n2": 4}, service_s=100.0)
    lab.plan()
    return lab


def test_a_run_migrates_to_make_a_hole() -> None:
    lab = migrating()
    plan = lab.submit("d", gpus=4)
    assert (plan.preempted, plan.stopped, plan.started) == (["a"], ["a"], [])
    assert lab.controller.migrations == 1
    assert lab.wait(5).preempted == [], "one migration is enough"
    assert set(lab.exit("a").started) == {"d", "a"}
    assert lab.nodes_of("d") == {"n0": 4}
    assert lab.nodes_of("a") == {"n1": 1}


def test_no_run_migrates_unless_migrations_are_on() -> None:
    assert migrating(migrations=0).submit("d", gpus=4).preempted == []
    assert migrating(preemptible=False).submit("d", gpus=4).preempted == []
    with pytest.raises(ValueError, match="migrations must be 0 or more"):
        migrating(migrations=-1)


def test_no_run_migrates_unless_it_pays() -> None:
    assert migrating(preemption_cost_s=14_300.0).submit("d", gpus=4).preempted == ["a"]
    assert migrating(preemption_cost_s=14_500.0).submit("d", gpus=4).preempted == [], "more than 4 x 3600"


def test_no_run_migrates_that_would_find_no_slots() -> None:
    lab = Harness("tiresias-l", nodes=2, gpus=4, placer="consolidated", placer_options={"migrations": 2})
    lab.running("a", gpus=2, on={"n0": 2}, service_s=3600.0)
    lab.running("b", gpus=3, on={"n1": 3}, service_s=3600.0)
    lab.plan()
    assert lab.submit("d", gpus=3).preempted == []
