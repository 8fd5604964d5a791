"""Which GPUs are near each other, as recorded and invented drivers report it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tiresias.executors.gpus import Nvml, fake, find
from tiresias.executors.topology import Topology, ranges, read

SYSTEM, NODE, HOST_BRIDGE, SWITCHES = 50, 40, 30, 20


class NotSupported(Exception):
    pass


class Box:
    """pynvml on a machine; the queries in `mute` raise "not supported"."""

    NVMLError = NotSupported

    def __init__(self, gpus=4, level=lambda a, b: SYSTEM, links=None, version=4, pcie=(4, 16), mute=()):
        self.gpus, self.level, self.links, self.version, self.pcie = gpus, level, links or {}, version, pcie
        self.mute = mute

    def __getattribute__(self, name):
        if name.startswith("nvml") and name in object.__getattribute__(self, "mute"):
            return self._refuse
        return object.__getattribute__(self, name)

    def _refuse(self, *_):
        raise NotSupported("Not Supported")

    def nvmlDeviceGetCount(self):
        return self.gpus

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}"

    def nvmlDeviceGetName(self, handle):
        return "a card"

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=2**30)

    def nvmlDeviceGetPciInfo(self, handle):
        return SimpleNamespace(busId=f"00000000:{handle:02X}:00.0".encode())

    def nvmlDeviceGetTopologyCommonAncestor(self, one, other):
        return self.level(one, other)

    def nvmlDeviceGetNvLinkState(self, handle, link):
        if link >= len(self.links.get(handle, ())):
            raise NotSupported("Invalid Argument")
        return 0 if self.links[handle][link] is None else 1

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle, link):
        end = self.links[handle][link]
        return SimpleNamespace(busId=f"0000:{end:02x}:00.0" if isinstance(end, int) else f"0000:{end}")

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle, link):
        end = self.links[handle][link]
        return 0 if isinstance(end, int) else 1 if end == "npu" else 2

    def nvmlDeviceGetNvLinkVersion(self, handle, link):
        return self.version

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle):
        return self.pcie[0]

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle):
        return self.pcie[1]


def two_sockets(a, b):
    return NODE if (a < 2) == (b < 2) else SYSTEM


def test_gpus_that_nvlink_joins_in_pairs_form_groups_and_pcie_joins_the_groups():
    pairs = {0: [1, 1, None], 1: [0, 0], 2: [3, 3], 3: [2, 2]}
    found = read(Box(links=pairs))
    assert found == Topology(((0, 1), (2, 3)), "NVLink", 50.0, 24.0)
    assert found.summary() == "0-1 2-3 by NVLink (50 GB/s inside, 24 GB/s between)"


def test_a_switch_that_joins_all_gpus_makes_no_groups():
    found = read(Box(links={gpu: ["switch"] * 12 for gpu in range(4)}, level=two_sockets))
    assert found == Topology((), "NVLink", 300.0, 300.0)
    assert found.summary() == "no groups (300 GB/s between any two)"


def test_links_to_a_cpu_join_no_gpus_but_those_between_gpus_do():
    box = Box(links={0: ["npu", 1], 1: ["npu", 0], 2: ["npu", 3], 3: ["npu", 2]}, version=1)
    assert read(box).groups == ((0, 1), (2, 3))
    assert read(box).near_GBps == 20.0
    only_cpus = Box(links={gpu: ["npu"] for gpu in range(4)}, level=two_sockets)
    assert read(only_cpus).by == "NUMA node"


def test_with_an_old_driver_an_end_that_is_no_gpu_counts_as_a_switch():
    box = Box(links={gpu: ["switch"] for gpu in range(4)}, mute=("nvmlDeviceGetNvLinkRemoteDeviceType",))
    assert read(box).by == "NVLink"
    box.mute += ("nvmlDeviceGetPciInfo",)
    assert read(box).by == "", "it might be a GPU whose address is not known"


def test_a_gpu_without_a_link_is_in_no_group():
    assert read(Box(links={0: [1], 1: [0]})).groups == ((0, 1),)


def test_without_nvlink_the_gpus_of_one_socket_are_a_group():
    assert read(Box(level=two_sockets)) == Topology(((0, 1), (2, 3)), "NUMA node", 24.0, 24.0)


def test_in_one_socket_the_gpus_behind_one_pcie_switch_are_a_group():
    behind = lambda a, b: SWITCHES if a // 2 == b // 2 else HOST_BRIDGE  # noqa: E731
    assert read(Box(level=behind)) == Topology(((0, 1), (2, 3)), "PCIe switch", 24.0, 24.0)
    assert read(Box(level=lambda a, b: HOST_BRIDGE)).groups == ()


def test_a_chain_of_links_makes_one_group():
    """There are machines of eight GPUs in which each has links to only four others."""
    ring = {gpu: [(gpu + 1) % 4, (gpu - 1) % 4] for gpu in range(4)}
    assert read(Box(links=ring)) == Topology((), "NVLink", 25.0, 25.0)


QUESTIONS = [name for name in dir(Box) if name.startswith("nvml") and "Count" not in name]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_that_is_not_supported_is_no_error(name):
    pairs = {0: [1], 1: [0], 2: [3], 3: [2]}
    found = read(Box(links=pairs, level=two_sockets, mute=(name,)))
    if name == "nvmlDeviceGetHandleByIndex":
        assert found == Topology()
    else:
        assert found.groups == ((0, 1), (2, 3)), "known from NVLink or from the sockets"


def test_a_library_that_lacks_functions_is_no_error():
    box = SimpleNamespace(
        NVMLError=NotSupported, nvmlDeviceGetCount=lambda: 2, nvmlDeviceGetHandleByIndex=lambda index: index
    )
    assert read(box) == Topology()


def test_a_survey_contains_the_topology():
    unsupported = ("nvmlDeviceGetRemappedRows", "nvmlDeviceGetRetiredPagesPendingStatus")
    survey = find(Nvml(Box(level=two_sockets, mute=unsupported)), only=[0, 1, 2])
    assert survey.topology.groups == ((0, 1), (2, 3)), "of all GPUs, selected or not"
    assert find(Nvml(Box(mute=("nvmlDeviceGetCount",)))).gpus == ()


def test_fake_gpus_may_be_in_groups():
    assert fake(5, 2).topology.groups == ((0, 1), (2, 3, 4))
    assert fake(4).topology == Topology()


def test_ranges():
    assert ranges((7, 0, 1, 2)) == "0-2,7"
