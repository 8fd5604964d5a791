"""Preemptible trainings with Lightning: Trainer(…, callbacks=[job.lightning.Preemptible()])."""

from __future__ import annotations

import functools
import inspect
import os
import sys

from . import _rng, preempted, report, saved, should_stop
from ._agreement import Agreement, is_distributed, meet, part
from ._saves import Saves
from ._say import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KIND = "lightning"
STATE = "tiresias"  # the key in a checkpoint
KEPT = 2  # checkpoints of preempted runs
_classes: dict[Any, Any] = {}


def Preemptible() -> Any:
    """A callback that reports progress, saves and ends when the run must stop, and lets fit() resume."""
    names = ("lightning.pytorch", "pytorch_lightning")
    package: Any = next((sys.modules[name] for name in names if name in sys.modules), None)
    if package is None:
        from importlib import import_module

        package = import_module(names[0])
    wrap(package.Trainer)
    return class_of(package.callbacks.Callback)()


def class_of(base: Any) -> Any:
    """The class of the callback, whose base is that of the installed package: there are two of the same."""
    if base not in _classes:
        _classes[base] = type("Preemptible", (Stopping, base), {"__module__": __name__})
    return _classes[base]


class Stopping:
    """The callback, without its base class."""

    fitted = 0  # calls of fit() in this process

    def __init__(self) -> None:
        self._saves = Saves(os.environ)
        self._nth = 0
        self._total: int | None = None
        self._agreement = Agreement(should_stop)
        self._loaded: dict[str, Any] | None = None  # what a checkpoint has brought
        self._epoch: dict[str, Any] | None = None  # the generators before the iterator of this epoch was made

    def __reduce__(self) -> Any:  # for strategies that start processes afresh
        return Preemptible, ()

    def begin(self) -> Any:
        """Called before fit(); returns the checkpoint from which to resume."""
        Stopping.fitted += 1
        self._nth = Stopping.fitted
        should_stop()  # takes SIGTERM over from here on
        last = self._saves.last(KIND, self._nth)
        if last is not None:
            say(f"resuming from {last['path']}")
        return last

    def wrote(self, trainer: Any, path: str) -> None:
        """Called after a checkpoint was written, by whomever."""
        meet()
        if trainer.is_global_zero:
            self._saves.add(KIND, self._nth, trainer.global_step, path)
            saved(trainer.global_step)

    # --- hooks of Lightning ----------------------------------------------------------------------------

    def setup(self, trainer: Any, module: Any, stage: str) -> None:
        if stage == "fit":
            self._agreement = Agreement(should_stop, trainer.strategy.root_device)
            self._watch(trainer.fit_loop)

    def on_train_start(self, trainer: Any, module: Any) -> None:
        total = trainer.estimated_stepping_batches
        self._total = None if total == float("inf") else int(total)

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        step = trainer.global_step
        if trainer.is_global_zero:
            report(step=step, total_steps=self._total)
        if can_stop_here(trainer) and self._agreement.to_stop(step):
            self._stop(trainer)

    def on_save_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
        batches = trainer.fit_loop.epoch_loop.batch_progress.total
        own = {
            "now": self._generators(trainer.fit_loop),
            "epoch": self._epoch,
            "mid_epoch": batches.completed == batches.processed - 1,
        }
        checkpoint[STATE] = gathered(own)

    def on_load_checkpoint(self, trainer: Any, module: Any, checkpoint: dict[str, Any]) -> None:
        of_ranks = checkpoint.get(STATE)
        if of_ranks and len(of_ranks) == trainer.world_size:
            self._loaded = of_ranks[trainer.global_rank]

    # --- stopping --------------------------------------------------------------------------------------

    def _stop(self, trainer: Any) -> None:
        step = trainer.global_step
        path = f"{self._saves.own('lightning')}-{self._nth}-step{step}.ckpt"
        trainer.save_checkpoint(path)  # which calls `wrote`
        if trainer.is_global_zero:
            own = [
                each
                for each in self._saves.paths(KIND, self._nth)
                if each.startswith(self._saves.own("lightning"))
            ]
            for each in own[:-KEPT]:
                remove(each)
        total = "" if self._total is None else f" of {self._total}"
        say(f"saved at step {step}{total}; the job resumes from there")
        meet()
        part()
        preempted()

    # --- random generators and the position in the data ------------------------------------------------

    def _watch(self, loop: Any) -> None:
        """Note the generators before each epoch's iterator is made, and restore them after a checkpoint."""
        set_up, start = loop.setup_data, loop.epoch_loop.on_run_start

        @functools.wraps(set_up)
        def setup_data() -> None:
            before, fetcher = self._generators(loop), loop._data_fetcher
            set_up()
            if loop._data_fetcher is not fetcher:
                self._epoch = before
                if self._loaded is not None:
                    self._rewind(loop)

        @functools.wraps(start)
        def on_run_start(data_fetcher: Any) -> None:
            before, iterator = self._generators(loop), data_fetcher.combined_loader._iterator
            start(data_fetcher)
            if data_fetcher.combined_loader._iterator is not iterator:
                self._epoch = before
            loaded, self._loaded = self._loaded, None
            if loaded is not None and loaded["mid_epoch"]:
                self._forward(loop, data_fetcher, loaded)

        loop.setup_data, loop.epoch_loop.on_run_start = setup_data, on_run_start

    def _generators(self, loop: Any) -> dict[str, Any]:
        combined = loop._combined_loader
        return {"rng": _rng.state(), "loaders": _rng.of_loaders(combined.flattened if combined else [])}

    def _rewind(self, loop: Any) -> None:
        """Make the iterator of the interrupted epoch as it was made then."""
        loaded = self._loaded
        assert loaded is not None
        state = loaded["epoch"] if loaded["mid_epoch"] else loaded["now"]
        if state is None:
            return
        self._epoch = state
        if not is_stateful(loop):
            _rng.restore(state["rng"])
            _rng.restore_loaders(loop._combined_loader.flattened, state["loaders"])
            iter(loop._data_fetcher)

    def _forward(self, loop: Any, fetcher: Any, loaded: dict[str, Any]) -> None:
        """Skip the batches that were trained, and continue with the generators as they were then."""
        if not is_stateful(loop) and loaded["epoch"] is not None and hasattr(fetcher, "prefetch_batches"):
            fetcher.fetched = 0
            for _ in range(loop.epoch_loop.batch_progress.current.ready):
                next(fetcher)
        _rng.restore(loaded["now"]["rng"])


