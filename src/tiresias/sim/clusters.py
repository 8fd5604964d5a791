"""A cluster as people write it: `64x8`, `2*28x8`, a YAML file, or the Tiresias simulator's CSV.

Nodes are named n0, n1, … and racks r0, r1, … in the order they are written.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import yaml

from tiresias.core.model import Cluster, Node
from tiresias.sim.errors import ClusterError

MOST_GPUS = 1_000_000
ACCEPTED = (
    "Write NODESxGPUS (64x8), RACKS*NODESxGPUS (2*28x8: nodes per rack), "
    "or name a .yaml or .csv file that describes the cluster."
)
SHAPE = re.compile(r"(?:(\d+)\s*\*\s*)?(\d+)\s*[xX×]\s*(\d+)", re.ASCII)
CSV_COLUMNS = ("num_switch", "num_node_p_switch", "num_gpu_p_node")
CSV_OTHERS = ("num_cpu_p_node", "mem_p_node")  # read by the authors' simulator, not used here

Racks = tuple[int, list[tuple[int, int]]]
"""How many racks are alike, and the nodes of each: (GPUs of a node, how many such nodes)."""

__all__ = ["ClusterError", "parse"]


def parse(text: str) -> Cluster:
    """The cluster a person described; ClusterError says what is wrong and what is accepted."""
    shape = SHAPE.fullmatch(text.strip())
    if shape:
        racks, nodes, gpus = (_count(number or "1", text[:40]) for number in shape.groups())
        return _cluster([(racks, [(gpus, nodes)])], text)
    path = Path(text)
    if path.suffix.lower() in (".yaml", ".yml"):
        return _cluster(_yaml(text, _read(path)), text)
    if path.suffix.lower() == ".csv":
        return _cluster(_csv(text, _read(path)), text)
    raise ClusterError(f"{text!r} is no cluster. {ACCEPTED}")


def _cluster(racks: list[Racks], place: str) -> Cluster:
    total = sum(count * gpus * nodes for count, rack in racks for gpus, nodes in rack)
    if not 1 <= total <= MOST_GPUS:
        raise ClusterError(f"{place}: {total:,} GPUs in all; a cluster has from 1 to {MOST_GPUS:,}.")
    cluster = Cluster()
    each = (rack for count, rack in racks for _ in range(count))
    for number, rack in enumerate(each):
        for gpus, nodes in rack:
            begin = len(cluster.nodes)
            cluster.nodes += [Node(f"n{begin + i}", gpus, rack=f"r{number}") for i in range(nodes)]
    return cluster


def _count(value: Any, place: str) -> int:
    """A whole number from 1 up that fits in a cluster, from text or YAML."""
    text = str(value).strip()
    if isinstance(value, bool | float) or not re.fullmatch(r"\d+", text, re.ASCII):
        raise ClusterError(f"{place}: {value!r} is not a whole number. {ACCEPTED}")
    digits = text.lstrip("0")
    if not digits or len(digits) > 7 or int(digits) > MOST_GPUS:
        raise ClusterError(f"{place}: {text[:20]} must be from 1 to {MOST_GPUS:,}. {ACCEPTED}")
    return int(digits)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ClusterError(f"{path}: no such file. {ACCEPTED}") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL byte in the name
        raise ClusterError(f"{path}: cannot be read: {error}. {ACCEPTED}") from None


def _yaml(name: str, text: str) -> list[Racks]:
    """`racks:` (each with `nodes:`) or, for one rack, `nodes:`; see docs/reference/clusters.md."""
    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a date that is none
        raise ClusterError(f"{name}: not YAML: {' '.join(str(error).split())}.") from None
    top = _mapping(tree, name, ("racks", "nodes"))
    if ("racks" in top) == ("nodes" in top):
        raise ClusterError(f"{name}: needs either racks or nodes. See docs/reference/clusters.md.")
    if "nodes" in top:
        return [(1, _nodes(top["nodes"], f"{name}: nodes"))]
    racks = []
    for index, item in enumerate(_list(top["racks"], f"{name}: racks")):
        place = f"{name}: racks[{index}]"
        rack = _mapping(item, place, ("nodes", "count"))
        nodes = _nodes(rack.get("nodes"), f"{place}.nodes")
        racks.append((_count(rack.get("count", 1), f"{place}.count"), nodes))
    return racks


def _nodes(value: Any, place: str) -> list[tuple[int, int]]:
    found = []
    for index, item in enumerate(_list(value, place)):
        here = f"{place}[{index}]"
        node = _mapping(item, here, ("gpus", "count"))
        if "gpus" not in node:
            raise ClusterError(f"{here}: missing key gpus.")
        found.append((_count(node["gpus"], f"{here}.gpus"), _count(node.get("count", 1), f"{here}.count")))
    return found


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ClusterError(f"{place}: must be a list with at least one entry, not {value!r}.")
    return value


def _mapping(value: Any, place: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ClusterError(f"{place}: must have the keys {' or '.join(known)}, not {value!r}.")
    for key in value:
        if key not in known:
            raise ClusterError(f"{place}: unknown key {key!r}; known keys: {', '.join(known)}.")
    return value


def _csv(name: str, text: str) -> list[Racks]:
    """The cluster file of the Tiresias authors' simulator: a header and one row."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise ClusterError(f"{name}: not CSV: {error}.") from None
    header = [cell.strip() for cell in rows[0]] if rows else []
    missing = [column for column in CSV_COLUMNS if column not in header]
    if missing:
        expected = ",".join(CSV_COLUMNS + CSV_OTHERS)
        raise ClusterError(f"{name}: missing column {', '.join(missing)}; the header must be {expected}.")
    if len(rows) != 2 or len(rows[1]) != len(header):
        raise ClusterError(f"{name}: needs exactly one row of {len(header)} values below its header.")
    values = dict(zip(header, rows[1], strict=True))
    racks, nodes, gpus = (_count(values[column], f"{name}, column {column}") for column in CSV_COLUMNS)
    return [(racks, [(gpus, nodes)])]
