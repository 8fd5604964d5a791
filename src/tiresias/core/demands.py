"""Demands that no node can ever meet, and why, so that no job waits for what will not come.

Nodes count whether they are in service or not: what is drained may come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiresias.core.model import Demand, Node

GIB = 1 << 30


def unmet(demand: Demand, nodes: Sequence[Node]) -> str:
    """A sentence "asks for …" that names what there is and what to do; empty if the demand can be met."""
    there = _gpus(nodes)
    if demand.gpus > there:
        return f"asks for {demand.gpus} GPUs, and there are {there} in all; ask for fewer"
    if not demand.is_choosy:
        return ""
    asked, demand = demand, replace(demand, nodes=None)
    for part, wish, what_is_there in (
        (_bare(demand), _type_wish, _types),
        (
            replace(_bare(demand), gpu_memory_bytes=demand.gpu_memory_bytes),
            _gpu_memory_wish,
            _most_gpu_memory,
        ),
        (replace(demand, memory_bytes=None), _cores_wish, _most_cores),
        (demand, _memory_wish, _most_memory),
    ):
        if not part.is_choosy:
            continue
        suiting = [node for node in nodes if node.suits(part)]
        there = _gpus(suiting)
        if not there:
            return f"asks for {wish(demand)}, and {what_is_there(nodes)}; ask for what there is"
        if demand.gpus > there:
            return f"asks for {demand.gpus} {wish(demand)}, and there are {there} such; ask for fewer"
        nodes = suiting
    return "" if asked.nodes is None else _too_few_nodes(asked, asked.nodes, nodes)


def _too_few_nodes(demand: Demand, number: int, nodes: Sequence[Node]) -> str:
    """Why so many nodes with a piece of the gang each are not there; `nodes` are those that suit it else."""
    sizes = sorted((node.gpus for node in nodes if node.gpus), reverse=True)
    pieces = demand.pieces
    if len(sizes) < number:
        there = "there is 1" if len(sizes) == 1 else f"there are {len(sizes)}"
        return f"asks for {number} nodes, and {there}; ask for fewer"
    if any(size < piece for size, piece in zip(sizes, pieces, strict=False)):
        large = sum(size >= pieces[0] for size in sizes)
        what = f"{number} nodes with {pieces[0]} GPUs each"
        return f"asks for {what}, and {large} have so many; ask for fewer GPUs or for more nodes"
    return ""


def _bare(demand: Demand) -> Demand:
    """What it asks for of GPUs alone."""
    return Demand(demand.gpus, gpu_type=demand.gpu_type)


def _gpus(nodes: Sequence[Node]) -> int:
    return sum(node.gpus for node in nodes)


def _type_wish(demand: Demand) -> str:
    return f"GPUs of type {demand.gpu_type}"


def _types(nodes: Sequence[Node]) -> str:
    """The types that there are, and the number of GPUs of each."""
    counts: dict[str, int] = {}
    for node in nodes:
        if node.gpu_type and node.gpus:
            counts[node.gpu_type] = counts.get(node.gpu_type, 0) + node.gpus
    if not counts:
        return "no node states a type"
    return f"there are {', '.join(f'{count} {name}' for name, count in counts.items())}"


def _gpu_memory_wish(demand: Demand) -> str:
    return f"GPUs with {(demand.gpu_memory_bytes or 0) / GIB:g} GiB of memory of their own"


def _most_gpu_memory(nodes: Sequence[Node]) -> str:
    most = max((node.gpu_memory_bytes for node in nodes if node.gpus), default=0)
    return f"no GPU has more than {most / GIB:g} GiB"


def _cores_wish(demand: Demand) -> str:
    return f"GPUs with {(demand.cpus or 0) / demand.gpus:g} cores each"


def _most_cores(nodes: Sequence[Node]) -> str:
    most = max((node.cpus / node.gpus for node in nodes if node.gpus), default=0.0)
    return f"no node has more than {most:g} cores per GPU"


def _memory_wish(demand: Demand) -> str:
    return f"GPUs with {(demand.memory_bytes or 0) / demand.gpus / GIB:g} GiB of memory each"


def _most_memory(nodes: Sequence[Node]) -> str:
    most = max((node.memory_bytes / node.gpus for node in nodes if node.gpus), default=0.0)
    return f"no node has more than {most / GIB:g} GiB per GPU"