def can_stop_here(trainer: Any) -> bool:
    """Not before a gradient is applied, nor before validation or the end of an epoch: they would be lost."""
    loop = trainer.fit_loop
    is_done = trainer.max_steps != -1 and trainer.global_step >= trainer.max_steps
    return not (
        is_done
        or loop._should_accumulate()
        or loop.epoch_loop.batch_progress.is_last_batch
        or loop.epoch_loop._should_check_val_fx(loop._data_fetcher)
    )


def is_stateful(loop: Any) -> bool:
    """Whether the data loaders save their position themselves."""
    names = ("state_dict", "load_state_dict")
    return all(hasattr(each, name) for each in loop._combined_loader.flattened for name in names)


def gathered(own: Any) -> list[Any]:
    """What each process has, by rank."""
    if not is_distributed():
        return [own]
    from torch import distributed

    found: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(found, own)
    return found


def remove(path: str) -> None:
    import shutil

    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.exists(path):
        os.remove(path)


def wrap(trainer_class: Any, *, for_all: bool = False) -> None:
    """Let fit() resume trainings that have the callback; `for_all`: give it to all trainings."""
    fit = trainer_class.fit
    if hasattr(fit, "tiresias_for_all"):
        fit.tiresias_for_all = fit.tiresias_for_all or for_all
        return
    signature = inspect.signature(fit)

    @functools.wraps(fit)
    def wrapped(self: Any, *args: Any, **named: Any) -> Any:
        callback = callback_of(self)
        if not os.environ.get("TIRESIAS_RUN_DIR") or getattr(self, "fast_dev_run", False):
            return fit(self, *args, **named)
        if callback is None:
            if not wrapped.tiresias_for_all:  # type: ignore[attr-defined]
                return fit(self, *args, **named)
            base: Any = sys.modules[trainer_class.__module__.partition(".trainer")[0] + ".callbacks"]
            callback = class_of(base.Callback)()
            self.callbacks.append(callback)
        bound = signature.bind(self, *args, **named)
        last = callback.begin()
        if last is not None:
            bound.arguments["ckpt_path"] = last["path"]
            if "weights_only" in signature.parameters:
                bound.arguments["weights_only"] = False  # this job has written it
        return fit(*bound.args, **bound.kwargs)

    wrapped.tiresias_for_all = for_all  # type: ignore[attr-defined]
    trainer_class.fit = wrapped
    note_saves(trainer_class)
    leave_sigterm(trainer_class)


def callback_of(trainer: Any) -> Any:
    return next((each for each in trainer.callbacks if isinstance(each, Stopping)), None)


def note_saves(trainer_class: Any) -> None:
    save = trainer_class.save_checkpoint

    @functools.wraps(save)
    def save_checkpoint(self: Any, filepath: Any, weights_only: Any = None, *args: Any, **named: Any) -> None:
        save(self, filepath, weights_only, *args, **named)
        callback = callback_of(self)
        if callback is not None and not weights_only and self.state.fn == "fit":
            callback.wrote(self, os.fspath(filepath))

    trainer_class.save_checkpoint = save_checkpoint


def leave_sigterm(trainer_class: Any) -> None:
    """Lightning's own handler sends a message to the other processes, in the middle of a step."""
    name = trainer_class.__module__.rpartition(".")[0] + ".connectors.signal_connector"
    connector = sys.modules[name]._SignalConnector
    notify = connector._sigterm_notifier_fn

    @functools.wraps(notify)
    def notifier(self: Any, signum: Any, frame: Any) -> None:
        if callback_of(self.trainer) is None:
            notify(self, signum, frame)

    connector._sigterm_notifier_fn = notifier
