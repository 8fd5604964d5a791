"""The policy that is used where nobody names one, and the policies that it is compared with by default."""

from __future__ import annotations

DEFAULT_POLICY = "tiresias"
FIRST_DEFAULT = "tiresias-l"
"""The default before that. A home whose options do not name the default of their version is of then."""

BASELINES = ("fifo", "fifo-skip")
"""Without preemption: in strict order, and with smaller jobs passing those that do not fit. The second gets
much of what preemption gets on many traces, so that a comparison without it flatters every policy."""

ORACLE = "srsf"
KNOW_DURATIONS = ("sjf", "srtf", "srsf")


def compared_by_default() -> list[str]:
    """The policies of a comparison for which nobody has named any."""
    return [*BASELINES, DEFAULT_POLICY, ORACLE]
