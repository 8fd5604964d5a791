"""Reads a cluster file: racks, nodes and the network between them, in YAML.

Rules: an unknown key or an impossible value is an error that names the file and the key. Nodes here are
patterns without a name and a rack. docs/reference/clusters.md lists all keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tiresias.core.model import INFINITY, Node
from tiresias.profiles.links import GBIT, Link, Links
from tiresias.sim.errors import ClusterError, InputError
from tiresias.sim.fabric import Fabric, fabric_of

MOST = 1_000_000
CPU_HINT = "A node with CPUs only has gpus: 0 and a number of cpus."
GIB = 1 << 30
TOP = ("racks", "nodes", "network", "placer", "shares")
RACK = ("nodes", "count")
NODE = ("gpus", "count", "gpu_type", "cpus", "cpus_per_slot", "memory_gib", "speed", "sockets")
NETWORK = ("like", "node", "rack", "cross", "uplink_gbps", "interference")
LINK = ("gbps", "latency_us", "ports")
LEVELS = ("node", "rack", "cross")

Pattern = tuple[Node, int]
"""A node without a name, and how many such nodes there are."""
Racks = tuple[int, list[Pattern]]
"""A number of equal racks, and the nodes of each."""


@dataclass(slots=True)
class Described:
    """A cluster as a file or a preset describes it."""

    racks: list[Racks]
    fabric: Fabric | None = None
    placer: str = ""  # the placer to use unless the user names another; empty: none
    shares: dict[str, float] | None = None  # weights of tenants


def whole(value: Any, place: str, accepted: str = "") -> int:
    """A whole number from 1 to MOST, from text or YAML; `place` names it in errors."""
    text = str(value).strip()
    if isinstance(value, bool | float) or not re.fullmatch(r"\d+", text, re.ASCII):
        raise ClusterError(f"{place}: {value!r} is not a whole number. {accepted}".rstrip())
    digits = text.lstrip("0")
    if not digits or len(digits) > 7 or int(digits) > MOST:
        raise ClusterError(f"{place}: {text[:20]} must be from 1 to {MOST:,}. {accepted}".rstrip())
    return int(digits)


def read(name: str, text: str) -> Described:
    """Parse the text of a cluster file; `name` is the file's name, for errors."""
    import yaml  # not before: it delays each worker of a comparison

    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: an impossible date
        raise ClusterError(f"{name}: not YAML: {' '.join(str(error).split())}.") from None
    top = _mapping(tree, name, TOP, "the keys racks or nodes")
    if ("racks" in top) == ("nodes" in top):
        raise ClusterError(f"{name}: needs either racks or nodes. See docs/reference/clusters.md.")
    racks: list[Racks] = []
    if "nodes" in top:
        racks.append((1, _nodes(top["nodes"], f"{name}: nodes")))
    for index, item in enumerate(_list(top["racks"], f"{name}: racks") if "racks" in top else []):
        place = f"{name}: racks[{index}]"
        rack = _mapping(item, place, RACK)
        nodes = _nodes(rack.get("nodes"), f"{place}.nodes")
        racks.append((whole(rack.get("count", 1), f"{place}.count"), nodes))
    fabric = _network(top["network"], name) if "network" in top else None
    shares = _shares(top["shares"], f"{name}: shares") if "shares" in top else None
    return Described(racks, fabric, _text(top.get("placer", ""), f"{name}: placer"), shares)


def _shares(value: Any, place: str) -> dict[str, float]:
    """Weights by tenant."""
    if not isinstance(value, dict) or not value:
        raise ClusterError(f"{place}: must be a mapping from tenants to weights, such as {{a: 3, b: 1}}.")
    for tenant, weight in value.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < INFINITY:
            raise ClusterError(f"{place}.{tenant}: {weight!r} must be a number, 0 or more.")
    if not any(value.values()):
        raise ClusterError(f"{place}: all shares are 0; give at least one tenant more.")
    return {str(tenant): float(weight) for tenant, weight in value.items()}


def _nodes(value: Any, place: str) -> list[Pattern]:
    found = []
    for index, item in enumerate(_list(value, place)):
        here = f"{place}[{index}]"
        node = _mapping(item, here, NODE)
        if "gpus" not in node:
            raise ClusterError(f"{here}: missing key gpus.")
        found.append((_node(node, here), whole(node.get("count", 1), f"{here}.count")))
    return found


