"""One curve per job in MLflow and TensorBoard: each run of a job continues what its first run began.

The nth tracker that a run opens is the nth that earlier runs have opened. What was opened is in a file in the
directory for checkpoints.
"""

from __future__ import annotations

import functools
import json
import os

from ._files import save
from ._saves import Saves
from ._say import is_first, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Opened:
    """The names of the trackers of one kind that this job has opened, in their order."""

    def __init__(self, kind: str) -> None:
        self._path = Saves(os.environ).own(f".tiresias-{kind}")
        self._pid = os.getpid()
        self._count = 0

    def next(self) -> str:
        """The name of the next one, if an earlier run has opened it."""
        names = self._names()
        self._count += 1
        return names[self._count - 1] if self._count <= len(names) else ""

    def note(self, name: str) -> None:
        """The tracker that was opened instead."""
        names = [*self._names()[: self._count - 1], name]
        save(self._path, lambda file: file.write(json.dumps(names).encode()))

    def is_counted(self) -> bool:
        """Whether this process counts: the first of its gang, and no helper of it."""
        return is_first() and os.getpid() == self._pid

    def _names(self) -> list[str]:
        try:
            with open(self._path, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            return []
        return [str(each) for each in found] if isinstance(found, list) else []


def patch_mlflow(module: Any) -> None:
    """Let the first runs that a process creates be those of the earlier runs of the job."""
    import mlflow.version

    from ._versions import is_known

    if not is_known("mlflow", mlflow.version.VERSION):
        return
    client, opened = module.MlflowClient, Opened("mlflow")
    create = client.create_run

    @functools.wraps(create)
    def create_run(self: Any, *args: Any, **named: Any) -> Any:
        if not opened.is_counted():
            return create(self, *args, **named)
        before = opened.next()
        if before:
            try:
                run = self.get_run(before)
                self.update_run(before, status="RUNNING")
            except Exception as error:  # noqa: BLE001  (of any kind: the tracker may be another one now)
                say(f"the MLflow run {before} cannot be continued ({error}): another one begins")
            else:
                say(f"continuing the MLflow run {before}")
                return run
        run = create(self, *args, **named)
        opened.note(run.info.run_id)
        return run

    client.create_run = create_run


def patch_tensorboard(module: Any) -> None:
    """Let writers whose directory has a time or a version in its name continue in that of the first run."""
    writer, opened = module.SummaryWriter, Opened("tensorboard")
    begin = writer.__init__

    @functools.wraps(begin)
    def __init__(self: Any, log_dir: Any = None, *args: Any, **named: Any) -> None:
        if not opened.is_counted():
            begin(self, log_dir, *args, **named)
            return
        before = opened.next()
        if before and os.path.isdir(before):
            begin(self, before, *args, **named)
            return
        begin(self, log_dir, *args, **named)
        opened.note(os.path.abspath(self.log_dir))

    writer.__init__ = __init__
