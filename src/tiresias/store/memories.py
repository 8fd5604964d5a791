"""What planning remembers beside jobs and runs, as one text: memories, the wish, turns, shares of tenants.

What there is none of leaves no trace, so journals without a placer that learns and without an allocator are
as they always were.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tiresias.core.facts import Allotment
from tiresias.core.model import INFINITY, Phase
from tiresias.core.plugin_failures import PluginRaised, failure_of
from tiresias.core.plugins import Policy, compact_json
from tiresias.core.state import Run, State
from tiresias.core.wish import Wish
from tiresias.store.codec import Codec

OF_POLICY, OF_PLACER, OF_WISH, OF_SHARES = "of_policy", "of_placer", "of_wish", "of_shares"
OF_TURNS = "of_turns"
ALLOTMENT = Codec(Allotment)
PARTS = frozenset({OF_PLACER, OF_WISH, OF_SHARES, OF_TURNS})


@dataclass(slots=True)
class Remembered:
    """What was stored: the memory of the policy, and what else there was."""

    memory: Any = None
    placing: dict[str, Any] | None = None
    wish: Wish | None = None
    shares: dict[str, float] | None = None
    turns: list[tuple[int, int, int]] = field(default_factory=list)  # run, turn and turns

    def restore(self, state: State) -> None:
        """Give the State all of it. Runs have the turns of the wish, but for those in `turns`."""
        state.memory, state.placing = self.memory, self.placing
        state.set_wish(self.wish)
        state.shares = dict(self.shares or {})
        given = {id: (turn, turns) for id, turn, turns in self.turns}
        for run in state.runs.values() if self.wish is not None or given else ():
            run.turn, run.turns = given.get(run.id) or _wished_turns(run, state)
            if run.turns != 1:
                state.paced[run.id] = None
            else:
                state.paced.pop(run.id, None)


def _wished_turns(run: Run, state: State) -> tuple[int, int]:
    """The turn and the turns that the wish gives to the job of this run; a run that stops has none."""
    allotment = None if state.wish is None else state.wish.jobs.get(run.job_id)
    if allotment is None or state.jobs[run.job_id].phase is Phase.STOPPING:
        return 0, 1
    return allotment.turn, allotment.turns


def _other_turns(state: State) -> list[tuple[int, int, int]]:
    """The runs whose turns are not those that the wish gives them, as just after a change of the policy."""
    if not state.paced and state.wish is None:
        return []
    pairs = ((run, (run.turn, run.turns)) for run in state.runs.values())
    return [(run.id, *turns) for run, turns in pairs if turns != _wished_turns(run, state)]


def dump(policy: Policy, state: State) -> str:
    """All of it as text. Only Python reads it, so it may contain infinities.

    PluginRaised if the policy cannot save its memory, or if JSON cannot hold what it saved.
    """
    try:
        saved = policy.saved_text(state.memory)
        parts: dict[str, Any] = {}
        if state.placing is not None and state.placing.get("seen"):
            parts[OF_PLACER] = state.placing
        if state.wish is not None:
            parts[OF_WISH] = _saved_wish(state.wish)
        if state.shares:
            parts[OF_SHARES] = state.shares
        if turns := _other_turns(state):
            parts[OF_TURNS] = turns
        if parts:
            others = "".join(f',"{name}":{compact_json(part)}' for name, part in parts.items())
            saved = f'{{"{OF_POLICY}":{saved}{others}}}'
        return saved
    except Exception as error:
        raise PluginRaised(failure_of(error, "policy", policy.name)) from error


def read(policy: Policy, text: str) -> Remembered:
    """What `dump` has written."""
    saved = json.loads(text)
    found = Remembered()
    if isinstance(saved, dict) and OF_POLICY in saved and saved.keys() - {OF_POLICY} <= PARTS:
        found.placing, found.shares = saved.get(OF_PLACER), saved.get(OF_SHARES)
        found.turns = [tuple(each) for each in saved.get(OF_TURNS, ())]
        if OF_WISH in saved:
            found.wish = _wish(saved[OF_WISH])
        saved = saved[OF_POLICY]
    found.memory = policy.restore(saved)
    return found


def _saved_wish(wish: Wish) -> dict[str, Any]:
    again_at = None if wish.again_at == INFINITY else wish.again_at
    return {
        "by": wish.by,
        "again_at": again_at,
        "jobs": [ALLOTMENT.encode(each) for each in wish.jobs.values()],
    }


def _wish(saved: dict[str, Any]) -> Wish:
    jobs: list[Allotment] = [ALLOTMENT.decode(each) for each in saved["jobs"]]
    again_at = INFINITY if saved["again_at"] is None else saved["again_at"]
    return Wish({each.job_id: each for each in jobs}, again_at, saved["by"])
