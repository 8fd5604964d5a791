"""Which GPUs of this machine are near each other, as NVML reports it.

Rules:
- GPUs that NVLink joins, directly or over a switch, are near each other. If NVLink joins all of them, there
  are no groups.
- Without NVLink the GPUs of one NUMA node are near each other. If all are in one NUMA node, those behind one
  PCIe switch are.
- A GPU that is near no other is in no group. Most GPUs support only some of the queries; nothing is assumed
  where there is no answer.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

PCIE_SWITCHES = 20  # NVML_TOPOLOGY_MULTIPLE: the path crosses no host bridge
NUMA_NODE = 40  # NVML_TOPOLOGY_NODE: the path crosses no link between CPU sockets
MOST_LINKS = 18  # NVML_NVLINK_MAX_LINKS
A_SWITCH = 2  # NVML_NVLINK_DEVICE_TYPE_SWITCH
SWITCH = "switch"
UNKNOWN = "unknown"
NVLINK_GBPS = {1: 20.0, 7: 50.0}  # per link and direction, by NVML's version number; 25 for other versions
PCIE_LANE_GBPS = {1: 0.19, 2: 0.38, 3: 0.75, 4: 1.5, 5: 3.0, 6: 6.0}
"""Per lane and direction, by generation: 12 GB/s for 16 lanes of the third, as in the named networks."""

Groups = tuple[tuple[int, ...], ...]


@dataclass(slots=True, frozen=True)
class Topology:
    """Groups of GPUs by index, and GB/s per direction inside a group and between groups; 0: not known."""

    groups: Groups = ()
    by: str = ""  # what joins a group: NVLink, NUMA node, PCIe switch
    near_GBps: float = 0.0
    far_GBps: float = 0.0

    def summary(self) -> str:
        """A text for users, such as `0-3 4-7 by NVLink (300 GB/s inside, 24 GB/s between)`."""
        where = " ".join(ranges(group) for group in self.groups) or "no groups"
        inside = (self.near_GBps, "inside" if self.groups else "between any two")
        speeds = [inside, (self.far_GBps, "between")] if self.groups else [inside]
        known = [f"{speed:g} GB/s {words}" for speed, words in speeds if speed]
        by = f" by {self.by}" if self.groups else ""
        return f"{where}{by}" + (f" ({', '.join(known)})" if known else "")


def ranges(indices: Iterable[int]) -> str:
    """Write indices as ranges, such as `0-3,7`."""
    parts: list[list[int]] = []
    for index in sorted(indices):
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def read(nvml: Any) -> Topology:
    """Read the topology through an initialised pynvml; raises NVMLError only if it cannot count the GPUs."""
    handles: dict[int, Any] = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = _ask(nvml, "nvmlDeviceGetHandleByIndex", index)
        if handle is not None:
            handles[index] = handle
    pcie = min((_pcie(nvml, handle) for handle in handles.values()), default=0.0)
    joined, nvlink = _nvlink(nvml, handles)
    groups = _components(handles, joined)
    if groups:
        if len(groups[0]) == len(handles):
            return Topology((), "NVLink", nvlink, nvlink)
        return Topology(groups, "NVLink", nvlink, pcie)
    levels = {
        (a, b): _ask(nvml, "nvmlDeviceGetTopologyCommonAncestor", handles[a], handles[b])
        for a, b in combinations(handles, 2)
    }
    for by, most in (("NUMA node", NUMA_NODE), ("PCIe switch", PCIE_SWITCHES)):
        groups = _components(handles, {pair for pair, level in levels.items() if _is_near(level, most)})
        if groups and len(groups[0]) < len(handles):
            return Topology(groups, by, pcie, pcie)
    return Topology((), "", pcie, pcie)


def _is_near(level: int | None, most: int) -> bool:
    return level is not None and level <= most


def _ask(nvml: Any, name: str, *values: Any) -> Any:
    """The answer of NVML, or None if the driver, the GPU or the library does not support the query."""
    ask = getattr(nvml, name, None)
    if ask is None:
        return None
    try:
        return ask(*values)
    except nvml.NVMLError:
        return None


def _pcie(nvml: Any, handle: Any) -> float:
    """The maximum speed of the PCIe link in GB/s, because an idle link runs at a lower one."""
    generation = _ask(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle)
    width = _ask(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle)
    return PCIE_LANE_GBPS.get(generation or 0, 0.0) * (width or 0)


def _nvlink(nvml: Any, handles: dict[int, Any]) -> tuple[set[tuple[int, int]], float]:
    """Pairs of GPUs that NVLink joins, and the lowest GB/s among these."""
    addresses = {_bus(_ask(nvml, "nvmlDeviceGetPciInfo", handle)): index for index, handle in handles.items()}
    ends: dict[int, dict[int | str, float]] = {}
    for index, handle in handles.items():
        ends[index] = {}
        for link in range(MOST_LINKS):
            if _ask(nvml, "nvmlDeviceGetNvLinkState", handle, link) != 1:
                continue
            end = _end(nvml, handle, link, addresses)
            if end is not None:
                version = _ask(nvml, "nvmlDeviceGetNvLinkVersion", handle, link) or 0
                ends[index][end] = ends[index].get(end, 0.0) + NVLINK_GBPS.get(version, 25.0)
    joined: dict[tuple[int, int], float] = {}
    for a, b in combinations(handles, 2):
        direct = max(ends[a].get(b, 0.0), ends[b].get(a, 0.0))
        switched = min(ends[a].get(SWITCH, 0.0), ends[b].get(SWITCH, 0.0))
        if direct or switched:
            joined[a, b] = max(direct, switched)
    return set(joined), min(joined.values(), default=0.0)


def _end(nvml: Any, handle: Any, link: int, addresses: dict[str, int]) -> int | str | None:
    """The GPU at the other end of a link, or SWITCH; None if it is neither or not known."""
    remote = _ask(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
    if remote is None:
        return None
    if (found := addresses.get(_bus(remote))) is not None:
        return found
    kind = _ask(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
    if kind is None:  # an old driver; the end is no GPU if the addresses of all GPUs are known
        return None if UNKNOWN in addresses else SWITCH
    return SWITCH if kind == A_SWITCH else None


def _bus(info: Any) -> str:
    """A PCI address in one spelling; depending on its version pynvml returns bytes or text."""
    if info is None:
        return UNKNOWN
    address = getattr(info, "busId", "")
    text = address.decode() if isinstance(address, bytes) else str(address)
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _components(indices: Iterable[int], near: Container[tuple[int, int]]) -> Groups:
    """Groups of two or more GPUs that are near each other, directly or through others; the largest first.

    `near` contains pairs with the lower index first.
    """
    found: list[set[int]] = []
    for index in indices:
        touched = [group for group in found if any((other, index) in near for other in group)]
        merged = {index}.union(*touched)
        found = [*(group for group in found if group not in touched), merged]
    groups = [tuple(sorted(group)) for group in found if len(group) > 1]
    return tuple(sorted(groups, key=lambda group: (-len(group), group)))
