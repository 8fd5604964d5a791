"""What a person handed in is wrong: the message is complete (value, place, next step)."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave cannot be used; print the message, no traceback."""


class TraceError(InputError):
    """A trace, or the name of one, cannot be used."""


class ClusterError(InputError):
    """A cluster description cannot be used."""
