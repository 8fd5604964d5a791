"""Profiles by name: those of the zoo, and those that jobs brought along.

Rules: the name of a profile that was brought along ends in a digest of its content (`mine@3f2a9c1b04d7`), so
the same name is the same profile in every process and for ever, and a decision by name comes out the same
again. A plain name (`mine`) stands for the one that was brought along last.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from tiresias.profiles import stored, zoo
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import ModelProfile

MARK = "@"
DIGITS = 12
LONGEST_TITLE = 80
LARGEST = 4 << 20  # characters of a profile that a job may bring along


def read(body: Mapping[str, Any], place: str) -> ModelProfile:
    """The profile that a job brings along, under the name that is its own; ProfileError names the key."""
    try:
        text = json.dumps(body, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ProfileError(f"{place}: not JSON: {error}") from None
    if len(text) > LARGEST:
        raise ProfileError(f"{place}: {len(text):,} characters; a profile has {LARGEST:,} at most")
    profile = stored.from_json(text, place)
    said = json.dumps(stored.as_dict(profile) | {"name": ""}, sort_keys=True)
    title = re.sub(r"[^A-Za-z0-9._-]+", "-", profile.name.partition(MARK)[0])[:LONGEST_TITLE].strip("-")
    digest = hashlib.sha256(said.encode()).hexdigest()[:DIGITS]
    return replace(profile, name=f"{title or 'model'}{MARK}{digest}")


class Profiles:
    """The profiles that one manager, simulation or replay knows. Iterating gives the names of those that jobs
    brought along; those of the zoo are always known.
    """

    def __init__(self, known: Profiles | None = None) -> None:
        """With `known`: all that it knows now or later. What is added here does not become known there."""
        self._brought: MutableMapping[str, ModelProfile] = {}
        if known is not None:
            self._brought = ChainMap({}, known._brought)

    def __iter__(self) -> Iterator[str]:
        return iter(self._brought)

    def add(self, profile: ModelProfile) -> bool:
        """Know this profile by its name from now on; whether it was new."""
        before = self._brought.setdefault(profile.name, profile)
        if before != profile:
            raise ProfileError(f"{profile.name}: there is another profile of this name; give it another name")
        return before is profile

    def find(self, model: str) -> ModelProfile | None:
        """The profile of exactly this model, if there is one."""
        return self._brought.get(model) or _of_zoo(model)

    def resolve(self, model: str) -> str:
        """The one name of a model that a person names; ProfileError lists the names that are near."""
        if (found := self.find(model)) is not None:
            return found.name
        titled = [name for name in self if name.partition(MARK)[0] == model]
        if titled:
            return titled[-1]
        titles = {name.partition(MARK)[0]: None for name in self}
        close = get_close_matches(model.lower(), [*zoo.names(), *titles, *self], n=3)
        hint = f"; near are {', '.join(close)}" if close else ""
        raise ProfileError(f"no model {model!r}{hint}")


@lru_cache(maxsize=4096)
def _of_zoo(model: str) -> ModelProfile | None:
    return zoo.find(model) if zoo.knows(model) else None
