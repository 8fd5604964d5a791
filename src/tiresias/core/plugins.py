"""Plug-ins: policies rank jobs, allocators share out GPUs, placers choose slots, speed models say how fast.

A policy is one small class. It ranks one job at a time and keeps no state: what it learns is in
`State.memory`, a value that it makes (`new_memory`) and updates (`learn`). The smallest policy has a name and
a `rank`:

    @policies.register
    class SmallestFirst(Policy):
        name = "smallest-first"

        def rank(self, job, memory, at):
            return (job.gpus,)
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tiresias.core.facts import Allocation, Fact
from tiresias.core.holes import Holes
from tiresias.core.ledger import Ledger
from tiresias.core.model import INFINITY, Rank, RunId
from tiresias.core.state import JobState, State
from tiresias.core.view import AllotView
from tiresias.core.wish import Wish, WishChange

PROTECT = 0.25
"""The share of the GPUs that protected runs may hold (protection.py), if the policy has no option for it."""


def compact_json(value: Any) -> str:
    """A memory, or a part of one, as text. Only Python reads it, so it may contain infinities."""
    return json.dumps(value, separators=(",", ":"))


class OptionError(ValueError):
    """A name or an option that the user got wrong; the message says what is accepted."""


def option(default: Any, help: str, parse: Callable[[str], Any] | None = None, formerly: str = "") -> Any:
    """A field of an Options class: its default, what it does, and how a string becomes its value.

    `formerly` is the name that the option had before: it is still accepted, because journals contain it.
    """
    return field(default=default, metadata={"help": help, "parse": parse, "formerly": formerly})


@dataclass(slots=True)
class NoOptions:
    """Nothing can be set."""


class Policy(ABC):
    """An order over jobs: smaller ranks go first."""

    name: ClassVar[str]
    preempts: ClassVar[bool] = True
    strict: ClassVar[bool] = False  # the first job that does not fit blocks all behind it
    drifts: ClassVar[bool] = False  # the rank, one number, changes while the job holds GPUs (see drift)
    by_work: bool = False  # the rank depends on the work done, and so on the speed of the run
    learns: frozenset[type] = frozenset()  # the kinds of facts that `learn` wants to see
    allots: ClassVar[bool] = False  # it is an Allocator

    Options: ClassVar[Any] = NoOptions

    def __init__(self, options: Any = None):
        self.options: Any = self.Options() if options is None else options
        self.min_run_s: float = getattr(self.options, "min_run_s", 0.0)
        self.protect: float = getattr(self.options, "protect", PROTECT)
        self.gpus = 0  # in service; the Controller keeps it up to date
        self.problem = ""  # what it was given and cannot use, in words; it decides without that
        # Whether jobs may run on CPUs while the GPUs are full; they are stopped there when GPUs are free.
        self.uses_cpus: bool = self.preempts

    @abstractmethod
    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        """The rank of the job at this instant."""

    def standing(self, job: JobState, memory: Any, at: float, is_due: bool) -> tuple[Rank, float]:
        """The job's rank, and the instant until which that rank holds if no fact concerns the job.

        `is_due` says that the instant named by the last call for this job has come (or that its run has just
        become preemptible); it is False when the job is ranked for any other reason. A rank that holds until
        `at` is good for the plan of this instant only: after it the job is ranked anew, and is not due then.
        """
        return self.rank(job, memory, at), INFINITY

    def queue(self, job: JobState, memory: Any, at: float) -> int | None:
        """The queue of the job at this instant, 0 for the first; None if the policy has no queues.

        It explains decisions to people and has no influence on them. `at` may be as early as the grant of the
        present run.
        """
        return None

    def explain(self, job: JobState, memory: Any, at: float) -> str:
        """What was learned of jobs like this one, and what it means for its place, in words; or empty."""
        return ""

    def thresholds(self, memory: Any) -> tuple[float, ...] | None:
        """The service in GPU-seconds at which jobs go from queue to queue, rising; None without queues.

        As `queue`, it has no influence on decisions.
        """
        return None

    def learned(self, memory: Any) -> list[str]:
        """What the policy has learned, as sentences for people; it has no influence on decisions."""
        return []

    def drift(self, job: JobState) -> float:
        """With `drifts`: the change of the rank per second while the job holds GPUs."""
        return 0.0

    def due(self, job: JobState, memory: Any, at: float) -> Fact | None:
        """A decision about a job whose rank has just run out; None: it is only ranked anew."""
        return None

    def new_memory(self) -> Any:
        return None

    def save(self, memory: Any) -> Any:
        """The memory as a value that JSON can hold."""
        return memory

    def saved_text(self, memory: Any) -> str:
        """What `save` gives, as JSON; it is stored with each commit that has a fact that was learned.

        A policy with a large memory can keep the texts of parts that have not changed. The text must be the
        same as this one.
        """
        return compact_json(self.save(memory))

    def restore(self, saved: Any) -> Any:
        """The memory that `save` gave."""
        return saved

    def expect(self, memory: Any, preemption_cost_s: float) -> None:
        """The driver knows in advance what a preemption costs; called before the first fact."""
        return None

    def suits(self, gpus: int) -> None:
        """Called when somebody chooses the policy: OptionError if its options make no sense on a cluster of
        so many GPUs."""
        return None

    def named_tenants(self) -> Mapping[str, str]:
        """By tenant that its options name: the option, as `quotas=a:4`. A simulation refuses tenants that the
        trace does not have; in a manager a tenant may come later."""
        return {}

    def begin(self, memory: Any, state: State) -> None:
        """A Controller begins to decide by this memory: at the start, after a restart or a change of policy.

        What follows from the State need not be saved; here it can be found again. Jobs without GPUs, which
        are never passed to `learn` and `rank`, are in the State as well: leave them out.
        """
        return None

    def learn(self, memory: Any, fact: Any, job: JobState | None) -> bool | Sequence[int]:
        """Learn from a fact, after it has taken effect.

        Returns True if the ranks of all jobs may have changed, or the ids of those whose ranks may have. A
        RunStarted or a RunProgressed may change no rank but that of its own job.
        """
        return False


class Allocator(Policy):
    """Says which jobs shall hold GPUs, all of them at once: the wish.

    It has the name, the options and the memory of a policy, and is chosen like one. Its rank only orders the
    starts of jobs that the wish gives GPUs, and `view.jobs()`. An allocator may cache what it has worked out,
    but the same State and the same memory must give the same wish: a restarted manager has an empty cache.
    """

    allots: ClassVar[bool] = True
    # It is asked only at the instants that it named, and when the wish that stands is too large for what is
    # in service. Otherwise it is asked whenever something has happened.
    rounds: ClassVar[bool] = False
    names_slots: ClassVar[bool] = False  # its wishes name the slots of every job; the placer is not asked
    sizes: ClassVar[bool] = False  # it gives elastic jobs other sizes than their reference size
    layers: int = 1  # with names_slots: how many jobs may share one slot, each on a layer of its own

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return ()

    @abstractmethod
    def allot(self, view: AllotView, memory: Any, at: float) -> Wish | WishChange:
        """The whole wish, or how the wish that stands must change; takes nothing itself."""

    def reason(self, job: JobState, view: AllotView, memory: Any) -> str:
        """Why the wish gives nothing to this job, with figures; empty: there is nothing more to say.

        An allocator with `sizes` is also asked about elastic jobs to which it gives GPUs: why so many.
        """
        return ""


class Placer(ABC):
    """A choice of slots for a gang, of those that are free.

    A placer may cache what it has worked out, but the same arguments and the same memory must give the same
    answer. What it learns is in its memory, a part of the State; it serves one Controller at a time. The
    methods get the job, the free slots of the nodes that suit its demand, the present instant, and
    `refused_since`: the instant at which this job was first refused, although enough slots were free, since
    it came into the target. It is `at` if the job has not been refused.
    """

    name: ClassVar[str]
    waits: ClassVar[bool] = False  # it may refuse a gang for which enough slots are free
    learns: ClassVar[bool] = False  # it wants to see how fast runs are (see `learn`)
    # What the driver has that its constructor takes by keyword: "profiles", the models that are known.
    needs: ClassVar[frozenset[str]] = frozenset()

    Options: ClassVar[Any] = NoOptions

    def __init__(self, options: Any = None):
        self.options: Any = self.Options() if options is None else options
        # How many runs may migrate at once for a refused job.
        self.migrations: int = getattr(self.options, "migrations", 0)

    @abstractmethod
    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        """Slots for the whole gang, or None to refuse; takes nothing itself.

        With `holes.pieces` the gang has stated on how many nodes it must be: these many slots on each. The
        placer chooses which nodes these are, and refuses only while `holes.hold` says that there is no room,
        or if it waits. The functions of `placers/fits.py` respect the pieces.
        """

    def new_memory(self) -> dict[str, Any]:
        """With `learns`: a memory in which nothing has been learned. JSON can hold it at any time.

        Its item "placer" is the name of the placer, and "seen" changes whenever anything else does.
        """
        return {"placer": self.name, "seen": 0}

    def remember(self, memory: dict[str, Any]) -> None:
        """With `learns`: decide by this memory from now on, and learn into it. It belongs to the State."""
        raise TypeError(f"{self.name} learns, but has no method `remember`")

    def learn(self, fact: Fact, job: JobState, state: State) -> None:
        """With `learns`: a run of the job started, or its speed changed. The fact has taken effect."""
        raise TypeError(f"{self.name} learns, but has no method `learn`")

    def claim(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation:
        """The free slots that a refused job keeps from those behind it, so that a hole for it grows."""
        return holes.emptiest(job.gpus)

    def retry_at(self, job: JobState, holes: Holes, at: float, refused_since: float) -> float:
        """The next instant at which a refused job may be accepted though nothing happens until then."""
        return INFINITY

    def refusal(self, job: JobState, holes: Holes, at: float, refused_since: float) -> str:
        """Why a job is refused for which enough slots are free, with the figures."""
        if holes.pieces:
            return holes.shortage(job.gpus)
        return f"{holes.free} free, best hole {holes.best_hole()}, needs {job.gpus}"

    def verdict(self, job: JobState) -> str:
        """Why this job is kept together or spread; empty if the placer treats all jobs alike."""
        return ""


class SpeedModel(Protocol):
    """How fast runs go on their slots: the interface for topology and contention."""

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> Mapping[RunId, float]:
        """The speed (seconds of work per second) of every run that the start or end of `changed` affects."""
        ...


T = TypeVar("T", bound=type)


class Registry(Generic[T]):
    """Plug-ins of one kind by name."""

    def __init__(self, kind: str):
        self.kind = kind
        self._classes: dict[str, T] = {}
        self._later: dict[str, tuple[str, str]] = {}  # module and class of those that are known by name only

    def register_later(self, name: str, module: str, class_name: str) -> None:
        """Make a class known whose module is imported when the name is used for the first time.

        A manager uses one policy, and to load all of them would take a tenth of its start.
        """
        self._later[name] = module, class_name

    def register(self, cls: T) -> T:
        name: str = getattr(cls, "name", "")
        if not name:
            raise OptionError(f'{cls.__name__} has no name; give it one: name = "my-{self.kind}"')
        is_expected = self._later.get(name) == (cls.__module__, cls.__qualname__)
        known = None if is_expected else self._find(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise OptionError(f"two {self.kind} classes are named {name!r}: {known!r} and {cls!r}")
        self._classes[name] = cls
        return cls

    def names(self) -> list[str]:
        return sorted({*self._classes, *self._later})

    def _find(self, name: str) -> T | None:
        if name not in self._classes and name in self._later:
            module, class_name = self._later[name]
            self._classes[name] = getattr(import_module(module), class_name)
        return self._classes.get(name)

    def get(self, name: str) -> T:
        found = self._find(name)
        if found is None:
            raise OptionError(f"no {self.kind} {name!r}{_near(name, self.names())}")
        return found

    def make(self, name: str, options: Mapping[str, Any] | None = None, **given: Any) -> Any:
        """An instance of the named class with these options, and with what it needs of what is `given`."""
        cls = self.get(name)
        needs = getattr(cls, "needs", ())
        return cls(parse_options(cls, options or {}), **{key: given[key] for key in given if key in needs})


policies: Registry[type[Policy]] = Registry("policy")
placers: Registry[type[Placer]] = Registry("placer")


def parse_options(cls: Any, given: Mapping[str, Any]) -> Any:
    """The class's Options from strings or values; an OptionError names key, value and what is accepted."""
    known = {f.name: f for f in fields(cls.Options)}
    former = {name: f.name for f in known.values() if (name := f.metadata.get("formerly"))}
    values: dict[str, Any] = {}
    for key, value in given.items():
        name = former.get(key, key)
        if name not in known:
            hint = _near(key, sorted(known)) if known else ": it takes none"
            raise OptionError(f"{cls.name} has no option {key!r}{hint}")
        if name in values:
            raise OptionError(f"{cls.name}: {name} is given twice, also by its former name; keep one of them")
        values[name] = _value(cls.name, known[name], value)
    try:
        return cls.Options(**values)
    except ValueError as error:
        raise OptionError(f"{cls.name}: {error}") from None


def _value(owner: str, known: Field[Any], value: Any) -> Any:
    parse = known.metadata.get("parse")
    if parse is None:
        kind = type(known.default)
        parse = kind if kind in (int, float, str) else str
    if not isinstance(value, str) and known.metadata.get("parse") is None and parse is not str:
        value = str(value)
    try:
        return parse(value)
    except (TypeError, ValueError) as error:
        what = f"{owner}: {known.name}={str(value)[:80]!r} is not understood ({error})"
        help = known.metadata.get("help")
        raise OptionError(f"{what}; {known.name}: {help}" if help else what) from None


def _near(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} (known: {', '.join(known)})"
