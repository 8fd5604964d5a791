"""The placers, which choose slots. Importing this package registers every placer."""

from tiresias.placers import (
    buddy,
    consolidated,
    count,
    even,
    packed,
    profile,
    rack_local,
    random,
    relaxing,
    spread,
)

__all__ = [
    "buddy",
    "consolidated",
    "count",
    "even",
    "packed",
    "profile",
    "rack_local",
    "random",
    "relaxing",
    "spread",
]
