"""The list, in the shared folder, of runs that were given up on silent nodes and are not known to be over.

It outlives the manager. An entry is what the agent of the node needs to find the processes of the run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tiresias.core.model import JobId, RunId
from tiresias.executors import run_files
from tiresias.executors.base import Identity, RunSpec, Slot
from tiresias.executors.directories import make_passage


class GivenUp:
    def __init__(self, folder: Path):
        self._folder = folder

    def add(self, spec: RunSpec) -> None:
        """List the part of a run that `spec.node` has."""
        directory = self._folder / spec.node
        make_passage(directory)
        who = spec.identity
        run_files.put(
            str(directory),
            f"{spec.run_id}.json",
            {
                "run_id": int(spec.run_id),
                "job_id": int(spec.job_id),
                "number": spec.number,
                "slots": [[slot.node, slot.index, slot.uuid, slot.machine] for slot in spec.slots],
                "workers": spec.workers,
                "run_dir": str(spec.run_dir),
                "checkpoint_dir": spec.checkpoint_dir,
                "journal": spec.journal,
                "account": None if who is None else [who.uid, who.gid, who.user, who.home],
            },
        )

    def of(self, node: str) -> list[RunSpec]:
        """The parts of this node, as far as their ends must be found out."""
        try:
            names = sorted(name for name in os.listdir(self._folder / node) if name.endswith(".json"))
        except FileNotFoundError:
            return []
        bodies = [json.loads((self._folder / node / name).read_text()) for name in names]
        return [_spec(node, body) for body in bodies]

    def remove(self, node: str, run_id: RunId) -> None:
        run_files.remove(str(self._folder / node), f"{run_id}.json")


def _spec(node: str, body: dict[str, Any]) -> RunSpec:
    account = body["account"]
    return RunSpec(
        RunId(body["run_id"]),
        JobId(body["job_id"]),
        body["number"],
        ("true",),
        "/",
        {},
        tuple(Slot(*slot) for slot in body["slots"]),
        Path(body["run_dir"]),
        body["checkpoint_dir"],
        workers=body["workers"],
        journal=body["journal"],
        identity=None if account is None else Identity(account[0], account[1], (), account[2], account[3]),
        node=node,
    )
