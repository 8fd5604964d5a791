"""The simulated machines: the ground truth of what runs, how much work is done and what preemptions cost.

Rules: a preemption costs `cost_s` seconds without progress: one sixth of it for saving, on the old slots, and
the rest for loading, on the new ones. A job that does not save begins anew instead: it loses all its work,
and loads and saves nothing; so does a trial after one that has failed (failures.py). The World answers
commands with facts, at the instants on its heap.
"""

from __future__ import annotations

from heapq import heapify, heappush

from tiresias.core import facts as f
from tiresias.core.commands import StartRun, StopRun
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, Job, JobId, RunId
from tiresias.core.state import count
from tiresias.sim.failures import Failures
from tiresias.sim.losses import Losses, next_report_s

SAVING = 1 / 6  # share of a preemption's cost
MOST_STALE = 3  # entries of the heap per run, before those that have been superseded are removed

FINISHED, PREEMPTED = ExitCause.FINISHED, ExitCause.PREEMPTED
RunExited, RunStarted = f.RunExited, f.RunStarted
# Priorities at one instant: exits go first, then what was lost with them.
EXIT, LOSS, START, REPORT, PREFLIGHT = 0, 1, 2, 3, 4

Due = tuple[float, int, int, "WorldRun"]


class WorldRun:
    """A run on the simulated machines. From `works_from` on it does `speed` seconds of work per second."""

    __slots__ = (
        "began_s",
        "cause",
        "done_s",
        "ends_s",
        "exits_at",
        "gpus",
        "id",
        "job",
        "lost_s",
        "nodes",
        "reports_at",
        "speed",
        "started_at",
        "works_from",
    )

    def __init__(
        self, id: RunId, job: Job, nodes: tuple[int, ...], started_at: float, works_from: float, done_s: float
    ):
        self.id = id
        self.job = job
        self.gpus = job.demand.gpus  # that it holds; 0 on CPUs and for jobs without GPUs; see World.start
        self.nodes = nodes  # indices in the cluster; none for jobs without GPUs
        self.started_at = started_at
        self.works_from = works_from
        self.began_s = self.done_s = done_s  # work of the job that is done at its start, and at works_from
        self.ends_s = 0.0  # the work at which it ends: that of the job, or that at which its trial fails
        self.speed = 1.0
        self.exits_at = INFINITY
        self.reports_at = INFINITY  # when it reports its loss next
        self.cause = FINISHED
        self.lost_s = works_from - started_at  # seconds without progress


class Spent:
    """What the exited runs of a job took."""

    __slots__ = (
        *("cpu_work_gpu_s", "executed_s", "first_started_at", "gpus", "lost_s", "moved_resumes", "node_s"),
        *("nodes", "resizes"),
    )

    def __init__(self, first_started_at: float) -> None:
        self.first_started_at = first_started_at
        self.executed_s = 0.0
        self.lost_s = 0.0  # seconds without progress, or whose work was lost with a trial
        self.node_s = 0.0  # nodes x seconds
        self.nodes: tuple[int, ...] = ()  # of the last run on GPUs
        self.moved_resumes = 0  # how many runs were on other nodes than the run before
        self.gpus = 0  # of the last run on GPUs
        self.resizes = 0  # how many runs had another number of GPUs than the run before
        self.cpu_work_gpu_s = 0.0  # its part of OnCPUs.work_gpu_s in the present trial

    def hold(self, nodes: tuple[int, ...], gpus: int) -> None:
        """A run had these nodes and so many GPUs; count it if the one before had others."""
        if self.nodes:
            self.moved_resumes += nodes != self.nodes
            self.resizes += gpus != self.gpus
        self.nodes = nodes
        self.gpus = gpus


class OnCPUs:
    """How much ran on CPUs."""

    __slots__ = ("jobs", "runs", "work_gpu_s")

    def __init__(self) -> None:
        self.runs = 0
        self.jobs = 0  # jobs whose last run was there
        self.work_gpu_s = 0.0  # work of exited runs, in GPUs x seconds on GPUs


