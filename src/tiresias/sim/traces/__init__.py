"""Reads, generates, describes and writes traces."""

from __future__ import annotations

from tiresias.sim.errors import InputError, TraceError
from tiresias.sim.trace import Trace
from tiresias.sim.traces.builtin import BUILTINS, generate
from tiresias.sim.traces.describe import Description, describe, table
from tiresias.sim.traces.load import load
from tiresias.sim.traces.registry import FORMATS, formats
from tiresias.sim.traces.write import write

__all__ = [
    "BUILTINS",
    "FORMATS",
    "Description",
    "InputError",
    "Trace",
    "TraceError",
    "describe",
    "formats",
    "generate",
    "load",
    "table",
    "write",
]
