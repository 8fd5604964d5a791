"""Many simulations at once: policies compared on one trace, and grids for capacity planning.

Rules: a Cell and the content of its trace determine the figures of a simulation. Cells run in worker
processes of this machine, or elsewhere if that is given; results are returned in the order of the cells,
whichever finished first. However `run_cells` is left, all its workers are ended, and a worker whose parent
has died ends by itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import platform
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import polars as pl

import tiresias
from tiresias.core.model import Cluster
from tiresias.core.plugin_failures import failure_of
from tiresias.core.plugins import OptionError, policies
from tiresias.sim import Result, notebook, simulate, traces
from tiresias.sim.clusters import Machines
from tiresias.sim.cpus import require_cpus
from tiresias.sim.errors import InputError
from tiresias.sim.failures import failures_of
from tiresias.sim.losses import losses_of
from tiresias.sim.models import Mix
from tiresias.sim.options import make_policy, read_options
from tiresias.sim.plugins import load_plugins, plugin_digests, plugin_names, use_plugins
from tiresias.sim.report import FAILURE_KEYS, SUMMARY_KEYS, SweepFile, SweepRow
from tiresias.sim.report import Value as Figure
from tiresias.sim.simulate import chosen_fabric, machines_of, placer_name
from tiresias.sim.trace import SCHEMA, Trace

Value = str | int | float
Replayed = Trace | pl.DataFrame
Progress = Callable[[int, int, int, float], None]
"""Called with (number of the cell, jobs done, jobs in all, virtual instant) a few times per second."""

T = TypeVar("T")


class Elsewhere(Protocol):
    """Calls functions on other machines. A call whose worker is lost is made again on another one."""

    def run(
        self,
        work: Callable[..., object],
        calls: Sequence[tuple[tuple[object, ...], object]],
        shared: Mapping[Any, object],
        *,
        at_once: int | None = None,
    ) -> Generator[tuple[int, object], None, None]:
        """Yield (number of the call, result) as they end; a ChildProcessError if it was lost for good.

        A call is its arguments and the key of the value in `shared` that is the last argument.
        """
        ...


class WorkerDied(ChildProcessError):
    """A worker process ended without a result."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Everything that determines one simulation, except the content of the trace."""

    policy: str
    cluster: Cluster | Machines | str
    options: tuple[tuple[str, Value], ...] = ()
    seed: int | None = None
    placer: str | None = None
    preemption_cost_s: float = 60.0
    network: str | None = None
    models: Mix | None = None
    cpu_speed: float | None = None
    use_cpus: bool | None = None
    shares: tuple[tuple[str, float], ...] | None = None
    losses: str | None = None
    failures: str | None = None

    def __str__(self) -> str:
        machines = None if isinstance(self.cluster, str) else machines_of(self.cluster)
        where = self.cluster if machines is None else f"{machines.cluster.gpus} GPUs"
        settings = "".join(f" {key}={value}" for key, value in self.options)
        return f"{self.policy}{settings} on {where}" + ("" if self.seed is None else f", seed {self.seed}")


@dataclass(slots=True)
class Comparison:
    """The results of the policies and placers that finished, in the order of the arguments."""

    results: list[Result] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)  # labels of those that an interrupt left out
    failed: dict[str, str] = field(default_factory=dict)  # labels of those that raised, and what

    def plot(self) -> Any:
        """The distributions of JCT as a Matplotlib figure, which a notebook shows."""
        from tiresias.sim.plots import jct_cdf

        return jct_cdf(self.results)[0]

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        return notebook.table(self.results, self.failed)


@dataclass(slots=True)
class Sweep:
    """The rows of a grid's finished cells, in the grid's order."""

    rows: list[SweepRow]
    reused: int  # how many were in the file already
    unfinished: int  # how many an interrupt left out
    failed: dict[str, str] = field(default_factory=dict)  # cells whose plug-in raised, and what


