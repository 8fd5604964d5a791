"""Clusters from descriptions: `64x8`, `2x28x8`, a preset, a YAML file, or the Tiresias simulator's CSV.

Nodes are named n0, n1, … and racks r0, r1, … in the order in which they are described.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from tiresias.core.model import Cluster, Node
from tiresias.sim import cluster_yaml
from tiresias.sim.cluster_presets import PRESETS
from tiresias.sim.cluster_yaml import MOST as MOST_GPUS
from tiresias.sim.cluster_yaml import Described, Racks, whole
from tiresias.sim.errors import ClusterError
from tiresias.sim.fabric import Fabric

ACCEPTED = (
    "Write NODESxGPUS (64x8), RACKSxNODESxGPUS (2x28x8, also 2*28x8: nodes per rack), "
    "a preset (philly, a100-nvlink …), or name a .yaml or .csv file that describes the cluster."
)
SHAPE = re.compile(r"(?:(\d+)\s*[*xX×]\s*)?(\d+)\s*[xX×]\s*(\d+)", re.ASCII)
CSV_COLUMNS = ("num_switch", "num_node_p_switch", "num_gpu_p_node")
CSV_OTHERS = ("num_cpu_p_node", "mem_p_node")  # read by the authors' simulator, not used here

__all__ = ["ClusterError", "Machines", "parse", "read"]


@dataclass(slots=True)
class Machines:
    """A cluster, its network if that is known, and the placer that its description names (empty: none).

    `shares` are the weights of tenants; None: the description has none.
    """

    cluster: Cluster
    fabric: Fabric | None = None
    placer: str = ""
    shares: dict[str, float] | None = None


def parse(text: str) -> Cluster:
    """The described cluster; ClusterError says what is wrong and what is accepted."""
    return read(text).cluster


def read(text: str) -> Machines:
    """The described cluster with its network and its placer; ClusterError as in `parse`."""
    described = _described(text)
    return Machines(_cluster(described.racks, text), described.fabric, described.placer, described.shares)


def _described(text: str) -> Described:
    shape = SHAPE.fullmatch(text.strip())
    if shape:
        racks, nodes, gpus = (whole(number or "1", text[:40], ACCEPTED) for number in shape.groups())
        return Described([(racks, [(Node("", gpus), nodes)])])
    if text.strip() in PRESETS:
        return PRESETS[text.strip()].described(text.strip())
    path = Path(text)
    if path.suffix.lower() in (".yaml", ".yml"):
        return cluster_yaml.read(text, _read(path))
    if path.suffix.lower() == ".csv":
        return Described(_csv(text, _read(path)))
    close = get_close_matches(text.strip(), PRESETS, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ClusterError(f"{text!r} is not a cluster.{hint} {ACCEPTED}")


def _cluster(racks: list[Racks], place: str) -> Cluster:
    total = sum(count * node.gpus * nodes for count, rack in racks for node, nodes in rack)
    if not 1 <= total <= MOST_GPUS:
        raise ClusterError(f"{place}: {total:,} GPUs in all; a cluster has from 1 to {MOST_GPUS:,}.")
    slots = sum(count * node.cpu_slots * nodes for count, rack in racks for node, nodes in rack)
    if slots > MOST_GPUS:
        raise ClusterError(f"{place}: {slots:,} slots of CPUs in all; a cluster has up to {MOST_GPUS:,}.")
    cluster = Cluster()
    each = (rack for count, rack in racks for _ in range(count))
    for number, rack in enumerate(each):
        for node, nodes in rack:
            begin = len(cluster.nodes)
            cluster.nodes += [replace(node, name=f"n{begin + i}", rack=f"r{number}") for i in range(nodes)]
    return cluster


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ClusterError(f"{path}: no such file. {ACCEPTED}") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL byte in the name
        raise ClusterError(f"{path}: cannot be read: {error}. {ACCEPTED}") from None


def _csv(name: str, text: str) -> list[Racks]:
    """Parse the cluster file of the Tiresias authors' simulator: a header and one row."""
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
    racks, nodes, gpus = (whole(values[column], f"{name}, column {column}") for column in CSV_COLUMNS)
    return [(racks, [(Node("", gpus), nodes)])]
