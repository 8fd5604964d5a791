"""Clusters as people write them."""

from __future__ import annotations

import pytest

from tiresias.core.model import Cluster, Node
from tiresias.profiles.links import PRESETS, Link
from tiresias.sim.cluster_presets import PRESETS as CLUSTERS
from tiresias.sim.clusters import ClusterError, parse, read
from tiresias.sim.errors import InputError
from tiresias.sim.fabric import FABRICS

HEADER = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n"


@pytest.mark.parametrize(
    ("text", "racks", "nodes", "gpus"),
    [
        ("64x8", 1, 64, 512),
        ("1x1", 1, 1, 1),
        ("2*28x8", 2, 56, 448),
        (" 15 X 4 ", 1, 15, 60),
        ("2 * 3×4", 2, 6, 24),
        ("4x16x8", 4, 64, 512),
        ("2×3 x 4", 2, 6, 24),
        ("100000x1", 1, 100_000, 100_000),
    ],
)
def test_a_shape(text, racks, nodes, gpus):
    cluster = parse(text)
    assert len({node.rack for node in cluster.nodes}) == racks
    assert len(cluster.nodes) == nodes
    assert cluster.gpus == gpus


def test_names_are_stable():
    assert parse("2*2x4").nodes == [
        Node("n0", 4, "r0"),
        Node("n1", 4, "r0"),
        Node("n2", 4, "r1"),
        Node("n3", 4, "r1"),
    ]
    assert parse("2*28x8") == parse("2x28x8") == Cluster.of(28, 8, racks=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x8", "0 must be from 1 to 1,000,000"),
        ("8x0", "0 must be from 1 to 1,000,000"),
        ("0*8x8", "0 must be from 1"),
        ("9999x9999", "99,980,001 GPUs in all"),
        ("1000001x1", "1000001 must be from 1"),
        ("9" * 5000 + "x8", "must be from 1 to 1,000,000"),
        ("1000000*1000000x1000000", "GPUs in all"),
        ("-4x8", "'-4x8' is not a cluster"),
        ("8", "'8' is not a cluster"),
        ("", "'' is not a cluster"),
        ("1.5x8", "is not a cluster"),
        ("8x8x8x8", "is not a cluster"),
        ("8*8*8", "is not a cluster"),
        ("big", "'big' is not a cluster"),
        ("none.yaml", "none.yaml: no such file"),
    ],
)
def test_what_is_no_cluster(text, expected):
    with pytest.raises(ClusterError) as caught:
        parse(text)
    message = str(caught.value)
    assert expected in message
    assert len(message) < 300
    assert "NODESxGPUS (64x8)" in message or "GPUs in all" in message


