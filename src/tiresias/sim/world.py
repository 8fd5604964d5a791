"""The simulated machines: the ground truth of what runs, how much work is done and what preemptions cost.

Rules: a preemption costs `cost_s` seconds without progress: one sixth of it for saving, on the old slots, and
the rest for loading, on the new ones. A job that does not save begins anew instead: it loses all its work,
and loads and saves nothing. The World answers commands with facts, at the instants on its heap.
"""

from __future__ import annotations

from heapq import heappush

from tiresias.core import facts as f
from tiresias.core.commands import StartRun, StopRun
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, Job, JobId, RunId

SAVING = 1 / 6  # share of a preemption's cost

FINISHED, PREEMPTED = ExitCause.FINISHED, ExitCause.PREEMPTED
EXIT, LOSS, START = 0, 1, 2  # priorities at one instant: exits go first, then what was lost with them

Due = tuple[float, int, int, "WorldRun"]


class WorldRun:
    """A run on the simulated machines. From `works_from` on it does `speed` seconds of work per second."""

    __slots__ = (
        "began_s",
        "cause",
        "done_s",
        "exits_at",
        "gpus",
        "id",
        "job",
        "lost_s",
        "nodes",
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
        self.speed = 1.0
        self.exits_at = INFINITY
        self.cause = FINISHED
        self.lost_s = works_from - started_at  # seconds without progress


class Spent:
    """What the exited runs of a job took."""

    __slots__ = ("first_started_at", "gpus", "lost_s", "moved_resumes", "node_s", "nodes", "resizes")

    def __init__(self, first_started_at: float) -> None:
        self.first_started_at = first_started_at
        self.lost_s = 0.0  # seconds without progress
        self.node_s = 0.0  # nodes x seconds
        self.nodes: tuple[int, ...] = ()  # of the last run on GPUs
        self.moved_resumes = 0  # how many runs were on other nodes than the run before
        self.gpus = 0  # of the last run on GPUs
        self.resizes = 0  # how many runs had another number of GPUs than the run before


class OnCPUs:
    """How much ran on CPUs."""

    __slots__ = ("jobs", "runs", "work_gpu_s")

    def __init__(self) -> None:
        self.runs = 0
        self.jobs = 0  # jobs whose last run was there
        self.work_gpu_s = 0.0  # work of exited runs, in GPUs x seconds on GPUs


class World:
    """The runs that commands have started; `heap` has what will happen, by (instant, priority, sequence)."""

    def __init__(self, preemption_cost_s: float, cpu_nodes: frozenset[int] = frozenset()):
        self.preemption_cost_s = preemption_cost_s
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
        if command.resumes:
            load_s = self.cost_s(job) * (1 - SAVING)
            done_s = self.saved_s.pop(job.id)
        works_from = at + load_s
        nodes = tuple([node for node, _ in command.allocation])
        self.runs[run_id] = run = WorldRun(run_id, job, nodes, at, works_from, done_s)
        if self._cpu_nodes and nodes and nodes[0] in self._cpu_nodes:
            run.gpus = 0
        elif job.demand.is_elastic:
            run.gpus = sum([slots.bit_count() for _, slots in command.allocation])
        assert job.duration_s is not None
        self._exit(run, works_from + (job.duration_s - done_s))
        if load_s:
            self._push(works_from, START, run)
            return None
        return f.RunStarted(at, run_id)

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

    def set_speed(self, run_id: RunId, speed: float, at: float) -> f.RunProgressed | None:
        """Change the speed of a run from now on, and with it the instant of its exit."""
        run = self.runs[run_id]
        if run.cause is PREEMPTED or run.speed == speed:
            return None
        self._progress(run, at)
        run.speed = speed
        assert run.job.duration_s is not None
        if speed > 0:
            self._exit(run, run.works_from + (run.job.duration_s - run.done_s) / speed)
        else:  # it is paused
            run.exits_at = INFINITY
        if run.works_from > at:
            return None
        return f.RunProgressed(at, run_id, run.done_s, speed)

    def happen(self, due: Due) -> f.Fact | None:
        """The fact of a due entry of the heap; None if a later command or speed has superseded the entry."""
        at, priority, _, run = due
        if priority == START:
            if run.cause is PREEMPTED or run.id not in self.runs:
                return None
            return f.RunStarted(at, run.id, run.speed)
        if priority == LOSS:
            return f.WorkLost(at, run.job.id, run.lost_s, run.gpus)
        if run.exits_at != at or run.id not in self.runs:
            return None
        del self.runs[run.id]
        job = run.job
        self.lost_gpu_s += run.lost_s * run.gpus
        spent = self.spent.get(job.id)
        if spent is None:
            spent = self.spent[job.id] = Spent(run.started_at)
        if not run.gpus:
            if run.nodes:
                self._leave_cpus(run)
        else:
            if spent.nodes != run.nodes:
                spent.moved_resumes += bool(spent.nodes)
                spent.nodes = run.nodes
            if spent.gpus != run.gpus:
                spent.resizes += bool(spent.gpus)
                spent.gpus = run.gpus
        spent.lost_s += run.lost_s
        spent.node_s += (at - run.started_at) * len(run.nodes)
        if run.cause is FINISHED:
            assert job.duration_s is not None
            del self.jobs[job.id]
            return f.RunExited(at, run.id, FINISHED, job.duration_s)
        self.saved_s[job.id] = run.done_s
        if not job.saves and run.lost_s:
            self._push(at, LOSS, run)
        return f.RunExited(at, run.id, PREEMPTED, run.done_s)

    def _leave_cpus(self, run: WorldRun) -> None:
        on_cpus, job = self.on_cpus, run.job
        on_cpus.runs += 1
        done_s = run.done_s
        if run.cause is FINISHED:
            assert job.duration_s is not None
            on_cpus.jobs += 1
            done_s = job.duration_s
        on_cpus.work_gpu_s += (done_s - run.began_s) * job.demand.gpus

    def _exit(self, run: WorldRun, at: float) -> None:
        run.exits_at = at
        self._push(at, EXIT, run)

    def _push(self, at: float, priority: int, run: WorldRun) -> None:
        self._sequence += 1
        heappush(self.heap, (at, priority, self._sequence, run))

    def _progress(self, run: WorldRun, at: float) -> None:
        """Add the work done until now."""
        if at > run.works_from:
            run.done_s += (at - run.works_from) * run.speed
            run.works_from = at
