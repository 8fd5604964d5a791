"""Errors in what a user gave. The message is complete: it names the value, the place and the next step."""

from __future__ import annotations


class InputError(ValueError):
    """Something that the user gave cannot be used. Print the message without a traceback."""


class TraceError(InputError):
    """A trace, or the name of one, cannot be used."""


class ClusterError(InputError):
    """A cluster description cannot be used."""
