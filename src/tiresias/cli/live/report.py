"""`tir report`: the ended jobs replayed under other policies, and how accurate the replay is."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from tiresias.cli import errors
from tiresias.cli.console import bars, notify, show
from tiresias.cli.declare import Option
from tiresias.cli.errors import Stop
from tiresias.cli.inputs import require_finite
from tiresias.cli.live import manager_options
from tiresias.cli.live.connection import connected, home_of, is_remote, print_json
from tiresias.cli.live.job_text import plain
from tiresias.cli.live.times import duration_s, when
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.preemption import WITHOUT, pays
from tiresias.cli.settings import names_in
from tiresias.cli.units import LONG, UNITS_S, count, ratio, significant
from tiresias.core.defaults import BASELINES, DEFAULT_POLICY, ORACLE

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tiresias.api.client import Client
    from tiresias.sim.past import Choice, Figures, Past, Replay

ALWAYS = (*BASELINES, ORACLE)


def report(
    since: Annotated[
        str | None, Option("--since", metavar="30d", help="Only jobs submitted within this time.")
    ] = None,
    policies: Annotated[
        str | None,
        Option("--policies", metavar="A,B,…", help="Policies to compare with. Default: fifo,fifo-skip,srsf."),
    ] = None,
    preemption_cost: Annotated[
        float | None,
        Option(
            "--preemption-cost",
            metavar="SECONDS",
            help="Cost of one preemption. Default: as measured.",
        ),
    ] = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Replay the ended jobs under other policies.

    The jobs are simulated on the same GPUs under fifo, fifo-skip, srsf and the policy in use. The report also
    states how far the simulation is from what was measured, and when preemption did not pay.
    """
    ago_s = None if since is None else duration_s(since, "--since")
    names = None if policies is None else names_in(policies, "--policies")
    if preemption_cost is not None:
        require_finite(preemption_cost)
    home = home_of(None)
    if not is_remote() and home.is_dir():
        manager_options.use_plugins(manager_options.read(home))
    with connected() as client:
        print_report(client, ago_s=ago_s, names=names, preemption_cost_s=preemption_cost, output=output)


def print_report(
    client: Client,
    *,
    ago_s: float | None = None,
    names: Sequence[str] | None = None,
    preemption_cost_s: float | None = None,
    output: Output = Output.TABLE,
) -> None:
    """Print the report of this client's manager."""
    import tiresias.placers
    import tiresias.policies  # noqa: F401  (both for what they register)
    from tiresias.core.model import Cluster, Node
    from tiresias.core.plugins import placers
    from tiresias.profiles import known
    from tiresias.sim import past as pasts

    used = client.policy()
    in_use, others = choices(used, names)
    profiles = known.Profiles()
    for name, body in client.profiles().items():
        profiles.add(known.read(body, name))
    options = {**used["placer_learned"], **used["placer_options"]}
    placer = placers.make(used["placer"], options, profiles=profiles)
    since_at = 0.0 if ago_s is None else time.time() - ago_s
    rows = list(_rows(client, since_at))
    past = pasts.past_of(rows, since_at=since_at, preemption_cost_s=preemption_cost_s)
    if past is None:
        raise Stop("nothing to replay: no job has run and ended in that time; see tir ls", errors.NOT_FOUND)
    nodes = client.nodes()
    cluster = Cluster(
        [Node(node["name"], node["gpus"], sockets=tuple(map(tuple, node["groups"]))) for node in nodes]
    )
    labels = [each.policy for each in (in_use, *others)]
    with bars(labels, float(past.trace.jobs["submitted_at"][0])) as watch:
        replays = pasts.replay(past, cluster, in_use, others, placer=placer, progress=watch)
    active = sum(1 for _ in client.jobs())
    if output is Output.JSON:
        print_json(as_json(past, replays, cluster.gpus, active) | {"lost_gpu_s": lost_by_user(rows)})
        _end_if_failed(replays)
        return
    show(_head(past, replays, cluster.gpus))
    show(table(replays))
    show("\n" + "\n".join([*sentences(replays), *_lost(lost_by_user(rows))]))
    notify(_left_out(past, replays, active, nodes))
    _end_if_failed(replays)


def _end_if_failed(replays: Replay) -> None:
    """Name the policies that raised, after the results of the others."""
    if replays.failed:
        raise Stop("\n".join(replays.failed.values()), errors.FAILED)


def _rows(client: Client, since_at: float) -> Iterator[Mapping[str, Any]]:
    """The history from `since_at` on. It is ordered by end, the latest first."""
    for row in client.history():
        if row["finished_at"] < since_at:
            return
        yield row


