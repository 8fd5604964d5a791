"""When a policy or a placer raises an exception: which one decides in its place, and what is said about it.

Rules:
- The one that was in use before takes over (LAST_GOOD); if there is none, or if it fails as well, one that
  comes with this program.
- The change is stored like one that a person makes, in a commit of its own, together with what was raised
  (FAILURE). So a restarted manager, and a replay of the journal, decide by the same plug-ins.
- What was raised is shown until a person chooses a policy or a placer.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tiresias.core.controller import AsSubmitted, Controller
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.core.plugin_failures import PluginFailure, PluginRaised, blame, failure_of
from tiresias.core.plugins import OptionError, Placer, Policy, placers, policies
from tiresias.core.state import State
from tiresias.profiles.known import Profiles
from tiresias.store import Chosen, Loaded

LAST_GOOD = "last_good"  # the setting: the policy and the placer that were in use before the present ones
FAILURE = "plugin_failure"  # the setting: what was raised, when, and what decides since then
OURS = {"policy": (DEFAULT_POLICY, "fifo-skip"), "placer": ("packed",)}

Choice = tuple[str, Mapping[str, Any]]
"""A plug-in by its name, and its options as a person gave them."""


@dataclass(slots=True)
class Replacement:
    """What decides in the place of a plug-in that has failed."""

    chosen: Chosen
    kind: str  # of the plug-in that was replaced: "policy" or "placer"

    @property
    def choice(self) -> Choice:
        return choice_of(self.chosen, self.kind)

    def about(self, failure: PluginFailure, at: float) -> dict[str, Any]:
        """What is stored about the failure."""
        return asdict(failure) | {"at": at, "replaced_by": self.choice[0]}


def replacements(
    failure: PluginFailure, chosen: Chosen, last_good: Mapping[str, Any], failed: Container[Choice] = ()
) -> Iterator[Replacement]:
    """What may decide in the place of the plug-in that failed, the best first."""
    kind = failure.kind
    before = last_good.get(kind)
    choices: list[Choice] = [] if before is None else [(before["name"], before["options"])]
    choices += [(name, {}) for name in OURS[kind]]
    for choice in choices:
        name, options = choice
        if choice == choice_of(chosen, kind) or choice in failed:
            continue
        if kind == "policy":
            yield Replacement(replace(chosen, policy=name, options=options), kind)
        else:
            yield Replacement(replace(chosen, placer=name, placer_options=options), kind)


def choice_of(chosen: Chosen, kind: str) -> Choice:
    if kind == "policy":
        return chosen.policy, chosen.options
    return chosen.placer, chosen.placer_options


def last_good(before: Chosen, given: Mapping[str, Any], after: Chosen, known: Mapping[str, Any]) -> Any:
    """The value of LAST_GOOD after a person changed the choice; `given` are the placer's options before."""
    good = dict(known)
    if (before.policy, before.options) != (after.policy, after.options):
        good["policy"] = {"name": before.policy, "options": dict(before.options)}
    if before.placer != after.placer:
        good["placer"] = {"name": before.placer, "options": dict(given)}
    return good


def made(kind: str, choice: Choice, profiles: Profiles) -> Any:
    """The plug-in; OptionError if it is not known, PluginRaised if it raises."""
    name, options = choice
    try:
        if kind == "policy":
            return policies.make(name, options)
        return placers.make(name, options, profiles=profiles)
    except OptionError:
        raise
    except Exception as error:
        raise PluginRaised(failure_of(error, kind, name)) from error


def first_controller(loaded: Loaded) -> Controller:
    """The Controller of a manager that starts; set aside if a plug-in raises already now."""
    failure, policy = loaded.failure, loaded.policy
    try:
        placer = made("placer", choice_of(loaded.chosen, "placer"), loaded.profiles)
    except PluginRaised as error:
        failure, placer = failure or error.failure, placers.make("packed")
    if failure is None or failure.kind == "placer":
        try:
            found = controller(loaded.state, policy, placer)
        except PluginRaised as error:
            failure = error.failure
        else:
            if failure is not None:
                found.set_aside(failure)
            return found
    found = Controller(loaded.state, AsSubmitted(), placer)
    found.set_aside(failure)
    return found


def controller(state: State, policy: Policy, placer: Placer, *, keeps_memory: bool = True) -> Controller:
    """A Controller that has ranked all jobs; PluginRaised if a plug-in raises, and the State is as before."""
    memory, refused, wish = state.memory, dict(state.refused_since), state.wish
    if not keeps_memory:
        state.memory = None
    try:
        return Controller(state, policy, placer)
    except Exception as error:
        state.memory = memory
        state.set_wish(wish)
        state.refused_since.clear()
        state.refused_since.update(refused)
        failure = blame(error, policy, placer)
        if failure is None:
            raise
        raise PluginRaised(failure) from error


def problem(stored: Mapping[str, Any] | None) -> str:
    """The sentence about a failure that was stored; empty if there is none."""
    if not stored:
        return ""
    fields = {name: stored[name] for name in ("kind", "name", "error", "file", "line", "function")}
    failure = PluginFailure(**fields)
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stored["at"]))
    return f"{failure}, on {when}; the {stored['kind']} {stored['replaced_by']!r} has decided since then"


def refusal(controller: Controller) -> str:
    """The sentence about a wish that was refused; empty if the last one was not."""
    if not controller.allotting.refused_wish:
        return ""
    name = controller.policy.name
    return f"a wish of {name!r} was refused: {controller.allotting.refused_wish}; the wish before stands"
