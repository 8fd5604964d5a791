"""A fact of the journal as one line of text for people."""

from __future__ import annotations

from dataclasses import fields

from tiresias.core import facts as f
from tiresias.core.model import Demand
from tiresias.core.reasons import text_of
from tiresias.live.answers import EventInfo
from tiresias.live.stops import BY_USERS
from tiresias.live.words import began_anew, revoked
from tiresias.store import StoredExit, StoredFact


def event_of(
    stored: StoredFact, run: int | None = None, exit: StoredExit | None = None, stopped_by: str = ""
) -> EventInfo:
    """The event; `run` is the number of the fact's run among those of its job, as in `tir show`.

    If it is the exit of a run, `exit` says how that ended, and `stopped_by` is the kind of the fact that
    stopped it.
    """
    fact = stored.fact
    text = f"run {run} ended: {_ending(fact, exit, stopped_by)}" if isinstance(fact, f.RunExited) else ""
    return EventInfo(stored.seq, fact.at, type(fact).__name__, stored.job_id, text or _text(fact, run), run)


def _ending(fact: f.RunExited, exit: StoredExit | None, stopped_by: str) -> str:
    if exit is None:
        return fact.cause.value
    if fact.cause is f.ExitCause.FINISHED:
        return fact.cause.value
    if fact.cause is not f.ExitCause.PREEMPTED:
        return f"{fact.cause.value}: {text_of(exit.reason)}" if exit.reason else fact.cause.value
    if not exit.had_to_stop:
        return "it asked to be run again"
    how = STOPPED.get(stopped_by, fact.cause.value)
    if not exit.was_killed:
        return how
    killed = "was killed at once" if exit.was_at_once else "did not stop in its grace period and was killed"
    return f"{how}; it {killed}"


def _text(fact: f.Fact, run: int | None) -> str:
    if isinstance(fact, f.JobSubmitted):
        name = f" {fact.job.name!r}" if fact.job.name else ""
        return f"submitted{name} by {fact.job.user or 'nobody'} {_demand(fact.job.demand)}"
    if isinstance(fact, f.RunRevoked):
        if fact.why is not None and fact.why.rule is f.Rule.RESIZE:
            return f"run {run} resized {revoked(fact.why)}"
        return f"run {run} preempted" + ("" if fact.why is None else f" {revoked(fact.why)}")
    if isinstance(fact, f.WorkLost):
        return began_anew(fact.lost_s, fact.gpus)
    if isinstance(fact, f.JobDeferred):
        return f"does not queue yet: {text_of(fact.reason)}"
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
    gpus = demand.gpus
    return "without GPUs" if not gpus else "for 1 GPU" if gpus == 1 else f"for {gpus} GPUs"


STOPPED = {kind.__name__: words for kind, (words, _) in BY_USERS.items()}


WORDS: dict[type, str] = {
    f.JobHeld: "held",
    f.JobReleased: "released",
    f.JobCancelled: "cancelled",
    f.JobRequeued: "its run must stop",
    f.JobCleared: "may queue",
    f.JobFailed: "failed without running",
    f.JobPromoted: "promoted to the first queue: it was starving",
    f.RunGranted: "run {run} granted",
    f.RunStarted: "run {run} started",
    f.RunPaced: "run {run} works in slice {turn} of {turns} (of 0: it is paused)",
    f.RunEnded: "run {run} had ended before anybody looked",
    f.WorkSaved: "has saved its work",
    f.RunProgressed: "run {run} at {progress_s:.0f} s of work",
    f.LossReported: "run {run} has a loss of {loss:.6g} after {step:.0f} steps",
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
