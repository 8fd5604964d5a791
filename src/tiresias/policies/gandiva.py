"""Gandiva (OSDI 2018): gangs take turns on GPUs, are packed where that pays, and migrate.

A reconstruction from the paper; docs/explanation/gandiva.md says how it differs. All jobs get GPUs at once,
as far as seats go: a job sits on free slots of a node whose jobs have its size, of an empty node, of any
node, or else shares the slots of a job of its size (policies/seats.py). Jobs that share slots take turns, a
slice of time each. If one leaves, a job that waits takes its place, or one of a fuller seat migrates there.
A gang that has waited for long makes smaller jobs migrate. An elastic job grows over the free slots of its
node while nobody waits or shares, and gives them back as soon as another job could use them.

Packing: while jobs have to share, two or more of them work at the same time if that was measured to do more
work than turns do, or was not measured yet. The memory has the speed of each model alone, by GPUs, and what a
group of models did together, in parts of the speed alone; 1 is what turns do.

What is wished follows from the State and the memory alone: seats are found again from the wish that stands.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Any

from tiresias.core import facts as f
from tiresias.core.entries import Key
from tiresias.core.facts import Allocation, Allotment
from tiresias.core.holes import lowest
from tiresias.core.model import INFINITY, JobId, Phase
from tiresias.core.plugins import Allocator, option, policies
from tiresias.core.state import JobState, State
from tiresias.core.view import AllotView
from tiresias.core.wish import WishChange
from tiresias.policies.options import number, one_of, positive_seconds, seconds
from tiresias.policies.seats import Floor, Seat, Suits

GAIN = 1.02  # packing must do at least so much of what turns do
Class = tuple[Any, ...]  # jobs that ask for the same, which the same seats suit


@policies.register
class Gandiva(Allocator):
    """Time slicing: all jobs share the GPUs by turns of a minute; packs and migrates (reconstruction)."""

    name = "gandiva"
    names_slots = True
    sizes = True
    learns = frozenset({f.RunStarted, f.RunProgressed})
    layers = 8

    @dataclass(slots=True)
    class Options:
        layers: int = option(8, "jobs that may share one GPU; others wait", number)
        slice_s: float = option(60.0, "seconds of a turn", positive_seconds)
        packing: str = option(
            "on", "let jobs share GPUs at the same time where that pays", one_of("on", "off")
        )
        pack: int = option(4, "jobs that may be packed together", number)
        settle_s: float = option(600.0, "seconds for which a run stays where it is, and as it is", seconds)
        patience_s: float = option(1800.0, "seconds a gang waits before others make room for it", seconds)

    def __init__(self, options: Any = None):
        super().__init__(options)
        self.layers = self.options.layers
        self.slice_s = self.options.slice_s
        self._packs = self.options.packing == "on" and self.options.pack > 1
        if not self._packs:
            self.learns = frozenset()
        self._state: State | None = None
        self._floor: Floor | None = None
        self._waiting: dict[Class, list[tuple[Key, JobState]]] = {}
        self._waits: dict[JobId, tuple[Class, Key]] = {}
        self._touched: dict[Allocation, Seat] = {}  # seats about which something has changed
        self._gone: dict[JobId, None] = {}  # jobs that have left their seats
        self._elastic: dict[JobId, None] = {}  # jobs on seats that may grow or shrink
        self._is_trial = False  # something in the seat that was composed last is not measured yet
        self._seen = -1  # the number of gains that the seats were composed by

    # --- memory ----------------------------------------------------------------------------------------

    def new_memory(self) -> dict[str, Any]:
        return {"alone": {}, "packed": {}, "seen": 0}

    def begin(self, memory: Any, state: State) -> None:
        self._state = state
        self._floor = None

    def learn(self, memory: dict[str, Any], fact: Any, job: JobState | None) -> bool:
        """How fast a run is alone, and in a group of runs that work on the same slots at the same time."""
        state = self._state
        run = None if job is None else job.gpu_run
        if state is None or job is None or run is None or not run.turns or not run.speed:
            return False
        node, mask = run.allocation[0]
        holders = state.ledger.holders_of_slot(node, (mask & -mask).bit_length() - 1)
        if len(holders) > 1 and type(fact) is f.RunStarted:
            return False  # how fast it is with others is seen later
        mates = [state.runs[id] for id in holders]
        mates = [mate for mate in mates if (mate.turn, mate.turns) == (run.turn, run.turns)]
        name = _profile(job)
        speed = run.speed * run.turns
        if len(mates) == 1:
            if name not in memory["alone"]:
                memory["alone"][name] = speed
                memory["seen"] += 1
            return False
        models = sorted(_profile(state.jobs[mate.job_id]) for mate in mates)
        alone = memory["alone"].get(name)
        if alone is None:
            return False
        parts = memory["packed"].setdefault("+".join(models), {})
        if name not in parts:
            parts[name] = speed / alone
            memory["seen"] += 1
        return False

    def _gain(self, memory: dict[str, Any], models: list[str]) -> float | None:
        """What these models do together, in parts of the speed of one alone; None: it is not known."""
        if len(models) == 1:
            return 1.0
        parts = memory["packed"].get("+".join(sorted(models)))
        if parts is None or any(model not in parts for model in models):
            return None
        return float(sum(parts[model] for model in models))

    # --- the wish --------------------------------------------------------------------------------------

    def allot(self, view: AllotView, memory: dict[str, Any], at: float) -> WishChange:
        self._touched, self._gone = {}, {}
        if view.changed is None or self._floor is None:
            self._rebuild(view)
        else:
            for job in view.changed:
                self._update(job, view)
        if memory["seen"] != self._seen:
            self._seen = memory["seen"]
            self._touch_shared()
        again_at = self._seat_those_that_wait(view, at)
        again_at = min(again_at, self._migrate(view, at))
        again_at = min(again_at, self._grow(view, memory, at))
        given, withdrawn, is_trial = self._difference(view, memory)
        if is_trial:  # by then it has been measured
            again_at = min(again_at, at + self.slice_s)
        standing = None if self._state is None else self._state.wish
        if standing is not None and standing.again_at > at:
            again_at = min(again_at, standing.again_at)
        return WishChange(given, withdrawn, again_at)

    def reason(self, job: JobState, view: AllotView, memory: Any) -> str:
        wished = view.wish.get(job.id)
        if wished is not None:
            if wished.gpus > job.job.demand.gpus:
                return "the other GPUs of its node are free, until another job could use them"
            return "it grows while GPUs of its node are free and nobody waits for them"
        if job.job.demand.gpu_memory_bytes is None and any(
            node.gpu_memory_bytes for node in view.ledger.nodes
        ):
            return "no free slots, and it shares none: it does not state how much memory of a GPU it needs"
        seat = f"seat of {job.gpus} GPUs"
        return f"no free slots, and no {seat} has fewer than {self.layers} jobs and enough memory for it"

    def _rebuild(self, view: AllotView) -> None:
        """Find the seats of all jobs from the wish that stands."""
        self._floor = floor = Floor(view.ledger, self.layers)
        self._waiting.clear()
        self._waits.clear()
        self._elastic.clear()
        self._seen = -1
        for job in sorted(view.taken(), key=lambda job: job.id):
            self._update(job, view)
        wish = view.wish
        for job in sorted(view.jobs(), key=lambda job: job.id):
            known, run = wish.get(job.id), job.gpu_run
            seat = None
            if known is not None and known.slots is not None and known.gpus == job.gpus:
                if all(mask & ~view.ledger.offered[node] == 0 for node, mask in known.slots):
                    seat = floor.sit(job, known.slots, known.layer)
            elif run is not None and job.phase is not Phase.STOPPING:
                seat = floor.sit(job, run.allocation, run.layer)
            if seat is None:
                self._wait(job, view)
                self._gone[job.id] = None
            else:
                self._close_or_open(seat, view)
                self._touch(seat)
        for id in wish.keys() - floor.seat_of.keys():
            self._gone[id] = None

    def _update(self, job: JobState, view: AllotView) -> None:
        floor = self._floor
        assert floor is not None
        seat = floor.seat_of.get(job.id)
        if view.is_taken(job):
            self._stop_waiting(job.id)
            self._seat_taken(job, seat, view)
        elif view.key(job) is None:
            self._stop_waiting(job.id)
            self._leave(job.id)
        elif seat is None:
            self._stop_waiting(job.id)
            self._wait(job, view)
        elif seat.gpus != job.gpus:
            self._leave(job.id)
            self._wait(job, view)
        else:
            self._close_or_open(seat, view)
            self._touch(seat)  # its priority may have changed

    def _seat_taken(self, job: JobState, seat: Seat | None, view: AllotView) -> None:
        """A run that may not be stopped sits where it is; whoever was to sit there as well waits."""
        floor, run = self._floor, job.gpu_run
        assert floor is not None
        assert run is not None
        slots = tuple(sorted(run.allocation))
        if seat is None or seat.slots != slots:
            if seat is not None:
                self._leave(job.id)
            for other in floor.in_the_way(slots):
                for mate in list(other.members.values()):
                    self._leave(mate.id)
                    if not view.is_taken(mate):
                        self._wait(mate, view)
            seat = floor.sit(job, slots, run.layer)
            self._gone.pop(job.id, None)
        if seat is not None:
            self._close_or_open(seat, view)
            self._touch(seat)

    def _close_or_open(self, seat: Seat, view: AllotView) -> None:
        """Nobody joins a run that may never be paused, or whose turns cannot be changed."""
        seat.is_closed = any(
            not mate.preemptible or (view.is_taken(mate) and not _is_named(mate, seat, view))
            for mate in seat.members.values()
        )
        for mate in seat.members.values():
            if mate.job.demand.is_elastic:
                self._elastic[mate.id] = None
                seat.is_closed = seat.is_closed or seat.gpus > mate.job.demand.gpus  # it shrinks instead

    def _leave(self, id: JobId) -> None:
        assert self._floor is not None
        seat = self._floor.leave(id)
        self._gone[id] = None
        self._elastic.pop(id, None)
        if seat is not None:
            if seat.members:
                self._touch(seat)
            else:
                self._touched.pop(seat.slots, None)

    def _touch(self, seat: Seat) -> None:
        self._touched[seat.slots] = seat

    def _touch_shared(self) -> None:
        assert self._floor is not None
        for seat in self._floor.seat_of.values():
            if len(seat.members) > 1:
                self._touch(seat)

    # --- waiting and seating ---------------------------------------------------------------------------

    def _wait(self, job: JobState, view: AllotView) -> None:
        key = view.key(job)
        if key is None:
            return
        demand = job.job.demand
        kind = (
            *(demand.gpus, job.preemptible, demand.gpu_type, demand.cpus, demand.memory_bytes),
            *(demand.gpu_memory_bytes, demand.nodes),
        )
        insort(self._waiting.setdefault(kind, []), (key, job), key=_by_key)
        self._waits[job.id] = kind, key

    def _stop_waiting(self, id: JobId) -> None:
        known = self._waits.pop(id, None)
        if known is not None:
            kind, key = known
            queue = self._waiting[kind]
            queue.pop(bisect_left(queue, key, key=_by_key))
            if not queue:
                del self._waiting[kind]

    def _seat_those_that_wait(self, view: AllotView, at: float) -> float:
        """Seat jobs in order, as far as seats go; the instant at which one will have waited for too long."""
        again_at = INFINITY
        heads = dict.fromkeys(self._waiting, 0)
        while heads:
            kind = min(heads, key=lambda kind: self._waiting[kind][heads[kind]][0])
            job = self._waiting[kind][heads[kind]][1]
            if not self._seat(job, view):
                due_at = job.waiting_since + self.options.patience_s
                if due_at > at or not self._make_room(job, view):
                    if due_at > at:
                        again_at = min(again_at, due_at)
                    del heads[kind]
                    continue
            if kind not in self._waiting:
                del heads[kind]
        return again_at

    def _seat(self, job: JobState, view: AllotView, without: int = -1) -> bool:
        """The five steps: the same affinity, an empty node, any node, a seat to share; else it waits."""
        floor = self._floor
        assert floor is not None
        suits = floor.suits(job.job.demand)
        slots = self._free_slots(job, suits, without)
        seat = None
        if slots is None and self._elastic:
            slots = self._shrink_for(job, suits, view)
        if slots is None and job.preemptible:
            seat = floor.seat_to_share(job, suits, self.layers)
            slots = None if seat is None else seat.slots
        demand = job.job.demand
        if slots is None and demand.nodes is None:
            slots = floor.free_slots_of_many(demand.gpus, suits)
        if slots is None:
            return False
        self._stop_waiting(job.id)
        seat = floor.sit(job, slots)
        assert seat is not None, ("no seat", job.id, slots)
        self._gone.pop(job.id, None)
        self._close_or_open(seat, view)
        self._touch(seat)
        return True

    def _free_slots(self, job: JobState, suits: Suits | None, without: int = -1) -> Allocation | None:
        """On one node, or on several if it is larger than any; in its pieces if it has asked for nodes."""
        floor, demand = self._floor, job.job.demand
        assert floor is not None
        if demand.nodes is not None:
            return floor.free_slots_in_pieces(demand.pieces, suits)
        slots = floor.free_slots_for(demand.gpus, suits, without) if demand.gpus <= floor.total else None
        if slots is None and demand.gpus > max(floor.sizes, default=0):
            slots = floor.free_slots_of_many(demand.gpus, suits)
        return slots

    def _make_room(self, job: JobState, view: AllotView) -> bool:
        """Let smaller jobs leave the nodes with the fewest, until the gang fits; they sit or wait elsewhere.

        Because they are smaller, they cannot drive the gang away in turn.
        """
        floor = self._floor
        assert floor is not None
        suits, gpus = floor.suits(job.job.demand), job.job.demand.gpus
        nodes: list[tuple[int, int]] = []
        for node in range(len(floor.sizes)):
            if not floor.sizes[node] or (suits is not None and not suits(node)):
                continue
            jobs = [mate for seat in floor.seats_on(node) for mate in seat.members.values()]
            if all(mate.job.demand.gpus < gpus and not view.is_taken(mate) for mate in jobs):
                nodes.append((sum(mate.job.demand.gpus for mate in jobs), node))
        chosen, room = [], 0
        pieces = () if job.job.demand.nodes is None else job.job.demand.pieces
        for _, node in sorted(nodes):
            if room < gpus and (not pieces or floor.sizes[node] >= pieces[0]):
                chosen.append(node)
                room += pieces[len(chosen) - 1] if pieces else floor.sizes[node]
        if room < gpus:
            return False
        homeless: dict[JobId, JobState] = {}
        for node in chosen:
            for seat in floor.seats_on(node):
                for mate in list(seat.members.values()):
                    self._leave(mate.id)
                    homeless[mate.id] = mate
        slots = self._free_slots(job, suits)
        if slots is None and not pieces:
            slots = floor.free_slots_of_many(gpus, suits)
        assert slots is not None, ("no room", job.id, chosen)
        self._stop_waiting(job.id)
        new = floor.sit(job, slots)
        assert new is not None
        self._gone.pop(job.id, None)
        self._close_or_open(new, view)
        self._touch(new)
        for mate in homeless.values():
            if not self._seat(mate, view):
                self._wait(mate, view)
        return True

    # --- growing and shrinking -------------------------------------------------------------------------

    def _grow(self, view: AllotView, memory: dict[str, Any], at: float) -> float:
        """Let elastic jobs grow over free slots of their nodes that nobody could use, once they have settled.

        Returns the next instant at which one may that may not now.
        """
        floor = self._floor
        assert floor is not None
        again_at = INFINITY
        if not self._elastic or self._waits or any(floor.deepest(size) > 1 for size in floor.gang_sizes()):
            return again_at
        for id in sorted(self._elastic):
            seat = floor.seat_of[id]
            job, node = seat.members[id], seat.slots[0][0]
            more = min(floor.counts[node], job.job.demand.most - seat.gpus)
            if more <= 0 or len(seat.slots) > 1:
                continue
            may_at = self._may_migrate_at(job, view)
            if may_at == INFINITY and not view.is_taken(job):  # it is about to begin
                may_at = at + self.options.settle_s
            if may_at > at:
                again_at = min(again_at, may_at)
            elif _pays(memory, job, seat.gpus + more):
                self._resize(job, node, seat.slots[0][1] | lowest(floor.free[node], more), view)
        return again_at

    def _shrink_for(self, job: JobState, suits: Suits | None, view: AllotView) -> Allocation | None:
        """Let jobs that have grown shrink, as few as possible on one node, so that the job gets free slots.

        A gang that is larger than any node, or has asked for nodes, makes all of them shrink.
        """
        floor = self._floor
        assert floor is not None
        grown: dict[int, list[tuple[int, JobId]]] = {}
        for id in self._elastic:
            seat = floor.seat_of[id]
            mate = seat.members[id]
            surplus = seat.gpus - mate.job.demand.gpus
            is_alone = len(seat.slots) == len(seat.members) == 1
            if surplus > 0 and is_alone and not view.is_taken(mate):
                grown.setdefault(seat.slots[0][0], []).append((-surplus, id))
        gpus = job.job.demand.gpus
        if job.job.demand.nodes is not None or gpus > max(floor.sizes, default=0):
            if floor.total - sum(surplus for each in grown.values() for surplus, _ in each) < gpus:
                return None
            for node in sorted(grown):
                for _, id in sorted(grown[node]):
                    self._shrink(id, node, view)
            return self._free_slots(job, suits)
        for node in sorted(grown, key=lambda node: (len(grown[node]), node)):
            room = floor.counts[node] - sum(surplus for surplus, _ in grown[node])
            if room < gpus or (suits is not None and not suits(node)):
                continue
            for _, id in sorted(grown[node]):
                if floor.counts[node] < gpus:
                    self._shrink(id, node, view)
            return ((node, lowest(floor.free[node], gpus)),)
        return None

    def _shrink(self, id: JobId, node: int, view: AllotView) -> None:
        assert self._floor is not None
        seat = self._floor.seat_of[id]
        job = seat.members[id]
        self._resize(job, node, lowest(seat.slots[0][1], job.job.demand.gpus), view)

    def _resize(self, job: JobState, node: int, mask: int, view: AllotView) -> None:
        """The job, which sits alone, gets these slots of its node."""
        assert self._floor is not None
        self._leave(job.id)
        seat = self._floor.sit(job, ((node, mask),))
        assert seat is not None, ("no seat", job.id, node, mask)
        self._gone.pop(job.id, None)
        self._close_or_open(seat, view)
        self._touch(seat)

    # --- migration -------------------------------------------------------------------------------------

    def _migrate(self, view: AllotView, at: float) -> float:
        """Let jobs of full seats migrate to free slots, or to seats with two jobs fewer.

        Returns the next instant at which one may that may not now.
        """
        floor = self._floor
        assert floor is not None
        again_at = INFINITY
        again_at = self._widen(view, at)
        sizes = set(floor.gang_sizes())
        while sizes:  # free slots are for the size with the fullest seats
            depth, gpus = max((floor.deepest(size), -size) for size in sizes)
            gpus = -gpus
            if depth < 2:
                break
            moved, may_at = self._migrate_one(gpus, depth, view, at)
            if not moved:
                again_at = min(again_at, may_at)
                sizes.discard(gpus)
                if may_at < INFINITY and floor.total >= gpus:
                    break  # they are kept for it
        return again_at

    def _migrate_one(self, gpus: int, depth: int, view: AllotView, at: float) -> tuple[bool, float]:
        floor = self._floor
        assert floor is not None
        if floor.total < gpus and not self._is_uneven(gpus, depth):
            return False, INFINITY
        again_at = INFINITY
        for seat in floor.seats_at(gpus, depth):
            for job in sorted(seat.members.values(), key=_by_grant):
                may_at = self._may_migrate_at(job, view)
                if may_at > at:
                    again_at = min(again_at, may_at)
                    continue
                suits = floor.suits(job.job.demand)
                slots = self._free_slots(job, suits)
                if slots is None:
                    other = floor.seat_to_share(job, suits, depth - 1)
                    slots = None if other is None else other.slots
                if slots is None:
                    return False, INFINITY
                self._leave(job.id)
                new = floor.sit(job, slots)
                assert new is not None
                self._gone.pop(job.id, None)
                self._close_or_open(new, view)
                self._touch(new)
                return True, INFINITY
        return False, again_at

    def _widen(self, view: AllotView, at: float) -> float:
        """Let jobs of other sizes share more, so that the size with the fullest seats gets a further one.

        Returns the next instant at which that may be possible that is not now.
        """
        floor = self._floor
        assert floor is not None
        again_at = INFINITY
        sizes = floor.gang_sizes()
        depth, gpus = max(((floor.deepest(size), -size) for size in sizes), default=(0, 0))
        gpus = -gpus
        if depth < 2 or floor.free_slots_for(gpus, None) is not None:
            return again_at
        for size in sorted(sizes):
            if size <= gpus or floor.deepest(size) > depth:
                continue
            seat, may_at = self._seat_to_give_up(size, depth, view, at)
            again_at = min(again_at, may_at)
            if seat is not None:
                for job in list(seat.members.values()):
                    self._leave(job.id)
                    other = floor.seat_to_share(job, floor.suits(job.job.demand), depth - 1, seat.slots)
                    assert other is not None
                    new = floor.sit(job, other.slots)
                    assert new is not None
                    self._gone.pop(job.id, None)
                    self._touch(new)
                return again_at
        return again_at

    def _seat_to_give_up(
        self, gpus: int, depth: int, view: AllotView, at: float
    ) -> tuple[Seat | None, float]:
        """A seat whose jobs can join others with room; or from when on there may be one."""
        floor = self._floor
        assert floor is not None
        again_at = INFINITY
        for few in range(1, depth - 1):
            for seat in floor.seats_at(gpus, few):
                may_at = max(self._may_migrate_at(job, view) for job in seat.members.values())
                if may_at > at:
                    again_at = min(again_at, may_at)
                elif floor.room_at(gpus, depth - 1, seat) >= few and all(
                    floor.suits(job.job.demand) is None for job in seat.members.values()
                ):
                    return seat, INFINITY
        return None, again_at

    def _is_uneven(self, gpus: int, depth: int) -> bool:
        assert self._floor is not None
        return any(True for few in range(1, depth - 1) for _ in self._floor.seats_at(gpus, few))

    def _may_migrate_at(self, job: JobState, view: AllotView) -> float:
        """From when on the job may migrate; a run that has just begun, or stops, may not."""
        run = job.gpu_run
        if view.is_taken(job) or run is None or job.phase is Phase.STOPPING:
            return INFINITY
        return run.granted_at + float(self.options.settle_s)

    # --- turns -----------------------------------------------------------------------------------------

    def _difference(
        self, view: AllotView, memory: dict[str, Any]
    ) -> tuple[list[Allotment], list[JobId], bool]:
        """The allotments that have changed, the jobs that get nothing any more, and whether to measure."""
        floor, wish = self._floor, view.wish
        assert floor is not None
        given: list[Allotment] = []
        is_trial = False
        for slots in sorted(self._touched):
            seat = self._touched[slots]
            before = len(given)
            self._is_trial = False
            paces = self._paces(seat, memory)
            for id, job in seat.members.items():
                turn, turns = paces[id]
                allotment = Allotment(id, seat.gpus, seat.slots, None, seat.layers[id], turn, turns)
                if wish.get(id) != allotment and (not view.is_taken(job) or _is_named(job, seat, view)):
                    given.append(allotment)
            is_trial = is_trial or (self._is_trial and len(given) > before)
        withdrawn = [
            id
            for id in sorted(self._gone)
            if id in wish and id not in floor.seat_of and not self._is_taken(id, view)
        ]
        return given, withdrawn, is_trial

    def _is_taken(self, id: JobId, view: AllotView) -> bool:
        assert self._state is not None
        job = self._state.jobs.get(id)
        return job is not None and view.is_taken(job)

    def _paces(self, seat: Seat, memory: dict[str, Any]) -> dict[JobId, tuple[int, int]]:
        """Turn and turns of each job on the seat; those of a lower priority than others are paused."""
        members = seat.members
        if len(members) == 1:
            return dict.fromkeys(members, (0, 1))
        best = min(job.priority for job in members.values())
        rows: list[list[JobState]] = []
        for id in sorted(members):
            job = members[id]
            if job.priority == best:
                row = self._row_for(job, rows, memory) if self._packs else None
                if row is None:
                    rows.append([job])
                else:
                    row.append(job)
        paces = dict.fromkeys(members, (0, 0))
        for turn, row in enumerate(rows):
            for job in row:
                paces[job.id] = (turn, len(rows))
        return paces

    def _row_for(
        self, job: JobState, rows: list[list[JobState]], memory: dict[str, Any]
    ) -> list[JobState] | None:
        """Those with whom the job may be packed: not known to hurt, and each was measured alone."""
        name = _profile(job)
        if name not in memory["alone"]:
            self._is_trial = True
            return None
        for row in rows:
            if len(row) >= self.options.pack:
                continue
            models = [_profile(mate) for mate in row]
            before, after = self._gain(memory, models), self._gain(memory, [*models, name])
            if before is not None and (after is None or after > before * GAIN):
                self._is_trial = self._is_trial or after is None
                return row
        return None


def _by_key(item: tuple[Key, JobState]) -> Key:
    return item[0]


def _by_grant(job: JobState) -> tuple[float, int]:
    run = job.gpu_run
    return (INFINITY if run is None else run.granted_at, job.id)


def _profile(job: JobState) -> str:
    """Jobs of one model and size are taken to be alike."""
    return f"{job.model}*{job.gpus}"


def _pays(memory: dict[str, Any], job: JobState, gpus: int) -> bool:
    """Whether the job is faster on so many GPUs, as far as trainings of its model were measured."""
    now = memory["alone"].get(_profile(job))
    then = memory["alone"].get(f"{job.model}*{gpus}")
    return now is None or then is None or then > now * GAIN


def _is_named(job: JobState, seat: Seat, view: AllotView) -> bool:
    """Whether the wish that stands gives the job this seat, so that its turns may change."""
    known = view.wish.get(job.id)
    return known is not None and known.slots == seat.slots and known.layer == seat.layers[job.id]
