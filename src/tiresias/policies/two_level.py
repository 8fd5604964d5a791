"""`two-level`: fair between tenants by finish time, and least average JCT within a tenant.

Our own design. First each tenant's jobs get GPUs as they would in a private cluster of its share: a walk in
the order of another policy admits what fits into the share. What tenants leave of their shares is lent: a
second walk, over the jobs of all tenants that were not admitted, in the same order (lending.py). Since both
walks are repeated whenever something happens, what was lent is recalled as soon as its owner has a job for
it.

A tenant may get less than its share for a while: runs on lent GPUs must save first, or a gang is larger than
the share. Accounts remember that. A tenant that is entitled to more GPU-seconds than it has got, by more
than a tenth, since it last had no jobs, is behind: it would finish later than in a private cluster. Its jobs
are the first to which GPUs are lent. Who is behind is decided every five minutes, so that plans do not
flutter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any

from tiresias.core import facts as f
from tiresias.core.facts import Allotment
from tiresias.core.model import INFINITY, JobId, Rank
from tiresias.core.plugins import Allocator, OptionError, Policy, option, parse_options, policies
from tiresias.core.shares import whole_shares
from tiresias.core.state import JobState, State, is_schedulable
from tiresias.core.view import AllotView
from tiresias.core.wish import WishChange
from tiresias.policies.lending import Lending
from tiresias.policies.options import PreemptiveOptions, share

REVIEW_S = 300.0  # how often it is decided who is behind
BEHIND = 1.1  # a tenant is behind if it is entitled to so many times what it has got
FEW_GPU_S = 600.0  # no tenant is behind for so little
DRIFT_S = 60.0  # a rank that drifts is taken anew so often
ABOUT_JOBS = frozenset(
    {
        f.JobSubmitted,
        f.JobHeld,
        f.JobReleased,
        f.JobCancelled,
        f.JobDeferred,
        f.JobCleared,
        f.JobFailed,
        f.JobChanged,
        f.RunGranted,
        f.RunExited,
    }
)


@dataclass(slots=True)
class TwoLevelOptions(PreemptiveOptions):
    within: str = option("tiresias-l", "policy in whose order the jobs of a tenant go")
    within_set: str | None = option(
        None, "options of that policy: KEY=VALUE, several divided by semicolons", str
    )
    fairness: float = option(
        1.0, "part of its share that is kept for a tenant, 0 to 1; the rest goes to whoever is ahead", share
    )


class Account:
    """What a tenant was entitled to and what it got, in GPU-seconds, since it last had no jobs."""

    __slots__ = ("at", "demand", "entitled", "got", "held")

    def __init__(self, at: float, entitled: float = 0.0, got: float = 0.0, demand: int = 0, held: int = 0):
        self.at = at
        self.entitled = entitled
        self.got = got
        self.demand = demand  # GPUs that its jobs ask for
        self.held = held  # GPUs that its runs hold

    def advance(self, at: float, kept: int) -> None:
        """Add what has passed until now, with so many GPUs that are kept for the tenant."""
        if self.demand:
            self.entitled += min(self.demand, kept) * (at - self.at)
            self.got += self.held * (at - self.at)
        else:
            self.entitled = self.got = 0.0
        self.at = at

    @property
    def is_behind(self) -> bool:
        return self.entitled > BEHIND * self.got + FEW_GPU_S


class Memory:
    """What `two-level` knows beside the State: a serialisable value."""

    __slots__ = ("_shares", "_shares_of", "accounts", "behind", "counted", "review_at", "weights", "within")

    def __init__(self, within: Any):
        self.within = within  # the memory of the policy within
        self.weights: dict[str, float] = {}
        self.accounts: dict[str, Account] = {}
        self.counted: dict[JobId, tuple[str, int, int]] = {}  # by job: tenant, demand, GPUs that it holds
        self.behind: set[str] = set()
        self.review_at = -INFINITY
        self._shares: dict[str, int] = {}
        self._shares_of = -1  # GPUs for which these are the shares; -1: they are not known

    def shares(self, gpus: int) -> dict[str, int]:
        """Whole GPUs by tenant: of all that have a weight, and of those that have jobs."""
        if gpus != self._shares_of:
            weights = {**dict.fromkeys(sorted(self.accounts), 1.0), **self.weights}
            self._shares, self._shares_of = whole_shares(weights, gpus), gpus
        return self._shares

    def set_weights(self, weights: Mapping[str, float]) -> None:
        self.weights = dict(weights)
        self._shares_of = -1

    def add_account(self, tenant: str, at: float) -> Account:
        self.accounts[tenant] = account = Account(at)
        self._shares_of = -1
        return account

    def drop_account(self, tenant: str) -> None:
        del self.accounts[tenant]
        self._shares_of = -1


@policies.register
class TwoLevel(Allocator):
    """Fair between tenants by finish time, least average JCT within a tenant; idle shares are lent."""

    name = "two-level"
    Options = TwoLevelOptions

    def __init__(self, options: Any = None):
        super().__init__(options)
        self.within = _within(self.options.within, self.options.within_set)
        self.learns = self.within.learns | ABOUT_JOBS | {f.SharesSet, f.TimerFired}
        self.by_work = self.within.by_work
        self._lending: Lending | None = None

    # --- order within a tenant -------------------------------------------------------------------------

    def rank(self, job: JobState, memory: Memory, at: float) -> Rank:
        try:
            return self.within.rank(job, memory.within, at)
        except OptionError as error:
            raise OptionError(f"{self.name}: within={self.within.name}: {error}") from None

    def standing(self, job: JobState, memory: Memory, at: float, is_due: bool) -> tuple[Rank, float]:
        self.within.gpus = self.gpus
        try:
            rank, until = self.within.standing(job, memory.within, at, is_due)
        except OptionError as error:
            raise OptionError(f"{self.name}: within={self.within.name}: {error}") from None
        if self.within.drifts and job.gpu_run is not None:
            until = min(until, at + DRIFT_S)
        return rank, until

    def due(self, job: JobState, memory: Memory, at: float) -> f.Fact | None:
        return self.within.due(job, memory.within, at)

    # --- memory ----------------------------------------------------------------------------------------

    def new_memory(self) -> Memory:
        return Memory(self.within.new_memory())

    def expect(self, memory: Memory, preemption_cost_s: float) -> None:
        self.within.expect(memory.within, preemption_cost_s)

    def begin(self, memory: Memory, state: State) -> None:
        self.within.begin(memory.within, state)
        if not memory.weights and state.shares:
            memory.set_weights(state.shares)
        for job in state.jobs.values():
            if job.gpus:
                self._count(memory, job, state.at)

    def save(self, memory: Memory) -> dict[str, Any]:
        return {
            "within": self.within.save(memory.within),
            "weights": memory.weights,
            "accounts": {
                who: [each.at, each.entitled, each.got, each.demand, each.held]
                for who, each in memory.accounts.items()
            },
            "counted": [[id, *what] for id, what in memory.counted.items()],
            "behind": sorted(memory.behind),
            "review_at": memory.review_at,
        }

    def restore(self, saved: dict[str, Any]) -> Memory:
        memory = Memory(self.within.restore(saved["within"]))
        memory.weights = dict(saved["weights"])
        memory.accounts = {who: Account(*each) for who, each in saved["accounts"].items()}
        memory.counted = {JobId(id): (who, demand, held) for id, who, demand, held in saved["counted"]}
        memory.behind = set(saved["behind"])
        memory.review_at = saved["review_at"]
        return memory

    def learn(self, memory: Memory, fact: Any, job: JobState | None) -> bool | Sequence[int]:
        if memory.review_at <= fact.at:
            self._review(memory, fact.at)
        if job is not None and type(fact) in ABOUT_JOBS:
            self._count(memory, job, fact.at)
        elif type(fact) is f.SharesSet:
            kept = self._kept(memory)
            for tenant, account in memory.accounts.items():
                account.advance(fact.at, kept.get(tenant, 0))
            memory.set_weights(fact.shares)
        return self.within.learn(memory.within, fact, job) if type(fact) in self.within.learns else False

    def _count(self, memory: Memory, job: JobState, at: float) -> None:
        """The demand of the job's tenant, or what it holds, may have changed."""
        is_active = job.ended_at == INFINITY
        held = job.gpus if is_active and job.gpu_run is not None else 0
        demand = job.gpus if held or (is_active and is_schedulable(job)) else 0
        before = memory.counted.get(job.id)
        now = (job.tenant, demand, held)
        if now == before:
            return
        if before is not None:
            self._add(memory, *before, -1, at)
        if is_active:
            memory.counted[job.id] = now
            self._add(memory, *now, 1, at)
        else:
            memory.counted.pop(job.id, None)

    def _add(self, memory: Memory, tenant: str, demand: int, held: int, sign: int, at: float) -> None:
        account = memory.accounts.get(tenant)
        if account is None:
            account = memory.add_account(tenant, at)
        account.advance(at, self._kept(memory).get(tenant, 0))
        account.demand += sign * demand
        account.held += sign * held

    def _review(self, memory: Memory, at: float) -> None:
        """Decide who is behind, as of the last full review."""
        as_of = floor(at / REVIEW_S) * REVIEW_S
        kept = self._kept(memory)
        for tenant, account in list(memory.accounts.items()):
            if as_of > account.at:
                account.advance(as_of, kept.get(tenant, 0))
            if not account.demand and not account.held:
                memory.drop_account(tenant)
        memory.behind = {who for who, each in memory.accounts.items() if each.is_behind}
        memory.review_at = as_of + REVIEW_S

    # --- the wish --------------------------------------------------------------------------------------

    def allot(self, view: AllotView, memory: Memory, at: float) -> WishChange:
        wish = view.wish
        if view.changed is None or self._lending is None:
            self._lending = lending = Lending(wish)
            changed = [*view.jobs(), *view.taken()]
        else:
            lending, changed = self._lending, view.changed
        is_fresh = changed is not view.changed
        lending.set_behind(frozenset(memory.behind))
        for job in changed:
            lending.update(job, view.key(job), is_taken=view.is_taken(job))
        if self.within.drifts:
            for job in view.running():
                if not view.is_taken(job) and view.key(job) is not None:
                    rank = self.rank(job, memory, at)
                    lending.update(job, (job.priority, *rank, job.submitted_at, job.id), is_taken=False)
        lending.share_out(self._kept(memory), view.room)
        given: list[Allotment] = []
        withdrawn: list[JobId] = []
        touched = lending.take_touched()
        for id in sorted({*lending.claims, *wish} if is_fresh else touched):
            wanted = lending.wanted(id)
            if wanted is not None:
                if wish.get(id) != wanted:
                    given.append(wanted)
            elif id in wish and not lending.is_taken(id):
                withdrawn.append(id)
            if not lending.is_taken(id):
                lending.remember(id, wanted)
        return WishChange(given, withdrawn, memory.review_at if lending.lent.refused else INFINITY)

    def _kept(self, memory: Memory) -> dict[str, int]:
        """By tenant, the GPUs that are kept for it."""
        fairness = self.options.fairness
        return {who: floor(fairness * gpus + 1e-9) for who, gpus in memory.shares(self.gpus).items()}

    def reason(self, job: JobState, view: AllotView, memory: Memory) -> str:
        share = memory.shares(view.gpus).get(job.tenant, 0)
        account = memory.accounts.get(job.tenant)
        held = account.held if account is not None else 0
        whose = f"tenant {job.tenant}" if job.tenant else "the tenant without a name"
        return f"{whose} has a share of {share} GPUs and holds {held}"


def _within(name: str, options: str | None) -> Policy:
    try:
        cls = policies.get(name)
    except OptionError as error:
        raise OptionError(f"two-level: within={name!r}: {error}") from None
    if cls.allots:
        raise OptionError(f"two-level: within={name!r} is an allocator; give a policy that orders jobs")
    if cls.strict:
        raise OptionError(f"two-level: within={name!r} lets no job pass another; give fifo-skip, for example")
    given = {}
    for part in filter(None, (part.strip() for part in (options or "").split(";"))):
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"two-level: within_set={part!r} is not KEY=VALUE, such as queues=3600")
        given[key.strip()] = value.strip()
    try:
        made: Policy = cls(parse_options(cls, given))
    except OptionError as error:
        raise OptionError(f"two-level: within_set={options!r}: {error}") from None
    return made