class World:
    """The runs that commands have started; `heap` has what will happen, by (instant, priority, sequence)."""

    def __init__(
        self,
        preemption_cost_s: float,
        cpu_nodes: frozenset[int] = frozenset(),
        losses: Losses | None = None,
        failures: Failures | None = None,
    ):
        self.preemption_cost_s = preemption_cost_s
        self.losses = losses  # what the trainings report; None: nothing, because nobody wants to know
        self.failures = failures  # None: nothing fails
        self.on_cpus = OnCPUs()
        self._cpu_nodes = cpu_nodes  # indices of nodes without GPUs
        self.heap: list[Due] = []
        self.jobs: dict[JobId, Job] = {}
        self.saved_s: dict[JobId, float] = {}  # saved work of stopped jobs
        self.runs: dict[RunId, WorldRun] = {}
        self.spent: dict[JobId, Spent] = {}  # of jobs that have run; the Recorder removes ended jobs
        self.lost_gpu_s = 0.0
        self._sequence = 0

    def cost_s(self, job: Job) -> float:
        """The cost of a preemption of this job: its own if the trace states one, unless the World's is 0."""
        if not job.saves:
            return 0.0
        if not self.preemption_cost_s or job.preemption_cost_s is None:
            return self.preemption_cost_s
        return job.preemption_cost_s

    def start(self, command: StartRun, at: float) -> f.RunStarted | None:
        """Start a run; return the fact that it works, or None if it has to load first."""
        job, run_id = self.jobs[command.job_id], command.run_id
        load_s = done_s = 0.0
        if command.resumes and job.id in self.saved_s:
            load_s = self.cost_s(job) * (1 - SAVING)
            done_s = self.saved_s.pop(job.id)
        works_from = at + load_s
        nodes = tuple([node for node, _ in command.allocation])
        self.runs[run_id] = run = WorldRun(run_id, job, nodes, at, works_from, done_s)
        if self._cpu_nodes and nodes and nodes[0] in self._cpu_nodes:
            run.gpus = 0
        elif job.demand.max_gpus is not None:
            run.gpus = count(command.allocation)
        if self.failures is None:
            assert job.duration_s is not None
            run.ends_s = job.duration_s
        else:
            run.ends_s = self.failures.ends_s(job)
        self._exit(run, works_from + (run.ends_s - done_s))
        if self.losses is not None:
            self._report(run, works_from, done_s)
        if load_s:
            self._push(works_from, START, run)
            return None
        return RunStarted(at, run_id)

    def stop(self, command: StopRun, at: float) -> None:
        """Make a run save its work and exit."""
        run = self.runs[command.run_id]
        save_s = self.cost_s(run.job) * SAVING
        if at < run.works_from:
            run.lost_s = at - run.started_at
        else:
            self._progress(run, at)
        if not run.job.saves:
            run.done_s, run.lost_s = 0.0, at - run.started_at
        run.lost_s += save_s
        run.speed = 0.0
        run.cause = PREEMPTED
        self._exit(run, at + save_s)
        self._tidy()

    def set_speed(self, run_id: RunId, speed: float, at: float) -> f.RunProgressed | None:
        """Change the speed of a run from now on, and with it the instant of its exit."""
        run = self.runs[run_id]
        if run.cause is PREEMPTED or run.speed == speed:
            return None
        self._progress(run, at)
        run.speed = speed
        if speed > 0:
            self._exit(run, run.works_from + (run.ends_s - run.done_s) / speed)
        else:  # it is paused
            run.exits_at = INFINITY
        if self.losses is not None:
            self._report(run, run.works_from, run.done_s)
        self._tidy()
        if run.works_from > at:
            return None
        return f.RunProgressed(at, run_id, run.done_s, speed)

    def happen(self, due: Due) -> f.Fact | None:
        """The fact of a due entry of the heap; None if a later command or speed has superseded the entry."""
        at, priority, _, run = due
        if priority == EXIT:
            if run.exits_at != at or run.id not in self.runs:
                return None
            return self._exited(run, at)
        if priority == START:
            if run.cause is PREEMPTED or run.id not in self.runs:
                return None
            return f.RunStarted(at, run.id, run.speed)
        if priority == LOSS:
            return f.WorkLost(at, run.job.id, run.lost_s, run.gpus)
        if priority == REPORT:
            return self._reported(run, at)
        return self._failed_in_preflight(run, at)

    def _exited(self, run: WorldRun, at: float) -> f.RunExited:
        del self.runs[run.id]
        job = run.job
        spent = self.spent.get(job.id)
        if spent is None:
            spent = self.spent[job.id] = Spent(run.started_at)
        if self.failures is not None and run.cause is FINISHED:
            run.cause = self.failures.end_trial(job, job.demand.gpus)
        if run.gpus:
            if spent.nodes != run.nodes or spent.gpus != run.gpus:
                spent.hold(run.nodes, run.gpus)
        elif run.nodes:
            self._leave_cpus(run, spent)
        if run.lost_s:
            self.lost_gpu_s += run.lost_s * run.gpus
            spent.lost_s += run.lost_s
        executed_s = at - run.started_at
        spent.executed_s += executed_s
        spent.node_s += executed_s * len(run.nodes)
        if run.cause is FINISHED:
            assert job.duration_s is not None
            del self.jobs[job.id]
            if self.losses is not None:
                self.losses.forget(job)
            return RunExited(at, run.id, FINISHED, job.duration_s)
        if run.cause is not PREEMPTED:
            return self._fail(run, spent, at)
        self.saved_s[job.id] = run.done_s
        if not job.saves and run.lost_s:
            self._push(at, LOSS, run)
        return RunExited(at, run.id, PREEMPTED, run.done_s)

    def preflight(self, job: Job) -> f.JobDeferred | None:
        """The job has been submitted: what keeps it from the queue for now, if it has a preflight."""
        known = None if self.failures is None else self.failures.preflight(job)
        if known is None:
            return None
        ends_at, is_failure = known
        if is_failure:
            trial = WorldRun(RunId(0), job, (), job.submitted_at, job.submitted_at, 0.0)
            self._push(ends_at, PREFLIGHT, trial)
        return f.JobDeferred(job.submitted_at, job.id, "preflight", None if is_failure else ends_at)

    def _failed_in_preflight(self, run: WorldRun, at: float) -> f.JobFailed:
        assert self.failures is not None
        self.failures.fail_in_preflight(run.job, at)
        del self.jobs[run.job.id]
        return f.JobFailed(at, run.job.id)

    def _fail(self, run: WorldRun, spent: Spent, at: float) -> f.RunExited:
        """The trial has failed, and its work is lost; the job is tried again, or has failed with it."""
        assert self.failures is not None
        self.on_cpus.work_gpu_s -= spent.cpu_work_gpu_s
        spent.cpu_work_gpu_s = 0.0
        spent.lost_s = spent.executed_s
        if run.cause is ExitCause.FAILED:
            self.failures.told(run.job, at)
            del self.jobs[run.job.id]
            if self.losses is not None:
                self.losses.forget(run.job)
        return f.RunExited(at, run.id, run.cause, 0.0)

    def _leave_cpus(self, run: WorldRun, spent: Spent) -> None:
        on_cpus, job = self.on_cpus, run.job
        on_cpus.runs += 1
        done_s = run.done_s if run.cause is PREEMPTED else run.ends_s
        on_cpus.jobs += run.cause is FINISHED
        work_gpu_s = (done_s - run.began_s) * job.demand.gpus
        on_cpus.work_gpu_s += work_gpu_s
        spent.cpu_work_gpu_s += work_gpu_s

    def _tidy(self) -> None:
        """Remove what later commands and speeds have superseded, if that is most of the heap."""
        if len(self.heap) > MOST_STALE * len(self.runs) + 64:
            self.heap[:] = [due for due in self.heap if self._counts(due)]
            heapify(self.heap)

    def _counts(self, due: Due) -> bool:
        """Whether an entry of the heap still stands for something that will happen."""
        at, priority, _, run = due
        if priority == EXIT:
            return run.exits_at == at and run.id in self.runs
        if priority == START:
            return run.cause is not PREEMPTED and run.id in self.runs
        if priority == REPORT:
            return run.reports_at == at and run.cause is not PREEMPTED and run.id in self.runs
        return True

    def _exit(self, run: WorldRun, at: float) -> None:
        run.exits_at = at
        self._sequence += 1
        heappush(self.heap, (at, EXIT, self._sequence, run))

    def _report(self, run: WorldRun, works_from: float, done_s: float) -> None:
        """Let the training report its loss when it has done so much more work that a report is due."""
        run.reports_at = INFINITY
        due_s = next_report_s(done_s)
        if run.speed > 0 and due_s < run.ends_s:
            run.reports_at = works_from + (due_s - done_s) / run.speed
            self._push(run.reports_at, REPORT, run)

    def _reported(self, run: WorldRun, at: float) -> f.LossReported | None:
        if run.reports_at != at or run.cause is PREEMPTED or run.id not in self.runs:
            return None
        assert self.losses is not None
        done_s = run.done_s + (at - run.works_from) * run.speed
        epoch, loss = self.losses.report(run.job, done_s)
        self._report(run, at, done_s)
        return f.LossReported(at, run.id, done_s, loss, epoch)

    def _push(self, at: float, priority: int, run: WorldRun) -> None:
        self._sequence += 1
        heappush(self.heap, (at, priority, self._sequence, run))

    def _progress(self, run: WorldRun, at: float) -> None:
        """Add the work done until now."""
        if at > run.works_from:
            run.done_s += (at - run.works_from) * run.speed
            run.works_from = at