def test_yaml_with_racks(tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text(
        "racks:\n"
        "  - count: 2\n"
        "    nodes:\n"
        "      - {gpus: 8, count: 2}\n"
        "      - {gpus: 4}\n"
        "  - nodes: [{gpus: 2, count: 1}]\n"
    )
    cluster = parse(str(path))
    assert [(node.name, node.gpus, node.rack) for node in cluster.nodes] == [
        ("n0", 8, "r0"),
        ("n1", 8, "r0"),
        ("n2", 4, "r0"),
        ("n3", 8, "r1"),
        ("n4", 8, "r1"),
        ("n5", 4, "r1"),
        ("n6", 2, "r2"),
    ]


def test_yaml_with_nodes_is_one_rack(tmp_path):
    path = tmp_path / "lab.yml"
    path.write_text("nodes:\n  - gpus: 8\n    count: 3\n")
    assert parse(str(path)) == Cluster.of(3, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nodes:\n  - gpu: 8\n", "nodes[0]: unknown key 'gpu'; known keys: gpus, count, gpu_type"),
        ("nodes:\n  - gpus: 8\nspeed: 1\n", "unknown key 'speed'"),
        ("racks:\n  - nodes: [{gpus: 8}]\n    name: a\n", "racks[0]: unknown key 'name'"),
        ("nodes:\n  - count: 8\n", "nodes[0]: missing key gpus"),
        ("nodes:\n  - gpus: eight\n", "nodes[0].gpus: 'eight' is not a whole number"),
        ("nodes:\n  - gpus: 2.5\n", "nodes[0].gpus: 2.5 is not a whole number"),
        ("nodes:\n  - gpus: true\n", "nodes[0].gpus: True is not a whole number"),
        ("nodes:\n  - gpus: 0\n", "nodes[0].gpus: 0 must be from 1"),
        ("nodes:\n  - {gpus: 8, count: -1}\n", "nodes[0].count: -1 is not a whole number"),
        ("nodes: []\n", "must be a list with at least one entry"),
        ("racks:\n  - count: 3\n", "racks[0].nodes: must be a list"),
        ("nodes: [{gpus: 1}]\nracks: []\n", "needs either racks or nodes"),
        ("{}", "needs either racks or nodes"),
        ("", "must have the keys racks or nodes"),
        ("- 1\n", "must have the keys racks or nodes"),
        ("nodes: [8]\n", "or sockets, not 8"),
        ("nodes: [\n", "not YAML"),
        ("nodes: 2020-13-45\n", "not YAML: month must be in 1..12"),
        ("racks:\n  - {count: 1000000, nodes: [{gpus: 1000000, count: 1000000}]}\n", "GPUs in all"),
    ],
)
def test_yaml_that_is_wrong_names_file_and_place(tmp_path, text, expected):
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    with pytest.raises(ClusterError) as caught:
        parse(str(path))
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)


def test_the_tiresias_simulators_cluster_file(tmp_path):
    path = tmp_path / "cluster.csv"
    path.write_text(HEADER.replace("\n", "\r\n") + "2,4,8,64,256\r\n\r\n")
    assert parse(str(path)) == Cluster.of(4, 8, racks=2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "missing column num_switch, num_node_p_switch, num_gpu_p_node"),
        ("num_switch,num_gpu_p_node\n1,8\n", "missing column num_node_p_switch"),
        (HEADER, "exactly one row"),
        (HEADER + "1,2,8,64,256\n1,2,8,64,256\n", "exactly one row"),
        (HEADER + "1,2\n", "exactly one row of 5 values"),
        (HEADER + "1,2,x,64,256\n", "column num_gpu_p_node: 'x' is not a whole number"),
        (HEADER + "1,0,8,64,256\n", "column num_node_p_switch: 0 must be from 1"),
        (HEADER + '"' + "x" * 200_000 + '",1,1,1,1\n', "not CSV"),
    ],
)
def test_a_cluster_file_that_is_wrong(tmp_path, text, expected):
    path = tmp_path / "cluster.csv"
    path.write_text(text)
    with pytest.raises(ClusterError) as caught:
        parse(str(path))
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "dir.yaml").mkdir()
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    for name in ("dir.yaml", "bytes.csv"):
        with pytest.raises(ClusterError, match="cannot be read"):
            parse(str(tmp_path / name))


def test_it_is_an_input_error():
    assert issubclass(ClusterError, InputError)


