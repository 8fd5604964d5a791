"""Kills managers and supervisors again and again while real trainings run; checks /proc and the files."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic, sleep
from typing import Self

from tiresias.api.client import ApiError, Client
from tiresias.api.home import ABOUT
from tiresias.core.model import JobId, Phase
from tiresias.executors import cgroup_parent
from tiresias.live.home_paths import HomePaths
from tiresias.store import Reader, Store, StoreError, redecide, replay
from tiresias.testing.kill.accounts import admit, own_account
from tiresias.testing.kill.proc import clashes, holders, supervisors
from tiresias.testing.kill.small_disk import SmallDisk
from tiresias.testing.kill.training import STEPS, TWICE
from tiresias.testing.kill.users import Requested, User, Wanted

OPTIONS = {
    "fake_gpus": 3,
    "policy": "tiresias-l",
    "set": {"queues": "0.5", "min_run_s": 0.05},
    "settings": {"backoff_s": 0.05, "most_backoff_s": 0.2, "quick_s": 0.01, "most_lost_runs": 1e6},
}
LOOK_S = 0.02
DEATHS = ("", "before commit", "after commit", "after commit", "before start", "after start", "before forget")
LIVES_S = (0.1, 0.5, 1.5)  # how long a manager lives at most after it answers
MORE_KILLS = 30  # at most, beyond three times the number that was asked for, until there was one of each kind
PATIENCE_S = 120.0  # everything takes seconds; a busy machine must not fail a test
HITS = 0.3  # of the managers lose a supervisor while they work
TOGETHER = 0.2  # of the managers are killed together with supervisors
FULL_EVERY = 5  # one in so many managers has a full disk for a while
FRESH_EVERY = 10  # one in so many managers is a new process, as after a crash, and its start is timed


@dataclass(slots=True)
class Tally:
    """What a campaign did and measured."""

    kills: int = 0  # of managers and of supervisors
    by_itself: int = 0  # kills of managers at one of their own effects
    supervisors: int = 0
    together: int = 0  # supervisors that were killed together with the manager
    full_disks: int = 0
    users: set[str] = field(default_factory=set)  # as whom jobs have succeeded
    lives: int = 0
    jobs: int = 0
    runs: int = 0
    samples: int = 0
    again_s: list[float] = field(default_factory=list)  # from exec until the journal has a new fact

    def __str__(self) -> str:
        usual, slowest = (median(self.again_s), max(self.again_s)) if self.again_s else (0.0, 0.0)
        return (
            f"{self.kills} kills ({self.by_itself} of managers between two effects, {self.supervisors} of"
            f" supervisors, {self.together} of these with the manager), {self.full_disks} full disks,"
            f" {self.jobs} jobs of {' and '.join(sorted(self.users))}, {self.runs} runs,"
            f" {self.samples} looks at /proc; scheduling again after {usual:.2f} s"
            f" (median of {len(self.again_s)} restarts from nothing; {slowest:.2f} s at most)"
        )


class Nursery:
    """The process from which managers are forked (mortal.py)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tiresias.testing.kill.mortal"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what managers have to say is in their log, if there is room for it
            text=True,
        )

    def new(self, home: Path, dies: tuple[int, str] | None) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"home": str(home), "dies": dies}), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def close(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()


class Patience:
    """Ends after `most_s` seconds without progress: a busy machine is slow, and what is stuck stands still.

    It ends after twenty times that, whatever the progress: what is repeated for ever is stuck as well.
    """

    def __init__(self, most_s: float = PATIENCE_S):
        self._most_s, self._seen = most_s, object()
        self._until, self._end = 0.0, monotonic() + 20 * most_s

    def check(self, progress: object, problem: str) -> None:
        """Fail with this problem if `progress` has had the same value for too long."""
        now = monotonic()
        if progress != self._seen:
            self._seen, self._until = progress, now + self._most_s
        assert now < min(self._until, self._end), problem


class Campaign:
    """One home, many managers, `users` users. Everything but the timing is determined by the seed."""

    def __init__(
        self,
        home: Path,
        seed: int,
        kills: int,
        *,
        users: int = 6,
        jobs_each: int = 8,
        names: Sequence[str] = (),
        disk: SmallDisk | None = None,
    ):
        """`names`: the users of the machine whose jobs are run; none: the user of the manager. `disk`: the
        disk that the home is on, if it can be filled up."""
        self.home, self.kills, self._disk = home, kills, disk
        self.tally = Tally()
        self.requested = Requested()
        self._rng = Random(seed)
        home.mkdir(parents=True, exist_ok=True)
        accounts, options = [own_account()], dict(OPTIONS)
        if names:
            accounts, options["listen"] = admit(home, names)
        (home / "options.json").write_text(json.dumps(options))
        seeds = [self._rng.randrange(10**9) for _ in range(users)]
        self._users = [
            User(f"u{at}", home, accounts[at % len(accounts)], seed, self.requested, jobs_each)
            for at, seed in enumerate(seeds)
        ]
        self._durable: set[int] = set()  # acknowledged jobs that were seen in the journal after a kill
        self._nursery = Nursery()
        self._process: subprocess.Popen[bytes] | None = None  # a manager that is not forked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill every process of this campaign, also if it failed."""
        for user in self._users:
            user.stop()
        self._nursery.close()
        for pid in processes_at(self.home):
            _kill(pid)
        if self._process is not None:
            self._process.wait()

    # --- killing ---------------------------------------------------------------------------------------

    def run(self) -> Tally:
        for user in self._users:
            user.start()
        while self.tally.kills < self.kills or self._lacks_a_kind():
            self._one_life()
        self._last_life()
        return self.tally

    def _lacks_a_kind(self) -> bool:
        """Whether some kind of kill has not happened yet: on a busy machine a manager lives too short a time
        to start a run whose supervisor could be killed."""
        tally = self.tally
        is_whole = tally.by_itself and tally.supervisors and (tally.full_disks or self._disk is None)
        return not is_whole and tally.kills < 3 * self.kills + MORE_KILLS

    def _one_life(self) -> None:
        """Start a manager and kill it after a while: as it starts, at work, or by itself at an effect."""
        rng = self._rng
        self.tally.lives += 1
        how = rng.choice(("as it starts", "at work", "at work", "by itself", "by itself", "by itself"))
        is_full = self.tally.lives % FULL_EVERY == 2
        if is_full:
            how = "at work"
        dies = (rng.randrange(1, 5), rng.choice(DEATHS)) if how == "by itself" else None
        is_fresh = self.tally.lives % FRESH_EVERY == 1
        pid = self._fresh() if is_fresh else self._nursery.new(self.home, dies)
        deadline = monotonic() + PATIENCE_S
        while how != "as it starts" and _is_alive(pid) and not self._answers(pid):
            assert monotonic() < deadline, "the manager does not answer"
            self._look()
        until = monotonic() + (LIVES_S[-1] if dies else rng.random() * rng.choice(LIVES_S))
        if is_full and self._disk is not None and _is_alive(pid):
            self.tally.full_disks += 1
            self._disk.fill()
        is_hit = rng.random() < HITS
        while monotonic() < until and _is_alive(pid):
            if is_hit and rng.random() < 0.2:
                is_hit = not self._kill_supervisors(1)
            self._look()
            if self._disk is not None and rng.random() < 0.1:
                self._disk.free()
        self.tally.by_itself += not _is_alive(pid)
        self.tally.kills += 1
        acknowledged = self.requested.acknowledged
        _kill(pid)
        if rng.random() < TOGETHER:
            self.tally.together += self._kill_supervisors(rng.choice((1, 3)))
        while _is_alive(pid):
            self._look()
        if self._disk is not None:
            self._disk.free()
        self._check_durable(acknowledged)
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _kill_supervisors(self, most: int) -> int:
        """Kill some supervisors of living runs; their number."""
        found = supervisors(self.home)
        chosen = self._rng.sample(found, min(most, len(found)))
        for pid in chosen:
            _kill(pid)
        self.tally.supervisors += len(chosen)
        self.tally.kills += len(chosen)
        return len(chosen)

    def _check_durable(self, acknowledged: set[int]) -> None:
        """Every job that was acknowledged before the kill is in the journal that the killed manager left."""
        with Reader(self.home / "journal.db") as reader:
            for id in acknowledged - self._durable:
                assert reader.job(JobId(id)) is not None, f"job {id} was acknowledged and is not durable"
        self._durable |= acknowledged

    def _answers(self, pid: int) -> bool:
        try:
            return bool(json.loads((self.home / ABOUT).read_text())["pid"] == pid)
        except FileNotFoundError:
            return False

    def _fresh(self) -> int:
        """Start a manager as users do, and measure how long it takes until something is scheduled."""
        before = self._last_seq()
        begun = monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "tiresias.api.serve", "--home", str(self.home)], stderr=subprocess.DEVNULL
        )
        while self._last_seq() == before:
            assert process.poll() is None, f"the manager ended: see {self.home}/manager.log"
            assert monotonic() < begun + PATIENCE_S, "the manager does not begin"
            self._look()
        self.tally.again_s.append(monotonic() - begun)
        self._process = process
        return process.pid

    def _last_seq(self) -> int:
        """The number of the last fact in the journal; 0 if there is no journal."""
        try:
            with Reader(self.home / "journal.db") as reader:
                return reader.last_seq
        except StoreError:
            return 0

    def _look(self) -> None:
        """Check in /proc that no slot and no job has two living runs."""
        found = holders(self.home)
        assert not (wrong := clashes(found)), f"held twice: {wrong}"
        self.tally.samples += 1
        sleep(LOOK_S)

    # --- the end ---------------------------------------------------------------------------------------

    def _last_life(self) -> None:
        """Start a manager that is not killed: everything must end, and as it was requested."""
        pid = self._fresh()
        for user in self._users:
            user.stop()
        patience = Patience()
        for user in self._users:
            while user.is_alive():
                patience.check(self.requested.answers, "a user waits for ever")
                user.join(LOOK_S)
        with Client(self.home, timeout_s=PATIENCE_S) as client:
            while left := self._active(client):
                patience.check(self._last_seq(), f"not finished: {left}")
                self._look()
        while processes := [other for other in processes_at(self.home) if other != pid]:
            patience.check(len(processes), f"left behind: {processes}")
            self._look()
        os.kill(pid, signal.SIGTERM)
        assert self._process is not None
        assert self._process.wait(PATIENCE_S) == 0
        self._check()
        self._check_cgroups()

    def _check_cgroups(self) -> None:
        """No cgroup of a run is left."""
        parent = cgroup_parent.find()
        if parent.path is not None:
            left = Path(parent.choose(HomePaths(self.home).executor, 0)).parent
            assert not left.exists(), f"cgroups are left in {left}: {list(left.iterdir())}"

    def _active(self, client: Client) -> list[str]:
        try:
            return [f"{job['id']} {job['phase']} {job['reason']}" for job in client.jobs()]
        except ApiError as error:
            return [str(error)]

    def _check(self) -> None:
        assert not self.requested.troubles, self.requested.troubles
        with Store.open(self.home / "journal.db") as store:
            assert not store.open_runs()
            assert not store.active()
            names = [record.job.name for record in store.history.page(10**6)[0]]
            assert sorted(names) == sorted(self.requested.jobs), "jobs lost, or submitted twice"
            for wanted in self.requested.jobs.values():
                self._check_job(store, wanted)
            difference = redecide(replay(store))
            assert difference is None, f"the replay decides differently: {difference}"
        self.tally.jobs = len(self.requested.jobs)

    def _check_job(self, store: Store, wanted: Wanted) -> None:
        """The job did exactly the requested steps, in order, and its runs did not overlap."""
        assert wanted.id is not None
        record = store.job(JobId(wanted.id))
        assert record is not None, f"an acknowledged job is lost: {wanted}"
        assert record.job.name == wanted.name, (record, wanted)
        folder = self.home / "jobs" / str(wanted.id) / "checkpoint"
        assert not (folder / TWICE).exists(), f"two runs of job {wanted.id} at once"
        lines = (folder / STEPS).read_text().splitlines() if (folder / STEPS).exists() else []
        steps = [int(line.split()[0]) for line in lines]
        runs = [int(line.split()[1]) for line in lines]
        assert steps == list(range(1, len(steps) + 1)), f"job {wanted.id} did {steps}"
        assert runs == sorted(runs), f"the runs of job {wanted.id} took turns: {runs}"
        if record.phase is Phase.SUCCEEDED:
            self._check_owner(wanted, folder / STEPS)
            assert len(steps) == wanted.steps, f"job {wanted.id} did {len(steps)} of {wanted.steps} steps"
        else:
            assert record.phase is Phase.CANCELLED, (record.phase, record.ending)
            assert wanted.is_cancel_asked, f"job {wanted.id} was cancelled by nobody"
        known = store.runs(record.id)
        assert set(runs) <= {run.id for run in known}
        assert all(run.exited_at is not None for run in known), known
        self.tally.runs += len(known)

    def _check_owner(self, wanted: Wanted, steps: Path) -> None:
        """The job has run as its user."""
        owner = pwd.getpwuid(steps.stat().st_uid).pw_name
        assert owner == (wanted.user or pwd.getpwuid(os.geteuid()).pw_name), (owner, wanted)
        self.tally.users.add(owner)


def processes_at(home: Path) -> list[int]:
    """Managers, supervisors and workers of this home."""
    mark = os.fsencode(home)
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            for part in ("cmdline", "environ"):
                try:
                    if mark in Path(f"/proc/{name}/{part}").read_bytes() and _is_alive(int(name)):
                        found.append(int(name))
                        break
                except OSError:
                    break
    return found


def _is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
