"""kill -9 of real managers and supervisors while real trainings run: 50 times, or as TIRESIAS_KILLS says.

As root the manager has a disk that becomes full at times, and runs the jobs of two other users. In between,
and after the last one, the kernel (/proc), the trainings' own files and the journal are asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tiresias.testing.kill.accounts import other_names
from tiresias.testing.kill.campaign import Campaign
from tiresias.testing.kill.proc import Holder, clashes
from tiresias.testing.kill.small_disk import surroundings

KILLS = int(os.environ.get("TIRESIAS_KILLS", "50"))
CAMPAIGNS = 2


@pytest.mark.parametrize("seed", range(CAMPAIGNS))
def test_nothing_is_lost_and_nothing_runs_twice(
    seed: int, record_property: Callable[[str, object], None]
) -> None:
    kills, names = KILLS // CAMPAIGNS, other_names()
    with TemporaryDirectory(prefix="tiresias-kill-") as top, surroundings(Path(top)) as (home, disk):
        jobs_each = max(4, kills // 8)
        with Campaign(home, seed, kills, jobs_each=jobs_each, names=names, disk=disk) as campaign:
            report = campaign.run()
    record_property("measured", str(report))
    print(report)
    assert report.kills >= kills
    assert report.by_itself > 0
    assert report.supervisors > 0
    assert report.full_disks > 0 or disk is None
    assert report.users == set(names) or not names
    assert report.runs > report.jobs > 0
    assert report.again_s, "no manager was started anew"


@pytest.mark.skipif(os.geteuid() != 0, reason="full disks and jobs of other users need root: not shown here")
def test_the_disk_of_the_campaign_can_be_full(tmp_path: Path) -> None:
    if len(other_names()) < 2:
        pytest.skip("no two users but root can execute Python here: jobs of two users are not shown")
    with surroundings(tmp_path) as (home, disk):
        if disk is None:
            pytest.skip("mounting is not allowed here: full disks are not shown")
        home.mkdir()
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (home / "large").write_bytes(b"x" * 100_000)
        disk.free()
        (home / "large").write_bytes(b"x" * 100_000)


def test_two_living_runs_on_one_slot_are_seen() -> None:
    """The check itself: this process stands for both."""
    start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    one, two, other = (
        Holder(os.getpid(), start, run, job, slots)
        for run, job, slots in (("1", "1", ("n:0", "n:1")), ("2", "2", ("n:1",)), ("3", "3", ("n:2",)))
    )
    assert len(clashes([one, two, other])) == 1
    again = Holder(os.getpid(), start, "4", "3", ("n:3",))
    assert len(clashes([other, again])) == 1, "two runs of one job"
    assert clashes([one, other]) == []
    gone = Holder(os.getpid(), "1", "5", "5", ("n:2",))
    assert clashes([other, gone]) == [], "one of them had ended"
