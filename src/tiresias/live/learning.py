"""What the manager tells its placer of the machine and of the runs, and how it changes its mind.

Rules:
- What a placer decides by is in its options, and these change only with a commit of their own, as when a
  person changes the policy. So the journal's facts and options still give the same decisions.
- The manager sets the options `near`, `far` and `measured` of a placer that has them: bandwidths as the
  driver tells them, and the slowdowns that runs have shown (speeds.py). What a person has set goes before.
- A correction is made when it differs by more than a tenth from what the placer goes by, and not more often
  than every `correct_every_s` seconds: it keeps the whole State in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.model import INFINITY
from tiresias.core.plugins import Placer, Policy, placers
from tiresias.core.state import JobState, Run
from tiresias.live.keeper import Keeper
from tiresias.live.machine import Machine
from tiresias.live.reports import SlowdownRow
from tiresias.live.speeds import Speeds, corrected, steps_per_s
from tiresias.placers.groups import touched
from tiresias.profiles import known
from tiresias.profiles.measured import Place, parse, shape_word, written
from tiresias.store import Batch, Chosen, StoreError

SPEEDS = "speeds"  # the setting: how fast which models ran where
GIVEN = "placer_given"  # the setting: the options of the placer that a person has set
MEASURED = "measured"


def learned(placer: str, machine: Machine, measured: str) -> dict[str, str]:
    """Those of these options that this placer has and there is something to say of."""
    has = {each.name for each in fields(placers.get(placer).Options)}
    near, far = machine.topology.near_GBps, machine.topology.far_GBps
    said = {"near": f"{near:g}" if near else "", "far": f"{far:g}" if far else "", MEASURED: measured}
    return {name: text for name, text in said.items() if text and name in has}


class Learner(Keeper):
    """Watches how fast runs are, and keeps the placer informed."""

    def __init__(self, *args: Any, **named: Any):
        super().__init__(*args, **named)
        self.speeds = Speeds(self.store.setting(SPEEDS, []))
        self.placer_given: dict[str, Any] = self.store.setting(GIVEN, dict(self.chosen.placer_options))
        self._correct_at = INFINITY
        self._corrected_at = -INFINITY

    # --- measuring -------------------------------------------------------------------------------------

    def told(self, run: Run, job: JobState, heard: list[Any] | None) -> None:
        """A run has ended, and its training has told this (ProgressBook.told)."""
        profile = known.find(job.job.model)
        if heard is None or profile is None or job.gpus < 2:
            return
        first, last = heard
        speed = steps_per_s(tuple(first), tuple(last), self.settings.measure_s)
        if speed is None:
            return
        node, slots = run.allocation[0]
        groups = touched(slots, self.state.ledger.sockets[node])
        self.speeds.add(Place(profile.name, job.gpus, shape_word(len(run.allocation), groups)), speed)
        self._batch.settings[SPEEDS] = self.speeds.save()
        if self._wanted() != self.chosen:
            self._correct_at = max(self.now(), self._corrected_at + self.settings.correct_every_s)

    def slowdowns(self) -> list[SlowdownRow]:
        """What was measured, what was predicted, and what the placer goes by."""
        measured, used = self.speeds.slowdowns(), self._used()
        rows = []
        for place, runs, speed in self.speeds.places():
            predicted = self._predicted(place)
            rows.append(
                SlowdownRow(
                    *place, runs, speed, predicted, measured.get(place), used.get(place, predicted)
                )
            )
        return rows

    def _predicted(self, place: Place) -> float | None:
        predict = getattr(self.controller.placer, "predicted", None)
        return None if predict is None else predict(place)

    def _used(self) -> dict[Place, float]:
        return parse(str(self.chosen.placer_options.get(MEASURED, "")))

    # --- changing one's mind ---------------------------------------------------------------------------

    @property
    def next_due_at(self) -> float:
        return min(super().next_due_at, self._correct_at)

    def tick(self) -> None:
        super().tick()
        if self._correct_at <= self.now():
            self.flush()  # what was decided so far, was decided by the old figures
            self.relearn()
            self._correct_at, self._corrected_at = INFINITY, self.now()
            self.apply(f.TimerFired(self.now()))

    def _wanted(self) -> Chosen:
        """What is chosen, with all that is known now."""
        measured = self.speeds.slowdowns()
        predicted = {place: said for place in measured if (said := self._predicted(place)) is not None}
        text = written(corrected(self._used(), measured, predicted))
        return self.completed(self.chosen, self.placer_given, text)

    def completed(self, chosen: Chosen, given: Mapping[str, Any], measured: str) -> Chosen:
        options = {**learned(chosen.placer, self.machine, measured), **given}
        return replace(chosen, placer_options=options)

    def relearn(self) -> None:
        """Go on with what is known now. Nothing may wait to be committed."""
        if (wanted := self._wanted()) != self.chosen:
            placer = placers.make(wanted.placer, wanted.placer_options)
            self.go_on_under(wanted, self.controller.policy, placer, keeps_memory=True)

    def go_on_under(self, chosen: Chosen, policy: Policy, placer: Placer, *, keeps_memory: bool) -> None:
        """Let another Controller decide from now on; if that cannot be stored, the one before goes on."""
        before, memory = self.controller, self.state.memory
        if not keeps_memory:
            self.state.memory = None
        self.controller = Controller(self.state, policy, placer)
        try:
            self.store.commit(self.controller, Batch(chosen=chosen, settings={GIVEN: self.placer_given}))
        except StoreError:
            self.state.memory = memory
            self.controller = Controller(self.state, before.policy, before.placer)
            self.apply(f.TimerFired(self.now()))
            raise
        self.chosen = chosen