def compare(
    trace: Replayed | str | Path,
    cluster: Cluster | Machines | str,
    names: Sequence[str],
    *,
    options: Mapping[str, Mapping[str, Value]] | None = None,
    placers: Sequence[str | None] = (None,),
    network: str | None = None,
    models: Mix | None = None,
    preemption_cost_s: float = 60.0,
    cpu_speed: float | None = None,
    use_cpus: bool | None = None,
    shares: Mapping[str, float] | None = None,
    losses: str | None = None,
    failures: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    elsewhere: Elsewhere | None = None,
) -> Comparison:
    """Replay one trace under each of the policies, in parallel; `options` maps a policy to its options.

    With several placers, each policy is replayed with each placer. A KeyboardInterrupt ends the workers, and
    the comparison holds what has finished.
    """
    replayed = traces.load(trace) if isinstance(trace, str | Path) else trace
    given = options or {}
    weights = None if shares is None else tuple(shares.items())
    common = (preemption_cost_s, network, models, cpu_speed, use_cpus, weights, losses, failures)
    cells = [
        Cell(name, cluster, tuple(given.get(name, {}).items()), None, each, *common)
        for name in names
        for each in placers
    ]
    for cell in cells:
        check(cell)
    finished: dict[int, Result] = {}
    raised: dict[int, str] = {}
    run = run_cells(
        cells,
        {None: replayed},
        whole,
        workers=workers,
        progress=progress,
        on_raised=raised.__setitem__,
        elsewhere=elsewhere,
    )
    try:
        with closing(run) as done:
            for number, result in done:
                finished[number] = result
    except KeyboardInterrupt:
        pass
    return Comparison(
        [finished[number] for number in sorted(finished)],
        [
            label(cell.policy, cell.placer, len(placers) > 1)
            for number, cell in enumerate(cells)
            if number not in finished and number not in raised
        ],
        {
            label(cells[number].policy, cells[number].placer, len(placers) > 1): raised[number]
            for number in sorted(raised)
        },
    )


def label(policy: str, placer: str | None, names_placer: bool) -> str:
    """The name of a simulation in a comparison; it includes the placer where several are compared."""
    return f"{policy}, {placer}" if names_placer else policy


def grid(
    sizes: Sequence[str],
    names: Sequence[str],
    *,
    options: Mapping[str, Mapping[str, Sequence[Value]]] | None = None,
    seeds: Sequence[int | None] = (None,),
    placer: str | None = None,
    network: str | None = None,
    models: Mix | None = None,
    preemption_cost_s: float = 60.0,
    cpu_speed: float | None = None,
    use_cpus: bool | None = None,
    shares: Mapping[str, float] | None = None,
    losses: str | None = None,
    failures: str | None = None,
) -> list[Cell]:
    """Every combination of seed, cluster, policy and the values of the policy's options."""
    weights = None if shares is None else tuple(shares.items())
    common = (preemption_cost_s, network, models, cpu_speed, use_cpus, weights, losses, failures)
    cells = []
    for seed, size, name in itertools.product(seeds, sizes, names):
        spans = (options or {}).get(name, {})
        for values in itertools.product(*spans.values()):
            settings = tuple(zip(spans, values, strict=True))
            cells.append(Cell(name, size, settings, seed, placer, *common))
    return cells


def sweep(
    cells: Sequence[Cell],
    replayed: Mapping[int | None, Trace],
    path: Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    on_row: Callable[[SweepRow], None] | None = None,
    elsewhere: Elsewhere | None = None,
) -> Sweep:
    """Run the cells that are not yet in the file `path`, each on the trace of its seed, and append the rows.

    `on_row` is called for every row: first for those in the file already, then as cells finish. After a
    KeyboardInterrupt the sweep holds the rows that have finished.
    """
    digests = {seed: trace_digest(trace) for seed, trace in replayed.items()}
    keyed = {key(cell, digests[cell.seed]): cell for cell in cells}
    rows: dict[str, SweepRow] = {}

    def finished(name: str, measured: dict[str, Figure]) -> SweepRow:
        cell = keyed[name]
        rows[name] = _row(name, cell, replayed[cell.seed].name, measured)
        if on_row is not None:
            on_row(rows[name])
        return rows[name]

    with SweepFile(path) as file:
        for name in keyed:
            if name in file.rows:  # written as this grid writes it: options can be spelt in several ways
                finished(name, file.rows[name].figures)
        reused = len(rows)
        todo = [name for name in keyed if name not in rows]
        left = [keyed[name] for name in todo]
        raised: dict[int, str] = {}
        cells_run = run_cells(
            left,
            replayed,
            figures,
            workers=workers,
            progress=progress,
            on_raised=raised.__setitem__,
            elsewhere=elsewhere,
        )
        try:
            with closing(cells_run) as run:
                for number, measured in run:
                    file.append(finished(todo[number], measured))
        except KeyboardInterrupt:
            pass
    ordered = [rows[name] for name in keyed if name in rows]
    failed = {str(left[number]): raised[number] for number in sorted(raised)}
    return Sweep(ordered, reused, len(keyed) - len(ordered) - len(raised), failed)


