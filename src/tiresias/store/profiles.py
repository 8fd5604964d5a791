"""The profiles that jobs brought along, which are settings of the journal.

A placer finds profiles by the names of models, so it must be made with those of the journal before any of the
journal's steps is decided again.
"""

from __future__ import annotations

import json

from tiresias.profiles import known
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.known import Profiles
from tiresias.store.errors import StoreError
from tiresias.store.reader import Reader

PROFILE = "profile:"  # how the names of these settings begin


def profiles_in(reader: Reader) -> Profiles:
    """All that the journal has."""
    profiles = Profiles()
    rows = reader._all(
        "SELECT key, value FROM settings WHERE substr(key, 1, ?) = ? ORDER BY rowid", len(PROFILE), PROFILE
    )
    for key, value in rows:
        try:
            profile = known.read(json.loads(value), key)
            profiles.add(profile)
        except (ProfileError, ValueError) as error:
            raise StoreError(f"{reader.path}: a setting is damaged: {error}") from None
        if f"{PROFILE}{profile.name}" != key:
            raise StoreError(f"{reader.path}: the setting {key!r} holds the profile {profile.name}: damaged")
    return profiles
