"""`tiresias demo`: a manager and a dozen real trainings, which are preempted and resumed.

Everything happens in a temporary directory and is removed at the end, also after Ctrl-C: no process and no
file is left. The demo fails if the losses of a training are not exactly those of an uninterrupted one.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tiresias.cli.console import echo, show
from tiresias.cli.declare import Option
from tiresias.cli.errors import FAILED, Stop
from tiresias.cli.live import demo_view, report, up_down
from tiresias.cli.live.connection import connected
from tiresias.cli.live.job_text import ENDED
from tiresias.cli.units import count
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.executors.interrupts import deferring_signals, exiting_on_signals, raise_keyboard_interrupt

if TYPE_CHECKING:
    from tiresias.api.client import Client

GPUS = 4
STEP_S = 0.1
WARM_UP = ((1, 0.5), (1, 0.5), (2, 0.5), (1, 1.0), (1, 1.5), (2, 1.0))
"""GPUs and seconds of work of short trainings that come first: a policy that learns from jobs that have ended
knows after them what is short here."""
JOBS = (
    (2, 25.0, 0.0), (1, 28.0, 0.0), (1, 26.0, 0.0),
    (1, 1.0, 0.05), (2, 1.5, 0.05), (1, 1.0, 0.1), (1, 2.0, 0.15), (2, 1.0, 0.2),
    (4, 1.5, 0.25), (1, 1.0, 0.3), (2, 2.0, 0.4), (1, 3.0, 0.5),
)  # fmt: skip
"""GPUs, seconds of work, and when it is submitted: as soon as one of the first trainings, which take all GPUs
and are long, has done this share of its work. Without preemption the short ones wait until the long ones end.
"""
GRACE_S = 20.0
PATIENCE_S = 600.0
DOWN_S = 120.0
FEW_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(slots=True, frozen=True)
class Training:
    """One job of the demo; its number is its seed."""

    number: int
    gpus: int
    steps: int
    comes_at: float = 0.0  # the share of a long training's work that is done by then

    @property
    def name(self) -> str:
        return f"{self.gpus}gpu-{self.steps * STEP_S:.3g}s"

    def submission(self, cwd: Path) -> dict[str, Any]:
        module = "tiresias.cli.live.demo_training"
        return {
            "command": [sys.executable, "-m", module, str(self.steps), str(self.number), str(STEP_S)],
            "cwd": str(cwd),
            "env": {**os.environ, **FEW_THREADS},
            "name": self.name,
            "gpus": self.gpus,
            "grace_s": GRACE_S,
            "retries": 0,
        }


def demo(
    simulate: Annotated[
        bool, Option("--simulate", help="Simulate 480 jobs on 60 GPUs under several policies instead.")
    ] = False,
    jobs: Annotated[
        int, Option("--jobs", metavar="N", min=1, max=len(JOBS), help="Number of trainings.")
    ] = len(JOBS),
    scale: Annotated[
        float,
        Option(
            "--scale", metavar="X", min=0.01, max=100, help="Length of the trainings; 1 is a minute in all."
        ),
    ] = 1.0,
) -> None:
    """Watch real trainings being preempted and resumed.

    Takes about a minute. Starts a manager with four fake GPUs, lets long trainings take all GPUs, submits
    short ones while they run, shows their progress, and removes everything again.
    """
    if simulate:
        from tiresias.cli.demo import simulated

        simulated()
        return
    trainings = [
        Training(number, gpus, max(1, round(seconds * scale / STEP_S)), comes_at)
        for number, (gpus, seconds, comes_at) in enumerate(JOBS[:jobs])
    ]
    with _manager() as home, connected(home) as client:
        patience_s = PATIENCE_S * max(1.0, scale)
        _warm_up(client, home, scale, patience_s)
        ended = _train(client, trainings, home, patience_s)
        show(checked(trainings, ended, _losses(client, ended)))
        show("\nThe same jobs, submitted at the same instants, under other policies (tir report):\n")
        report.print_report(client)
        echo()


def _warm_up(client: Client, home: Path, scale: float, patience_s: float) -> None:
    """Let very short trainings run first, so that the policy has seen some jobs end."""
    show(f"{count(len(WARM_UP), 'short training')} first: from these the policy learns what is short here.")
    short = [
        Training(number, gpus, max(1, round(seconds * scale / STEP_S)))
        for number, (gpus, seconds) in enumerate(WARM_UP, start=len(JOBS))
    ]
    ids = client.submit([each.submission(home) for each in short])
    demo_view.wait(client, ids, patience_s)


class Arrivals:
    """Submits each training when it is due, and says which jobs there are."""

    def __init__(self, client: Client, trainings: Sequence[Training], home: Path):
        self._client, self._home = client, home
        self._left = list(trainings)
        self._first = sum(each.comes_at == 0.0 for each in trainings)
        self.ids: list[int] = []

    def submit_due(self, jobs: Sequence[Mapping[str, Any]]) -> bool:
        """Submit those that are due when the first trainings are as far as this; whether none is left."""
        done = max((fraction_done(job) for job in jobs[: self._first]), default=0.0)
        due = [each for each in self._left if each.comes_at <= done]
        if due:
            self._left = [each for each in self._left if each.comes_at > done]
            self.ids += self._client.submit([each.submission(self._home) for each in due])
        return not self._left


def fraction_done(job: Mapping[str, Any]) -> float:
    """How much of its work a job has done; a job that has ended has done all."""
    if job["phase"] in ENDED:
        return 1.0
    return (job["progress"] or {}).get("fraction") or 0.0


def _train(
    client: Client, trainings: Sequence[Training], home: Path, patience_s: float
) -> list[dict[str, Any]]:
    work = sum(each.gpus * each.steps * STEP_S for each in trainings)
    long = sum(each.comes_at == 0.0 for each in trainings)
    show(
        f"{count(len(trainings), 'training')}, {work:.0f} GPU-seconds of work for {GPUS} GPUs: {long} at "
        "once, the others while these run. The manager does not know how long any of them takes.\n"
    )
    arrivals = Arrivals(client, trainings, home)
    arrivals.submit_due([])
    return demo_view.watch(client, arrivals.ids, patience_s, arrivals.submit_due)


def _losses(client: Client, ended: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """The losses in the last checkpoint of each training; none if it saved none."""
    from tiresias.cli.live.demo_training import CHECKPOINT
    from tiresias.cli.live.demo_training import Training as Saved

    paths = [Path(client.job(job["id"])["checkpoint_dir"]) / CHECKPOINT for job in ended]
    return [Saved.load(path).losses if path.exists() else [] for path in paths]


def checked(
    trainings: Sequence[Training], ended: Sequence[Mapping[str, Any]], losses: Sequence[Sequence[float]]
) -> str:
    """The summary of the demo; Stop if a training differs from an uninterrupted one."""
    from tiresias.cli.live.demo_training import alone

    for training, job, found in zip(trainings, ended, losses, strict=True):
        if job["phase"] != "SUCCEEDED" or len(found) != training.steps:
            raise Stop(
                f"the training {training.name} is {job['phase']} ({job['reason']}) after {len(found)} of "
                f"{training.steps} steps",
                FAILED,
            )
        if found != alone(training.steps, training.number):
            raise Stop(
                f"the losses of {training.name} differ from those of an uninterrupted training", FAILED
            )
    steps = sum(training.steps for training in trainings)
    preemptions = sum(job["preemptions"] for job in ended)
    return (
        f"\n{count(len(trainings), 'training')} made exactly their {steps:,} steps, with "
        f"{count(preemptions, 'preemption')}. Every loss equals that of an uninterrupted training exactly."
    )


@contextmanager
def _manager() -> Iterator[Path]:
    """A manager in a temporary home; both are removed at the end."""
    home = Path(tempfile.mkdtemp(prefix="tiresias-demo-"))
    with exiting_on_signals(raise_keyboard_interrupt):
        try:
            with deferring_signals():
                up_down.up(fake_gpus=GPUS, policy=DEFAULT_POLICY, home=home)
            yield home
        finally:
            with deferring_signals(is_the_end=True):
                _take_down(home)


def _take_down(home: Path) -> None:
    try:
        up_down.down(stop_jobs=True, timeout=DOWN_S, home=home)
    except Stop:  # the manager has died: a new one finds its runs
        try:
            up_down.up(home=home)
            up_down.down(stop_jobs=True, timeout=DOWN_S, home=home)
        except Stop as stop:
            raise Stop(f"{stop}\nThe demo could not be removed; see {home}", FAILED) from None
    shutil.rmtree(home)
