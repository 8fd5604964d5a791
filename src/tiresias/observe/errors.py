"""What can go wrong when a training is observed."""

from __future__ import annotations

from tiresias.profiles.errors import ProfileError


class ObserveError(ProfileError):
    """It cannot be observed, or what was seen says nothing; the message is complete."""
