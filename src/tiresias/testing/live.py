"""A real manager with real processes on fake GPUs, driven by a test: `until` runs its loop.

with LiveLab(tmp_path, gpus=2) as lab:
    job = lab.submit("sleep 1", gpus=2)
    lab.until_ended(job)
"""

from __future__ import annotations

import os
import select
import shlex
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Self

from tiresias.core.model import JobId, Phase
from tiresias.executors.base import NodeSource
from tiresias.live.answers import JobSummary
from tiresias.live.errors import NotFound
from tiresias.live.manager import Manager
from tiresias.live.start import Options, open_manager
from tiresias.live.submission import Caller, Submission
from tiresias.store import StoreError

ADMIN = Caller("ann", is_admin=True)
PATIENCE_S = 60.0
SETTINGS = {"backoff_s": 0.1, "preflight_check_s": 0.05}
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class LiveLab:
    """A manager at `home`; `options` are those of `open_manager`. With a `source`, its nodes are used.

    Leaving the `with` block cancels all jobs. `python` as a command is the interpreter of the test.
    """

    def __init__(
        self,
        home: Path,
        *,
        gpus: int = 2,
        policy: str = "tiresias-l",
        source: NodeSource | None = None,
        **options: Any,
    ):
        self.home, self.source = home, source
        options.setdefault("settings", SETTINGS)
        self.options = Options(fake_gpus=gpus, policy=policy, **options)
        self.manager: Manager = open_manager(home, self.options, source=source)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel all jobs and wait until no run is left."""
        for job in list(self.manager.state.jobs.values()):
            with suppress(StoreError):
                self.manager.requests.cancel(ADMIN, job.id)
        for run in list(self.manager.state.runs.values()):
            self.manager.executor.stop(run.id, 0.0)
        self.until(lambda: not self.manager.state.runs)
        self.close()

    def close(self) -> None:
        self.manager.executor.close()
        self.manager.store.close()

    def restart(self) -> None:
        """Open the manager again, as after a kill."""
        self.close()
        self.manager = open_manager(self.home, self.options, source=self.source)

    def submit(self, command: str | tuple[str, ...], *, by: Caller = ADMIN, **asked: Any) -> JobId:
        """Submit one job; `asked` are fields of Submission."""
        argv = tuple(shlex.split(command)) if isinstance(command, str) else command
        if argv and argv[0] == "python":
            argv = (sys.executable, *argv[1:])
        asked.setdefault("cwd", str(self.home))
        asked.setdefault("env", {"PATH": os.environ["PATH"]})
        asked.setdefault("grace_s", 10.0)
        [id] = self.manager.requests.submit(by, [Submission(argv, **asked)])
        self.manager.flush()
        return id

    def turn(self, wait_s: float = 0.05) -> None:
        """Run the loop of the manager once: wait for reports or timers, apply them, commit."""
        wait_s = min(wait_s, max(0.0, self.manager.next_due_at - self.manager.now()))
        select.select([self.manager.executor.fileno()], [], [], wait_s)
        self.manager.poll()
        self.manager.tick()
        self.manager.flush()

    def until(self, holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
        """Run the loop until `holds` returns something true; fail after `patience_s` seconds."""
        end = monotonic() + patience_s
        while not holds():
            assert monotonic() < end, ("the condition never became true", self.summaries())
            self.turn()

    def until_ended(self, *ids: JobId) -> list[JobSummary]:
        self.until(lambda: not any(id in self.manager.state.jobs for id in ids))
        return [self.of(id) for id in ids]

    def until_running(self, *ids: JobId) -> None:
        self.until(lambda: all(self.of(id).phase == Phase.RUNNING for id in ids))

    def of(self, id: JobId) -> JobSummary:
        return self.manager.queries.summary(ADMIN, id)

    def summaries(self) -> list[JobSummary]:
        return self.manager.queries.summaries(ADMIN, ended=True)[0]

    def output(self, id: JobId, run: int | None = None) -> str:
        """What the job has written so far, in its last run or in run number `run`."""
        with suppress(NotFound, FileNotFoundError):
            return self.manager.queries.log_file(ADMIN, id, run).path.read_text()
        return ""
