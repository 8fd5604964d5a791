"""Details of waiting and migrating: which gangs wait by which rule, what a migration may cost, odd shapes."""

from __future__ import annotations

import pytest

from tiresias.core.model import Cluster, Node
from tiresias.core.plugins import OptionError, placers
from tiresias.testing import Harness


def fragmented(**options: object) -> Harness:
    """Three nodes of four GPUs with three free each, under `profile`."""
    lab = Harness("fifo-skip", nodes=3, gpus=4, placer="profile", placer_options=options)
    for node, name in enumerate("abc"):
        lab.running(name, on={f"n{node}": 1}, duration_s=9.0)
    lab.plan()
    return lab


@pytest.mark.parametrize(
    ("model", "limit", "waits"),
    [("vgg16", 0.5, True), ("vgg16", 0.9, False), ("resnet50", 0.5, False), ("resnet50", 0.05, True)],
)
def test_by_skew_the_limit_decides(model: str, limit: float, waits: bool) -> None:
    lab = fragmented(rule="skew", limit=limit)
    assert lab.submit("d", gpus=4, model=model).started == ([] if waits else ["d"])
    reason = lab.why("d")
    assert reason is not None
    what = "kept together" if waits else "may be spread"
    skew = {"vgg16": "74.3%", "resnet50": "9.2%"}[model]
    assert f"{model} {what}: its largest tensor is {skew} of it, the limit {limit:.1%}" in reason.text


def test_by_skew_the_limit_follows_what_runs_have_shown() -> None:
    """ResNet-50, 9.2 % skewed, may be spread, unless it has shown to suffer."""
    resnet, shown = {"gpus": 4, "model": "resnet50"}, "resnet50:4:2x1=1.80"
    assert fragmented(rule="skew").submit("d", **resnet).started == ["d"]
    assert fragmented(rule="skew", measured=shown).submit("d", **resnet).started == []
    assert fragmented(rule="skew", measured=shown, limit=0.378).submit("d", **resnet).started == ["d"]
    assert fragmented(rule="skew", measured="resnet50:4:2x1=1.05").submit("d", **resnet).started == ["d"]
    lab = fragmented(rule="skew", measured="vgg16:4:2x1=1.00")
    lab.submit("d", gpus=4, model="vgg16")
    reason = lab.why("d")
    assert reason is not None
    assert "kept together: its largest tensor is 74.3% of it, the limit 37.5%" in reason.text


def test_by_skew_a_gang_that_waits_keeps_its_slots_reserved() -> None:
    """ResNet-50 does not suffer by the network, but by this limit: so its place is built."""
    lab = fragmented(rule="skew", limit=0.05, floor_s=1000)
    lab.submit("d", gpus=4, model="resnet50")
    for number in range(5):
        lab.submit(f"small{number}")
        assert "n0" not in lab.nodes_of(f"small{number}")
    assert lab.submit("late").started == []
    assert lab.finish("a").started == ["d", "late"]


@pytest.mark.parametrize(("limit", "node"), [(0.9, "n0"), (0.5, "n1")])
def test_by_skew_only_a_gang_that_suffers_reserves_free_slots(limit: float, node: str) -> None:
    options = {"rule": "skew", "limit": limit}
    lab = Harness("srsf", nodes=2, gpus=4, placer="profile", placer_options=options)
    lab.running("long", gpus=3, on={"n0": 3}, duration_s=9e5)
    lab.running("b", gpus=3, on={"n1": 3}, duration_s=9e3)
    lab.pending("first", gpus=4, duration_s=10.0, model="vgg16")
    assert lab.plan().preempted == ["long"]
    assert lab.submit("second", gpus=1, duration_s=5e4).started == ["second"]
    assert lab.nodes_of("second") == {node: 1}


