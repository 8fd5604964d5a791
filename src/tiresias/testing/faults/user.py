"""A user who makes random requests of every kind, and repeats those that were not acknowledged."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import ClassVar

from tiresias.core.model import Priority
from tiresias.live.answers import Limits
from tiresias.live.errors import Refused, Unavailable
from tiresias.live.manager import Manager
from tiresias.live.service import Service
from tiresias.live.submission import Caller, Submission
from tiresias.testing import own_allocators  # noqa: F401  (registers them)
from tiresias.testing.faults.promises import Promises, Request, RequestedJob
from tiresias.testing.faults.trainings import Training

ADMIN = Caller("root", is_admin=True)
ANNA = Caller("anna")
POLICIES: tuple[tuple[str, dict[str, str]], ...] = (
    ("fifo", {}),
    ("fifo-skip", {}),
    ("las", {"min_run_s": "5"}),
    ("tiresias-l", {"queues": "60"}),
    ("tiresias-l", {"queues": "30,200", "min_run_s": "10"}),
    ("gandiva", {"layers": "3", "slice_s": "20", "settle_s": "60", "patience_s": "100"}),
    ("gandiva", {"packing": "off", "slice_s": "7"}),
    ("stacked", {}),
    ("sized", {}),
    ("sized", {}),
    ("two-level", {}),
)


class User:
    """Submits the trainings in order, and makes random requests about them."""

    def __init__(
        self,
        rng: Random,
        trainings: list[Training],
        slots: list[str],
        nodes: list[str],
        promises: Promises,
        log: Callable[..., None],
    ):
        self._rng = rng
        self._trainings = trainings
        self._slots = slots
        self._nodes = nodes
        self._promises = promises
        self._log = log
        self._again: list[Callable[[Manager], None]] = []  # requests that were not acknowledged
        self._drained: set[str] = set()  # drained and not restored, as far as was requested
        self._keys = 0
        self._service: Service
        self._loop: AbstractEventLoop

    @property
    def has_more(self) -> bool:
        """Whether there are submissions still to make, or to repeat."""
        return bool(self._trainings or self._again)

    def meet(self, service: Service, loop: AbstractEventLoop) -> None:
        """From now on requests go to this service."""
        self._service, self._loop = service, loop

    def act(self, manager: Manager, now: float) -> None:
        """Make one request."""
        if self._again and self._rng.random() < 0.7:
            self._again.pop(0)(manager)
        elif self._trainings and self._rng.random() < 0.5:
            self._submit_some(manager, now)
        else:
            self._rng.choice(self._requests)(self, manager)

    def lost_touch(self) -> None:
        """The manager was killed: requests that were not acknowledged are repeated or given up."""
        for request in self._promises.open:
            if request.again is not None:
                self._again.append(request.again)
        self._promises.open.clear()

    def submit_rest(self, manager: Manager) -> None:
        """Submit everything that is still to be submitted."""
        while self._again:
            self._again.pop(0)(manager)
        while self._trainings:
            self._submit_some(manager, 0.0)

    # --- submitting ------------------------------------------------------------------------------------

    def _submit_some(self, manager: Manager, now: float) -> None:
        rng = self._rng
        count = min(len(self._trainings), rng.choice((1, 1, 2, 3)))
        batch, self._trainings = self._trainings[:count], self._trainings[count:]
        is_array = count > 1 and rng.random() < 0.5
        jobs = [self._job(training, now) for training in batch]
        if is_array:
            limit = rng.choice((None, 1, 2))
            for index, job in enumerate(jobs):
                job.submission = replace(
                    job.submission,
                    array=f"array-{batch[0].name}",
                    array_index=index,
                    array_limit=limit,
                    gpus=jobs[0].submission.gpus,
                    max_gpus=jobs[0].submission.max_gpus,
                )
        for job in jobs:
            self._promises.jobs[job.name] = job
        self._keys += 1
        self._submit(manager, jobs, f"key-{self._keys}")

    def _job(self, training: Training, now: float) -> RequestedJob:
        rng = self._rng
        known = [job for job in self._promises.jobs.values() if job.id is not None]
        after = tuple(rng.sample(known, 1)) if known and rng.random() < 0.15 else ()
        how = rng.choice(("after", "after", "after_any", "after_not_ok")) if after else "after"
        gpus = rng.randrange(1, max(2, len(self._slots) // 2 + 1))
        submission = Submission(
            training.command,
            "/",
            {"PATH": "/usr/bin"},
            gpus=gpus,
            max_gpus=rng.randrange(gpus, len(self._slots) + 1) if rng.random() < 0.4 else None,
            name=training.name,
            priority=rng.choice((Priority.NORMAL, Priority.NORMAL, Priority.LOW)),
            preemptible=rng.random() < 0.85,
            grace_s=rng.choice((0.0, 3.0, 30.0)),
            retries=rng.randrange(4),
            time_limit_s=rng.choice((100.0, 1000.0)) if rng.random() < 0.1 else None,
            **{how: tuple(other.id for other in after if other.id is not None)},  # type: ignore[arg-type]
            begin_at=now + rng.choice((10.0, 200.0)) if rng.random() < 0.2 else None,
            preflight=rng.random() < 0.1,
            preflight_limit_s=20.0,
        )
        return RequestedJob(training, submission, after)

    def _submit(self, manager: Manager, jobs: list[RequestedJob], key: str) -> None:
        """Submit all of the jobs or none, with the same key each time."""
        names = " ".join(job.name for job in jobs)
        self._log("submits", names, key)
        try:
            ids = manager.requests.submit(ANNA, [job.submission for job in jobs], key=key, digest=names)
        except Unavailable:
            self._again.append(lambda manager: self._submit(manager, jobs, key))
            return
        except Refused as refusal:  # a job on which it depends has failed: it is given up
            self._log("is refused", names, str(refusal))
            for job in jobs:
                del self._promises.jobs[job.name]
            return
        assert len(ids) == len(jobs), ("not as many jobs as were submitted", ids, names)

        def sure() -> None:
            for job, id in zip(jobs, ids, strict=True):
                assert job.id in (None, id), ("a repeated request got another id", job.id, id)
                job.id = id

        self._asked(sure, lambda manager: self._submit(manager, jobs, key))

    def _asked(self, sure: Callable[[], None], again: Callable[[Manager], None] | None = None) -> None:
        """Wait for the answer, as an endpoint of the API does before it sends one."""
        request = Request(sure, again)
        self._promises.open.append(request)
        self._loop.create_task(self._answered(request))

    async def _answered(self, request: Request) -> None:
        try:
            await self._service.committed()
        except Unavailable:
            self._promises.open.remove(request)
            if request.again is not None:
                self._again.append(request.again)
        else:
            self._promises.acknowledge(request)

    # --- other requests --------------------------------------------------------------------------------

    def _some_job(self) -> RequestedJob | None:
        known = [job for job in self._promises.jobs.values() if job.id is not None]
        return self._rng.choice(known) if known else None

    def _try(self, what: str, *about: object, do: Callable[[], None]) -> bool:
        """Make a request that may be refused because it is too late; return whether it was accepted."""
        try:
            do()
        except Refused as refusal:
            self._log("is refused", what, *about, str(refusal))
            return False
        self._log("asks", what, *about)
        return True

    def _cancel(self, manager: Manager) -> None:
        job = self._some_job()
        if job is None or job.id is None or self._rng.random() < 0.5:
            return
        id = job.id
        job.is_cancel_asked = job.is_stop_asked = True

        def sure() -> None:
            job.is_cancel_sure = True

        if self._try("cancel", id, do=lambda: manager.requests.cancel(ANNA, id)):
            self._asked(sure)

    def _hold(self, manager: Manager) -> None:
        job = self._some_job()
        if job is None or job.id is None:
            return
        id, releases = job.id, job.releases
        job.is_stop_asked = True

        def sure() -> None:
            job.is_hold_sure = job.releases == releases

        if self._try("hold", id, do=lambda: manager.requests.hold(ANNA, id)):
            self._asked(sure)

    def _release(self, manager: Manager) -> None:
        on_hold = [job for job in self._promises.jobs.values() if job.is_hold_sure]
        job = self._rng.choice(on_hold) if on_hold else self._some_job()
        if job is not None:
            self._release_one(manager, job)

    def _release_one(self, manager: Manager, job: RequestedJob) -> None:
        id = job.id
        assert id is not None
        job.is_hold_sure = False
        job.releases += 1
        if self._try("release", id, do=lambda: manager.requests.release(ANNA, id)):
            self._asked(lambda: None)

    def _requeue(self, manager: Manager) -> None:
        job = self._some_job()
        if job is None or job.id is None:
            return
        id = job.id
        job.is_stop_asked = True
        if self._try("requeue", id, do=lambda: manager.requests.requeue(ANNA, id)):
            self._asked(lambda: None)

    def _prioritise(self, manager: Manager) -> None:
        job = self._some_job()
        if job is None or job.id is None:
            return
        id, priority = job.id, self._rng.choice(list(Priority))
        changes = {"priority": priority.value, "retries": job.submission.retries}
        job.sure_priority = None

        def sure() -> None:
            job.sure_priority = priority.value

        if self._try("change", id, changes, do=lambda: manager.requests.change(ADMIN, id, changes)):
            self._asked(sure)

    def _drain(self, manager: Manager) -> None:
        what = self._rng.choice(self._slots + self._nodes)
        if self._try("drain", what, do=lambda: manager.requests.drain(ADMIN, what, "to see what happens")):
            self._drained.add(what)
            self._asked(lambda: self._sure_drained(what))

    def _sure_drained(self, what: str) -> None:
        if what in self._drained:
            self._promises.sure_drained |= self._slots_of(what)

    def _undrain(self, manager: Manager) -> None:
        if self._drained:
            self._undrain_one(manager, self._rng.choice(sorted(self._drained)))

    def _undrain_one(self, manager: Manager, what: str) -> None:
        # From the request on nothing is sure, also of slots that were drained one by one.
        self._promises.sure_drained -= self._slots_of(what)
        if self._try("undrain", what, do=lambda: manager.requests.undrain(ADMIN, what)):
            self._drained.discard(what)
            self._asked(lambda: None)

    def _slots_of(self, what: str) -> set[str]:
        return {slot for slot in self._slots if slot == what or slot.startswith(f"{what}:")}

    def _set_policy(self, manager: Manager) -> None:
        name, options = self._rng.choice(POLICIES)
        self._promises.sure_policy = None

        def sure() -> None:
            self._promises.sure_policy = name

        if self._try("policy", name, options, do=lambda: manager.requests.set_policy(ADMIN, name, options)):
            self._asked(sure)

    def _set_limit(self, manager: Manager) -> None:
        most = self._rng.choice((None, len(self._slots) // 2 + 1, len(self._slots)))
        self._promises.sure_gpu_limit = None

        def sure() -> None:
            self._promises.sure_gpu_limit = most

        limits = Limits(max_running_gpus=most)
        if self._try("limit", most, do=lambda: manager.requests.set_limits(ADMIN, ANNA.user, limits)):
            # Of several that are acknowledged together, the last one counts; it is the last in the list.
            self._asked(sure)

    # --- the end ---------------------------------------------------------------------------------------

    def tidy(self, manager: Manager) -> None:
        """Take back everything that keeps jobs from running."""
        for job in list(self._promises.jobs.values()):
            if job.id is not None:
                self._release_one(manager, job)
        for what in self._slots + self._nodes:
            self._undrain_one(manager, what)
        self._promises.sure_gpu_limit = None
        manager.requests.set_limits(ADMIN, ANNA.user, Limits())

    _requests: ClassVar[list[Callable[[User, Manager], None]]] = [
        _cancel,
        _hold,
        _hold,
        _release,
        _release,
        _requeue,
        _prioritise,
        _drain,
        _undrain,
        _undrain,
        _set_policy,
        _set_limit,
    ]
