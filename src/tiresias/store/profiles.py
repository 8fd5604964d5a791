"""Model profiles that were submitted with jobs. They are stored as settings of the journal.

A placer looks up profiles by the names of models. So it must be made with the profiles of the journal before
any step of the journal is decided again.
"""

from __future__ import annotations

import json

from tiresias.profiles import known
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.known import Profiles
from tiresias.store.errors import StoreError
from tiresias.store.reader import Reader

PROFILE = "profile:"  # the prefix of the names of these settings


def profiles_in(reader: Reader) -> Profiles:
    """All profiles of a journal."""
    profiles = Profiles()
    rows = reader._all(
        "SELECT key, value FROM settings WHERE substr(key, 1, ?) = ? ORDER BY rowid", len(PROFILE), PROFILE
    )
    for key, value in rows:
        try:
            profile = known.read(json.loads(value), key)
            profiles.add(profile)
        except (ProfileError, ValueError) as error:
            raise StoreError(f"{reader.path}: the setting {key!r} is damaged: {error}") from None
        if f"{PROFILE}{profile.name}" != key:
            raise StoreError(f"{reader.path}: the setting {key!r} holds the profile {profile.name}: damaged")
    return profiles
