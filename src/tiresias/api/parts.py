"""Submissions that are too large for one request are sent in parts.

The jobs of one part are submitted all or none. The parts are sent in the order of the jobs, and the first
that is refused ends the submission; those before it stay. The keys of the parts follow from the key of the
submission, and the same jobs make the same parts: so the same submission under the same key goes on where it
ended, and submits no job twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiresias.api.request_limits import (
    LARGEST_BODY_BYTES,
    LARGEST_SUBMISSION_BYTES,
    MIB,
    MOST_VALUES,
    values_in,
)
from tiresias.api.transport import ApiError, Broken, Unreachable
from tiresias.spec.kinds import MOST_JOBS

FRAME = len(b'{"jobs": []}')
TOO_LARGE = 413  # the status of HTTP

Job = Mapping[str, Any]
Answer = dict[str, Any]


class PartlySubmitted(ApiError):
    """A part was refused after others were accepted; `answer` is that of the accepted ones together."""

    def __init__(self, refusal: ApiError, answer: Answer, total: int):
        ids = answer["ids"]
        super().__init__(
            refusal.status,
            refusal.code,
            f"{refusal.message}\nThe submission is larger than one request, so it was sent in parts."
            f" {len(ids):,} jobs ({ids[0]} to {ids[-1]}) were submitted before this part was refused, and"
            f" they stay; {total - len(ids):,} were not submitted",
        )
        self.answer = answer


def submitted_in_parts(
    send: Callable[[Job | dict[str, Any], str], Answer], jobs: Sequence[Job], key: str
) -> Answer:
    """Submit all of the jobs by as few requests as possible; returns the answer to all of them together."""
    parts = parts_of(jobs)
    if len(parts) == 1:
        return send({"jobs": list(jobs)}, key)
    answer: Answer = {"ids": [], "arrays": [], "warnings": []}
    for number, part in enumerate(parts, 1):
        try:
            one = send({"jobs": part}, f"{key}.{number}")
        except Unreachable as error:  # a manager that has gone meanwhile
            raise Broken(error.message) from None
        except ApiError as error:
            if not answer["ids"]:
                raise
            raise PartlySubmitted(error, answer, sum(map(count_of, jobs))) from None
        for name, values in answer.items():
            values += [each for each in one.get(name, ()) if name == "ids" or each not in values]
    return answer


def parts_of(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs in order, in as few parts as the limits of a request allow."""
    parts: list[list[Job]] = [[]]
    room = Room()
    for job in jobs:
        text = json.dumps(job).encode()
        if len(text) + FRAME > LARGEST_BODY_BYTES or values_in(text) + 2 > MOST_VALUES:
            raise ApiError(
                TOO_LARGE,
                "invalid",
                f"one job takes {len(text) / MIB:.1f} MiB with {values_in(text):,} values, and a manager"
                f" accepts {LARGEST_BODY_BYTES // MIB} MiB and {MOST_VALUES:,} values per request; hand over"
                " less of this shell's environment (--clean-env, --env NAME), or a smaller profile",
            )
        if parts[-1] and not room.takes(text, count_of(job)):
            parts.append([])
            room = Room()
        room.take(text, count_of(job))
        parts[-1].append(job)
    return parts


class Room:
    """What a request has room for, beside what it has taken."""

    def __init__(self) -> None:
        self._bytes = LARGEST_BODY_BYTES - FRAME
        self._values = MOST_VALUES - 2
        self._stored = LARGEST_SUBMISSION_BYTES
        self._jobs = MOST_JOBS

    def takes(self, text: bytes, jobs: int) -> bool:
        fits = len(text) + 2 <= self._bytes and values_in(text) + 1 <= self._values
        return fits and len(text) * jobs <= self._stored and jobs <= self._jobs

    def take(self, text: bytes, jobs: int) -> None:
        self._bytes -= len(text) + 2  # the comma and the space behind it
        self._values -= values_in(text) + 1
        self._stored -= len(text) * jobs
        self._jobs -= jobs


def count_of(job: Job) -> int:
    """How many jobs it stands for: an array has one per index."""
    array = job.get("array")
    return len(array["indices"]) if isinstance(array, Mapping) and array.get("indices") else 1
