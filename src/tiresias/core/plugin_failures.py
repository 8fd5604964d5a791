"""Exceptions of plug-ins: whether a policy or a placer is to blame for one, and where it was raised.

A plug-in is to blame if its code was being executed, or if what it answered cannot be used: a rank that
cannot be compared, for example. Everything else is an error of this program, and is not caught.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType

from tiresias.core.holes import PlacementError
from tiresias.core.plugins import OptionError, Placer, Policy

PLUGINS = ("tiresias.policies", "tiresias.placers")  # those that come with this program
BASES = "tiresias.core.plugins"  # methods that plug-ins inherit
# Where the answers of policies are used: an error of these kinds there comes from an unusable answer.
USING = ("controller", "entries", "target", "kinetic_target", "sorted_target", "wish", "wish_target")
USERS = tuple(f"tiresias.core.{name}" for name in USING)
UNUSABLE = (TypeError, ValueError, AttributeError)


@dataclass(slots=True, frozen=True)
class PluginFailure:
    """What a policy or a placer raised, and the line of its code; `line` is 0 if its answer was unusable."""

    kind: str  # "policy" or "placer"
    name: str
    error: str
    file: str = ""
    line: int = 0
    function: str = ""

    def __str__(self) -> str:
        where = f" at {self.file}, line {self.line}, in {self.function}" if self.line else ""
        return f"the {self.kind} {self.name!r} raised {self.error}{where}"


class PluginRaised(Exception):
    """A plug-in raised an exception where nothing can go on without its answer."""

    def __init__(self, failure: PluginFailure):
        super().__init__(str(failure))
        self.failure = failure


def blame(error: Exception, policy: Policy, placer: Placer | None = None) -> PluginFailure | None:
    """Which of the two plug-ins is to blame for this exception; None if neither is."""
    frames = list(_frames(error.__traceback__))
    theirs = [(frame, line) for frame, line in frames if _is_plugin(_module(frame))]
    if theirs:
        is_placer = placer is not None and any(_first_argument(frame) is placer for frame, _ in frames)
        kind, name = ("placer", placer.name) if placer is not None and is_placer else ("policy", policy.name)
        frame, line = theirs[-1]
        return PluginFailure(kind, name, _text(error), frame.f_code.co_filename, line, frame.f_code.co_name)
    if placer is not None and isinstance(error, PlacementError):
        return PluginFailure("placer", placer.name, _text(error))
    modules = [_module(frame) for frame, _ in frames]
    is_unusable = isinstance(error, UNUSABLE) and modules[-1] in USERS
    if BASES in modules or isinstance(error, OptionError) or is_unusable:
        return PluginFailure("policy", policy.name, _text(error))
    return None


def _is_plugin(module: str) -> bool:
    return not module.startswith("tiresias.") or module.startswith(PLUGINS)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def failure_of(error: Exception, kind: str, name: str) -> PluginFailure:
    """The failure of a plug-in that is certainly to blame, with the last line of the traceback."""
    *_, (frame, line) = _frames(error.__traceback__)
    return PluginFailure(kind, name, _text(error), frame.f_code.co_filename, line, frame.f_code.co_name)


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _first_argument(frame: FrameType) -> object:
    names = frame.f_code.co_varnames
    return frame.f_locals.get(names[0]) if names and frame.f_code.co_argcount else None
