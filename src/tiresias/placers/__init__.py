"""Where gangs run. Importing this package registers every placer."""

from tiresias.placers import count, packed

__all__ = ["count", "packed"]
