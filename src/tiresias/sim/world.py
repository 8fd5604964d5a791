"""The simulated machines: the ground truth of what runs, how far it got, and what a preemption costs.

One preemption costs `cost_s`: a sixth while saving (on the old slots), the rest while loading (on the new
ones). Neither makes progress. The World answers commands with facts, at the instants it puts on its heap.
"""

from __future__ import annotations

from heapq import heappush

from tiresias.core import facts as f
from tiresias.core.commands import StartRun, StopRun
from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, Job, JobId, RunId

SAVING = 1 / 6  # share of a preemption's cost

FINISHED, PREEMPTED = ExitCause.FINISHED, ExitCause.PREEMPTED
EXIT, START = 0, 1  # priorities at one instant: who leaves goes first

Due = tuple[float, int, int, "WorldRun"]


class WorldRun:
    """A run as the machines know it. It works from `works_from` on, `speed` seconds of work a second."""

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
        self.gpus = job.demand.gpus  # that it holds: none on CPUs
        self.nodes = nodes  # positions in the cluster
        self.started_at = started_at
        self.works_from = works_from
        self.began_s = self.done_s = done_s  # work of the whole job done at first, and at works_from
        self.speed = 1.0
        self.exits_at = INFINITY
        self.cause = FINISHED
        self.lost_s = works_from - started_at  # seconds without progress


class Spent:
    """What the runs of a job that have exited took."""

    __slots__ = ("first_started_at", "lost_s", "moved_resumes", "node_s", "nodes")

    def __init__(self, first_started_at: float) -> None:
        self.first_started_at = first_started_at
        self.lost_s = 0.0  # seconds without progress
        self.node_s = 0.0  # nodes x seconds
        self.nodes: tuple[int, ...] = ()  # of the last run on GPUs
        self.moved_resumes = 0  # how often a run was on GPUs of other nodes than the one before


class OnCPUs:
    """What runs on CPUs were and did."""

    __slots__ = ("jobs", "runs", "work_gpu_s")

    def __init__(self) -> None:
        self.runs = 0
        self.jobs = 0  # that ended there
        self.work_gpu_s = 0.0  # work of theirs that has exited, in seconds on GPUs x GPUs


class World:
    """Runs started by commands; `heap` holds what will happen, by (instant, priority, sequence)."""

    def __init__(self, preemption_cost_s: float, cpu_nodes: frozenset[int] = frozenset()):
        self.preemption_cost_s = preemption_cost_s
        self.on_cpus = OnCPUs()
        self._cpu_nodes = cpu_nodes  # positions of nodes without GPUs
        self.heap: list[Due] = []
        self.jobs: dict[JobId, Job] = {}
        self.saved_s: dict[JobId, float] = {}  # work saved by jobs that were stopped
        self.runs: dict[RunId, WorldRun] = {}
        self.spent: dict[JobId, Spent] = {}  # of jobs that have run; whoever records their end takes it
        self.lost_gpu_s = 0.0
        self._sequence = 0

    def cost_s(self, job: Job) -> float:
        """0 switches all cost off; otherwise what the trace says of the job wins."""
        if not self.preemption_cost_s or job.preemption_cost_s is None:
            return self.preemption_cost_s
        return job.preemption_cost_s

    def start(self, command: StartRun, at: float) -> f.RunStarted | None:
        """Start a run; the fact that it works, unless it first has to load."""
        job, run_id = self.jobs[command.job_id], command.run_id
        load_s = done_s = 0.0
        if command.resumes:
            load_s = self.cost_s(job) * (1 - SAVING)
            done_s = self.saved_s.pop(job.id)
        works_from = at + load_s
        nodes = tuple([node for node, _ in command.allocation])
        self.runs[run_id] = run = WorldRun(run_id, job, nodes, at, works_from, done_s)
        if self._cpu_nodes and nodes[0] in self._cpu_nodes:
            run.gpus = 0
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
        run.lost_s += save_s
        run.speed = 0.0
        run.cause = PREEMPTED
        self._exit(run, at + save_s)

    def set_speed(self, run_id: RunId, speed: float, at: float) -> f.RunProgressed | None:
        """A run goes at another speed from now on: its end is timed anew."""
        run = self.runs[run_id]
        if run.cause is PREEMPTED or run.speed == speed:
            return None
        assert speed > 0, ("a run that never ends", run_id, speed)
        self._progress(run, at)
        run.speed = speed
        assert run.job.duration_s is not None
        self._exit(run, run.works_from + (run.job.duration_s - run.done_s) / speed)
        if run.works_from > at:
            return None
        return f.RunProgressed(at, run_id, run.done_s, speed)

    def happen(self, due: Due) -> f.Fact | None:
        """What a due entry of the heap turns out to be; None if it was overtaken."""
        at, priority, _, run = due
        if priority == START:
            if run.cause is PREEMPTED or run.id not in self.runs:
                return None
            return f.RunStarted(at, run.id, run.speed)
        if run.exits_at != at or run.id not in self.runs:
            return None
        del self.runs[run.id]
        job = run.job
        self.lost_gpu_s += run.lost_s * run.gpus
        spent = self.spent.get(job.id)
        if spent is None:
            spent = self.spent[job.id] = Spent(run.started_at)
        if not run.gpus:
            self._leave_cpus(run)
        elif spent.nodes != run.nodes:
            spent.moved_resumes += bool(spent.nodes)
            spent.nodes = run.nodes
        spent.lost_s += run.lost_s
        spent.node_s += (at - run.started_at) * len(run.nodes)
        if run.cause is FINISHED:
            assert job.duration_s is not None
            del self.jobs[job.id]
            return f.RunExited(at, run.id, FINISHED, job.duration_s)
        self.saved_s[job.id] = run.done_s
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
        """Account the work done until now."""
        if at > run.works_from:
            run.done_s += (at - run.works_from) * run.speed
            run.works_from = at
