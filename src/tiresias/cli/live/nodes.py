"""`tir nodes`, `tir drain`, `tir undrain`: the nodes and their GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from tiresias.cli.console import echo, show
from tiresias.cli.declare import Argument, Option
from tiresias.cli.lines import Lines
from tiresias.cli.live.connection import connected, print_json
from tiresias.cli.live.job_text import plain
from tiresias.cli.live.jobs import Listing
from tiresias.cli.live.times import duration_s
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import NOTHING

What = Annotated[str, Argument(metavar="NODE[:INDEX]", help="Node, or one GPU of it.")]
GIB = 2**30


def nodes(
    output: Annotated[
        Listing, Option("--output", "-o", help="Output format; wide shows every GPU.")
    ] = Listing.TABLE,
) -> None:
    """List the nodes with their free GPUs."""
    with connected() as client:
        found = client.nodes()
    if output is Listing.JSON:
        print_json(found)
        return
    show(_gpus(found) if output is Listing.WIDE else _nodes(found))


def drain(
    what: What,
    reason: Annotated[str, Option("--reason", metavar="TEXT", help="Reason, shown to other users.")] = "",
    deadline: Annotated[
        str | None,
        Option("--deadline", metavar="10m", help="Stop what still runs there after this time."),
    ] = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Take a node or GPU out of service; runs on it continue."""
    seconds = None if deadline is None else duration_s(deadline, "--deadline")
    with connected() as client:
        answer = client.drain(what, reason, seconds)
    until = "continue" if deadline is None else f"have {deadline} to end"
    _say(f"{what} is drained: its runs {until}, and nothing new starts on it", answer, output)


def undrain(what: What, output: AsOutput = Output.TABLE) -> None:
    """Put a node or GPU back in service."""
    with connected() as client:
        answer = client.undrain(what)
    _say(f"{what} is in service", answer, output)


def _say(text: str, answer: Mapping[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print_json(answer["nodes"])
    else:
        echo(text)


def _nodes(found: Sequence[Mapping[str, Any]]) -> Lines:
    from tiresias.cli.live.fitted_tables import grid
    from tiresias.executors.topology import ranges

    rows, has_groups = [], any(node["groups"] for node in found)
    for node in found:
        out = sum(bool(slot["reason"]) for slot in node["slots"])
        state = f"{out} out of service" if out else "in service"
        if node["is_drained"] or node["is_silent"]:
            state = "drained" if node["is_drained"] else "silent"
        reasons = {slot["reason"] for slot in node["slots"] if slot["reason"]}
        reason = plain(node["reason"] or "; ".join(sorted(reasons))) or NOTHING
        groups = [" ".join(ranges(group) for group in node["groups"]) or NOTHING] if has_groups else []
        counts = [str(node["gpus"]), str(node["free_gpus"])]
        rows.append([plain(node["name"]), *counts, *groups, state, reason])
    headers = ("NODE", "GPUS", "FREE", *(("GROUPS",) if has_groups else ()), "STATE", "REASON")
    return grid(headers, rows, right=("GPUS", "FREE"), cut=("REASON",))


def _gpus(found: Sequence[Mapping[str, Any]]) -> Lines:
    from tiresias.cli.live.fitted_tables import grid

    has_groups = any(node["groups"] for node in found)
    rows = [
        [
            plain(slot["name"]),
            *([_group(node["groups"], slot["name"])] if has_groups else []),
            slot["state"],
            "+".join(map(str, slot["job_ids"])) or NOTHING,
            plain(slot["gpu"]),
            f"{slot['memory_bytes'] / GIB:.0f} GiB" if slot["memory_bytes"] else NOTHING,
            plain(slot["reason"] or node["reason"]) or NOTHING,
        ]
        for node in found
        for slot in node["slots"]
    ]
    headers = ("GPU", *(("GROUP",) if has_groups else ()), "STATE", "JOB", "MODEL", "MEMORY", "REASON")
    return grid(headers, rows, right=("JOB", "MEMORY"), cut=("REASON", "MODEL"))


def _group(groups: Sequence[Sequence[int]], name: str) -> str:
    """The number of the group that a GPU is in, from 1."""
    index = int(name.rpartition(":")[2])
    return next((str(nth) for nth, group in enumerate(groups, 1) if index in group), NOTHING)
