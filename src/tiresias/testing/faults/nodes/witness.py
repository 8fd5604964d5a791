"""What must never happen on nodes, judged by the World and never by the ledger of the manager."""

from __future__ import annotations

from tiresias.core.model import JobId, RunId
from tiresias.executors.base import RunSpec
from tiresias.testing.faults.nodes.world import GRACE_S, MARGIN_S, NodesWorld, Process, SimulatedNode
from tiresias.testing.faults.witness import Violation

WAKES_WITHIN_S = GRACE_S + MARGIN_S  # workers that were paused beyond their lease are gone so soon after


class NodesWitness:
    def __init__(self, world: NodesWorld):
        self._world = world
        self._commanded: dict[RunId, RunSpec] = {}
        world.on_begin = self.begins

    def commands(self, spec: RunSpec) -> None:
        """The manager commands the start of a run, for the first time or again."""
        known = self._commanded.setdefault(spec.run_id, spec)
        _must(known.slots == spec.slots, "a run changes as it is started again", known.slots, spec.slots)
        program = self._world.programs[spec.command[-1]]
        _must(len(set(spec.slots)) == program.gpus, "not the gang that was asked for", spec.slots)
        nodes = {slot.node for slot in spec.slots}
        wrong = program.nodes is not None and len(nodes) != program.nodes
        _must(not wrong, "not on the nodes that were asked for", spec.run_id, program.nodes, sorted(nodes))

    def begins(self, process: Process) -> None:
        """The workers of a part begin on a node."""
        spec, name = process.spec, process.node.name
        whole = self._commanded[spec.run_id]
        order = list(dict.fromkeys(slot.node for slot in whole.slots))
        part = spec.part
        _must(part is not None, "a part without a node", spec)
        assert part is not None
        _must(part.rank == order.index(name), "ranks do not follow the nodes", spec.run_id, name, part.rank)
        mine = tuple(slot for slot in whole.slots if slot.node == name)
        _must(part.slots == mine, "a part of the gang is another one", part.slots, mine)
        if len(order) > 1:
            meeting = (spec.master_addr, spec.master_port)
            here = (f"address-of-{order[0]}", 20_000 + int(spec.run_id))
            _must(meeting == here, "the parts of a gang meet elsewhere", spec.run_id, meeting, here)
        for other in self._world.alive:
            if other is not process and other.node is process.node:
                shared = set(part.slots) & set(other.spec.part.slots if other.spec.part else ())
                _must(not shared, "a GPU of two runs", spec.run_id, other.spec.run_id, shared)

    def look(self) -> None:
        """No job has two runs at once, but for workers of which nobody could know that they are paused."""
        newest: dict[JobId, int] = {}
        alive = list(self._world.alive)
        for process in alive:
            spec = process.spec
            newest[spec.job_id] = max(newest.get(spec.job_id, 0), spec.number)
        for process in alive:
            spec = process.spec
            if spec.number < newest[spec.job_id]:
                _must(self._was_paused(process.node), "two runs of one job", spec.job_id, spec.run_id)

    def _was_paused(self, node: SimulatedNode) -> bool:
        return node.is_paused or self._world.at <= node.woke_at + WAKES_WITHIN_S

    def check_programs(self) -> None:
        """Every training has done all of its steps, and no older run has saved over a newer one."""
        for program in self._world.programs.values():
            _must(program.saved == program.steps, "work is lost", program.name, program.saved, program.steps)
            _must(not program.overwritten, "a checkpoint was replaced by an older one", program.name)


def _must(holds: bool, claim: str, *values: object) -> None:
    if not holds:
        raise Violation(f"{claim}: {', '.join(map(repr, values))}")
