"""The models that jobs train: their names made one, and the profiles that jobs bring along kept.

Rules: a job carries the name of a model and nothing else of it. A profile that comes with a submission is
kept in the journal, once, under the name that is its own (profiles/known.py), in the transaction that makes
its job durable; from there every later manager, and whoever replays the journal, knows it.
"""

from __future__ import annotations

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
    """The models of one request: those that the manager knows, and those that its jobs bring along.

    What comes along is known to `profiles` at once, and to the manager only after `keep`.
    """

    def __init__(self, of_manager: Profiles) -> None:
        self._of_manager = of_manager
        self._read: dict[int, ModelProfile] = {}  # the jobs of an array share one body
        self.brought: dict[str, ModelProfile] = {}  # that the manager does not know, by name
        self.profiles = Profiles(of_manager)

    def named(self, asked: Submission) -> Submission:
        """The same with the one name of its model, and without the profile itself."""
        try:
            if asked.profile is None:
                return replace(asked, model=self.profiles.resolve(asked.model)) if asked.model else asked
            if asked.model:
                raise Invalid("model and profile contradict each other; give one of them")
            found = self._read.get(id(asked.profile))
            if found is None:
                found = self._read[id(asked.profile)] = known.read(asked.profile, "profile")
                if self.profiles.add(found):
                    self.brought[found.name] = found
        except ProfileError as error:
            raise Invalid(str(error) if asked.profile is not None else f"{error}; {NEXT_STEP}") from None
        return replace(asked, model=found.name, profile=None)

    def keep(self) -> dict[str, Any]:
        """Let the manager know what came along; returns it as settings of the journal."""
        for profile in self.brought.values():
            self._of_manager.add(profile)
        return {f"{PROFILE}{name}": as_dict(profile) for name, profile in self.brought.items()}
