"""What the metrics count: waits, preemptions, GPU time and lost work by user."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.api.metrics import Figures
from tiresias.core.model import Priority
from tiresias.live import tallies
from tiresias.live.submission import Caller
from tiresias.testing.live import LiveLab

BOB = Caller("bob")


def values(lab: LiveLab) -> dict[str, float]:
    """The metrics, by name and labels as they are written."""
    found = {}
    for family in Figures(lab.manager).registry.collect():
        for each in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in each.labels.items())
            found[f"{each.name}[{labels}]" if labels else each.name] = each.value
    return found


def test_a_wait_is_counted_at_the_first_run_only(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1, policy="las") as lab:
        low = lab.submit("sleep 600", priority=Priority.LOW, grace_s=0.0, by=BOB)
        lab.until_running(low)
        high = lab.submit("true", priority=Priority.HIGH)
        lab.until_ended(high)
        lab.until(lambda: lab.of(low).runs == 2)
        found = values(lab)
        assert found["tiresias_wait_seconds_count"] == 2
        assert found["tiresias_wait_seconds_bucket[le=+Inf]"] == 2
        assert found["tiresias_preemptions_total"] == 1
        assert found["tiresias_gpu_seconds_total[user=bob]"] > 0
        assert found["tiresias_gpu_seconds_total[user=ann]"] > 0
        before = found["tiresias_gpu_seconds_total[user=bob]"]
        lab.until(lambda: values(lab)["tiresias_gpu_seconds_total[user=bob]"] > before)  # the present run


def test_gpu_time_is_gpus_times_seconds(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        job = lab.submit("sleep 0.3", gpus=2, by=BOB)
        lab.until_ended(job)
        service = lab.of(job).service_gpu_s
        assert values(lab)["tiresias_gpu_seconds_total[user=bob]"] == pytest.approx(service)


def test_the_number_of_users_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MOST_USERS", 2)
    with LiveLab(tmp_path, gpus=1) as lab:
        for name in ("a", "b", "c", "d"):
            lab.until_ended(lab.submit("true", by=Caller(name)))
        labels = [key for key in values(lab) if key.startswith("tiresias_gpu_seconds_total")]
        assert labels == [
            "tiresias_gpu_seconds_total[user=(others)]",
            "tiresias_gpu_seconds_total[user=a]",
            "tiresias_gpu_seconds_total[user=b]",
        ]


def test_lost_work_is_counted_by_user(tmp_path: Path) -> None:
    from tiresias.core import facts as f
    from tiresias.live.journal import Input

    with LiveLab(tmp_path, gpus=1) as lab:
        job = lab.submit("sleep 600", by=BOB)
        lab.until_running(job)
        lab.manager.apply(Input([f.WorkLost(lab.manager.now(), job, 12.0, 2)]))
        lab.manager.flush()
        assert values(lab)["tiresias_lost_gpu_seconds_total[user=bob]"] == 24.0
