"""Notices to users about their jobs, over HTTP: ended, failed, preempted, idle.

Rules:
- A notice is stored in the commit of the facts that it is about (a setting with the prefix NOTICE), sent
  after that commit, and removed by a commit after its delivery. So it is delivered at least once, whenever
  the manager is killed; a receiver knows a repetition by its id.
- The notices of one user to one target are sent in order, one at a time. If a delivery fails, the next try
  comes after 1 s, then after 2 s, and so on up to an hour. After KEEP_S a notice is given up.
- Deliveries are made by the Courier in threads of its own. Nothing here waits for a target.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, JobId, Phase, RunId
from tiresias.core.state import JobState
from tiresias.executors.idle import WARN_S
from tiresias.executors.log_cap import is_log
from tiresias.live.courier import Courier, Parcel
from tiresias.live.errors import Conflict, Invalid
from tiresias.live.home_paths import HomePaths
from tiresias.live.journal import Ended, Input, Journal, Taken
from tiresias.live.notice_target import Network, check_url, target_of
from tiresias.live.settings import Settings
from tiresias.live.submission import Submission
from tiresias.live.words import lasting, revoked
from tiresias.spec.notices import EVENTS, OFF, USUAL, events_in

log = logging.getLogger("tiresias")

NOTICE = "notice:"  # the prefix of the settings that are notices
NOTIFY = "notify"  # the setting: which notices users want, and where
LOOK_S = 0.2  # between two looks at what became of deliveries
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 3600.0
KEEP_S = 3 * 86_400.0
MOST, MOST_OF_USER = 10_000, 1_000
HOW = {
    Phase.SUCCEEDED: "has succeeded",
    Phase.CANCELLED: "was cancelled",
    Phase.FAILED: "has failed",
}
MOST_AT_ONCE = 2  # deliveries per user


@dataclass(slots=True)
class Wish:
    """Which notices a user wants by default, where, and the secret with which it is signed."""

    url: str = ""
    on: list[str] = field(default_factory=lambda: list(USUAL))
    secret: str = ""


@dataclass(slots=True)
class Notice:
    user: str
    url: str
    event: str
    at: float
    text: str
    job: dict[str, Any] | None


@dataclass(slots=True)
class Lane:
    """The notices of one user to one target, in order."""

    keys: deque[str] = field(default_factory=deque)
    failures: int = 0  # since the last delivery
    next_at: float = -INFINITY
    problem: str = ""


class Notices:
    """The part that writes notices, and sees to their delivery."""

    def __init__(
        self,
        journal: Journal,
        paths: HomePaths,
        settings: Settings,
        allowed: Sequence[Network] = (),
        courier: Courier | None = None,
    ):
        self._journal, self._paths, self._settings, self._allowed = journal, paths, settings, allowed
        self._courier = courier or Courier(allowed)
        stored: dict[str, Any] = journal.store.setting(NOTIFY, {})
        self._wishes = {user: Wish(**wish) for user, wish in stored.items()}
        self._outbox: dict[str, Notice] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._flying: dict[str, tuple[str, str]] = {}  # notices that are being delivered: their lanes
        self._look_at = INFINITY
        self._idle_at = journal.now()
        self._noticed_idle: set[RunId] = set()
        for key, body in journal.store.settings_of(NOTICE).items():
            self._outbox[key] = Notice(**body)
        for key in sorted(self._outbox, key=lambda each: (self._outbox[each].at, each)):
            self._line_up(key)

    # --- what users want -------------------------------------------------------------------------------

    def check(self, spec: Submission) -> None:
        """Refuse a job whose notices could never be sent."""
        if spec.notify and spec.notify != OFF:
            check_url(spec.notify, self._allowed)

    def prepare(self, user: str) -> None:
        """See to it that the notices of this user can be signed."""
        wish = self._wishes.setdefault(user, Wish())
        if not wish.secret:
            wish.secret = os.urandom(24).hex()
            self._keep_wishes()

    def set_wish(self, user: str, url: str, on: Sequence[str]) -> None:
        """Which notices the user wants about jobs that say nothing else; an empty URL: none."""
        if url:
            check_url(url, self._allowed)
        if odd := [each for each in on if each not in EVENTS]:
            raise Invalid(f"there are no notices about {odd[0]!r}; choose of {', '.join(EVENTS)}")
        self.prepare(user)
        wish = self._wishes[user]
        wish.url, wish.on = url, list(on) or list(USUAL)
        self._keep_wishes()

    def _keep_wishes(self) -> None:
        self._journal.keep_setting(NOTIFY, {user: asdict(wish) for user, wish in self._wishes.items()})

    def wish_of(self, user: str) -> dict[str, Any]:
        """The wish, how many notices wait for their delivery, and why the last delivery failed."""
        lanes = [lane for (who, _), lane in self._lanes.items() if who == user]
        problem = next((lane.problem for lane in lanes if lane.problem), "")
        waiting = sum(len(lane.keys) for lane in lanes)
        return asdict(self._wishes.get(user, Wish())) | {"waiting": waiting, "problem": problem}

    def test(self, user: str) -> None:
        """Write a notice that is about nothing."""
        wish = self._wishes.get(user, Wish())
        if not wish.url:
            raise Conflict("there is no URL to send a test to; set one: tir notify set URL")
        self._write(Notice(user, wish.url, "test", self._journal.now(), "This is a test of Tiresias.", None))

    def _wanted(self, spec: Submission, event: str) -> str:
        """The URL that gets a notice of this event of a job; empty if none does."""
        if spec.notify == OFF:
            return ""
        wish = self._wishes.get(spec.user, Wish())
        on = events_in(spec.notify_on) if spec.notify_on else wish.on
        return (spec.notify or wish.url) if event in on else ""

    # --- writing notices -------------------------------------------------------------------------------

    def on(self, taken: Taken) -> list[Input]:
        for ended in taken.ended:
            if ended.managed.preflight_of is None:
                self._tell_end(ended)
        for fact in taken.decisions:
            if isinstance(fact, f.RunRevoked):
                job = self._job_of(fact.run_id)
                if job is not None:
                    why = "" if fact.why is None else f" {revoked(fact.why)}"
                    self._tell(job, "preempted", fact.at, f"was preempted{why} and queues again")
        return []

    def _job_of(self, run_id: RunId) -> JobState | None:
        run = self._journal.state.runs.get(run_id)
        return None if run is None else self._journal.state.jobs.get(run.job_id)

    def _tell_end(self, ended: Ended) -> None:
        job, is_failed = ended.job, ended.job.phase is Phase.FAILED
        event = "failed" if is_failed else "ended"
        url = self._wanted(ended.managed.spec, event)
        if not url:
            return
        sentence = str(ended.ending.get("sentence", ""))
        how = HOW[job.phase]
        step = f" See `tir logs {job.id}`." if is_failed and job.runs else ""
        more = f": {sentence}" if is_failed and sentence else "."
        about = _about(job) | {
            "reason": ended.ending.get("reason", ""),
            "sentence": sentence,
            "exit_code": ended.ending.get("exit_code"),
        }
        text = f"{_named(job)} {how}{more}{step}"
        self._write(Notice(job.user, url, event, job.ended_at, text, about))

    def _tell(self, job: JobState, event: str, at: float, words: str) -> None:
        if url := self._wanted(self._journal.managed[job.id].spec, event):
            self._write(Notice(job.user, url, event, at, f"{_named(job)} {words}.", _about(job)))

    def _write(self, notice: Notice) -> None:
        """Store a notice with the next commit, and have it sent after that."""
        of_user = sum(len(lane.keys) for (user, _), lane in self._lanes.items() if user == notice.user)
        if len(self._outbox) >= MOST or of_user >= MOST_OF_USER:
            log.warning("too many notices wait; this one is given up: %s", notice.text)
            return
        self.prepare(notice.user)
        key = NOTICE + os.urandom(8).hex()
        self._outbox[key] = notice
        self._journal.keep_setting(key, asdict(notice))
        self._journal.after_commit(lambda: self._line_up(key))

    # --- jobs that do nothing --------------------------------------------------------------------------

    def _look_for_idle(self, at: float) -> None:
        """Tell of runs that have neither written nor reported anything for long."""
        self._idle_at = at + min(60.0, self._settings.idle_notice_s)
        managed, wall = self._journal.managed, self._journal.wall()
        runs = self._journal.state.runs
        self._noticed_idle &= runs.keys()
        for run in runs.values():
            job = self._journal.state.jobs[run.job_id]
            if job.phase is not Phase.RUNNING or not self._wanted(managed[job.id].spec, "idle"):
                continue
            folder = self._paths.run(JobId(job.id), job.runs)
            quiet_s = min(wall - _last_written(folder), at - run.started_at)
            limit_s = managed[job.id].spec.idle_limit_s
            notice_s = self._settings.idle_notice_s
            if limit_s is not None:  # before it is ended
                notice_s = min(notice_s, limit_s - min(WARN_S, limit_s / 4))
            if quiet_s < notice_s:
                self._noticed_idle.discard(run.id)
            elif run.id not in self._noticed_idle:
                self._noticed_idle.add(run.id)
                words = f"has written and reported nothing for {quiet_s / 60:.0f} minutes"
                if limit_s is not None:
                    words += f"; it is ended when nobody has used it for {lasting(limit_s)}"
                self._tell(job, "idle", at, words)

    # --- delivering ------------------------------------------------------------------------------------

    @property
    def next_due_at(self) -> float:
        due_at = self._look_at if self._flying else INFINITY
        if self._courier.has_room:
            for place, lane in self._lanes.items():
                if lane.keys and place not in self._flying.values():
                    due_at = min(due_at, lane.next_at)
        return min(due_at, self._idle_at) if self._journal.state.runs else due_at

    def due(self, at: float) -> Iterator[Input]:
        if at >= self._idle_at and self._journal.state.runs:
            self._look_for_idle(at)
        if self._flying:
            self._collect(at)
        self._send(at)
        self._look_at = at + LOOK_S
        return iter(())

    def _line_up(self, key: str) -> None:
        notice = self._outbox[key]
        self._lanes.setdefault((notice.user, notice.url), Lane()).keys.append(key)

    def _collect(self, at: float) -> None:
        """Remove what was delivered, and put off what was not."""
        for delivery in self._courier.collect():
            place = self._flying.pop(delivery.key)
            lane, notice = self._lanes[place], self._outbox[delivery.key]
            is_late = at - notice.at > KEEP_S
            if not delivery.error or delivery.is_gone or is_late:
                if delivery.error:
                    log.warning("the notice %r is given up: %s", notice.text, delivery.error)
                lane.keys.popleft()
                del self._outbox[delivery.key]
                self._journal.keep_setting(delivery.key, None)
                lane.failures, lane.next_at, lane.problem = 0, -INFINITY, ""
                if not lane.keys:
                    del self._lanes[place]
            else:
                lane.failures += 1
                lane.problem = delivery.error
                lane.next_at = at + min(FIRST_WAIT_S * 2 ** min(lane.failures - 1, 20), LONGEST_WAIT_S)

    def _send(self, at: float) -> None:
        busy = list(self._flying.values())
        for place, lane in self._lanes.items():
            user = place[0]
            if not lane.keys or lane.next_at > at or place in busy or not self._courier.has_room:
                continue
            if sum(who == user for who, _ in busy) >= MOST_AT_ONCE:
                continue
            key = lane.keys[0]
            busy.append(place)
            self._flying[key] = place
            self._courier.send(self._parcel(key))

    def _parcel(self, key: str) -> Parcel:
        notice = self._outbox[key]
        target = target_of(notice.url)
        id = key.removeprefix(NOTICE)
        full = {"id": id, "event": notice.event, "at": notice.at, "text": notice.text, "job": notice.job}
        body = {"text": notice.text} if target.is_slack else full
        return Parcel(key, target, json.dumps(body).encode(), self._wishes[notice.user].secret)


def _named(job: JobState) -> str:
    name = f" ({job.job.name})" if job.job.name else ""
    return f"Job {job.id}{name} of {job.user}"


def _about(job: JobState) -> dict[str, Any]:
    """What a notice says about the job."""
    return {
        "id": job.id,
        "name": job.job.name,
        "user": job.user,
        "phase": job.phase.value,
        "gpus": job.gpus,
        "runs": job.runs,
        "preemptions": job.preemptions,
    }


def _last_written(folder: Path) -> float:
    """When an output or the reports of a run were last written to, by the wall clock.

    Only files that have these names are looked at: the directory of the job is its user's, who may have
    filled it with a million others.
    """
    newest = 0.0
    try:
        logs = [name for name in os.listdir(folder) if is_log(name)]
    except OSError:
        return newest
    reports = [f"job/report-{name.removeprefix('worker-').removesuffix('.log')}.jsonl" for name in logs]
    for name in (*logs, *reports):
        with suppress(OSError):
            newest = max(newest, (folder / name).lstat().st_mtime)
    return newest
