"""A manager on the boxes of a bed, used as people use it: by the command line, in one of the boxes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tiresias.executors import procfs
from tiresias.testing.executors import until
from tiresias.testing.ray_bed import Bed, Box

PATIENCE_S = 240.0
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class RayLab:
    """`home` is that of the manager, in the first box; `shared` is the folder of all boxes."""

    def __init__(self, bed: Bed, top: Path, *, box: Box | None = None):
        self.bed, self.top, self.box = bed, top, box or bed.boxes[0]
        self.home, self.shared = top / "home", top / "shared"
        self.shared.mkdir(parents=True)
        self.env = {"TIRESIAS_HOME": str(self.home)}

    def tir(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = self.box.run("tir", *words, env=self.env)
        assert code is None or done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done

    def up(self, *words: str, code: int | None = 0, **settings: float) -> subprocess.CompletedProcess[str]:
        """Start the manager; `settings` are those that an administrator writes into options.json."""
        if settings:
            self.home.mkdir(exist_ok=True)
            (self.home / "options.json").write_text(json.dumps({"settings": settings}))
        where = ["--on", "ray", "--address", self.bed.address, "--shared", str(self.shared)]
        return self.tir("up", *where, "--fake-gpus", "4", *words, code=code)

    def end(self) -> None:
        """End all jobs and the manager, and wait until no process of a run is left."""
        self.tir("cancel", "--all", "--now", "--yes", code=None)
        self.tir("down", code=None)
        until(lambda: not self.processes(), "nothing of any run is left", within_s=PATIENCE_S)

    def pid(self) -> int:
        return int(json.loads((self.home / "manager.json").read_text())["pid"])

    def processes(self) -> list[int]:
        """Those of the runs of this lab, by their own environment."""
        mark = f"TIRESIAS_RUN_DIR={self.shared}/".encode()
        return [each.pid for each in procfs.all_processes() if mark in _environment(each.pid)]

    # --- jobs ------------------------------------------------------------------------------------------

    def submit(self, *words: str) -> int:
        return int(self.tir("submit", *words).stdout.split()[0])

    def job(self, id: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.tir("show", str(id), "-o", "json").stdout)
        return found

    def phase(self, id: int) -> str:
        return str(self.job(id)["summary"]["phase"])

    def step(self, id: int) -> int:
        """The step that the training has reported last."""
        return int((self.job(id)["summary"]["progress"] or {}).get("step") or 0)

    def until_trains(self, id: int, step: int = 5) -> None:
        until(lambda: self.step(id) >= step, f"job {id} has made {step} steps", within_s=PATIENCE_S)

    def nodes_of(self, id: int) -> list[str]:
        """The nodes of its last run."""
        slots = self.job(id)["runs"][-1]["slots"]
        return sorted({slot.partition(":")[0] for slot in slots})

    def why(self, id: int) -> str:
        return self.tir("why", str(id)).stdout + self.tir("nodes").stdout

    def until_phase(self, id: int, *phases: str) -> dict[str, Any]:
        until(lambda: self.phase(id) in phases, f"job {id} is {phases}", within_s=PATIENCE_S)
        return self.job(id)

    def until_ended(self, ids: Iterable[int]) -> None:
        self.tir("wait", *map(str, ids), "--timeout", f"{PATIENCE_S:g}s", code=None)
        for id in ids:
            assert self.phase(id) in ENDED, self.tir("ls", "-a").stdout

    def logs(self, id: int, worker: int = 0, *more: str) -> str:
        return self.tir("logs", str(id), "--worker", str(worker), *more).stdout

    def why_not(self, node: str) -> str:
        """Why a node is not used; empty if it is, or is not known."""
        return str(self.nodes().get(node, {}).get("reason", ""))

    def nodes(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self.tir("nodes", "-o", "json").stdout)
        return {node["name"]: node for node in (found["nodes"] if isinstance(found, dict) else found)}


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
