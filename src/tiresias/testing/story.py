"""A Story is a simulation with its facts, which are read back from its journal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.core.model import Cluster, Demand, Job, JobId, Node, Priority, RunId
from tiresias.sim import clusters
from tiresias.sim.result import Result
from tiresias.sim.simulate import simulate
from tiresias.sim.trace import Trace

KINDS: dict[str, Any] = {kind.__name__: kind for kind in f.Fact.__args__}


@dataclass(slots=True)
class Story:
    """The trace, the cluster, the facts in order, and the Result of a simulation."""

    trace: Trace
    cluster: Cluster
    facts: list[f.Fact]
    result: Result

    def jobs(self) -> dict[JobId, Job]:
        """The jobs that were submitted."""
        return {fact.job.id: fact.job for fact in self.facts if isinstance(fact, f.JobSubmitted)}

    def grants(self) -> dict[RunId, f.RunGranted]:
        return {fact.run_id: fact for fact in self.facts if isinstance(fact, f.RunGranted)}

    def on_gpus(self, grant: f.RunGranted) -> bool:
        return self.cluster.nodes[grant.allocation[0][0]].gpus > 0

    def runs(self) -> Iterator[tuple[f.RunGranted, f.RunExited]]:
        """Every run from its grant to its exit, in order of exit."""
        grants = self.grants()
        for fact in self.facts:
            if isinstance(fact, f.RunExited):
                yield grants[fact.run_id], fact


def story_of(trace: Trace, cluster: Cluster | str, policy: Any, **settings: Any) -> Story:
    """Simulate and read the journal back; `settings` are arguments of `simulate`."""
    if isinstance(cluster, str):
        cluster = clusters.parse(cluster)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        result = simulate(trace, cluster, policy, journal=path, **settings)
        return Story(trace, cluster, read_journal(path), result)


def read_journal(path: Path) -> list[f.Fact]:
    """The facts of a journal of this version."""
    return [_fact(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _fact(values: dict[str, Any]) -> f.Fact:
    kind, version = values.pop("kind"), values.pop("version")
    assert version == f.VERSION, ("a journal of another version", version)
    if "job" in values:
        job = values["job"]
        demand, priority = Demand(**job.pop("demand")), Priority(job.pop("priority"))
        values["job"] = Job(demand=demand, priority=priority, **job)
    if isinstance(values.get("node"), dict):
        values["node"] = Node(**values["node"])
    if "allocation" in values:
        values["allocation"] = tuple((node, slots) for node, slots in values["allocation"])
    if values.get("why") is not None:
        values["why"] = f.Revocation(**{**values["why"], "rule": f.Rule(values["why"]["rule"])})
    if "cause" in values:
        values["cause"] = ExitCause(values["cause"])
    fact: f.Fact = KINDS[kind](**values)
    return fact
