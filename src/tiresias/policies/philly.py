"""`philly`: the scheduler of the cluster in "Analysis of Large-Scale Multi-Tenant GPU Clusters" (ATC'19).

Each tenant (a virtual cluster there) has a quota of GPUs and a queue in order of submission. What tenants
leave of their quotas is lent to those that want more. Who has the smallest part of its quota in use is served
first. A run is preempted only while at least 90 % of the GPUs are in use: runs of tenants above their quotas,
the latest first, for a job that fits into the quota of a tenant below it.

A gang that does not fit gathers GPUs as they become free: for `timeout_s` it keeps what is free from all
behind it, then releases it and backs off for `back_off_s`, in which others may pass, and so on. Once enough
GPUs are free for it, the placer `relaxing` does the same for locality, and wants less of it after each try.

The paper does not say in which order the jobs of one virtual cluster go, nor how many retries there are
before locality is relaxed: submission, and two retries, are our choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tiresias.core.facts import Allotment
from tiresias.core.model import INFINITY, JobId
from tiresias.core.plugins import Allocator, OptionError, option, policies
from tiresias.core.shares import whole_shares
from tiresias.core.state import JobState
from tiresias.core.view import AllotView
from tiresias.core.wish import WishChange
from tiresias.policies.options import PreemptiveOptions, positive_seconds, seconds, share
from tiresias.policies.roster import Roster, TenantJobs, refresh

BLINK_S = 1e-6  # an instant may come this much too early by rounding


def parse_quotas(text: str) -> dict[str, int]:
    """GPUs by tenant from text such as `a:48,b:16`."""
    quotas: dict[str, int] = {}
    for part in text.split(","):
        tenant, colon, number = part.rpartition(":")
        tenant = tenant.strip()
        if not colon or not number.strip().isdecimal():
            raise ValueError(f"{part.strip()!r} is not TENANT:GPUS; write for example a:48,b:16")
        if tenant in quotas:
            raise ValueError(f"it names {tenant} twice; give each tenant one quota")
        quotas[tenant] = int(number)
    if not any(quotas.values()):
        raise ValueError("all quotas are 0; give at least one tenant more")
    return quotas


@dataclass(slots=True)
class PhillyOptions(PreemptiveOptions):
    quotas: Any = option(
        None, "GPUs by tenant, such as a:48,b:16; others have 0. By default the shares", parse_quotas
    )
    preempt_above: float = option(
        0.9, "part of the GPUs that must be in use before any run is preempted", share
    )
    timeout_s: float = option(150.0, "seconds for which a gang gathers GPUs that are free", positive_seconds)
    back_off_s: float = option(120.0, "seconds for which it then leaves them to others", seconds)


@policies.register
class Philly(Allocator):
    """Quotas, lending, and preemption only above 90 % in use: Microsoft's scheduler of Philly (ATC'19)."""

    name = "philly"
    placer = "relaxing"
    placer_options: ClassVar[Mapping[str, str]] = {"migrations": "0"}  # Philly had none
    Options = PhillyOptions

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._roster: Roster | None = None
        self._known_quotas: tuple[object, dict[str, int]] | None = None  # what they follow from, and they

    def suits(self, gpus: int) -> None:
        quotas: Mapping[str, int] = self.options.quotas or {}
        for tenant, quota in quotas.items():
            if quota > gpus:
                raise OptionError(
                    f"philly: quotas={tenant}:{quota} is more than the {gpus} GPUs of the cluster;"
                    f" give {tenant} at most {gpus}"
                )
        if (total := sum(quotas.values())) > gpus:
            raise OptionError(f"philly: the quotas are {total} GPUs together, and the cluster has {gpus}")

    def named_tenants(self) -> Mapping[str, str]:
        quotas: Mapping[str, int] = self.options.quotas or {}
        return {tenant: f"philly: quotas={tenant}:{quota}" for tenant, quota in quotas.items()}

    def allot(self, view: AllotView, memory: Any, at: float) -> WishChange:
        given: dict[JobId, Allotment] = {}
        withdrawn: list[JobId] = []
        roster = self._roster = refresh(self._roster, view, given, withdrawn)
        again_at = self._share_out(roster, view, at, given, withdrawn)
        return WishChange(list(given.values()), withdrawn, again_at)

    def reason(self, job: JobState, view: AllotView, memory: Any) -> str:
        tenants = {each.tenant for each in [*view.running(), *view.waiting()]}
        quota = self._quotas(tenants, view).get(job.tenant, 0)
        used = sum(other.gpus for other in view.running() if other.tenant == job.tenant)
        whose = f"tenant {job.tenant}" if job.tenant else "the tenant without a name"
        phase = "it gathers GPUs" if self._phase(job, view.at)[0] else "it backs off"
        return f"{whose} has a quota of {quota} GPUs and uses {used}; {phase}"

    def _quotas(self, tenants: Iterable[str], view: AllotView) -> dict[str, int]:
        if self.options.quotas is not None:
            quotas: dict[str, int] = self.options.quotas
            return quotas
        given = (tuple(tenants), view.gpus, view.shares)
        if self._known_quotas is None or self._known_quotas[0] != given:
            weights = {**dict.fromkeys(sorted(given[0]), 1.0), **view.shares}
            self._known_quotas = given, whole_shares(weights, view.gpus)
        return self._known_quotas[1]

    def _phase(self, job: JobState, at: float) -> tuple[bool, float]:
        """Whether the gang gathers what is free, and until when; else it backs off until then."""
        timeout_s, cycle_s = self.options.timeout_s, self.options.timeout_s + self.options.back_off_s
        began_at = job.waiting_since + (at - job.waiting_since + BLINK_S) // cycle_s * cycle_s
        if at + BLINK_S < began_at + timeout_s:
            return True, began_at + timeout_s
        return False, began_at + cycle_s

    def _share_out(
        self,
        roster: Roster,
        view: AllotView,
        at: float,
        given: dict[JobId, Allotment],
        withdrawn: list[JobId],
    ) -> float:
        """Give what is free, and preempt where that is due; returns when to ask again."""
        if not roster.waiting:
            return INFINITY
        quotas = self._quotas(roster.tenants, view)
        again_at = INFINITY
        room = view.room - roster.used
        kept = 0  # of the room, by gangs that gather
        seen: set[JobId] = set()
        found = True
        while found and room > kept:
            found = False
            for tenant in self._in_order(roster, quotas):
                if kept == room:
                    break
                id, kept, until = self._next(roster.tenants[tenant], view, at, room, kept, seen)
                again_at = min(again_at, until)
                if id is not None:
                    gpus = roster.start(id)
                    given[id] = Allotment(id, gpus, lent=roster.tenants[tenant].used > quotas.get(tenant, 0))
                    room -= gpus
                    found = True
                    break
        self._preempt(roster, view, quotas, room, given, withdrawn)
        return again_at

    def _next(
        self, jobs: TenantJobs, view: AllotView, at: float, room: int, kept: int, seen: set[JobId]
    ) -> tuple[JobId | None, int, float]:
        """The first job that can be given GPUs; what gangs ahead of it keep; when the first releases that.

        A gang that backs off need not be looked at when it gathers again: nothing that is free now could be
        used by others until then, or they would have it.
        """
        again_at = INFINITY
        for _, id, gpus in jobs.heads():
            if gpus <= room - kept:
                return id, kept, again_at
            if id in seen:
                continue
            seen.add(id)
            job = view.job(id)
            assert job is not None
            gathers, until = self._phase(job, at)
            if gathers:
                kept = min(room, kept + gpus)
                again_at = min(again_at, until)
                if kept == room:
                    break
        return None, kept, again_at

    def _in_order(self, roster: Roster, quotas: Mapping[str, int]) -> list[str]:
        """The tenants with waiting jobs: those first that use the smallest part of their quotas."""

        def part(tenant: str) -> tuple[float, str]:
            quota = quotas.get(tenant, 0)
            used = roster.tenants[tenant].used
            return (used / quota if quota else INFINITY if used else 1.0, tenant)

        return sorted((tenant for tenant, jobs in roster.tenants.items() if jobs.by_size), key=part)

    def _preempt(
        self,
        roster: Roster,
        view: AllotView,
        quotas: Mapping[str, int],
        room: int,
        given: dict[JobId, Allotment],
        withdrawn: list[JobId],
    ) -> None:
        """While the cluster is full, let tenants below their quotas have what others use above theirs."""
        if view.gpus - room < self.options.preempt_above * view.gpus:
            return
        over = sum([max(0, jobs.used - quotas.get(who, 0)) for who, jobs in roster.tenants.items()])
        below = [who for who, jobs in roster.tenants.items() if jobs.used < quotas.get(who, 0)]
        if not over or not any(roster.tenants[who].by_size for who in below):
            return
        for tenant in self._in_order(roster, quotas):
            while (jobs := roster.tenants.get(tenant)) is not None and jobs.by_size:
                _, id, gpus = jobs.heads()[0]
                if jobs.used + gpus > quotas.get(tenant, 0):
                    break
                victims = self._victims(roster, view, quotas, gpus - room, given)
                if victims is None:
                    break
                for victim in victims:
                    room += victim.gpus
                    withdrawn.append(victim.id)
                    roster.update(victim, view, is_given=False)
                roster.start(id)
                given[id] = Allotment(id, gpus)
                room -= gpus

    def _victims(
        self,
        roster: Roster,
        view: AllotView,
        quotas: Mapping[str, int],
        wanted: int,
        given: Mapping[JobId, Allotment],
    ) -> list[JobState] | None:
        """The runs to stop for so many GPUs: no tenant falls below its quota. None: there are not enough."""
        over = {who: jobs.used - quotas.get(who, 0) for who, jobs in roster.tenants.items()}
        over = {who: gpus for who, gpus in over.items() if gpus > 0}
        if sum(over.values()) < wanted:
            return None
        victims: list[JobState] = []
        for run in sorted(_stoppable(roster, view, over, given), key=lambda job: _latest_first(job, over)):
            if wanted <= 0:
                break
            if run.gpus <= over[run.tenant]:
                over[run.tenant] -= run.gpus
                wanted -= run.gpus
                victims.append(run)
        if wanted > 0:
            return None
        for run in sorted(victims, key=lambda job: (-job.gpus, job.id)):  # a large one made others needless
            if run.gpus <= -wanted:
                wanted += run.gpus
                victims.remove(run)
        return victims


def _stoppable(
    roster: Roster, view: AllotView, over: Mapping[str, int], given: Mapping[JobId, Allotment]
) -> Iterator[JobState]:
    for id, (tenant, _) in roster.given.items():
        if tenant in over and id not in roster.taken and id not in given:
            job = view.job(id)
            if job is not None:
                yield job


def _latest_first(job: JobState, over: Mapping[str, int]) -> tuple[float, float, int]:
    run = job.gpu_run
    return (-over[job.tenant], -INFINITY if run is None else -run.granted_at, -job.id)
