"""What one request may have: the manager refuses more, and the client sends no more. No imports of ours."""

from __future__ import annotations

MIB = 1024 * 1024
LARGEST_BODY_BYTES = 4 * MIB
MOST_VALUES = 150_000  # in one body; while they are parsed, nothing else runs for tens of milliseconds
LARGEST_SUBMISSION_BYTES = 64 * MIB  # of all jobs of one request together, with a job per index of an array


def values_in(body: bytes) -> int:
    """At least as many values as the JSON text has; found without parsing it."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")
