"""Users of a manager that is killed again and again: they repeat each request until it is answered."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import sleep
from typing import Any

import tiresias
from tiresias.api.client import ApiError, Client, Unreachable
from tiresias.testing.kill import training
from tiresias.testing.kill.accounts import Account

PACKAGES = str(Path(tiresias.__file__).resolve().parent.parent)
BEHAVIOURS = ("good", "good", "good", "stubborn", "flaky", "asking")
AGAIN_S = 0.2  # before a request that was not answered is repeated


@dataclass(slots=True)
class Wanted:
    """One training that a user has asked for."""

    name: str
    steps: int
    user: str = ""  # whose job it is; empty: of the user of the manager
    id: int | None = None  # None until it is acknowledged
    is_cancel_asked: bool = False


@dataclass(slots=True)
class Requested:
    """What all users have asked for; shared by all threads."""

    jobs: dict[str, Wanted] = field(default_factory=dict)
    answers: int = 0
    troubles: list[str] = field(default_factory=list)  # answers that a manager must never give

    @property
    def acknowledged(self) -> set[int]:
        """The ids of all jobs whose submission was acknowledged."""
        return {job.id for job in list(self.jobs.values()) if job.id is not None}


class User(threading.Thread):
    """Submits, cancels, holds, releases, requeues and changes priorities until `stop` is called."""

    def __init__(
        self, name: str, home: Path, account: Account, seed: int, requested: Requested, most_jobs: int
    ):
        super().__init__(name=name, daemon=True)
        self._home, self._account, self._requested = home, account, requested
        self._rng = Random(seed)
        self._most_jobs = most_jobs
        self._mine: list[Wanted] = []
        self._on_hold: list[Wanted] = []
        self._ending = threading.Event()

    def stop(self) -> None:
        self._ending.set()

    def run(self) -> None:
        with self._account.client(self._home) as client:
            while not self._ending.wait(self._rng.random() * 0.1):
                try:
                    self._act(client)
                except Unreachable:
                    continue
                except ApiError as refusal:
                    if refusal.status >= 500 and refusal.code != "unavailable":
                        self._requested.troubles.append(f"{refusal.status} {refusal.message}")
            while True:
                try:
                    return self._finish(client)
                except Unreachable:  # a busy machine answers late
                    sleep(AGAIN_S)

    def _act(self, client: Client) -> None:
        unanswered = [job for job in self._mine if job.id is None]
        if unanswered:
            self._submit(client, unanswered)
        elif len(self._mine) < self._most_jobs and self._rng.random() < 0.5:
            self._want_some()
        elif self._mine:
            self._meddle(client, self._rng.choice(self._mine))

    def _want_some(self) -> None:
        for _ in range(self._rng.choice((1, 1, 2))):
            steps = self._rng.randrange(3, 25)
            wanted = Wanted(f"{self.name}-{len(self._mine)}", steps, user=self._account.name)
            self._mine.append(wanted)
            self._requested.jobs[wanted.name] = wanted

    def _submit(self, client: Client, jobs: list[Wanted]) -> None:
        """Submit the jobs, with the same key each time until they are acknowledged."""
        bodies = [self._body(job) for job in jobs]
        ids = client.submit(bodies, key=f"{jobs[0].name}+{len(jobs)}")
        for job, id in zip(jobs, ids, strict=True):
            job.id = id
        self._requested.answers += 1

    def _body(self, job: Wanted) -> dict[str, Any]:
        rng = Random(job.name)  # so that a repeated request has the same body
        step_s = rng.choice((0.01, 0.03, 0.06))
        how = rng.choice(BEHAVIOURS)
        command = [self._account.python, "-S", training.__file__, str(job.steps), str(step_s), how]
        return {
            "command": command,
            "cwd": "/",
            "env": {"PYTHONPATH": PACKAGES, "PATH": "/usr/bin:/bin"},
            "gpus": rng.choice((1, 1, 1, 2, 3)),
            "name": job.name,
            "grace_s": rng.choice((0.3, 20.0)) if how == "stubborn" else 20.0,
        }

    def _meddle(self, client: Client, job: Wanted) -> None:
        assert job.id is not None
        what = self._rng.choice(("cancel", "requeue", "requeue", "hold", "release", "change", "look"))
        if what == "cancel" and self._rng.random() < 0.3:
            job.is_cancel_asked = True
            client.cancel(job.id)
        elif what == "requeue":
            client.requeue(job.id)
        elif what == "hold":
            self._on_hold.append(job)
            client.hold(job.id)
        elif what == "release" and self._on_hold:
            client.release(self._on_hold[-1].id or 0)
            self._on_hold.pop()
        elif what == "change":
            client.change(job.id, priority=self._rng.choice(("low", "normal", "high")))
        else:
            list(client.jobs(all=True))
        self._requested.answers += 1

    def _finish(self, client: Client) -> None:
        """After the last kill: repeat what is not acknowledged, and release all jobs on hold."""
        if unanswered := [job for job in self._mine if job.id is None]:
            self._submit(client, unanswered)
        for job in self._on_hold:
            try:
                client.release(job.id or 0)
                self._requested.answers += 1
            except Unreachable:
                raise
            except ApiError as refusal:
                if refusal.code != "conflict":  # it is not on hold, or has ended
                    self._requested.troubles.append(f"release of {job.id}: {refusal.message}")
