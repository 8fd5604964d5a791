"""What the policy `tiresias` has learned, in words, and what it means for the place of a job."""

from __future__ import annotations

from typing import Any

from tiresias.policies.classes import ALL, Key
from tiresias.policies.hazards import Rates, survival

LONGEST_S = 90 * 86400.0  # what lasts longer than this is not given more exactly
NEAR = 1.25  # factor within which two durations count as equal
SHOWN = 5  # classes that are named


def duration(seconds: float) -> str:
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def gangs(size: int) -> str:
    """The numbers of GPUs of a power of two."""
    if size == 0:
        return "1 GPU"
    low, high = 2 ** (size - 1) + 1, 2**size
    return f"{high} GPUs" if low == high else f"{low} to {high} GPUs"


def named(key: Key) -> str:
    """The jobs of a class."""
    if key == ALL:
        return "jobs"
    level, tenant, *rest = map(str, key)
    size = gangs(int(rest.pop()))
    if level == "name":
        user, name = rest
        return f"jobs named {name} of {user}, with {size}" if user else f"jobs named {name}, with {size}"
    if level == "user":
        return f"jobs of {rest[0]} with {size}"
    return f"jobs of tenant {tenant} with {size}" if tenant else f"jobs with {size}"


def median_s(rates: Rates, from_s: float) -> float:
    """After how many further seconds of work half of the jobs have ended that have worked for so long."""
    low, high = 0.0, 1.0
    while survival(rates, from_s, from_s + high) > 0.5:
        low, high = high, 2 * high
        if high > LONGEST_S:
            return LONGEST_S
    for _ in range(30):
        middle = (low + high) / 2
        if survival(rates, from_s, from_s + middle) > 0.5:
            low = middle
        else:
            high = middle
    return high


def within(seconds: float) -> str:
    longer = seconds >= LONGEST_S
    return f"after more than {duration(LONGEST_S)}" if longer else f"within {duration(seconds)}"


def of_job(key: Key, ended: int, rates: dict[Key, Rates], work_s: float, gpus: int) -> str:
    """What was learned of a job's class, and what it means for its place."""
    if not rates:
        return (
            "too few jobs have ended to learn from: the job that has had the least service (GPUs x time) goes"
            " first"
        )
    own_s, all_s = median_s(rates[key], work_s), median_s(rates[ALL], work_s)
    half = f"half of those that have worked for {duration(work_s)}, as it has," if work_s >= 1 else "half"
    seen = f"{ended:,} {named(key)} have ended" if ended != 1 else f"1 of the {named(key)} has ended"
    if not ended:
        seen = f"no {named(key)} have ended here, but the prior knows such jobs"
    if key == ALL:
        return f"{seen}, none of them of its own class: {half} end {within(own_s)} of further work"
    ahead = "ahead of" if own_s * NEAR < all_s else "behind" if own_s > all_s * NEAR else "level with"
    text = (
        f"{seen}: {half} end {within(own_s)} of further work, of all jobs {within(all_s)}. So it is ranked"
        f" {ahead} the average job that has worked as long and has as many GPUs"
    )
    return text if gpus == 1 else f"{text}; {gpus} GPUs count as {gpus} times the work of one"


def of_classes(memory: Any) -> list[str]:
    """How soon the jobs of the largest classes tend to end, a sentence each."""
    counts, rates = memory.classes.counts, memory.now.rates
    known = [key for key in rates if key[0] == "class" and key in counts]
    found = []
    for key in sorted(known, key=lambda key: -counts[key].ended)[:SHOWN]:
        half_s = median_s(rates.get(("recent", *key[1:]), rates[key]), 0.0)
        found.append(f"Of {named(key)}, {counts[key].ended:,} have ended; half end {within(half_s)}.")
    return found
