"""The error of an observation."""

from __future__ import annotations

from tiresias.profiles.errors import ProfileError


class ObserveError(ProfileError):
    """The training cannot be observed, or what was seen shows nothing. The message is complete."""
