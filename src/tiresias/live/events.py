"""A fact of the journal as one line of text for people."""

from __future__ import annotations

from dataclasses import fields

from tiresias.core import facts as f
from tiresias.core.model import Demand
from tiresias.live.answers import EventInfo
from tiresias.live.words import began_anew, revoked
from tiresias.store import StoredFact


def event_of(stored: StoredFact, run: int | None = None, *, was_killed: bool = False) -> EventInfo:
    """The event; `run` is the number of the fact's run among those of its job, as in `tir show`.

    `was_killed` says that the run did not stop in its grace period.
    """
    fact = stored.fact
    text = _text(fact, run)
    if was_killed and isinstance(fact, f.RunExited):
        text += "; it did not stop in its grace period and was killed"
    return EventInfo(stored.seq, fact.at, type(fact).__name__, stored.job_id, text, run)


def _text(fact: f.Fact, run: int | None) -> str:
    if isinstance(fact, f.JobSubmitted):
        name = f" {fact.job.name!r}" if fact.job.name else ""
        return f"submitted{name} by {fact.job.user or 'nobody'} {_demand(fact.job.demand)}"
    if isinstance(fact, f.RunExited):
        return f"run {run} ended: {fact.cause}"
    if isinstance(fact, f.RunRevoked):
        if fact.why is not None and fact.why.rule is f.Rule.RESIZE:
            return f"run {run} resized {revoked(fact.why)}"
        return f"run {run} preempted" + ("" if fact.why is None else f" {revoked(fact.why)}")
    if isinstance(fact, f.WorkLost):
        return began_anew(fact.lost_s, fact.gpus)
    if isinstance(fact, f.JobDeferred):
        return f"waits: {fact.reason}"
    if isinstance(fact, f.JobChanged):
        return f"changed: priority {fact.job.priority}"
    if isinstance(fact, f.NodeAdded):
        return f"node {fact.node.name} with {fact.node.gpus} GPUs"
    if isinstance(fact, f.SharesSet):
        return "shares " + (", ".join(f"{who}={weight:g}" for who, weight in fact.shares.items()) or "equal")
    if isinstance(fact, f.WishChanged):
        gpus = sum(each.gpus for each in fact.given)
        return f"{fact.by} gives {len(fact.given)} jobs {gpus} GPUs and takes {len(fact.withdrawn)} out"
    if isinstance(fact, f.NodeChanged):
        return f"node {fact.node.name} has other properties"
    words = WORDS[type(fact)]
    return words.format(**{each.name: getattr(fact, each.name) for each in fields(fact)}, run=run)


def _demand(demand: Demand) -> str:
    if demand.is_elastic:
        return f"for {demand.least} to {demand.most} GPUs"
    return f"for {demand.gpus} GPUs" if demand.gpus else "without GPUs"


WORDS: dict[type, str] = {
    f.JobHeld: "held",
    f.JobReleased: "released",
    f.JobCancelled: "cancelled",
    f.JobRequeued: "stops to be queued again",
    f.JobCleared: "may queue",
    f.JobFailed: "failed without running",
    f.JobPromoted: "promoted to the first queue: it was starving",
    f.RunGranted: "run {run} granted",
    f.RunStarted: "run {run} started",
    f.RunPaced: "run {run} works in slice {turn} of {turns} (of 0: it is paused)",
    f.RunEnded: "run {run} had ended before anybody looked",
    f.WorkSaved: "has saved its work",
    f.RunProgressed: "run {run} at {progress_s:.0f} s of work",
    f.NodeDrained: "node {node} drained",
    f.NodeRestored: "node {node} back in service",
    f.NodeFellSilent: "node {node} does not answer: nothing new starts there",
    f.NodeReturned: "node {node} answers again",
    f.SlotDrained: "slot {node}:{index} out of service",
    f.SlotRestored: "slot {node}:{index} back in service",
    f.NodeRegrouped: "the GPUs of node {node} are near each other in groups {sockets}",
    f.WishRefused: "a wish of {by} was refused: {problem}",
    f.NodeCoresCounted: "node {node} has {cpus} CPU cores",
    f.TimerFired: "timer",
}