def _row(name: str, cell: Cell, trace: str, measured: dict[str, Figure]) -> SweepRow:
    settings = " ".join(f"{option}={value}" for option, value in cell.options)
    return SweepRow(
        key=name,
        version=tiresias.__version__,
        trace=trace,
        seed=cell.seed,
        cluster=str(cell.cluster),
        policy=cell.policy,
        options=settings,
        preemption_cost_s=cell.preemption_cost_s,
        figures={column: value for column, value in measured.items() if column != "policy"},
    )


def check(cell: Cell) -> None:
    """Raise if the cell's policy, options or cluster cannot be used, before any time is spent."""
    make_policy(cell.policy, dict(cell.options))
    machines = machines_of(cell.cluster)
    chosen_fabric(cell.network, machines)
    losses_of(cell.losses)
    failures_of(cell.failures)
    try:
        require_cpus(cell.cpu_speed, cell.use_cpus, machines.cluster)
    except InputError as error:
        which = f"{cell.cluster}: " if isinstance(cell.cluster, str) else ""  # there may be several
        raise InputError(f"{which}{error}") from None


def key(cell: Cell, digest: str) -> str:
    """A lasting name of the cell: a digest of everything on which its figures depend."""
    machines = machines_of(cell.cluster)
    fabric = chosen_fabric(cell.network, machines)
    mix = cell.models or (Mix() if fabric is not None else None)
    settings = read_options(cell.policy, dict(cell.options))
    parts: dict[str, object] = {
        "version": tiresias.__version__,
        "trace": digest,
        "policy": cell.policy,
        "options": {each.name: _spelt(getattr(settings, each.name)) for each in dataclasses.fields(settings)},
        "nodes": [dataclasses.astuple(node) for node in machines.cluster.nodes],
        "network": None if fabric is None else [fabric.links, fabric.uplink_Bps, fabric.interference],
        "models": None if mix is None else [mix.seed, dict(mix.weights)],
        "placer": placer_name(cell.placer, policies.get(cell.policy), machines),
        "plugins": plugin_digests(),
        "preemption_cost_s": float(cell.preemption_cost_s),
    }
    if (cell.cpu_speed, cell.use_cpus) != (None, None):  # so that cells without them keep their keys
        parts["cpus"] = [cell.cpu_speed, cell.use_cpus]
    shares = machines.shares if cell.shares is None else dict(cell.shares)
    if shares is not None:
        parts["shares"] = sorted(shares.items())
    if cell.losses is not None:
        parts["losses"] = cell.losses
    if (failing := failures_of(cell.failures)) is not None:
        parts["failures"] = dataclasses.asdict(failing.rules)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _spelt(value: object) -> str:
    """A value as text that is the same in every process."""
    has_own = type(value).__repr__ is not object.__repr__  # the default one contains an address
    return repr(value) if has_own else repr(value.__reduce_ex__(2)[1:])


def trace_digest(trace: Trace) -> str:
    """A digest of the jobs: two files with the same jobs have the same digest."""
    return hashlib.sha256(trace.jobs.select(list(SCHEMA)).write_csv().encode()).hexdigest()


def whole(result: Result) -> Result:
    """What `compare` keeps of a result."""
    return result


def figures(result: Result) -> dict[str, Figure]:
    """What a sweep keeps of a result."""
    summary = result.summary()
    return {name: summary.get(name) for name in (*SUMMARY_KEYS, *FAILURE_KEYS)}


