"""What plugs into the core: policies (who), placers (where), speed models (how fast), each found by name.

A policy is one small class. It ranks one job at a time and remembers nothing: what it learns lives in
`State.memory`, a value it makes (`new_memory`) and updates (`learn`). The smallest policy has a name and
a `rank`:

    @policies.register
    class SmallestFirst(Policy):
        name = "smallest-first"

        def rank(self, job, memory, at):
            return (job.gpus,)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tiresias.core.facts import Allocation, Fact
from tiresias.core.holes import Holes
from tiresias.core.ledger import Ledger
from tiresias.core.model import INFINITY, Rank, RunId
from tiresias.core.state import JobState


class OptionError(ValueError):
    """A name or an option that the user got wrong; the message says what is accepted."""


def option(default: Any, help: str, parse: Callable[[str], Any] | None = None) -> Any:
    """A field of an Options class: its default, what it does, and how a string becomes its value."""
    return field(default=default, metadata={"help": help, "parse": parse})


@dataclass(slots=True)
class NoOptions:
    """Nothing can be set."""


class Policy(ABC):
    """Who runs: an order over jobs, smaller ranks first."""

    name: ClassVar[str]
    preempts: ClassVar[bool] = True
    strict: ClassVar[bool] = False  # the first job that does not fit blocks all behind it
    drifts: ClassVar[bool] = False  # the rank, one number, changes while the job holds GPUs (see drift)
    learns: ClassVar[frozenset[type]] = frozenset()  # the kinds of facts that `learn` wants to see

    Options: ClassVar[Any] = NoOptions

    def __init__(self, options: Any = None):
        self.options: Any = self.Options() if options is None else options
        self.min_run_s: float = getattr(self.options, "min_run_s", 0.0)
        # Whether jobs may run on CPUs while the GPUs are full; they are stopped when they move to GPUs.
        self.uses_cpus: bool = self.preempts

    @abstractmethod
    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        """Where the job stands at this instant."""

    def standing(self, job: JobState, memory: Any, at: float, is_due: bool) -> tuple[Rank, float]:
        """The job's rank, and the instant until which that rank holds if no fact concerns the job.

        `is_due` says that the instant named by the last call for this job has come (or that its run has just
        become preemptible); it is False when the job is ranked for any other reason. A rank that holds until
        `at` is good for the plan of this instant only: after it the job is ranked anew, and is not due then.
        """
        return self.rank(job, memory, at), INFINITY

    def drift(self, job: JobState) -> float:
        """With `drifts`: the change of the rank per second while the job holds GPUs."""
        return 0.0

    def due(self, job: JobState, memory: Any, at: float) -> Fact | None:
        """What to decide for a job whose rank has just run out, beyond ranking it anew."""
        return None

    def new_memory(self) -> Any:
        return None

    def save(self, memory: Any) -> Any:
        """The memory as a value that JSON can hold."""
        return memory

    def restore(self, saved: Any) -> Any:
        """The memory that `save` gave."""
        return saved

    def learn(self, memory: Any, fact: Any, job: JobState | None) -> bool:
        """Take a fact in; True if the ranks of all jobs may have changed."""
        return False


class Placer(ABC):
    """Where a gang runs: the slots it gets of those that are free.

    A placer may cache what it has worked out, but the same arguments must give the same answer. The methods
    get the job, the free slots of the nodes that suit its demand, the present instant, and `refused_since`:
    the instant since which this job has been refused at every plan although enough slots were free, which
    is `at` if it has not been refused.
    """

    name: ClassVar[str]
    waits: ClassVar[bool] = False  # it may refuse a gang for which enough slots are free
    # What the driver has that its constructor takes by keyword: "profiles", the models that are known.
    needs: ClassVar[frozenset[str]] = frozenset()

    Options: ClassVar[Any] = NoOptions

    def __init__(self, options: Any = None):
        self.options: Any = self.Options() if options is None else options
        self.moves: int = getattr(self.options, "moves", 0)  # runs that may move for a refused job

    @abstractmethod
    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        """Slots for the whole gang, or None to refuse; takes nothing itself."""

    def claim(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation:
        """The free slots that a refused job keeps from those behind it, so that its place is built."""
        return holes.emptiest(job.gpus)

    def retry_at(self, job: JobState, holes: Holes, at: float, refused_since: float) -> float:
        """The next instant at which a refused job may be treated differently though nothing happens."""
        return INFINITY

    def refusal(self, job: JobState, holes: Holes, at: float, refused_since: float) -> str:
        """The rule by which a job is refused for which enough slots are free."""
        return f"{holes.free} free, best hole {holes.best_hole()}, needs {job.gpus}"

    def verdict(self, job: JobState) -> str:
        """Why this job is kept together or spread; empty where the placer treats all alike."""
        return ""


class SpeedModel(Protocol):
    """How fast runs go where they are: the seam for topology and contention."""

    def speeds(self, changed: Iterable[RunId], ledger: Ledger) -> Mapping[RunId, float]:
        """The speed (work seconds a second) of every run that the start or end of `changed` touches."""
        ...


T = TypeVar("T", bound=type)


class Registry(Generic[T]):
    """Plug-ins of one kind by name."""

    def __init__(self, kind: str):
        self.kind = kind
        self._classes: dict[str, T] = {}

    def register(self, cls: T) -> T:
        name: str = getattr(cls, "name", "")
        if not name:
            raise OptionError(f'{cls.__name__} has no name; give it one: name = "my-{self.kind}"')
        known = self._classes.get(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise OptionError(f"two {self.kind} classes are named {name!r}: {known!r} and {cls!r}")
        self._classes[name] = cls
        return cls

    def names(self) -> list[str]:
        return sorted(self._classes)

    def get(self, name: str) -> T:
        try:
            return self._classes[name]
        except KeyError:
            raise OptionError(f"no {self.kind} {name!r}{_near(name, self.names())}") from None

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
    values = {}
    for key, value in given.items():
        if key not in known:
            hint = _near(key, sorted(known)) if known else ": it takes none"
            raise OptionError(f"{cls.name} has no option {key!r}{hint}")
        values[key] = _value(cls.name, known[key], value)
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
