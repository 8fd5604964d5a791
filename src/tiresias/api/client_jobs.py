"""The part of the Python client that submits, reads and changes jobs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiresias.api.parts import parts_of, submitted_in_parts
from tiresias.api.requester import Ref, Requester, Value, job_path, query_of

MOST_JOBS = 10_000  # on a page, so that all active jobs are on one if possible


class Jobs:
    """Submits, reads and changes jobs."""

    def __init__(self, requester: Requester):
        self._requester = requester

    def submit(self, jobs: Value | Sequence[Value], key: str | None = None) -> list[int]:
        """Submit one job or several, and return their ids. The same key never submits twice.

        They are submitted all or none if they fit into one request (4 MiB). More are sent in parts, each of
        which is all or none; see PartlySubmitted.
        """
        ids: list[int] = self.submitted(jobs, key)["ids"]
        return ids

    def submitted(self, jobs: Value | Sequence[Value], key: str | None = None) -> Value:
        """The same, with the whole answer: `ids`, the ids of `arrays`, and `warnings`."""
        if isinstance(jobs, Mapping):
            parts_of([jobs])  # refuses a job that is larger than a request
            return self._submit(jobs, key or new_key())
        return submitted_in_parts(self._submit, jobs, key or new_key())

    def _submit(self, body: Mapping[str, Any], key: str) -> Value:
        answer: Value = self._requester.again("POST", "/api/v1/jobs", body, {"Idempotency-Key": key}).value()
        return answer

    def again(self, /, ref: Ref, key: str | None = None, **changes: Any) -> int:
        """Submit a job once more, as it was submitted except for the changes, and return the new id."""
        headers = {"Idempotency-Key": key or new_key()}
        ids: list[int] = self._requester.again("POST", job_path(ref, "again"), changes, headers).value()[
            "ids"
        ]
        return ids[0]

    def dry_run(self, job: Value) -> Value:
        """Where the job would run now, and which jobs it would displace."""
        return self._requester.value("POST", "/api/v1/jobs/dry-run", job)

    def jobs(
        self,
        all: bool = False,
        user: str | None = None,
        phase: str | None = None,
        refs: Sequence[Ref] = (),
    ) -> Iterator[Value]:
        """Active jobs in the order in which they are served; with `all` also ended jobs, the latest first.

        With `refs`, only the jobs that these ids, names, arrays and patterns mean.
        """
        query: dict[str, Any] = {"all": str(all).lower(), "user": user, "phase": phase, "job": list(refs)}
        query["limit"] = None if all else str(MOST_JOBS)  # a large page of ended jobs would block the manager
        yield from self._requester.pages("/api/v1/jobs", "jobs", query)

    def find(self, ref: Ref, *, active: bool = False) -> list[int]:
        """The jobs that an id, a name, the id of an array or a pattern means; `active` leaves out ended ones
        of an array or pattern."""
        query = query_of({"active": "true"} if active else {})
        ids: list[int] = self._requester.value("GET", job_path(ref, "ids") + query)["ids"]
        return ids

    def job(self, ref: Ref) -> Value:
        return self._requester.value("GET", job_path(ref))

    def why(self, ref: Ref) -> Value:
        """Why the job waits, runs or has ended: the reason, its evidence, the next step."""
        return self._requester.value("GET", job_path(ref, "why"))

    def runs(self, ref: Ref) -> list[Value]:
        runs: list[Value] = self._requester.value("GET", job_path(ref, "runs"))["runs"]
        return runs

    def job_events(self, ref: Ref) -> list[Value]:
        """The events of one job."""
        events: list[Value] = self._requester.value("GET", job_path(ref, "events"))["events"]
        return events

    def cancel(self, ref: Ref, *, now: bool = False) -> Value:
        """Cancel a job; with `now` its run is killed at once, without its grace time."""
        return self._requester.value("POST", job_path(ref, "cancel") + ("?now=true" if now else ""))

    def hold(self, ref: Ref) -> Value:
        return self._requester.value("POST", job_path(ref, "hold"))

    def release(self, ref: Ref) -> Value:
        return self._requester.value("POST", job_path(ref, "release"))

    def requeue(self, ref: Ref) -> Value:
        return self._requester.once("POST", job_path(ref, "requeue")).value()  # type: ignore[no-any-return]

    def change(self, /, ref: Ref, **changes: Any) -> Value:
        """Change options of a job, such as priority, time_limit_s or retries."""
        return self._requester.value("PATCH", job_path(ref), changes)


def new_key() -> str:
    """An idempotency key that nobody else uses."""
    return os.urandom(16).hex()
