"""Model profiles that were submitted with jobs. They are stored as settings of the journal.

Placers look up profiles by the names of models. So the profiles of a journal must be registered before its
State is loaded and before its steps are decided again.
"""

from __future__ import annotations

import json

from tiresias.profiles import known
from tiresias.profiles.errors import ProfileError
from tiresias.store.errors import StoreError
from tiresias.store.reader import Reader

PROFILE = "profile:"  # the prefix of the names of these settings


def load_profiles(reader: Reader) -> None:
    """Register all profiles of a journal, so that they can be looked up by name."""
    rows = reader._all(
        "SELECT key, value FROM settings WHERE substr(key, 1, ?) = ? ORDER BY rowid", len(PROFILE), PROFILE
    )
    for key, value in rows:
        try:
            profile = known.read(json.loads(value), key)
            known.bring(profile)
        except (ProfileError, ValueError) as error:
            raise StoreError(f"{reader.path}: the setting {key!r} is damaged: {error}") from None
        if f"{PROFILE}{profile.name}" != key:
            raise StoreError(f"{reader.path}: the setting {key!r} holds the profile {profile.name}: damaged")
