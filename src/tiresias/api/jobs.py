"""Jobs: submitting, reading, changing and cancelling them."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response

from tiresias.api.answers import Events, Ids, Jobs, Runs, answer
from tiresias.api.bounds import BodyRoute
from tiresias.api.callers import AnyCaller, Submitter
from tiresias.api.models import AgainBody, ChangeBody, JobBody, SubmitBody, expanded_bytes, submissions
from tiresias.api.request_limits import LARGEST_SUBMISSION_BYTES, MIB
from tiresias.api.sliced import answer_in_slices
from tiresias.api.state import PREFIX, Shared, State
from tiresias.core.model import JobId, Phase
from tiresias.live.answers import DryRun, Eta, Explanation, JobDetail, JobSummary
from tiresias.live.curves import Curves, curves
from tiresias.live.errors import Invalid
from tiresias.live.eta import estimate
from tiresias.live.listing import IN_ORDER, Filter, check_sort
from tiresias.live.submission import Caller, Submission
from tiresias.live.why import in_words
from tiresias.spec.kinds import LARGEST_ID, MOST_JOBS

router = APIRouter(prefix=PREFIX, route_class=BodyRoute)
SLICE = 200  # jobs that are expanded in one turn of the event loop
Ref = Annotated[str, Path(description="the id or the name of a job", max_length=200)]
Several = Annotated[
    str, Path(description="an id, a name, the id of an array, or a pattern such as `train-*`", max_length=200)
]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        description="the same key with the same body submits once and returns the same ids",
    ),
]


def _submissions(body: JobBody) -> Iterator[Submission]:
    return submissions(body, f"{body.name or 'array'}-{secrets.token_hex(4)}")


@router.post("/jobs", status_code=201, response_model=Ids)
async def submit(body: SubmitBody, caller: Submitter, shared: Shared, key: Key = None) -> Response:
    """Submit one job or several, all or none. When the answer arrives, the jobs are on disk."""
    bodies = [body] if isinstance(body, JobBody) else body.jobs
    _check_size(bodies)
    wanted: list[Submission] = []
    for each in (each for one in bodies for each in _submissions(one)):
        wanted.append(each)
        if len(wanted) % SLICE == 0:  # others are served while a large array is expanded
            await asyncio.sleep(0)
    digest = hashlib.sha256(body.model_dump_json(exclude_defaults=True).encode()).hexdigest()
    ids = shared.manager.requests.submit(caller, wanted, key=key or None, digest=digest)
    await shared.service.committed()
    arrays, warnings = shared.manager.queries.arrays_of(ids), shared.manager.requests.warnings(caller, wanted)
    return answer(Ids(list(ids), arrays, warnings), 201)


def _check_size(bodies: Sequence[JobBody]) -> None:
    """Refuse what would be too much once every array has a job per index."""
    count = sum(len(each.array.indices) if each.array else 1 for each in bodies)
    if count > MOST_JOBS:
        raise Invalid(f"{count} jobs in one request; send at most {MOST_JOBS} per request")
    size = sum(expanded_bytes(each) for each in bodies)
    if size > LARGEST_SUBMISSION_BYTES:
        raise Invalid(
            f"the {count:,} jobs of this request take {size / MIB:,.0f} MiB together, with the command and"
            f" the environment of each; a request may take {LARGEST_SUBMISSION_BYTES // MIB} MiB: submit"
            f" at most {count * LARGEST_SUBMISSION_BYTES // size:,} of them at once (--array in several"
            " ranges), or with a smaller environment (--clean-env)"
        )


@router.post("/jobs/dry-run", response_model=DryRun)
async def dry_run(body: JobBody, caller: AnyCaller, shared: Shared) -> Response:
    """What would happen to this job if it were submitted now; for an array, to its first job."""
    if body.array is not None:
        body.array.indices = body.array.indices[:1]
    return answer(shared.manager.requests.dry_run(caller, next(_submissions(body))))


@router.get("/jobs", response_model=Jobs)
async def jobs(
    caller: AnyCaller,
    shared: Shared,
    ended: Annotated[bool, Query(alias="all", description="ended jobs as well")] = False,
    user: Annotated[str | None, Query(max_length=200)] = None,
    phase: Annotated[str, Query(description="phases, separated by commas", max_length=200)] = "",
    tenant: Annotated[str | None, Query(max_length=200)] = None,
    search: Annotated[
        str, Query(description="part of the name, the user or the tenant, or the id", max_length=200)
    ] = "",
    sort: Annotated[str, Query(description="order of active jobs; - for falling", max_length=200)] = IN_ORDER,
    job: Annotated[list[str] | None, Query(description="only these jobs; may be repeated")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_JOBS)] = 1000,
    offset: Annotated[int, Query(description="active jobs to leave out", ge=0, le=LARGEST_ID)] = 0,
    cursor: Annotated[int | None, Query(ge=0, le=LARGEST_ID)] = None,
) -> Response:
    """Active jobs in the order in which they are served, then the ended ones, the latest first."""
    phases = [_phase(word) for word in phase.split(",") if word]
    check_sort(sort)
    wanted = Filter(user, tenant, phases, search.strip())
    seq = await shared.settled_seq()
    page = shared.manager.queries.page(
        caller,
        ended=ended,
        wanted=wanted,
        sort=sort,
        refs=job or (),
        limit=limit,
        offset=offset,
        cursor=cursor,
    )
    return await answer_in_slices(
        page.slices, lambda some: Jobs(some, page.following, page.total, seq), shared.settled_seq
    )


def _phase(word: str) -> Phase:
    try:
        return Phase(word.strip().upper())
    except ValueError:
        raise Invalid(f"phase: there is no phase {word!r}; choose from {', '.join(Phase)}") from None


@router.get("/jobs/{ref}", response_model=JobDetail)
async def job(ref: Ref, caller: AnyCaller, shared: Shared) -> Response:
    """Everything about one job except the values of its environment."""
    return answer(shared.manager.queries.detail(caller, shared.manager.queries.find(caller, ref)))


@router.get("/jobs/{ref}/ids", response_model=Ids)
async def ids(
    ref: Several,
    caller: AnyCaller,
    shared: Shared,
    active: Annotated[bool, Query(description="leave out ended jobs of an array or pattern")] = False,
) -> Response:
    """The jobs that are meant by an id, a name, the id of an array or a pattern."""
    return answer(Ids(list(shared.manager.queries.references.several(caller, ref, active=active))))


@router.post("/jobs/{ref}/again", status_code=201, response_model=Ids)
async def again(
    ref: Ref, caller: Submitter, shared: Shared, body: AgainBody | None = None, key: Key = None
) -> Response:
    """Submit a job once more as it was submitted, with the options that the body changes."""
    id = shared.manager.queries.find(caller, ref)
    changes = {} if body is None else body.changes()
    digest = hashlib.sha256(f"again {id} {sorted(changes.items())!r}".encode()).hexdigest()
    ids = shared.manager.requests.again(caller, id, changes, key=key or None, digest=digest)
    await shared.service.committed()
    return answer(Ids(list(ids)), 201)


@router.get("/jobs/{ref}/why", response_model=Explanation)
async def why(ref: Ref, caller: AnyCaller, shared: Shared) -> Response:
    """The reason why a job waits, runs or has ended, with evidence, the next step, and when it starts."""
    id = shared.manager.queries.find(caller, ref)
    found = shared.manager.queries.why(caller, id)
    question = shared.manager.queries.outlooks.start(id)
    if question is not None:
        start = await shared.estimates.work(caller.user, partial(estimate, *question, id))
        start = shared.manager.forecasts.record.corrected(start)
        found.starts_p50_s, found.starts_p90_s, found.starts = start.p50_s, start.p90_s, in_words(start)
    return answer(found)


@router.get("/jobs/{ref}/eta", response_model=Eta)
async def eta(ref: Ref, caller: AnyCaller, shared: Shared) -> Response:
    """When the job starts and ends, estimated by replaying the present queue with durations of ended jobs."""
    id = shared.manager.queries.find(caller, ref)
    question = shared.manager.queries.outlooks.end(id)
    if question is None:
        return answer(Eta())
    queue, durations, runs = question
    found = await shared.estimates.work(caller.user, partial(estimate, queue, durations, id))
    record = shared.manager.forecasts.record
    if not runs:
        found = record.corrected(found)
    starts = (None, None) if runs else (found.p50_s, found.p90_s)
    measured = "" if runs or found.unknown else record.in_words()
    return answer(Eta(*starts, found.ends_p50_s, found.ends_p90_s, found.history, found.unknown, measured))


@router.get("/jobs/{ref}/metrics", response_model=Curves)
async def reported(ref: Ref, caller: AnyCaller, shared: Shared) -> Response:
    """The metrics that its runs have reported, by step."""
    id = shared.manager.queries.find(caller, ref)
    folders = shared.manager.queries.report_folders(caller, id)
    return answer(await shared.curves.work(caller.user, partial(curves, folders)))


@router.get("/jobs/{ref}/runs", response_model=Runs)
async def runs(ref: Ref, caller: AnyCaller, shared: Shared) -> Response:
    """The runs of a job, in order."""
    return answer(Runs(shared.manager.queries.runs(caller, shared.manager.queries.find(caller, ref))))


@router.patch("/jobs/{ref}", response_model=JobSummary)
async def change(ref: Ref, body: ChangeBody, caller: AnyCaller, shared: Shared) -> Response:
    """Change the options that the body names."""
    id = shared.manager.queries.find(caller, ref)
    shared.manager.requests.change(caller, id, body.changes())
    return await _changed(id, caller, shared)


@router.post("/jobs/{ref}/cancel", response_model=JobSummary)
async def cancel(
    ref: Ref,
    caller: AnyCaller,
    shared: Shared,
    now: Annotated[bool, Query(description="kill its run at once, without its grace time")] = False,
) -> Response:
    """Cancel a job. Its run is signalled to stop and has its grace time to do so, unless `now` is set."""
    id = shared.manager.queries.find(caller, ref)
    shared.manager.requests.cancel(caller, id, now=now)
    return await _changed(id, caller, shared)


@router.post("/jobs/{ref}/hold", response_model=JobSummary)
async def hold(ref: Ref, caller: AnyCaller, shared: Shared) -> Response:
    """Put a job on hold: it does not run until it is released."""
    id = shared.manager.queries.find(caller, ref)
    shared.manager.requests.hold(caller, id)
    return await _changed(id, caller, shared)


@router.post("/jobs/{ref}/release", response_model=JobSummary)
async def release(ref: Ref, caller: AnyCaller, shared: Shared) -> Response:
    """Let a job that is on hold run again."""
    id = shared.manager.queries.find(caller, ref)
    shared.manager.requests.release(caller, id)
    return await _changed(id, caller, shared)


@router.post("/jobs/{ref}/requeue", response_model=JobSummary)
async def requeue(ref: Ref, caller: AnyCaller, shared: Shared) -> Response:
    """Stop the run of a job and put the job back in the queue."""
    id = shared.manager.queries.find(caller, ref)
    shared.manager.requests.requeue(caller, id)
    return await _changed(id, caller, shared)


async def _changed(id: JobId, caller: Caller, shared: State) -> Response:
    await shared.service.committed()
    return answer(shared.manager.queries.summary(caller, id))


@router.get("/jobs/{ref}/events", response_model=Events)
async def events(ref: Ref, caller: AnyCaller, shared: Shared) -> Response:
    """The events of one job; of a job that ended long ago only its runs are kept."""
    queries = shared.manager.queries
    return answer(Events(queries.story(caller, queries.find(caller, ref)), None))
