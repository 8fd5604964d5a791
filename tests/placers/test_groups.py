"""Groups of GPUs inside a node: which gangs wait for one, for how long, and by what figures."""

from __future__ import annotations

from typing import Any

import pytest

import tiresias.placers  # noqa: F401  (for what it registers)
from tiresias.core.model import Cluster, Node
from tiresias.core.plugins import OptionError, placers
from tiresias.placers.groups import touched
from tiresias.profiles.measured import GangShape, parse, written
from tiresias.testing import Harness

VGG: dict[str, Any] = {"model": "vgg16"}
TWO = ((0, 1, 2, 3), (4, 5, 6, 7))
SHOWN = {"measured": "vgg16:4:1x2=1.50"}


def slots(lab: Harness, name: str) -> set[int]:
    run = lab.job(name).run
    assert run is not None
    return {index for _, mask in run.allocation for index in range(8) if mask >> index & 1}


def crossing(**options: Any) -> Harness:
    """Three free in one group, two in the other."""
    cluster = Cluster([Node("box", 8, sockets=TWO)])
    lab = Harness("fifo-skip", cluster=cluster, placer="profile", placer_options=options)
    lab.running("a", on={"box": 1})  # slot 0
    lab.submit("b", gpus=4)  # slots 4 to 7
    lab.submit("c", gpus=3)  # slots 1 to 3
    assert (slots(lab, "b"), slots(lab, "c")) == ({4, 5, 6, 7}, {1, 2, 3})
    lab.finish("b")
    lab.submit("d", gpus=2)  # slots 4 and 5
    lab.finish("c")
    assert slots(lab, "d") == {4, 5}
    return lab


def test_a_gang_that_is_not_known_to_suffer_is_placed_across_groups_at_once() -> None:
    lab = crossing()
    assert lab.submit("gang", gpus=4, **VGG).started == ["gang"]
    assert slots(lab, "gang") == {1, 2, 3, 6}


def test_a_gang_that_has_suffered_waits_for_a_group_and_reserves_its_free_slots() -> None:
    lab = crossing(expected_s=1000, **SHOWN)
    assert lab.submit("gang", gpus=4, **VGG).started == []
    reason = lab.why("gang")
    assert reason is not None
    assert reason.code == "Fragmented"
    assert "5 free, at most 3 in one group, needs 4 in one" in reason.text
    assert "vgg16 would take 1.50x as long across groups" in reason.text
    assert "for another 500 s at most" in reason.text
    assert lab.submit("small", gpus=1).started == ["small"]
    assert slots(lab, "small") == {6}, "not of those that the gang waits for"
    assert lab.finish("a").started == ["gang"]
    assert slots(lab, "gang") == {0, 1, 2, 3}


def test_it_waits_no_longer_than_that_pays() -> None:
    lab = crossing(expected_s=1000, **SHOWN)
    lab.submit("gang", gpus=4, **VGG)
    assert lab.wait(499).started == []
    assert lab.wait(2).started == ["gang"]


def test_a_slowdown_that_was_not_measured_is_predicted_from_bandwidths() -> None:
    fast_inside = crossing(near=300, far=1)
    assert fast_inside.submit("gang", gpus=4, **VGG).started == []
    alike = crossing(near=300, far=300)
    assert alike.submit("gang", gpus=4, **VGG).started == ["gang"]
    shown_otherwise = crossing(near=300, far=1, measured="vgg16:4:1x2=1.00")
    assert shown_otherwise.submit("gang", gpus=4, **VGG).started == ["gang"]


def test_a_gang_that_needs_two_groups_anyway_does_not_wait() -> None:
    lab = crossing(measured="vgg16:5:1x2=1.50")
    assert lab.submit("gang", gpus=5, **VGG).started == ["gang"]


def test_other_sizes_and_models_are_not_meant() -> None:
    lab = crossing(**SHOWN)
    assert lab.submit("other", gpus=4, model="resnet50").started == ["other"]


def test_what_was_measured_between_nodes_counts_there() -> None:
    for shown, started in (("vgg16:4:2x1=1.00", ["gang"]), ("resnet50:4:2x1=2.00", [])):
        options = {"measured": shown, "floor_s": 0}
        lab = Harness("fifo-skip", nodes=3, gpus=4, placer="profile", placer_options=options)
        for node in range(3):
            lab.running(f"r{node}", gpus=2, on={f"n{node}": 2})
        model = shown.partition(":")[0]
        assert lab.submit("gang", gpus=4, model=model).started == started


def test_the_line_of_text() -> None:
    found = parse("vgg16:4:1x2=1.45,mine@0a1b:8:2x1=2")
    assert found == {GangShape("vgg16", 4, "1x2"): 1.45, GangShape("mine@0a1b", 8, "2x1"): 2.0}
    assert written(found) == "mine@0a1b:8:2x1=2.00,vgg16:4:1x2=1.45"
    assert parse("") == {}
    for wrong in ("vgg16", "vgg16:0:1x2=1.5", "vgg16:4:2=1.5", "vgg16:4:1x2=0.5", "vgg16:4:1x2=nan"):
        with pytest.raises(OptionError, match="measured="):
            placers.make("profile", {"measured": wrong})


def test_slots_in_no_group_count_one_each() -> None:
    assert touched(0b0011, (0b0011,)) == 1
    assert touched(0b1111, (0b0011,)) == 3
    assert touched(0b1111, ()) == 1
