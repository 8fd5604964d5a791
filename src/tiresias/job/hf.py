"""Preemptible trainings with the Trainer of Hugging Face: Trainer(…, callbacks=[job.hf.Preemptible()])."""

from __future__ import annotations

import functools
import os
import sys

from transformers.trainer_callback import TrainerCallback

from . import _job, preempted, report, saved, should_stop
from ._agreement import Agreement, meet, part
from ._saves import Saves, claimed, released
from ._say import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KIND = "hf"
SHOWN = ("loss", "eval_loss", "epoch")  # metrics that are reported
PREFIX = "checkpoint"  # of directories in which the Trainer saves


class Preemptible(TrainerCallback):  # type: ignore[misc]
    """Reports progress, saves and ends when the run must stop, and resumes from the last checkpoint."""

    trained = 0  # calls of train() in this process

    def __init__(self) -> None:
        from transformers.trainer import Trainer

        wrap(Trainer)
        self._saves = Saves(os.environ)
        self._nth = 0
        self._trainer: Any = None
        self._directory = ""
        self._agreement = Agreement(should_stop)
        self._is_stopping = False

    def begin(self, trainer: Any, resume: Any) -> Any:
        """Called before train(); returns from where to resume."""
        Preemptible.trained += 1
        self._nth, self._trainer, self._is_stopping = Preemptible.trained, trainer, False
        self._agreement = Agreement(should_stop, trainer.args.device)
        should_stop()  # takes SIGTERM over from here on
        self._directory = os.path.abspath(trainer.args.output_dir)
        if trainer.is_world_process_zero():
            self._directory = claimed(self._directory, self._saves.key)
        self._directory = shared(self._directory)
        if self._directory != os.path.abspath(trainer.args.output_dir):
            trainer._get_output_dir = functools.partial(elsewhere, self._directory)
        last = self._saves.last(KIND, self._nth)
        if last is None:
            is_strange = resume is True and self._directory != os.path.abspath(trainer.args.output_dir)
            return None if is_strange else resume  # what another job has saved there is not continued
        say(f"resuming from {last['path']}")
        return last["path"]

    def end(self) -> None:
        """Called after train(), if it was not stopped."""
        import atexit

        atexit.register(release, self._directory, self._saves.key)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step, total = state.global_step, state.max_steps
        if state.is_world_process_zero:
            report(step=step, total_steps=total)
        if step < total and self._trainer is not None and self._agreement.to_stop(step):
            self._is_stopping = control.should_save = True
            args.save_only_model = False  # else there is nothing from which to resume

    def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        logs = given.get("logs") or {}
        if state.is_world_process_zero:
            report(**{name: value for name, value in logs.items() if name in SHOWN})

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._trainer is None:
            return
        meet()  # every process has written its part
        if state.is_world_process_zero and not args.save_only_model:
            path = os.path.join(self._directory, f"{PREFIX}-{state.global_step}")
            self._saves.add(KIND, self._nth, state.global_step, path)
            saved(state.global_step)
        if self._is_stopping:
            say(f"saved at step {state.global_step} of {state.max_steps}; the job resumes from there")
            meet()
            part()
            preempted()


def elsewhere(directory: str, trial: Any = None) -> str:
    """Takes the place of Trainer._get_output_dir, if another job has its checkpoints in that directory."""
    return directory


def shared(directory: str) -> str:
    """The directory that the first process has chosen, in all processes."""
    from ._agreement import is_distributed

    if not is_distributed():
        return directory
    from torch import distributed

    chosen = [directory]
    distributed.broadcast_object_list(chosen, src=0)
    return chosen[0]


def release(directory: str, key: str) -> None:
    """At the end of a process that has trained to the last step, unless it fails."""
    if not hasattr(sys, "last_type") and not _job.should_stop():
        released(directory, key)


def wrap(trainer_class: Any, *, for_all: bool = False) -> None:
    """Let train() resume trainings that have the callback; `for_all`: give it to all trainings."""
    train = trainer_class.train
    if hasattr(train, "tiresias_for_all"):
        train.tiresias_for_all = train.tiresias_for_all or for_all
        return

    @functools.wraps(train)
    def wrapped(self: Any, resume_from_checkpoint: Any = None, *args: Any, **named: Any) -> Any:
        given = [each for each in self.callback_handler.callbacks if isinstance(each, Preemptible)]
        is_search = bool(named.get("trial") or (args and args[0]))
        if not is_ours() or is_search or not (given or wrapped.tiresias_for_all):  # type: ignore[attr-defined]
            return train(self, resume_from_checkpoint, *args, **named)
        if not given:
            given = [Preemptible()]
            self.add_callback(given[0])
        output = train(self, given[0].begin(self, resume_from_checkpoint), *args, **named)
        given[0].end()
        return output

    wrapped.tiresias_for_all = for_all  # type: ignore[attr-defined]
    trainer_class.train = wrapped


def is_ours() -> bool:
    return bool(os.environ.get("TIRESIAS_RUN_DIR"))
