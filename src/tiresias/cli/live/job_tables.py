"""Jobs as tables for people."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from tiresias.cli.lines import Line, Lines, Styled, pairs
from tiresias.cli.live import job_text
from tiresias.cli.live.fitted_tables import Cell, grid
from tiresias.cli.live.job_text import plain
from tiresias.cli.live.times import short, when
from tiresias.cli.units import NOTHING, count, significant

Job = Mapping[str, Any]
HOUR_S = 3600.0
WIDE = ("TENANT", "RANK", "RUNS", "PREEMPTED", "GPU-H", "SUBMITTED")
BY_A_PERSON = ("cancelled", "held", "requeued")
AFTER = {"after": "after success", "after_any": "after the end", "after_not_ok": "after failure"}
NUMBERS = ("ID", "GPUS", "SINCE", "PROGRESS", "RUNS", "PREEMPTED", "GPU-H")


def phase(name: str) -> Styled:
    return Styled(name, job_text.COLOURS.get(name, ""))


def listing(jobs: Sequence[Job], now: float, *, wide: bool) -> Lines:
    """One row per job."""
    if not jobs:
        return [Line.of("no jobs")]
    headers = ["ID", "NAME", "USER", "GPUS", "PHASE", "SINCE", "PROGRESS", *(WIDE if wide else ()), "REASON"]
    rows = [_cells(job, now, wide=wide) for job in jobs]
    return grid(headers, rows, right=NUMBERS, cut=("NAME", "USER", "REASON"), drop=("SUBMITTED", "TENANT"))


def _cells(job: Job, now: float, *, wide: bool) -> list[Cell]:
    began_at = since_at(job)
    return [
        str(job["id"]),
        plain(job["name"]) or NOTHING,
        plain(job["user"]),
        job_text.size(job),
        phase(job["phase"]),
        NOTHING if began_at is None else short(now - began_at),
        job_text.progress(job),
        *(_wide_cells(job, now) if wide else ()),
        job_text.reason(job),
    ]


def _wide_cells(job: Job, now: float) -> tuple[str, ...]:
    return (
        plain(job["tenant"]) or NOTHING,
        job_text.priority_and_queue(job) or NOTHING,
        str(job["runs"]),
        str(job["preemptions"]),
        significant(job["service_gpu_s"] / HOUR_S),
        when(job["submitted_at"], now),
    )


def since_at(job: Job) -> float | None:
    """The instant at which the job entered its phase; None if it is not known."""
    since = job.get("since_at")
    return None if since is None else float(since)


def summary_line(jobs: Sequence[Job]) -> str:
    """The number of jobs in each phase."""
    counts = {name: sum(job["phase"] == name for job in jobs) for name in job_text.PHASES}
    return ", ".join(f"{number:,} {name}" for name, number in counts.items() if number) or "no jobs"


def detail(job: Job, now: float) -> Lines:
    """Everything about one job, for `tir show`."""
    of, why = job["summary"], job["why"]
    began_at = since_at(of)
    lasted = "" if began_at is None else f" for {short(now - began_at)}"
    called = Styled(f"job {of['id']}", "bold")
    lines = [Line((called, f" {plain(of['name'])}  ", phase(of["phase"]), lasted))]
    lines += [Line.of(plain(each)) for each in (why["text"], why["next_step"]) if each]
    lines += [Line(), *pairs(_facts(job, now))]
    if job["runs"]:
        lines += [Line(), Line.of(f"{count(len(job['runs']), 'run')}:"), *_timeline(job["runs"], now)]
    return lines


def _facts(job: Job, now: float) -> list[tuple[str, str]]:
    from tiresias.spec.job import BY_NAME  # `ls` does not need it

    of = job["summary"]
    progress = of["progress"] or {}
    rank = job_text.priority_and_queue(of)
    is_in_array = job["array_index"] is not None
    lines = [
        ("command", plain(shlex.join(job["command"]))),
        ("directory", plain(job["cwd"])),
        ("user", plain(of["user"]) + (f", tenant {plain(of['tenant'])}" if of["tenant"] else "")),
        ("GPUs", job_text.size(of) + (f" in {job['workers']} workers" if job["workers"] > 1 else "")),
        ("rank", rank),
        ("model", plain(job["model"])),
        ("submitted", when(of["submitted_at"], now)),
        ("started", when(of["first_started_at"], now) if of["first_started_at"] else ""),
        ("ended", when(of["finished_at"], now) if of["finished_at"] else ""),
        ("exit code", "" if of["exit_code"] is None else str(of["exit_code"])),
        ("service", f"{service(of['service_gpu_s'])}, {count(of['preemptions'], 'preemption')}"),
        ("saving", _saving(job)),
        ("progress", _progress_line(progress) if progress else ""),
        ("checkpoints", plain(job["checkpoint_dir"])),
        *((what, _jobs(job[name])) for name, what in AFTER.items()),
        ("array", f"{plain(job['array'])}, index {job['array_index']}" if is_in_array else ""),
        ("limits", _limits(job)),
        *(
            (option.label, plain(option.kind.text(job[name])))
            for name, option in BY_NAME.items()
            if option.label and job[name]
        ),
        ("environment", plain(f"{count(len(job['env_names']), 'variable')} (values are never shown)")),
    ]
    return [(what, value) for what, value in lines if value]


def _saving(job: Job) -> str:
    """Whether its work outlives a stop, what it has lost, and whether it is preempted again."""
    of = job["summary"]
    resumable = of.get("resumable")
    known = "" if resumable is None else "it saves" if resumable else "it does not save"
    return "; ".join(filter(None, (known, of.get("loss", ""), job.get("protection", ""))))


def _jobs(ids: Sequence[int]) -> str:
    return f"job {', '.join(map(str, ids))}" if ids else ""


def service(gpu_s: float) -> str:
    """Attained service in a suitable unit."""
    if gpu_s < HOUR_S:
        return f"{significant(gpu_s)} GPU-seconds"
    return f"{significant(gpu_s / HOUR_S)} GPU-hours"


def _progress_line(progress: Mapping[str, Any]) -> str:
    parts = []
    if progress["step"] is not None:
        of = f" of {progress['total_steps']:,}" if progress["total_steps"] else ""
        parts.append(f"step {progress['step']:,}{of}")
    if progress["fraction"] is not None:
        parts.append(f"{progress['fraction']:.0%}")
    if progress["steps_per_s"]:
        parts.append(f"{significant(progress['steps_per_s'])} steps/s")
    if progress["eta_s"] is not None:
        parts.append(f"done in {short(progress['eta_s'])}")
    parts += [f"{plain(name)} {_number(value)}" for name, value in progress["metrics"].items()]
    if skipped := progress.get("skipped_losses"):  # jobs that ended before there was such a figure have none
        parts.append(f"{count(skipped, 'report')} with a loss that is no number")
    return ", ".join(parts)


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else plain(value)


def _limits(job: Job) -> str:
    parts = [f"{short(job['grace_s'])} to save", f"{job['retries_used']} of {job['retries']} retries used"]
    if job["time_limit_s"] is not None:
        parts.insert(0, f"{short(job['time_limit_s'])} of GPUs")
    if not job["preemptible"]:
        parts.append("never preempted")
    return ", ".join(parts)


def _timeline(runs: Sequence[Mapping[str, Any]], now: float) -> Lines:
    """The runs: slots, time, duration and ending, with the reason and the line of output that shows it."""
    lines: Lines = []
    for run in runs:
        began_at = run["started_at"] or run["granted_at"]
        ended_at = run["exited_at"]
        span = f"{when(began_at, now)} to {when(ended_at, now) if ended_at else 'now'}"
        lasted = short((ended_at or now) - began_at)
        shown = f"  {run['number']}  {slots(run['slots'])}  {span} ({lasted})  {_ending(run)}"
        lines.append(Line.of(shown, hang=5))
        said = [] if run["cause"] == "finished" else [run["sentence"], run["evidence"]]
        lines += [Line.of(f"     {plain(each)}", hang=5) for each in said if each]
    return lines


def _ending(run: Mapping[str, Any]) -> str:
    why = f" {plain(run['revoked_text'])}" if run["revoked_text"] else ""
    if run["exited_at"] is None:
        stops = f"is stopping{why}"
        return stops if run["revoked_at"] else "is running" if run["started_at"] else "is starting"
    code = "" if run["exit_code"] is None else f" (exit code {run['exit_code']})"
    if run["cause"] != "preempted":
        return f"{run['cause']}{code}"
    return f"{'stopped' if run['revoked_by'] in BY_A_PERSON else 'preempted'}{why}{code}"


def slots(names: Sequence[str]) -> str:
    """`box:0-3`, `n0:0,n1:0`: adjacent slots are written as ranges."""
    by_node: dict[str, list[int]] = {}
    for name in names:
        node, _, index = name.rpartition(":")
        by_node.setdefault(node, []).append(int(index))
    return ",".join(f"{plain(node)}:{_ranges(sorted(found))}" for node, found in by_node.items())


def _ranges(indices: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for index in indices:
        if parts and index == parts[-1][1] + 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return "+".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def why(reason: Mapping[str, Any]) -> Lines:
    """The reason, its evidence, and what can be done."""
    lines = [Line.of(plain(reason["text"]), "bold")]
    evidence = []
    if reason["ahead"]:
        more = " …" if reason["ahead_jobs"] > len(reason["ahead"]) else ""
        evidence.append(f"ahead of it: job {', '.join(map(str, reason['ahead']))}{more}")
    if reason["ahead_jobs"] or reason["free_gpus"]:
        hole = f", at most {reason['best_hole']} of them on one node" if reason["free_gpus"] else ""
        evidence.append(f"free now: {count(reason['free_gpus'], 'GPU')}{hole}")
    if reason["stopped"]:
        evidence.append(f"its last run was stopped {plain(reason['stopped'])}")
    if reason.get("learned"):  # an earlier version does not send it
        evidence.append(f"learned: {plain(reason['learned'])}")
    if reason["starts"]:
        evidence.append(plain(reason["starts"]))
    lines += [Line.of(f"  {each}", hang=2) for each in evidence]
    if reason["next_step"]:
        lines.append(Line.of(plain(reason["next_step"])))
    return lines
