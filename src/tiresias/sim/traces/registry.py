"""The formats that can be read, and the recognition of a file's format."""

from __future__ import annotations

from tiresias.sim.errors import TraceError
from tiresias.sim.traces.draft import shortened
from tiresias.sim.traces.readers import (
    acme,
    alibaba_2023,
    helios,
    own,
    philly_csv,
    philly_json,
    slurm,
    tiresias_sim,
)
from tiresias.sim.traces.readers.base import Format
from tiresias.sim.traces.source import Source

FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (own, tiresias_sim, philly_csv, philly_json, helios, acme, alibaba_2023, slurm)
}


def formats() -> list[str]:
    """The names of the formats that can be read."""
    return list(FORMATS)


def named(name: str) -> Format:
    """The format of that name."""
    if name not in FORMATS:
        raise TraceError(f"{name!r}: no such trace format. Known formats: {', '.join(FORMATS)}.")
    return FORMATS[name]


def recognised(source: Source) -> Format:
    """The first format that fits the header; the error names what the nearest format lacks."""
    header = source.header
    for form in FORMATS.values():
        if form.matches(header):
            return form
    raise TraceError(
        f"{source.name}: no known format has the header {shortened(header, 200)}. {_advice(header)} "
        f"Known formats: {', '.join(FORMATS)}; name one with --format, name its columns with "
        "--map (as in --map gpus=num_gpu), or see docs/reference/trace-format.md."
    )


def _advice(header: str) -> str:
    if "," not in header and "|" not in header and (";" in header or "\t" in header):
        return "Columns must be separated by commas."
    tabular = [form for form in FORMATS.values() if form.columns]
    near = min(tabular, key=lambda form: len(form.missing(header)) / len(form.columns))
    missing = near.missing(header)
    if len(missing) == len(near.columns):
        near, missing = own.FORMAT, list(own.FORMAT.columns)
    return f"For {near.name} it lacks {', '.join(missing)}."
