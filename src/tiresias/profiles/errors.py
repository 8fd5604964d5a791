"""Errors in what a user gave about a model. The message is complete: file, key, value and next step."""

from __future__ import annotations


class ProfileError(ValueError):
    """A model, or the file that describes it, cannot be used. Print the message without a traceback."""
