"""The models that jobs train: their names made one, and the profiles that jobs bring along kept.

Rules: a job carries the name of a model and nothing else of it. A profile that comes with a submission is
kept in the journal, once, under the name that is its own (profiles/known.py), in the transaction that makes
its job durable; from there every later manager, and whoever replays the journal, knows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tiresias.live.errors import Invalid
from tiresias.live.submission import Submission
from tiresias.profiles import known
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.known import Profiles
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.stored import as_dict
from tiresias.store import PROFILE

NEXT_STEP = "`tir profile --list` shows those known; --profile FILE brings one of your own"


class Models:
    """Finds the models that submissions name.

    A profile that is brought along while `trying` is known at once, and afterwards only if it was kept.
    """

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles
        self._read: dict[int, ModelProfile] = {}  # the jobs of an array share one body
        self._fresh: dict[str, ModelProfile] = {}

    @contextmanager
    def trying(self) -> Iterator[None]:
        try:
            yield
        finally:
            for name in self._fresh:
                self._profiles.remove(name)
            self._fresh.clear()
            self._read.clear()

    def named(self, asked: Submission) -> Submission:
        """The same with the one name of its model, and without the profile itself."""
        try:
            if asked.profile is None:
                return replace(asked, model=self._profiles.resolve(asked.model)) if asked.model else asked
            if asked.model:
                raise Invalid("model and profile contradict each other; give one of them")
            found = self._read.get(id(asked.profile))
            if found is None:
                found = self._read[id(asked.profile)] = known.read(asked.profile, "profile")
                if self._profiles.add(found):
                    self._fresh[found.name] = found
        except ProfileError as error:
            raise Invalid(str(error) if asked.profile is not None else f"{error}; {NEXT_STEP}") from None
        return replace(asked, model=found.name, profile=None)

    def keep(self) -> dict[str, Any]:
        """What is new, as settings of the journal."""
        fresh, self._fresh = self._fresh, {}
        return {f"{PROFILE}{name}": as_dict(profile) for name, profile in fresh.items()}