def test_what_placers_accept() -> None:
    for limit in (0, 1, "0.5", "fitted"):
        placers.make("profile", {"limit": limit})
    for limit in (1.1, "low", "nan"):
        with pytest.raises(OptionError, match="limit"):
            placers.make("profile", {"limit": limit})
    for options in ({"sharing": 1}, {"floor_s": 0}, {"expected_s": 0}):
        placers.make("profile", options)
    for options in ({"sharing": 0.9}, {"floor_s": -1}, {"expected_s": -1}, {"migrations": -1}):
        with pytest.raises(OptionError, match=next(iter(options))):
            placers.make("profile", options)
    placers.make("relaxing", {"back_off_s": 0, "retries": 1})
    for options in ({"timeout_s": 0}, {"back_off_s": -1}, {"retries": 0}):
        with pytest.raises(OptionError, match=next(iter(options))):
            placers.make("relaxing", options)


def with_a_mover(gpus: int, cost_s: float, placer: str, **options: object) -> Harness:
    """Two nodes of four. A run that has gone on for an hour stands where a gang of four could be."""
    lab = Harness("tiresias-l", nodes=2, gpus=4, placer=placer, placer_options={"migrations": 1, **options})
    lab.running("a", gpus=gpus, on={"n0": gpus}, service_s=3600.0, preemption_cost_s=cost_s)
    lab.running("b", gpus=2, on={"n1": 2}, service_s=7200.0, preemptible=False)
    lab.plan()
    lab.wait(50)
    return lab


def test_a_migration_costs_its_time_on_all_gpus_of_the_run() -> None:
    assert with_a_mover(2, 7_100, "consolidated").submit("d", gpus=4).preempted == ["a"]
    assert with_a_mover(2, 7_400, "consolidated").submit("d", gpus=4).preempted == [], "2 x 7400 > 4 x 3650"


def test_no_run_migrates_for_a_gang_that_would_not_wait_as_long() -> None:
    patient = {"floor_s": 100, "expected_s": 0}
    vgg = {"gpus": 4, "model": "vgg16"}
    assert with_a_mover(1, 390, "profile", **patient).submit("d", **vgg).preempted == ["a"]
    assert with_a_mover(1, 410, "profile", **patient).submit("d", **vgg).preempted == [], "410 > 4 x 100"


@pytest.mark.parametrize("free_elsewhere", [1, 2])
def test_two_runs_that_migrate_need_slots_of_their_own(free_elsewhere: int) -> None:
    lab = Harness("tiresias-l", nodes=3, gpus=4, placer="consolidated", placer_options={"migrations": 2})
    for name in "ab":
        lab.running(name, on={"n0": 1}, service_s=3600.0)
    taken = 4 - free_elsewhere
    lab.running("c", gpus=taken, on={"n1": taken}, service_s=7200.0, preemptible=False)
    lab.running("e", gpus=3, on={"n2": 3}, service_s=7200.0, preemptible=False)
    lab.plan()
    migrated = lab.submit("d", gpus=4).preempted
    assert sorted(migrated) == ["a", "b"]
    lab.exit("a")
    lab.exit("b")
    assert lab.nodes_of("d") == {"n0": 4}


def test_buddy_has_no_say_where_no_block_could_ever_hold_the_rest() -> None:
    """Eleven on a node of eight and two of two: a block of four for the rest is on no other node."""
    nodes = [Node("large", 8), Node("x", 2), Node("y", 2)]
    lab = Harness("fifo-skip", placer="buddy", cluster=Cluster(nodes))
    lab.running("a", on={"y": 1})
    lab.plan()
    assert lab.submit("d", gpus=11).started == ["d"]


FULLEST, EMPTIEST = {"n2": 2, "n3": 4}, {"n0": 2, "n1": 4}


@pytest.mark.parametrize(("placer", "nodes"), [("consolidated", FULLEST), ("rack-local", EMPTIEST)])
def test_of_several_racks_the_fullest_or_the_emptiest(placer: str, nodes: dict[str, int]) -> None:
    lab = Harness("fifo-skip", placer=placer, cluster=Cluster.of(2, 4, racks=3))
    lab.running("a", on={"n0": 1}).running("b", gpus=2, on={"n2": 2}).running("c", gpus=4, on={"n4": 4})
    lab.plan()
    lab.submit("d", gpus=6)
    assert lab.nodes_of("d") == nodes
