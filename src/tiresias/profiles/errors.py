"""What a person handed in about a model is wrong: the message is complete (file, key, value, next step)."""

from __future__ import annotations


class ProfileError(ValueError):
    """A model, or the file that tells about it, cannot be used; print the message, no traceback."""
