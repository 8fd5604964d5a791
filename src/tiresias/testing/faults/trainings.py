"""What the simulated trainings do when they run and when they are stopped. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

FOR_EVER = 10**6
NEVER = 10**6  # steps: such a training saves only when it is stopped, or not at all


class OnStop(StrEnum):
    """How a training reacts to SIGTERM."""

    SAVE = "saves and asks to be run again"
    DIE = "saves and dies of the signal"
    ZERO = "saves and exits with 0, although it is not done"
    CRASH = "does not save and exits with an error"
    IGNORE = "goes on until it is killed"


class Trouble(StrEnum):
    """What may end a run before its work is done."""

    BROKEN = "a mistake that no retry can cure"
    FLAKY = "something that a retry may cure"
    GPU = "the GPU's fault"
    ASKS = "it asks to be run again"
    UNSTARTABLE = "its program is not there"


TAILS = {
    Trouble.BROKEN: "ModuleNotFoundError: No module named 'apex'",
    Trouble.FLAKY: "ConnectionResetError: [Errno 104] Connection reset by peer",
    Trouble.GPU: "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    Trouble.ASKS: "",
    Trouble.UNSTARTABLE: "",
}
CODES = {Trouble.BROKEN: 1, Trouble.FLAKY: 1, Trouble.GPU: 1, Trouble.ASKS: 75, Trouble.UNSTARTABLE: 127}


@dataclass(slots=True, frozen=True)
class Training:
    """One program. It does its steps in order, saves after each `saves_every` steps, and resumes from there.

    `trouble` ends a run before step `trouble_step`, in `trouble_times` of its runs; FOR_EVER: in all of them.
    """

    name: str
    steps: int
    step_s: float
    saves_every: int = 1
    load_s: float = 1.0
    save_s: float = 1.0
    on_stop: OnStop = OnStop.SAVE
    says_finished: bool = False
    trouble: Trouble | None = None
    trouble_step: int = 0
    trouble_times: int = 0
    ends_with: int = 0  # its exit code when its steps are done

    @property
    def command(self) -> tuple[str, ...]:
        return ("train", self.name)


def random_training(rng: Random, name: str) -> Training:
    """A random training; about a third have some trouble."""
    steps = rng.randrange(1, 9)
    trouble = rng.choice(list(Trouble)) if rng.random() < 0.35 else None
    times = FOR_EVER if trouble in (Trouble.BROKEN, Trouble.UNSTARTABLE) else rng.randrange(1, 4)
    return Training(
        name,
        steps,
        step_s=rng.choice((1.0, 5.0, 20.0, 60.0)),
        saves_every=rng.choice((1, 1, 2, 4, NEVER)),
        load_s=rng.choice((0.0, 0.5, 5.0)),
        save_s=rng.choice((0.0, 0.5, 5.0)),
        on_stop=rng.choice([OnStop.SAVE] * 3 + list(OnStop)),
        says_finished=rng.random() < 0.2,
        trouble=trouble,
        trouble_step=rng.randrange(steps),
        trouble_times=times,
    )
