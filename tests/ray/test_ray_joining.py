"""Nodes that join while the manager runs, and those that must not be used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
from training_lab import TrainingLab

from tiresias.testing.executors import until
from tiresias.testing.ray_bed import Bed


@pytest.fixture
def boxes(bed) -> Iterator[Bed]:
    """Boxes of which only the first one has a Ray node; `bed` says that nothing is missing for them."""
    made = Bed(3, Path(mkdtemp(prefix="tir")), ("j0", "j1", "j2"))
    try:
        made.make()
        made.boxes[0].start_ray()
        yield made
    finally:
        made.remove()
        rmtree(made.top, ignore_errors=True)


def test_nodes_join_and_those_that_fail_a_test_are_not_used(boxes, tmp_path):
    lab = TrainingLab(boxes, tmp_path)
    lab.up()
    until(lambda: len(lab.nodes()) == 1, "the first node has joined", within_s=60)
    # Another folder is mounted over the shared one in this box: it is not the same.
    boxes.boxes[1].hide(lab.shared)
    boxes.boxes[1].start_node()
    boxes.boxes[2].start_node(name="j0")
    until(lambda: "not shared" in lab.why_not("j1"), lab.why_not("j1"), within_s=120)
    twin = f"j0-{boxes.boxes[2].address}"
    until(lambda: "the name j0, too" in lab.why_not(twin), lab.why_not(twin), within_s=120)
    assert f"the node at {boxes.boxes[0].address} has the name j0" in lab.why_not(twin)
    assert "j1" in lab.tir("nodes").stdout
    assert "j1: the folder" in lab.tir("doctor", code=1).stdout
    job = lab.submit("-g", "4", "--", "hostname")
    lab.until_ended([job])
    assert lab.logs(job).strip() == "j0"
    lab.end()