def lost_by_user(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """GPU-seconds of work that the jobs of each user lost because they had not saved it, the most first."""
    lost: dict[str, float] = {}
    for row in rows:
        if row.get("lost_gpu_s"):
            lost[row["user"]] = lost.get(row["user"], 0.0) + row["lost_gpu_s"]
    return dict(sorted(lost.items(), key=lambda each: (-each[1], each[0])))


def _lost(by_user: Mapping[str, float]) -> list[str]:
    if not by_user:
        return []
    whose = ", ".join(f"{plain(user)} {significant(gpu_s / 3600)}" for user, gpu_s in by_user.items())
    total = significant(sum(by_user.values()) / 3600)
    return [f"Stopped jobs lost {total} GPU-hours of work that they had not saved: {whose}."]


def choices(used: Mapping[str, Any], names: Sequence[str] | None) -> tuple[Choice, list[Choice]]:
    """The policy in use with its options, and those to compare it with, with their defaults."""
    from tiresias.core.plugins import policies
    from tiresias.sim.past import Choice

    in_use = Choice(used["name"], used["options"])
    if names is None:
        names = ALWAYS if in_use.policy.startswith("tiresias") else (*ALWAYS, DEFAULT_POLICY)
    for name in names:
        policies.get(name)  # refuse an unknown name before time is spent
    return in_use, [Choice(name, {}) for name in names if name != in_use.policy]


def as_json(past: Past, replays: Replay, gpus: int, active: int) -> dict[str, Any]:
    return {
        "jobs": len(past.trace) - replays.rejected,
        "left_out": {
            "active": active,
            "never_ran": past.never_ran,
            "submitted_earlier": past.earlier,
            "larger_than_the_cluster": replays.rejected,
        },
        "gpus": gpus,
        "preemption_cost": asdict(past.cost),
        "measured": asdict(replays.measured),
        "replayed": [
            {key: value for key, value in asdict(each).items() if key != "figures"} | asdict(each.figures)
            for each in replays.replayed
        ],
        "fidelity": asdict(replays.fidelity),
    }


def _head(past: Past, replays: Replay, gpus: int) -> str:
    first = when(float(past.trace.jobs["submitted_at"][0]), time.time())
    basis = {
        "measured": f"as measured over {count(past.cost.count, 'preemption')}",
        "starts": "the time that runs take to start: no job was ever preempted",
        "given": "as given",
    }[past.cost.basis]
    jobs = count(len(past.trace) - replays.rejected, "job")
    return (
        f"{jobs} since {first}, replayed on {count(gpus, 'GPU')}; "
        f"a preemption costs {significant(past.cost.seconds)} s, {basis}\n"
    )


def table(replays: Replay) -> RenderableType:
    """The measured figures and those of the replays."""
    from rich.console import Group
    from rich.text import Text

    from tiresias.cli.tables import plain_table

    base = replays.replayed[0].figures.avg_jct_s
    every = [replays.measured, *(each.figures for each in replays.replayed)]
    size, unit = unit_of(each.avg_jct_s for each in every)
    lines = plain_table(
        "", "avg\nJCT", "median\nJCT", "p95\nJCT", "make-\nspan", "preemp-\ntions", "avg JCT,\nrelative"
    )
    lines.add_row(f"{replays.replayed[0].policy}, measured", *_cells(replays.measured, size), "")
    for each in replays.replayed:
        name = f"{each.policy}, replayed" if each.is_in_use else each.policy
        style = "bold" if each.is_in_use else ""
        lines.add_row(name, *_cells(each.figures, size), ratio(each.figures.avg_jct_s, base), style=style)
    return Group(lines, Text(), Text(f"Times are in {unit}."))


def _cells(figures: Figures, size: float) -> list[str]:
    times = (figures.avg_jct_s, figures.p50_jct_s, figures.p95_jct_s, figures.makespan_s)
    return [*(significant(value / size) for value in times), f"{figures.preemptions:,}"]


def unit_of(averages_s: Iterable[float]) -> tuple[float, str]:
    """The largest unit, up to hours, in which the smallest average is 2 or more."""
    smallest = min(averages_s)
    size, unit = next((each for each in UNITS_S[1:] if smallest >= 2 * each[0]), UNITS_S[-1])
    return size, LONG[unit]


def sentences(replays: Replay) -> list[str]:
    """What the figures mean, and how accurate they are."""
    in_use, *others = replays.replayed
    size, unit = unit_of(each.figures.avg_jct_s for each in replays.replayed)

    def written(seconds: float) -> str:
        return f"{significant(seconds / size)} {unit}"

    ours = in_use.figures.avg_jct_s
    said = []
    for each in others:
        theirs = each.figures.avg_jct_s
        if abs(theirs / ours - 1) < 0.005:
            said.append(f"{each.policy} would have made no difference.")
        else:
            than = f"{theirs / ours:.2f} times as long" if theirs > ours else f"{1 - theirs / ours:.0%} less"
            who = (
                f"{each.policy}, which knows every duration in advance,"
                if each.policy == "srsf"
                else each.policy
            )
            said.append(
                f"Under {who} a job would have taken {written(theirs)} on average instead of "
                f"{written(ours)}: {than}."
            )
    said += pays(
        {
            each.policy: each.figures.avg_jct_s
            for each in replays.replayed
            if each.figures.preemptions or each.policy == WITHOUT
        },
        written,
        "did not pay",
    )
    close = replays.fidelity
    said.append(
        f"Fidelity of the replay: its average JCT is {close.avg_jct_ratio:.3f} times the measured one; "
        f"a job's JCT is off by {close.error_p50:.1%} (median), {close.error_p95:.1%} (p95), "
        f"{close.error_max:.1%} (most)."
    )
    return said


def _left_out(past: Past, replays: Replay, active: int, nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    out = sum(slot["state"] in ("out", "foreign", "drained") for node in nodes for slot in node["slots"])
    notes = [
        (active, f"left out {count(active, 'job')} that {'has' if active == 1 else 'have'} not ended"),
        (past.never_ran, f"left out {count(past.never_ran, 'job')} that never ran"),
        (past.earlier, f"left out {count(past.earlier, 'job')} submitted earlier"),
        (replays.rejected, f"left out {count(replays.rejected, 'job')} larger than the cluster is now"),
        (out, f"{count(out, 'GPU')} out of service now; the replay uses all GPUs"),
    ]
    return [note for number, note in notes if number]