def run_cells(
    cells: Sequence[Cell],
    replayed: Mapping[int | None, Replayed],
    keep: Callable[[Result], T],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    on_raised: Callable[[int, str], None] | None = None,
    elsewhere: Elsewhere | None = None,
) -> Generator[tuple[int, T], None, None]:
    """Simulate the cells in up to `workers` processes; yield (number, what `keep` returns) as they finish.

    `on_raised` is called with the number of a cell whose plug-in raised, and the message; without it, such an
    exception ends everything.
    A policy that was defined in a notebook or at a prompt is simulated in this process, after the others:
    worker processes cannot import it.
    """
    here = [number for number, cell in enumerate(cells) if _is_only_here(cell.policy)]
    others = [number for number in range(len(cells)) if number not in here]
    if elsewhere is None:
        answers = _by_workers(others, cells, replayed, keep, workers)
    else:
        answers = _by_others(others, cells, replayed, keep, workers, elsewhere)
    with closing(answers), closing(_by_this_process(here, cells, replayed, keep, progress)) as own:
        for number, (kind, *what) in itertools.chain(answers, own):
            if kind == "progress":
                if progress is not None:
                    progress(number, *what)
            elif kind == "done":
                yield number, what[0]
            elif kind == "raised" and on_raised is not None:
                on_raised(number, str(what[0]))
            else:
                raise InputError(str(what[0]))


Answers = Generator[tuple[int, tuple[Any, ...]], None, None]
"""Numbers of cells with what was said of them: ("progress", …), or an answer (see `_answer`)."""


def _by_workers(
    numbers: Sequence[int],
    cells: Sequence[Cell],
    replayed: Mapping[int | None, Replayed],
    keep: Callable[[Result], object],
    workers: int | None,
) -> Answers:
    """What worker processes of this machine say of the cells of these numbers."""
    waiting = deque(numbers)
    crew: list[_Worker] = []
    try:
        for _ in range(min(workers or usable_cores(), len(waiting))):
            crew.append(_started(keep))
        for worker in crew:
            worker.take(waiting.popleft(), cells, replayed)
        while busy := [worker for worker in crew if worker.number is not None]:
            for worker in _ready(busy):
                number, said = worker.receive(cells)
                if said[0] != "progress":
                    worker.number = None
                    if waiting and said[0] != "failed":
                        worker.take(waiting.popleft(), cells, replayed)
                yield number, said
    finally:
        _end(crew)


def _by_others(
    numbers: Sequence[int],
    cells: Sequence[Cell],
    replayed: Mapping[int | None, Replayed],
    keep: Callable[[Result], object],
    workers: int | None,
    elsewhere: Elsewhere,
) -> Answers:
    """What other machines say of them: of the progress of a cell nothing before it has ended."""
    work = partial(_answer_elsewhere, keep, plugin_names(), plugin_digests())
    calls = [((cells[number],), cells[number].seed) for number in numbers]
    used = {cells[number].seed for number in numbers}
    shared = {seed: trace for seed, trace in replayed.items() if seed in used}
    if not calls:
        return
    with closing(elsewhere.run(work, calls, shared, at_once=workers)) as run:
        for index, said in run:
            number = numbers[index]
            if isinstance(said, ChildProcessError):
                hint = "if memory ran out, run fewer at once (--workers N)"
                raise WorkerDied(f"{cells[number]} was not simulated: {said}; {hint}")
            answer = cast(tuple[str, object], said)
            if answer[0] == "done":
                yield number, ("progress", *_all_of(replayed[cells[number].seed]))
            yield number, answer


def _all_of(trace: Replayed) -> tuple[int, int, float]:
    """The progress of a simulation that has ended elsewhere: all jobs, at the last submission."""
    jobs = trace.jobs if isinstance(trace, Trace) else trace
    last = jobs["submitted_at"].max() if "submitted_at" in jobs.columns else None
    return jobs.height, jobs.height, float(last) if isinstance(last, int | float) else 0.0


def _by_this_process(
    numbers: Sequence[int],
    cells: Sequence[Cell],
    replayed: Mapping[int | None, Replayed],
    keep: Callable[[Result], object],
    progress: Progress | None,
) -> Answers:
    for number in numbers:
        tell = None if progress is None else partial(progress, number)
        yield number, _answer(cells[number], replayed[cells[number].seed], keep, tell)


def _is_only_here(policy: str) -> bool:
    """Whether a policy was defined in a notebook or at a prompt: in a main module without a file."""
    if policies.get(policy).__module__ != "__main__":
        return False
    return getattr(sys.modules["__main__"], "__file__", None) is None


