"""What the estimates of `live/eta.py` need of the present: the jobs ahead, and how long ended jobs took."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tiresias.core.controller import Controller
from tiresias.core.entries import JobEntry
from tiresias.core.model import JobId, Phase
from tiresias.core.state import JobState
from tiresias.live.eta import MOST_AHEAD, Ahead, Queue
from tiresias.live.home_paths import HomePaths
from tiresias.live.journal import Journal
from tiresias.live.progress_reader import ProgressReader

HISTORY_USED = 1000  # ended jobs from which starts and ends are estimated


class Outlooks:
    """The estimates take long and are made in another thread, from the values that these methods return."""

    def __init__(self, journal: Journal, progress: ProgressReader, paths: HomePaths):
        self._journal, self._progress, self._paths = journal, progress, paths

    def start(self, id: JobId) -> tuple[Queue, list[float]] | None:
        """The queue and the durations for the start of a job; None if it does not wait for its rank."""
        job = self._journal.state.jobs.get(id)
        queue = None if job is None else self._queue_ahead(job)
        return None if queue is None else (queue, self._durations())

    def end(self, id: JobId) -> tuple[Queue, list[float], bool] | None:
        """The same for the end of a job, and whether it runs already."""
        job = self._journal.state.jobs.get(id)
        if job is None:
            return None
        if job.gpu_run is None or job.phase is Phase.STOPPING:
            queue = self._queue_ahead(job)
            return None if queue is None else (queue, self._durations(), False)
        executed_s = job.executed_at(self._journal.now())
        queue = Queue((), job.gpus, job.gpus, executed_s=executed_s, left_s=self._left_s(job))
        return queue, self._durations(), True

    def _queue_ahead(self, job: JobState) -> Queue | None:
        return queue_ahead(self._journal.controller, job, self._journal.now(), self._left_s)

    def _durations(self) -> list[float]:
        """For how long the latest jobs ran that have ended."""
        return self._journal.store.history.latest_durations(HISTORY_USED)

    def _left_s(self, job: JobState) -> float | None:
        """For how long a job will run by its own reports; None if it does not run or report its progress."""
        if job.run is None:
            return None
        folder = self._paths.reports(job.id, job.runs)
        progress = self._progress.latest(job.run.id, folder, self._journal.wall())
        return None if progress is None else progress.eta_s


def queue_ahead(
    controller: Controller, job: JobState, now: float, left_s: Callable[[JobState], float | None]
) -> Queue | None:
    """The queue before a job; None if it does not wait for its rank."""
    if job.run is not None or job.deferred or job.on_hold or job.cancelled or not job.gpus:
        return None
    ahead = []
    for entry in _ranked_before(controller, job):
        ahead.append(Ahead(entry.job.gpus, entry.job.executed_at(now), left_s(entry.job)))
        if len(ahead) > MOST_AHEAD:
            break
    strict = bool(getattr(controller.policy, "strict", False))
    return Queue(tuple(ahead), controller.state.ledger.gpus, job.gpus, strict, job.executed_at(now))


def _ranked_before(controller: Controller, job: JobState) -> Iterator[JobEntry]:
    """The runs that may not be preempted, then all jobs with a better rank, running or not."""
    yield from controller.pinned()
    for other in controller.target:
        if other.id == job.id:
            return
        if not other.pinned:
            yield other
