"""`simulate`: replay a trace on a cluster under a policy, in one call."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import polars as pl

import tiresias.placers
import tiresias.policies  # noqa: F401  (both are imported because they register plug-ins)
from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.core.model import Cluster, Demand, Job, JobId, Priority
from tiresias.core.plugins import Placer, Policy, SpeedModel, parse_options, placers
from tiresias.core.state import State
from tiresias.sim import clusters, traces
from tiresias.sim.clusters import Machines
from tiresias.sim.cpus import cpu_nodes_of, require_cpus, with_cpu_speed, with_cpu_use
from tiresias.sim.engine import Engine, Journal
from tiresias.sim.errors import InputError
from tiresias.sim.fabric import OFF, Fabric, fabric_of, placer_options
from tiresias.sim.failures import Failures, failures_of, work_with_failures
from tiresias.sim.fairness import CONTENTION_COLUMNS, Contention
from tiresias.sim.frames import from_frame
from tiresias.sim.interference import Interference
from tiresias.sim.losses import Losses, losses_of
from tiresias.sim.models import Mix, with_models
from tiresias.sim.network import NetworkSpeeds, ProfileOf
from tiresias.sim.options import make_policy
from tiresias.sim.picture import Moment
from tiresias.sim.rejections import Rejections, demand_of, rejections, used_demand_columns
from tiresias.sim.result import Recorder, Result
from tiresias.sim.scaling import Scaling
from tiresias.sim.sharing import Sharing
from tiresias.sim.speeds import NodeSpeeds, differ
from tiresias.sim.tenants import Shares, check_named, shares_of
from tiresias.sim.tenants import check as check_shares
from tiresias.sim.trace import Trace, has_elastic_jobs
from tiresias.sim.world import World

__all__ = ["simulate"]

Progress = Callable[[int, int, float], None]
"""Called with (jobs done, jobs in all, virtual instant) a few times per second."""
PROGRESS_EVERY_S = 0.2
DEFAULT_PLACER = "packed"


def simulate(
    trace: Trace | str | Path | pl.DataFrame,
    cluster: Cluster | Machines | str,
    policy: str | Policy | type[Policy] = DEFAULT_POLICY,
    *,
    options: Mapping[str, Any] | None = None,
    placer: str | Placer | None = None,
    network: str | Fabric | None = None,
    models: Mix | None = None,
    preemption_cost_s: float = 60.0,
    cpu_speed: float | None = None,
    use_cpus: bool | None = None,
    shares: Mapping[str, float] | None = None,
    losses: str | None = None,
    failures: str | None = None,
    progress: Progress | None = None,
    journal: Path | None = None,
    speed_model: SpeedModel | None = None,
    profile_of: ProfileOf | None = None,
    moment: Moment | None = None,
    may_lack_tenants: bool = False,
) -> Result:
    """Replay a trace on a cluster under a policy.

    - `trace`: a path, a `builtin:` name, a Trace, or a data frame with at least submitted_at, gpus and
      duration_s.
    - `cluster`: a Cluster, Machines, or a description such as "64x8".
    - `placer`: by default the one that the policy names, otherwise the one that the cluster names.
    - `network`: by default that of the cluster. With a network, runs that are spread over nodes are slower,
      and jobs whose model is not known get one from `models`.
    - `cpu_speed`: the speed on CPUs, relative to GPUs, of jobs that do not state one. On nodes with CPUs
      only, policies that preempt let jobs run while the GPUs are full, unless `use_cpus` says otherwise.
    - `profile_of`: with a network, what each job trains, if that is not what the placer learns: jobs whose
      model the trace does not name then stay without a name.
    - `shares`: weights of tenants; by default those of the cluster, otherwise each tenant's part of the
      GPU-time that the trace asks for.
    - `losses`: how the losses of trainings fall, for policies that learn from them: smooth, realistic or
      none (sim/losses.py).
    - `failures`: which trials of jobs fail, such as `philly,no-retry,preflight=120` (sim/failures.py); by
      default none does.
    - `journal`: a file to which all facts are written as JSON lines.
    - `moment`: is filled in with the use of the slots at its instant.
    - `may_lack_tenants`: options may name tenants that have no job in the trace.

    A KeyboardInterrupt ends the simulation, and the result has what was measured until then.
    """
    machines = machines_of(cluster)
    require_cpus(cpu_speed, use_cpus, machines.cluster)
    replayed = with_cpu_speed(_trace(trace), cpu_speed)
    chosen_policy = with_cpu_use(_policy(policy, options), use_cpus)
    chosen_policy.suits(machines.cluster.gpus)
    if not may_lack_tenants:
        check_named(chosen_policy, replayed)
    fabric = chosen_fabric(network, machines)
    chosen_placer = _placer(placer, chosen_policy, machines, fabric)
    models_from = ""
    if (fabric is not None and profile_of is None) or models is not None:
        replayed, models_from = with_models(replayed, models or Mix())
    controller = Controller(State(machines.cluster), chosen_policy, chosen_placer)
    failing = failures_of(failures)
    world = _world(preemption_cost_s, machines.cluster, losses_for(chosen_policy, losses), failing)
    chosen_policy.expect(controller.state.memory, preemption_cost_s)
    recorder = Recorder(world.spent)
    shared = chosen_shares(shares, machines, replayed)
    rejected = rejections(replayed, machines.cluster)
    with _journal_to(journal) as write:
        engine = Engine(
            controller,
            world,
            jobs_of(replayed, rejected.rows),
            recorder.end,
            speed_model=_shared_speeds(
                _speeds(speed_model, fabric, machines.cluster, world, profile_of, replayed), controller
            ),
            journal=write,
            on_instant=recorder.watch(controller.state),
            moment=moment,
            first=_first_facts(chosen_policy, shared, replayed),
        )
        wall_s, interrupted = _run(engine, recorder, len(replayed) - len(rejected.rows), progress)
    result = _result(replayed, machines.cluster, engine, recorder, rejected, wall_s, interrupted=interrupted)
    result.shares = shared
    result.network, result.models = fabric.name if fabric is not None else OFF, models_from
    return result


def _journal_to(path: Path | None) -> AbstractContextManager[Journal | None]:
    if path is None:
        return nullcontext()
    from tiresias.sim.journal import journal_to  # not before: with the store it delays each worker

    return journal_to(path)


def machines_of(cluster: Cluster | Machines | str) -> Machines:
    if isinstance(cluster, Cluster):
        return Machines(cluster)
    return cluster if isinstance(cluster, Machines) else clusters.read(cluster)


def chosen_fabric(network: str | Fabric | None, machines: Machines) -> Fabric | None:
    """The network that the caller names, otherwise that of the cluster."""
    if network is None:
        return machines.fabric
    return fabric_of(network) if isinstance(network, str) else network


def chosen_shares(weights: Mapping[str, float] | None, machines: Machines, trace: Trace) -> Shares:
    """The shares that the caller gives, otherwise those of the cluster, otherwise those of the trace."""
    if weights is not None:
        check_shares(weights, "shares")
        return shares_of(trace, machines.cluster.gpus, weights, "given")
    return shares_of(trace, machines.cluster.gpus, machines.shares, "cluster")


def placer_name(placer: str | None, policy: type[Policy], machines: Machines) -> str:
    """The placer that the caller names, otherwise the policy, otherwise the cluster."""
    return placer or getattr(policy, "placer", "") or machines.placer or DEFAULT_PLACER


def _placer(placer: str | Placer | None, policy: Policy, machines: Machines, fabric: Fabric | None) -> Placer:
    """The placer, with the network as an option if it has that option."""
    if isinstance(placer, Placer):
        return placer
    name = placer_name(placer, type(policy), machines)
    known = {each.name for each in fields(placers.get(name).Options)}
    given = {key: value for key, value in placer_options(fabric).items() if key in known}
    if placer is None and name == getattr(policy, "placer", ""):
        given.update(getattr(policy, "placer_options", {}))
    made: Placer = placers.make(name, given)
    return made


def losses_for(policy: Policy, kind: str | None) -> Losses | None:
    """What trainings report about their losses, if the policy wants to know."""
    found = losses_of(kind)
    return found if f.LossReported in policy.learns else None


def _world(
    preemption_cost_s: float, cluster: Cluster, losses: Losses | None, failures: Failures | None
) -> World:
    if not 0 <= preemption_cost_s < float("inf"):
        raise InputError(f"preemption cost {preemption_cost_s!r} is not a number of seconds, 0 or more")
    return World(preemption_cost_s, cpu_nodes_of(cluster), losses, failures)


def _speeds(
    given: SpeedModel | None,
    fabric: Fabric | None,
    cluster: Cluster,
    world: World,
    profile_of: ProfileOf | None,
    trace: Trace,
) -> SpeedModel | None:
    """What gives runs their speed: shared links, gangs that share a node, their size, and that of the
    nodes."""
    found, links = given, None
    if fabric is not None and given is None:
        found = links = NetworkSpeeds(fabric, cluster, world.runs, profile_of)
        if fabric.interference:
            found = Interference(fabric.interference, cluster, world.runs, found)
    if given is None and has_elastic_jobs(trace):
        network, trained = (None, None) if links is None else (links.network, links.profile_of)
        found = Scaling(world.runs, found, network, trained)
    return NodeSpeeds(cluster, world.runs, found) if differ(cluster) else found


def _shared_speeds(found: SpeedModel | None, controller: Controller) -> SpeedModel | None:
    """The speed of runs that share slots, if the policy lets them."""
    return Sharing(controller.state, found) if controller.state.ledger.layers > 1 else found


def _trace(trace: Trace | str | Path | pl.DataFrame) -> Trace:
    if isinstance(trace, pl.DataFrame):
        return from_frame(trace)
    return trace if isinstance(trace, Trace) else traces.load(trace)


def _result(
    trace: Trace,
    cluster: Cluster,
    engine: Engine,
    recorder: Recorder,
    rejected: Rejections,
    wall_s: float,
    *,
    interrupted: bool,
) -> Result:
    controller, world = engine.controller, engine.world
    policy, placer = controller.policy, controller.placer
    jobs = recorder.jobs(trace.jobs)
    unfinished = len(trace) - len(rejected.rows) - jobs.height - recorder.failed
    notes = [f"{policy.name}: {policy.problem}"] if policy.problem else []
    if unfinished and not interrupted:
        notes.append(f"{unfinished} jobs did not finish: {_blame(controller)}")
    if controller.allotting.refused_wishes:
        first, times = controller.allotting.first_refused_wish, controller.allotting.refused_wishes
        what = f"{times} wishes of {policy.name} were refused, and the wish before stood"
        notes.append(f"{what}; the first: {first}")
    return Result(
        policy=policy.name,
        placer=placer.name,
        options=asdict(policy.options),
        cluster=cluster,
        preemption_cost_s=world.preemption_cost_s,
        trace_name=trace.name,
        on_cpus=world.on_cpus if controller.state.cpus is not None else None,
        jobs=jobs,
        timeline=recorder.timeline(),
        rejected_jobs=len(rejected.rows),
        rejections=rejected.notes,
        events=engine.events,
        wall_s=wall_s,
        lost_gpu_s=world.lost_gpu_s,
        progress_gpu_s=progress_gpu_s(controller, jobs) - world.on_cpus.work_gpu_s,
        migrations=controller.migrations,
        resizes=recorder.resizes if has_elastic_jobs(trace) else None,
        interrupted=interrupted,
        unfinished_jobs=unfinished,
        notes=notes,
        contention=_contention(trace, cluster, rejected, world.failures),
        failures=None if world.failures is None else world.failures.tally,
        simulated_s=engine.at - float(trace.jobs["submitted_at"][0]) if engine.events else 0.0,
    )


def _blame(controller: Controller) -> str:
    """Who kept jobs waiting when nothing was left to happen."""
    if controller.policy.allots:
        return f"the allocator {controller.policy.name} gave them nothing"
    return f"the placer {controller.placer.name} refused to place them"


def _first_facts(policy: Policy, shares: Shares, trace: Trace) -> list[f.Fact]:
    """What an allocator must know before the first job is submitted."""
    if not policy.allots or not len(trace):
        return []
    at = float(trace.jobs["submitted_at"][0])
    return [f.SharesSet(at, {tenant: float(gpus) for tenant, gpus in shares.gpus.items()})]


def _contention(
    trace: Trace, cluster: Cluster, rejected: Rejections, failures: Failures | None
) -> Contention:
    """What the jobs compete with, their failed trials included; rules that spare these do not change it."""
    jobs = trace.jobs.select("id", *CONTENTION_COLUMNS)
    if failures is not None:
        durations = ((JobId(row), lasts_s) for row, lasts_s in enumerate(jobs["duration_s"].to_list()))
        work = list(work_with_failures(failures.rules.seed, durations))
        jobs = jobs.with_columns(duration_s=pl.Series(work, dtype=pl.Float64))
    if rejected.rows:
        jobs = jobs.with_row_index("row").filter(~pl.col("row").is_in(list(rejected.rows))).drop("row")
    return Contention(jobs.filter(pl.col("gpus") > 0), cluster.gpus)


def _policy(policy: str | Policy | type[Policy], options: Mapping[str, Any] | None) -> Policy:
    if isinstance(policy, str):
        return make_policy(policy, options)
    if isinstance(policy, type):
        return policy(parse_options(policy, options or {}))
    if options:
        raise InputError(f"{policy.name} has its options already; give options with a name or a class only")
    return policy


def _run(engine: Engine, recorder: Recorder, total: int, progress: Progress | None) -> tuple[float, bool]:
    """Run to the end or to a KeyboardInterrupt; return the seconds it took and whether it was interrupted."""
    shown = start = time.perf_counter()

    def watch(at: float) -> None:
        nonlocal shown
        now = time.perf_counter()
        if progress is not None and now - shown >= PROGRESS_EVERY_S:
            shown = now
            progress(len(recorder.rows) + recorder.failed, total, at)

    interrupted = False
    collecting = gc.isenabled()
    gc.disable()  # nothing here is cyclic garbage, and the search for it costs a fifth of the time
    try:
        engine.run(watch)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if collecting:
            gc.enable()
    return time.perf_counter() - start, interrupted


def progress_gpu_s(controller: Controller, finished: pl.DataFrame) -> float:
    """GPU-seconds of work done by finished and by active jobs, including work on CPUs."""
    state = controller.state
    done = (finished["duration_s"] * finished["gpus"]).sum()
    return float(done) + sum(job.progress_at(state.at) * job.gpus for job in state.jobs.values())


def jobs_of(trace: Trace, rejected: frozenset[int] = frozenset()) -> Iterator[Job]:
    """The jobs of the trace in order of submission, made as they are needed; ids are indices in the trace."""
    columns = ("submitted_at", "duration_s", "user", "tenant", "name", "group", "priority", "model")
    yes_or_no = [pl.col(name).fill_null(True) for name in ("preemptible", "resumable")]
    preemption = pl.col("preemption_cost_s"), *yes_or_no
    demand_columns = used_demand_columns(trace)
    rows = trace.jobs.select(*columns, *preemption, "gpus", *demand_columns).iter_rows()
    priorities = {str(p): p for p in Priority}
    demands: dict[tuple[Any, ...], Demand] = {}
    for id, row in enumerate(rows):
        if rejected and id in rejected:
            continue
        at, duration_s, user, tenant, name, group, priority, model, cost_s, is_preemptible, saves = row[:11]
        demand = demands.get(asked := row[11:])
        if demand is None:
            demand = demand_of(asked[0], **dict(zip(demand_columns, asked[1:], strict=True)))
            demands[asked] = demand
        yield Job(
            JobId(id),
            demand,
            at,
            user,
            tenant,
            name,
            group,
            priorities[priority],
            is_preemptible,
            model,
            duration_s,
            cost_s,
            saves,
        )
