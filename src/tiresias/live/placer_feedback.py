"""What the placer learns about the machine and from past runs, and when it is corrected.

Rules:
- What a placer decides by is in its options, and these change only with a commit of their own, as when a
  person changes the policy. So the journal's facts and options still give the same decisions.
- The manager sets the options `near`, `far` and `measured` of a placer that has them: bandwidths that the
  driver reports, and the slowdowns that runs have shown (speeds.py). Options that a person has set win.
- A correction is made when it differs by more than a tenth from the present value, and at most once per
  `correct_every_s` seconds, because each one stores the whole State.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from tiresias.core.model import INFINITY
from tiresias.core.plugins import placers
from tiresias.live.answers import SlowdownRow
from tiresias.live.journal import Exit, Input, Journal, Taken
from tiresias.live.machine import Machine
from tiresias.live.settings import Settings
from tiresias.live.speeds import Speeds, corrected, steps_per_s
from tiresias.placers.groups import touched
from tiresias.profiles.measured import GangShape, parse, shape_word, written
from tiresias.store import Chosen

SPEEDS = "speeds"  # the setting: how fast which models ran in which shape
GIVEN = "placer_given"  # the setting: the options of the placer that a person has set
MEASURED = "measured"


def learned_options(placer: str, machine: Machine, measured: str) -> dict[str, str]:
    """The values of `near`, `far` and `measured`, as far as this placer has them and they are known."""
    has = {each.name for each in fields(placers.get(placer).Options)}
    near, far = machine.topology.near_GBps, machine.topology.far_GBps
    known = {"near": f"{near:g}" if near else "", "far": f"{far:g}" if far else "", MEASURED: measured}
    return {name: text for name, text in known.items() if text and name in has}


class PlacerFeedback:
    """The part that measures how fast runs are, and says when the placer should be corrected."""

    def __init__(self, journal: Journal, machine: Machine, settings: Settings):
        self._journal, self._machine, self._settings = journal, machine, settings
        self.speeds = Speeds(journal.store.setting(SPEEDS, []))
        # The placer's options that a person has set.
        self.given: dict[str, Any] = journal.store.setting(GIVEN, dict(journal.chosen.placer_options))
        self._correct_at = INFINITY
        self._corrected_at = -INFINITY

    # --- measuring -------------------------------------------------------------------------------------

    def on(self, taken: Taken) -> list[Input]:
        if taken.exit is not None:
            self._measure(taken.exit)
        return []

    def _measure(self, exit: Exit) -> None:
        run, job = exit.run, exit.job
        profile = self._journal.profiles.find(job.job.model)
        if exit.reports is None or profile is None or job.gpus < 2:
            return
        first, last = exit.reports
        speed = steps_per_s(tuple(first), tuple(last), self._settings.measure_s)
        if speed is None:
            return
        node, slots = run.allocation[0]
        groups = touched(slots, self._journal.state.ledger.sockets[node])
        self.speeds.add(GangShape(profile.name, job.gpus, shape_word(len(run.allocation), groups)), speed)
        self._journal.keep_setting(SPEEDS, self.speeds.save())
        if self.wanted() != self._journal.chosen:
            self._correct_at = max(self._journal.now(), self._corrected_at + self._settings.correct_every_s)

    def slowdowns(self) -> list[SlowdownRow]:
        """What was measured, what was predicted, and what the placer uses."""
        measured, used = self.speeds.slowdowns(), self._used()
        rows = []
        for shape, runs, speed in self.speeds.places():
            predicted = self._predicted(shape)
            slowdown = used.get(shape, predicted)
            rows.append(SlowdownRow(*shape, runs, speed, predicted, measured.get(shape), slowdown))
        return rows

    def _predicted(self, shape: GangShape) -> float | None:
        predict = getattr(self._journal.controller.placer, "predicted", None)
        return None if predict is None else predict(shape)

    def _used(self) -> dict[GangShape, float]:
        return parse(str(self._journal.chosen.placer_options.get(MEASURED, "")))

    # --- correcting ------------------------------------------------------------------------------------

    @property
    def next_due_at(self) -> float:
        return self._correct_at

    def due(self, at: float) -> list[Input]:
        """Nothing: a correction is no fact. The manager switches to `wanted` at `next_due_at`."""
        return []

    def corrected(self) -> None:
        """The manager has switched."""
        self._correct_at, self._corrected_at = INFINITY, self._journal.now()

    def wanted(self) -> Chosen:
        """The present choice of policy and placer, with all that is known now."""
        measured = self.speeds.slowdowns()
        predictions = {shape: self._predicted(shape) for shape in measured}
        predicted = {shape: slowdown for shape, slowdown in predictions.items() if slowdown is not None}
        return self.completed(
            self._journal.chosen, self.given, written(corrected(self._used(), measured, predicted))
        )

    def completed(self, chosen: Chosen, given: Mapping[str, Any], measured: str) -> Chosen:
        """The choice with what the manager sets of the placer's options."""
        options = {**learned_options(chosen.placer, self._machine, measured), **given}
        return replace(chosen, placer_options=options)