def _node(node: dict[str, Any], here: str) -> Node:
    gpus = 0 if _is_zero(node["gpus"]) and "cpus" in node else whole(node["gpus"], f"{here}.gpus", CPU_HINT)
    if not gpus and ("gpu_type" in node or "sockets" in node):
        raise ClusterError(f"{here}: a node without GPUs has neither gpu_type nor sockets.")
    memory_gib = _number(node.get("memory_gib", 0), f"{here}.memory_gib", "GiB")
    made = Node(
        "",
        gpus,
        gpu_type=_text(node.get("gpu_type", ""), f"{here}.gpu_type"),
        cpus=whole(node["cpus"], f"{here}.cpus") if "cpus" in node else 0,
        memory_bytes=round(memory_gib * GIB),
        sockets=sockets_of(node.get("sockets", 1), gpus, f"{here}.sockets"),
        cpus_per_slot=whole(node.get("cpus_per_slot", 8), f"{here}.cpus_per_slot"),
        speed=_above_0(node.get("speed", 1.0), f"{here}.speed", "times the usual speed"),
    )
    if not gpus and not made.cpu_slots:
        raise ClusterError(f"{here}.cpus: {made.cpus} cores are not one slot of {made.cpus_per_slot}.")
    return made


def _is_zero(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == 0


def sockets_of(value: Any, gpus: int, place: str) -> tuple[tuple[int, ...], ...]:
    """The slots of each socket; `value` is a number of equal sockets or a list of slots per socket."""
    if isinstance(value, list):
        groups = [[_slot(each, place) for each in _list(group, place)] for group in value]
        if sorted(slot for group in groups for slot in group) != list(range(gpus)):
            raise ClusterError(f"{place}: {value!r} must name each slot from 0 to {gpus - 1} once.")
        return tuple(tuple(group) for group in groups)
    count = whole(value, place)
    if gpus % count:
        raise ClusterError(f"{place}: {gpus} GPUs are not {count} equal groups; list the slots of each.")
    if count == 1:
        return ()
    each = gpus // count
    return tuple(tuple(range(begin, begin + each)) for begin in range(0, gpus, each))


def _slot(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ClusterError(f"{place}: {value!r} is not the number of a slot.")
    return value


def _network(value: Any, name: str) -> Fabric:
    """The network from a name or from its levels; missing levels come from the network that `like` names."""
    place = f"{name}: network"
    if isinstance(value, str):
        return _named(value, place)
    given = _mapping(value, place, NETWORK)
    base = _named(given["like"], f"{place}.like") if "like" in given else None
    found = {}
    for level in LEVELS:
        if level in given:
            found[level] = _link(given[level], f"{place}.{level}")
        elif base is not None:
            found[level] = getattr(base.links, level)
        else:
            raise ClusterError(f"{place}: missing key {level}; or take it from a network: like: philly.")
    uplink = INFINITY if base is None else base.uplink_Bps
    if "uplink_gbps" in given:
        uplink = _above_0(given["uplink_gbps"], f"{place}.uplink_gbps", "Gb/s") * GBIT
    interference = 0.0 if base is None else base.interference
    if "interference" in given:
        interference = _number(given["interference"], f"{place}.interference", "times longer")
    return Fabric(name, Links(found["node"], found["rack"], found["cross"]), uplink, interference)


def _named(value: Any, place: str) -> Fabric:
    try:
        found = fabric_of(_text(value, place))
    except ClusterError:
        raise
    except InputError as error:
        raise ClusterError(f"{place}: {error}") from None
    if found is None:
        raise ClusterError(f"{place}: {value!r} is no network; leave the key out for no network.")
    return found


def _link(value: Any, place: str) -> Link:
    link = _mapping(value, place, LINK)
    if "gbps" not in link:
        raise ClusterError(f"{place}: missing key gbps.")
    bandwidth = _above_0(link["gbps"], f"{place}.gbps", "Gb/s") * GBIT
    latency_us = _number(link.get("latency_us", 0), f"{place}.latency_us", "microseconds")
    return Link(bandwidth, latency_us * 1e-6, whole(link.get("ports", 1), f"{place}.ports"))


def _above_0(value: Any, place: str, unit: str) -> float:
    number = _number(value, place, unit)
    if not number:
        raise ClusterError(f"{place}: {value!r} must be above 0 {unit}.")
    return number


def _number(value: Any, place: str, unit: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1e12:
        raise ClusterError(f"{place}: {value!r} is not a number of {unit}, 0 or more.")
    return float(value)


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise ClusterError(f"{place}: {value!r} is not a name.")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ClusterError(f"{place}: must be a list with at least one entry, not {value!r}.")
    return value


def _mapping(value: Any, place: str, known: tuple[str, ...], needs: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        needs = needs or f"the keys {', '.join(known[:-1])} or {known[-1]}"
        raise ClusterError(f"{place}: must have {needs}, not {value!r}.")
    for key in value:
        if key not in known:
            raise ClusterError(f"{place}: unknown key {key!r}; known keys: {', '.join(known)}.")
    return value
