"""Options that several placers share.

Every placer that waits lets as many runs migrate by default. A comparison of two of them then shows what
their rules are worth, and not that one of them migrates runs and the other does not.
"""

from __future__ import annotations

from typing import Any

from tiresias.core.plugins import option

MIGRATIONS = 3


def migrations_option() -> Any:
    """How many runs may migrate at once; the option was once called `moves`."""
    return option(
        MIGRATIONS, "runs that may migrate at once to make a hole for a gang that waits", formerly="moves"
    )


def check_migrations(migrations: int) -> None:
    if migrations < 0:
        raise ValueError("migrations must be 0 or more")
