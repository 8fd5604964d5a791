"""A model's profile as people read it, by Rich."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiresias.cli.profile_report import Report
from tiresias.cli.tables import plain_table
from tiresias.cli.units import count, percent, significant
from tiresias.profiles import zoo
from tiresias.profiles.links import PRESETS, Link
from tiresias.profiles.model import MIB
from tiresias.profiles.ralp import Split

BAR = 24
NOTICEABLE = 1.005
SIZES = ((1024.0**3, "GiB"), (1024.0**2, "MiB"), (1024.0, "KiB"))
TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def size(number: float) -> str:
    """Bytes in the largest unit of which there is one."""
    for unit, name in SIZES:
        if number >= unit:
            return f"{significant(number / unit)} {name}"
    return f"{number:g} B"


def span(seconds: float) -> str:
    """Seconds down to microseconds."""
    for unit, name in TIMES:
        if seconds >= unit or name == "µs":
            return f"{significant(seconds / unit)} {name}"
    return ""


def page(report: Report) -> RenderableType:
    """All of it."""
    parts: list[RenderableType] = [_head(report), Text()]
    if report.profile.tensors:
        parts += [_histogram(report), Text()]
    parts.append(_verdict(report))
    if report.split is not None:
        parts += [Text(), _layers(report.split), Text(), _placed(report.split)]
    return Group(*parts)


def _head(report: Report) -> RenderableType:
    model = report.profile
    lines = Table.grid(padding=(0, 2))
    title = zoo.MODELS[model.name].title if model.name in zoo.MODELS else model.source
    lines.add_row(Text(model.name, style="bold"), title)
    large = sum(each.bytes > MIB for each in model.tensors)
    tensors = count(len(model.tensors), "tensor")
    known = f"in {tensors}, {large:,} above 1 MiB" if model.tensors else "in tensors that are not known"
    lines.add_row("size", f"{size(model.total_bytes)} {known}")
    if model.largest is not None:
        lines.add_row("largest", f"{model.largest.name}, {size(model.largest.bytes)}")
    lines.add_row("skew", "not known" if model.skew is None else f"{percent(model.skew)} of what is sent")
    lines.add_row("trained with", model.parallelism.value)
    lines.add_row("iteration", _iteration(report))
    if model.checkpoint_s is not None and model.resume_s is not None:
        both = f"{significant(model.checkpoint_s)} s to save, {significant(model.resume_s)} s to resume"
        lines.add_row("preemption", both)
    return lines


def _iteration(report: Report) -> str:
    model = report.profile
    if model.compute_s is None:
        return "not known; give it with --compute SECONDS"
    batch = f", batch {model.batch}" if model.batch else ""
    on = f" on {model.gpu}" if model.gpu else ""
    return f"{span(model.compute_s)}{on}{batch} ({model.source})"


def _histogram(report: Report) -> RenderableType:
    table = plain_table("tensors of", "", "number", "bytes", "share", left=2)
    total = report.profile.total_bytes or 1
    before = 0
    for each in report.bins:
        up_to = f"up to {size(each.up_to_bytes)}" if each.up_to_bytes else f"above {size(before)}"
        share = each.bytes / total
        table.add_row(up_to, "#" * round(share * BAR), f"{each.tensors:,}", size(each.bytes), percent(share))
        before = each.up_to_bytes or before
    return table


def _verdict(report: Report) -> RenderableType:
    lines = Table.grid(padding=(0, 2))
    lines.add_row(Text("consolidate", style="bold"), Text("yes" if report.verdict.consolidate else "no"))
    lines.add_row("because", report.verdict.reason)
    if report.packed and report.spread and report.slowdown:
        where = f"{report.gpus} GPUs on {report.network}"
        packed = f"{count(report.packed_nodes, 'node')} {span(report.packed.seconds)}"
        spread = f"{count(report.gpus, 'node')} {span(report.spread.seconds)}"
        lines.add_row("predicted", f"{where}: {packed}, {spread} an iteration, {report.slowdown:.2f}x")
        if report.slowdown > NOTICEABLE:
            lines.add_row("worth a wait of", f"{report.slowdown - 1:.0%} of the time that it will run")
    return lines


def _layers(split: Split) -> RenderableType:
    cut = split.hybrid.cut.layer if split.hybrid and split.hybrid.cut else len(split.profile.layers)
    table = plain_table("layer", "kind", "parameters", "activations", "arithmetic", "runs on", left=2)
    batch = split.profile.batch or 1
    flops = sum(each.flops for each in split.profile.layers) or 1.0
    for number, (layer, parameters) in enumerate(
        zip(split.profile.layers, split.profile.layer_bytes(), strict=True)
    ):
        on = "one worker" if number >= cut else "all workers"
        crossing = size(layer.output_bytes * batch)
        table.add_row(layer.name, layer.kind, size(parameters), crossing, percent(layer.flops / flops), on)
    return table


def _placed(split: Split) -> RenderableType:
    table = plain_table("RALP-style placement", "sent, one way", "iteration")
    table.add_row("all layers on all workers", size(split.before_bytes), span(split.before.seconds))
    cut = split.hybrid.cut if split.hybrid else None
    if cut is not None:
        table.add_row("the last on one worker", size(split.after_bytes), span(split.after.seconds))
    words = split.reason
    if cut is not None:
        moved, crossing = size(split.moved_bytes), size(cut.activation_bytes)
        words += f"\n{moved} of parameters become {crossing} of activations"
    return Group(table, Text(), Text(words))


def known() -> RenderableType:
    """The models and networks that have names."""
    models = plain_table("model", "", "parameters", "skew", left=2)
    for name, entry in zoo.MODELS.items():
        profile = zoo.find(name)
        models.add_row(name, entry.title, size(profile.total_bytes), percent(profile.skew))
    links = plain_table("network", "GPUs a node", "in a node", "to the rack", "across racks")
    for name, each in PRESETS.items():
        links.add_row(name, str(each.node_gpus), _rate(each.node), _rate(each.rack), _rate(each.cross))
    return Group(models, Text(), links)


def _rate(link: Link) -> str:
    return f"{significant(link.bandwidth_Bps / 1e9)} GB/s"
