"""The boxes of the other tests are what they seem: apart from each other, and joined by links."""

from __future__ import annotations

import json

from tiresias.testing.executors import until

NODES = """
import json, ray
ray.init(address={address!r}, log_to_driver=False, logging_level="ERROR")
print(json.dumps([{{**node, "Resources": node["Resources"]}} for node in ray.nodes() if node["Alive"]]))
"""


def nodes(bed):
    asked = bed.boxes[0].run(bed.python, "-c", NODES.format(address=bed.address))
    assert asked.returncode == 0, asked.stderr
    return json.loads(asked.stdout.splitlines()[-1])


def test_each_box_is_a_ray_node_with_four_gpus_and_a_name(bed):
    found = {node["NodeName"]: node for node in nodes(bed)}
    assert sorted(found) == [box.name for box in bed.boxes]
    assert {node["NodeManagerHostname"] for node in found.values()} == set(found)
    assert [node["Resources"]["GPU"] for node in found.values()] == [4.0] * len(bed.boxes)
    assert found["n2"]["Labels"]["rack"] == "r1"


def test_a_box_whose_link_is_cut_cannot_be_reached_until_the_link_is_back(bed):
    first, second = bed.boxes[:2]
    connect = f"import socket; socket.create_connection(({first.address!r}, {first.port}), timeout=1)"

    def reaches() -> bool:
        return second.run(bed.python, "-c", connect).returncode == 0

    assert reaches()
    second.cut()
    try:
        assert not reaches()
    finally:
        second.mend()
    until(reaches, "the link is back", within_s=60)