def usable_cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Worker:
    """A process that simulates one cell after another, and which cell that is at present."""

    __slots__ = ("number", "pipe", "process", "seed")

    def __init__(self, process: SpawnProcess, pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe
        self.number: int | None = None  # of the cell that it simulates; None while idle
        self.seed: int | str | None = "none yet"  # of the trace that was sent to it last

    def take(self, number: int, cells: Sequence[Cell], replayed: Mapping[int | None, Replayed]) -> None:
        cell = cells[number]
        self.number = number
        fresh = None if self.seed == cell.seed else replayed[cell.seed]
        try:
            self.pipe.send((cell, fresh))
        except OSError as error:
            raise self._died(cell) from error
        self.seed = cell.seed

    def receive(self, cells: Sequence[Cell]) -> tuple[int, tuple[Any, ...]]:
        """The number of its cell and its next message."""
        assert self.number is not None, self.process.pid
        try:
            return self.number, self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._died(cells[self.number]) from error

    def _died(self, cell: Cell) -> WorkerDied:
        self.process.join()
        code = self.process.exitcode or 0
        if code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
            advice = "if memory ran out, run fewer at once (--workers 1)"
        else:
            how = f"ended with exit code {code}"
            advice = 'its error is above; a script that calls this needs `if __name__ == "__main__":`'
        return WorkerDied(f"the process simulating {cell} {how}; {advice}")


def _started(keep: Callable[[Result], T]) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, keep), daemon=True)
    with _interrupts_blocked():
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """A process that is started in here never sees Ctrl-C: it inherits the block. Its parent ends it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it later would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ready(busy: Sequence[_Worker]) -> list[_Worker]:
    readable = connection.wait([worker.pipe for worker in busy])
    return [worker for worker in busy if worker.pipe in readable]


def _end(crew: Iterable[_Worker]) -> None:
    """Kill the workers: they have nothing that is worth saving."""
    for worker in crew:
        worker.process.kill()
    for worker in crew:
        worker.process.join()
        worker.pipe.close()


def _work(pipe: Connection, keep: Callable[[Result], object]) -> None:
    """What a worker process does: simulate the cells that it receives until the pipe is closed."""
    replayed: Replayed | None = None
    load_plugins()
    try:
        while True:
            cell, fresh = pipe.recv()
            replayed = replayed if fresh is None else fresh
            pipe.send(_simulated(cell, replayed, keep, pipe))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _simulated(
    cell: Cell, replayed: Replayed | None, keep: Callable[[Result], object], pipe: Connection
) -> tuple[str, object]:
    assert replayed is not None, cell
    return _answer(cell, replayed, keep, lambda done, total, at: pipe.send(("progress", done, total, at)))


def _answer(
    cell: Cell,
    replayed: Replayed,
    keep: Callable[[Result], object],
    progress: Callable[[int, int, float], None] | None,
) -> tuple[str, object]:
    """("done", what is kept), or ("failed" or "raised", a sentence for the user)."""
    try:
        return "done", keep(simulate_cell(cell, replayed, progress))
    except (InputError, OptionError) as error:
        return "failed", str(error)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise  # nobody waits for the answer any more
    except Exception as error:  # noqa: BLE001  (code of a plug-in may raise anything)
        return "raised", str(failure_of(error, "policy", cell.policy))


def _answer_elsewhere(
    keep: Callable[[Result], object],
    plugins: Sequence[str],
    digests: Sequence[str],
    cell: Cell,
    replayed: Replayed,
) -> tuple[str, object]:
    """The answer of another machine, which must have the same plug-ins."""
    try:
        use_plugins(plugins)
        if plugin_digests() != list(digests):
            raise InputError(f"{', '.join(plugins)}: the content differs from that on this machine")
    except (InputError, OptionError, OSError) as error:
        same = "every node needs the same plug-ins at the same paths"
        return "failed", f"on node {platform.node()}: {error}; {same}"
    return _answer(cell, replayed, keep, None)


def simulate_cell(
    cell: Cell, replayed: Replayed, progress: Callable[[int, int, float], None] | None = None
) -> Result:
    """Simulate one cell in this process."""
    return simulate(
        replayed,
        cell.cluster,
        cell.policy,
        options=dict(cell.options),
        placer=cell.placer,
        network=cell.network,
        models=cell.models,
        preemption_cost_s=cell.preemption_cost_s,
        cpu_speed=cell.cpu_speed,
        use_cpus=cell.use_cpus,
        shares=None if cell.shares is None else dict(cell.shares),
        losses=cell.losses,
        failures=cell.failures,
        progress=progress,
    )