def test_yaml_with_everything(tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text(
        "placer: spread\n"
        "network:\n"
        "  node: {gbps: 96}\n"
        "  rack: {gbps: 100, latency_us: 2, ports: 2}\n"
        "  cross: {gbps: 10}\n"
        "  uplink_gbps: 40\n"
        "nodes:\n"
        "  - {gpus: 4, count: 2, gpu_type: P100, cpus: 20, memory_gib: 256, sockets: 2}\n"
        "  - {gpus: 3, sockets: [[0, 2], [1]]}\n"
    )
    machines = read(str(path))
    node = Node("n1", 4, "r0", "P100", 20, 256 << 30, ((0, 1), (2, 3)))
    assert machines.cluster.nodes[1] == node
    assert machines.cluster.nodes[2].sockets == ((0, 2), (1,))
    assert machines.placer == "spread"
    assert machines.fabric is not None
    assert machines.fabric.links.rack == Link(12.5e9, pytest.approx(2e-6), 2)
    assert machines.fabric.uplink_Bps == 5e9


def test_yaml_with_a_network_like_another(tmp_path):
    path = tmp_path / "lab.yaml"
    path.write_text("nodes: [{gpus: 4}]\nnetwork: {like: philly, cross: {gbps: 25}}\n")
    fabric = read(str(path)).fabric
    assert fabric is not None
    assert fabric.links.rack == PRESETS["philly"].rack
    assert fabric.links.cross == Link(3.125e9, 0.0)
    path.write_text("nodes: [{gpus: 4}]\nnetwork: philly\n")
    assert read(str(path)).fabric == FABRICS["philly"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("network: {like: philly, cross: {gbps: -10}}", "network.cross.gbps: -10 is not a number of Gb/s"),
        ("network: {like: philly, cross: {gbps: 0}}", "network.cross.gbps: 0 must be above 0"),
        ("network: {like: philly, cross: {gbps: .nan}}", "network.cross.gbps: nan is not a number"),
        ("network: {like: philly, cross: {latency_us: 3}}", "network.cross: missing key gbps"),
        ("network: {like: philly, cross: {gbps: 1, mtu: 9}}", "network.cross: unknown key 'mtu'"),
        ("network: {like: philly, rack: {gbps: 1, latency_us: -1}}", "latency_us: -1 is not a number"),
        ("network: {like: philly, rack: {gbps: 1, ports: 0}}", "network.rack.ports: 0 must be from 1"),
        ("network: {like: philly, uplink_gbps: no}", "network.uplink_gbps: False is not a number of Gb/s"),
        ("network: {like: filly}", "network.like: no network 'filly'; did you mean 'philly'"),
        ("network: none", "network: 'none' is no network; leave the key out"),
        ("network: {rack: {gbps: 1}}", "network: missing key node"),
        ("network: {wires: 3}", "network: unknown key 'wires'"),
        ("network: 3", "network: must have the keys like"),
        ("placer: 3", "placer: 3 is not a name"),
    ],
)
def test_a_network_that_is_wrong_names_file_and_key(tmp_path, text, expected):
    path = tmp_path / "lab.yaml"
    path.write_text(f"nodes: [{{gpus: 4}}]\n{text}\n")
    with pytest.raises(ClusterError) as caught:
        read(str(path))
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("sockets: 3", "nodes[0].sockets: 4 GPUs are not 3 equal groups"),
        ("sockets: [[0, 1], [2]]", "must name each slot from 0 to 3 once"),
        ("sockets: [[0, 1], [2, x]]", "nodes[0].sockets: 'x' is not the number of a slot"),
        ("cpus: -1", "nodes[0].cpus: -1 is not a whole number"),
        ("memory_gib: lots", "nodes[0].memory_gib: 'lots' is not a number of GiB"),
        ("gpu_type: 3", "nodes[0].gpu_type: 3 is not a name"),
    ],
)
def test_a_node_that_is_wrong_names_file_and_key(tmp_path, node, expected):
    path = tmp_path / "lab.yaml"
    path.write_text(f"nodes:\n  - gpus: 4\n    {node}\n")
    with pytest.raises(ClusterError) as caught:
        read(str(path))
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)


@pytest.mark.parametrize("name", CLUSTERS)
def test_presets(name):
    machines = read(name)
    assert machines.fabric == FABRICS[name]
    assert machines.cluster.gpus > 0
    assert len({node.name for node in machines.cluster.nodes}) == len(machines.cluster.nodes)
    assert all(node.gpu_type and node.cpus and node.memory_bytes for node in machines.cluster.nodes)


def test_the_papers_clusters_have_their_sizes():
    assert [(node.gpus, node.gpu_type) for node in parse("tiresias-testbed").nodes] == [(4, "P100")] * 15
    assert {node.gpus for node in parse("philly").nodes} == {2, 8}
    assert (len(parse("gandiva").nodes), parse("gandiva").gpus) == (45, 180)
    assert (len(parse("themis").nodes), parse("themis").gpus) == (20, 50)


def test_a_preset_spelt_wrong():
    with pytest.raises(ClusterError, match="Did you mean 'philly'"):
        parse("phily")
