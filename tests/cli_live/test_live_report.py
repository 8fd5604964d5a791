"""`tir report`: a manager's own past under other policies, and how close the replay comes."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_cli import Program

from tiresias.cli.live.report import _lost, choices, lost_by_user, sentences, unit_of
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.sim.past import Fidelity, Figures, Replay, Replayed

CLOSE = Fidelity(1.02, 0.01, 0.04, 0.05)


def test_the_past_is_replayed_and_what_cannot_be_replayed_is_counted(fresh: Program, tmp_path: Path):
    """Two jobs on one GPU, one of which fails; one cancelled before it ran; one that still waits."""
    assert fresh("up", "--fake-gpus", "1").code == 0
    assert fresh("report").code == 3
    first = fresh("submit", "--", "sleep", "1").id
    second = fresh("submit", "--retries", "0", "--", "sh", "-c", "sleep 0.2; exit 1").id
    never = fresh("submit", "--", "true").id
    assert fresh("cancel", never).code == 0
    assert fresh("wait", first, second).code == 1
    waits = fresh("submit", "--begin", "+1h", "--", "true").id
    printed = fresh("report", "-o", "json").json
    assert printed["jobs"] == 2
    assert printed["left_out"] == {
        "active": 1,
        "never_ran": 1,
        "submitted_earlier": 0,
        "larger_than_the_cluster": 0,
    }
    assert printed["gpus"] == 1
    assert printed["preemption_cost"]["basis"] == "starts"
    assert [each["policy"] for each in printed["replayed"]] == [DEFAULT_POLICY, "fifo", "fifo-skip", "srsf"]
    assert [each["is_in_use"] for each in printed["replayed"]] == [True, False, False, False]
    # Both came at once, and no policy can do better than one after the other.
    assert printed["measured"]["makespan_s"] > 1.2
    assert printed["fidelity"]["avg_jct_ratio"] == pytest.approx(1.0, abs=0.2)
    assert fresh("cancel", waits).code == 0
    table = fresh("report", "--policies", "fifo", "--preemption-cost", "7")
    assert table.code == 0, table.err
    assert "2 jobs since" in table.out
    assert "a preemption costs 7.00 s, as given" in table.out
    assert f"{DEFAULT_POLICY}, measured" in table.out
    assert "srsf" not in table.out
    assert "left out 2 jobs that never ran" in table.err
    assert fresh("report", "--since", "1s", "--policies", "nonsense").code == 2


def test_a_policy_that_raises_loses_the_results_of_no_other(fresh: Program, tmp_path: Path):
    (tmp_path / "raising.py").write_text(
        "from tiresias.core.plugins import Policy, policies\n"
        "@policies.register\n"
        "class Raising(Policy):\n"
        '    """Raises."""\n'
        '    name = "raising"\n'
        "    def rank(self, job, memory, at):\n"
        "        return (job.no_such_thing,)\n"
    )
    plugin = ("--plugin", tmp_path / "raising.py")
    assert fresh("up", "--fake-gpus", "1").code == 0
    refused = fresh(*plugin, "policy", "set", "raising")
    assert refused.code == 2
    assert "tir --plugin FILE.py up" in refused.err
    assert fresh("wait", fresh("submit", "--", "true").id).code == 0
    done = fresh(*plugin, "report", "--policies", "raising,fifo")
    assert done.code == 1
    assert [each in done.out for each in ("fifo", "Fidelity")] == [True, True]
    assert "the policy 'raising' raised AttributeError: " in done.err
    assert "raising.py, line 7, in rank" in done.err
    assert "Traceback" not in done.err


def test_a_report_without_a_manager_says_how_to_start_one(fresh: Program):
    done = fresh("report")
    assert done.code == 5
    assert "tir up" in done.err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("--since", "yesterday"), "not a duration"),
        (("--policies", "fifo,fifo"), "twice"),
        (("--policies", ","), "names nothing"),
        (("--preemption-cost", "-1"), "-1"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anybody_is_asked(fresh: Program, args, complaint):
    done = fresh("report", *args)
    assert done.code == 2
    assert complaint in done.err


def names(policy: str, asked: list[str] | None = None) -> list[str]:
    used = {"name": policy, "options": {"queues": "10"} if policy == "tiresias-l" else {}}
    in_use, others = choices(used, asked)
    assert in_use.options == used["options"]
    return [in_use.policy, *(each.policy for each in others)]


def test_the_policy_in_use_is_compared_with_the_plainest_the_oracle_and_ours():
    assert names("tiresias-l") == ["tiresias-l", "fifo", "fifo-skip", "srsf"]
    assert names("tiresias-g") == ["tiresias-g", "fifo", "fifo-skip", "srsf"]
    assert names("fifo") == ["fifo", "fifo-skip", "srsf", DEFAULT_POLICY]
    assert names("las") == ["las", "fifo", "fifo-skip", "srsf", DEFAULT_POLICY]
    assert names("las", ["fifo", "las"]) == ["las", "fifo"]


def replays(preemptions: int = 1, **averages: float) -> Replay:
    lines = [
        Replayed(name.replace("_", "-"), {}, number == 0, Figures(value, value, value, 100.0, preemptions))
        for number, (name, value) in enumerate(averages.items())
    ]
    return Replay(lines[0].figures, lines, CLOSE, 0)


def test_the_sentences_follow_the_figures():
    worse, better, close = sentences(replays(tiresias_l=14400.0, fifo=28800.0, srsf=10800.0))
    assert worse == (
        "Under fifo a job would have taken 8.00 hours on average instead of 4.00 hours: 2.00 times as long."
    )
    assert "knows every duration" in better
    assert "3.00 hours on average instead of 4.00 hours: 25% less" in better
    assert "1.020 times the measured one" in close
    assert "off by 1.0% (median), 4.0% (p95), 5.0% (most)" in close
    assert sentences(replays(tiresias_l=100.0, las=100.1))[0] == "las would have made no difference."


def test_the_report_says_when_preemption_did_not_pay():
    *_, said, _ = sentences(replays(tiresias_l=14400.0, fifo_skip=14000.0, srsf=10800.0))
    assert said == (
        "Preemption did not pay: fifo-skip, which never preempts, has an average JCT of 3.89 hours, "
        "no longer than that of tiresias-l (4.00 hours)."
    )
    assert "Preemption" not in " ".join(sentences(replays(tiresias_l=14400.0, fifo_skip=15000.0)))
    assert "Preemption" not in " ".join(sentences(replays(preemptions=0, tiresias_l=9.0, fifo_skip=9.0)))


@pytest.mark.parametrize(
    ("averages", "unit"), [((21.0, 42.0), "seconds"), ((130.0, 90_000.0), "minutes"), ((7200.0,), "hours")]
)
def test_times_are_in_a_unit_of_which_there_are_some(averages, unit):
    assert unit_of(averages)[1] == unit


def test_lost_work_is_added_up_by_user_the_most_first():
    rows = [
        {"user": "ann", "lost_gpu_s": 3600.0},
        {"user": "ben", "lost_gpu_s": 36000.0},
        {"user": "cal", "lost_gpu_s": 0.0},
        {"user": "ann", "lost_gpu_s": 7200.0},
    ]
    assert list(lost_by_user(rows).items()) == [("ben", 36000.0), ("ann", 10800.0)]
    [sentence] = _lost(lost_by_user(rows))
    assert sentence == "Stopped jobs lost 13.0 GPU-hours of work that they had not saved: ben 10.0, ann 3.00."
    assert _lost({}) == []
