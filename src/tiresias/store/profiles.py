"""The profiles that jobs brought along: settings of the journal, known again to whoever reads it.

Rules: placers look profiles up by the names of models. So all of a journal's are brought before its State is
loaded and before its steps are decided again.
"""

from __future__ import annotations

import json

from tiresias.profiles import known
from tiresias.profiles.errors import ProfileError
from tiresias.store.errors import StoreError
from tiresias.store.reader import Reader

PROFILE = "profile:"  # how the names of these settings begin


def bring_profiles(reader: Reader) -> None:
    rows = reader._all(
        "SELECT key, value FROM settings WHERE substr(key, 1, ?) = ? ORDER BY rowid", len(PROFILE), PROFILE
    )
    for key, value in rows:
        try:
            profile = known.read(json.loads(value), key)
            known.bring(profile)
        except (ProfileError, ValueError) as error:
            raise StoreError(f"{reader.path}: a setting is damaged: {error}") from None
        if f"{PROFILE}{profile.name}" != key:
            raise StoreError(f"{reader.path}: the setting {key!r} holds the profile {profile.name}: damaged")
