"""`tiresias compare`: several policies at once, each against the best and the oracle."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

import tiresias.policies  # noqa: F401  (for what it registers)
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.core.plugins import policies
from tiresias.sim.report import OBJECTS, SUMMARY_KEYS

ON = ("--cluster", "1x4")


def rows(table: str) -> dict[str, list[str]]:
    """The table's cells by policy."""
    body = table.split("──\n")[1].split("\n\n")[0]
    return {line.split()[0]: line.split()[1:] for line in body.splitlines()}


def test_policies_come_in_the_order_asked_for_with_their_ratios(tiresias, two_jobs):
    outcome = tiresias("compare", two_jobs, *ON, "--policies", "srsf,fifo", "--preemption-cost", 0)
    assert outcome.code == 0
    assert list(rows(outcome.out)) == ["srsf", "fifo"]
    # srsf: the short job runs at once (20 s), the long one takes 120 s, average 70 s; fifo: 105 s.
    srsf, fifo = rows(outcome.out).values()
    assert srsf[0] == "1.17"
    assert srsf[-2:] == ["1.00x", "1.00x"]
    assert fifo[0] == "1.75"
    assert fifo[-2:] == ["1.50x", "1.50x"]
    assert "Times are in minutes" in outcome.out
    assert "not among the policies" not in outcome.out


@pytest.mark.usefixtures("without_workers")
def test_a_missing_oracle_is_said_and_not_added(tiresias, two_jobs):
    outcome = tiresias("compare", two_jobs, *ON, "--policies", "fifo")
    assert rows(outcome.out)["fifo"][-2:] == ["1.00x", "–"]
    assert "srsf, the oracle, is not among the policies" in outcome.out


@pytest.mark.usefixtures("without_workers")
def test_json_is_a_list_of_summaries(tiresias, two_jobs):
    outcome = tiresias("compare", two_jobs, *ON, "--policies", "fifo,srsf", "--json")
    assert [each["policy"] for each in outcome.json] == ["fifo", "srsf"]
    assert [key for key in outcome.json[0] if key not in OBJECTS] == list(SUMMARY_KEYS)
    assert outcome.json[0]["avg_jct_s"] == 105.0


def test_out_has_a_directory_a_policy_and_a_common_plot(tiresias, two_jobs, tmp_path):
    outcome = tiresias("compare", two_jobs, *ON, "--policies", "fifo,srsf", "--json", "--out", "o")
    assert (tmp_path / "o/jct-cdf.png").read_bytes().startswith(b"\x89PNG")
    for number, policy in enumerate(("fifo", "srsf")):
        assert json.loads((tmp_path / f"o/{policy}/summary.json").read_text()) == outcome.json[number]
        assert len((tmp_path / f"o/{policy}/jobs.csv").read_text().splitlines()) == 3
    assert "wrote 2 directories" in outcome.err


@pytest.mark.usefixtures("without_workers")
def test_an_option_goes_to_the_policies_that_have_it_and_that_is_said(tiresias):
    base = ("compare", "builtin:testbed-480", "--cluster", "15x4", "--policies", "fifo,tiresias-l,tiresias-g")
    plain = tiresias(*base, "--json").json
    for_all = tiresias(*base, "--json", "--set", "queues=100")
    assert for_all.err.startswith("note: queues applies to tiresias-l, tiresias-g; fifo has no such option\n")
    changed = [one["avg_jct_s"] != other["avg_jct_s"] for one, other in zip(plain, for_all.json, strict=True)]
    assert changed == [False, True, True]
    for_one = tiresias(*base, "--json", "--set", "tiresias-g.queues=100")
    assert "applies to" not in for_one.err
    assert for_one.json[1]["avg_jct_s"] == plain[1]["avg_jct_s"]
    assert for_one.json[2]["avg_jct_s"] == for_all.json[2]["avg_jct_s"]


def test_what_a_worker_cannot_simulate_comes_back_as_a_message(tiresias, two_jobs, monkeypatch):
    # The parent's own checks are switched off, so that it is the worker that finds the mistake.
    monkeypatch.setattr(import_module("tiresias.sim.experiment"), "check", lambda cell: None)
    monkeypatch.setattr("tiresias.cli.inputs.require_placer", lambda name: None)
    outcome = tiresias("compare", two_jobs, *ON, "--policies", "fifo,srsf", "--placer", "nowhere")
    assert outcome.code == 2
    assert outcome.err.startswith("Error: no placer 'nowhere' (known: ")
    assert outcome.err.count("\n") == 1


@pytest.mark.usefixtures("without_workers")
def test_a_narrow_terminal_leaves_columns_out_and_says_so(tiresias, two_jobs, monkeypatch):
    wide = tiresias("compare", two_jobs, *ON, "--policies", "fifo,srsf")
    monkeypatch.setenv("COLUMNS", "40")
    narrow = tiresias("compare", two_jobs, *ON, "--policies", "fifo,srsf")
    assert max(map(len, narrow.out.splitlines())) <= 40
    assert len(rows(narrow.out)["fifo"]) < len(rows(wide.out)["fifo"])
    assert "left out" in narrow.out
    assert "left out" not in wide.out


def test_placers_side_by_side(tiresias, tmp_path):
    gangs = "id,submitted_at,gpus,duration_s,model\n" + "".join(f"{n},{n},2,90,vgg16\n" for n in range(4))
    (tmp_path / "gangs.csv").write_text(gangs)
    asked = ("compare", "gangs.csv", "--cluster", "4x2", "--network", "consumer-10g")
    outcome = tiresias(*asked, "--placers", "packed,spread", "--out", "o")
    assert outcome.code == 0
    assert "placer" in outcome.out
    assert "spread" in outcome.out
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == [
        "fairness.png",
        "jct-cdf.png",
        "packed",
        "slowdown.png",
        "spread",
        "summary.json",
    ]
    packed, spread = json.loads((tmp_path / "o/summary.json").read_text())
    assert (packed["policy"], packed["placer"], packed["avg_slowdown"]) == ("tiresias", "packed", 1.0)
    assert spread["avg_slowdown"] > 1.5
    both = tiresias(*asked, "--policies", "fifo,srsf", "--placers", "packed,spread", "--json")
    assert [(each["policy"], each["placer"]) for each in both.json] == [
        ("fifo", "packed"),
        ("fifo", "spread"),
        ("srsf", "packed"),
        ("srsf", "spread"),
    ]


def test_the_default_policy_is_compared_with_both_fifos_and_the_oracle(tiresias, two_jobs):
    outcome = tiresias("compare", two_jobs, *ON, "--json")
    assert [each["policy"] for each in outcome.json] == ["fifo", "fifo-skip", DEFAULT_POLICY, "srsf"]


def test_a_comparison_says_when_preemption_does_not_pay(tiresias, tmp_path):
    (tmp_path / "t.csv").write_text("submitted_at,gpus,duration_s\n0,2,4000\n100,2,4000\n")
    asked = ("compare", "t.csv", "--cluster", "1x2", "--policies")
    said = tiresias(*asked, "fifo-skip,tiresias-l,srsf", "--set", "queues=100").out
    text = " ".join(said.split())
    assert "Preemption does not pay here: fifo-skip, which never preempts, has an average JCT of" in text
    assert "no longer than that of tiresias-l (" in text
    assert "srsf (" not in text.partition("Preemption")[2]  # it knows durations
    (tmp_path / "t.csv").write_text("submitted_at,gpus,duration_s\n0,2,4000\n100,2,10\n")
    paper = ("--set", "queues=100", "--set", "cost=0")  # which preempts for a job of 10 s
    assert "Preemption" not in tiresias(*asked, "fifo-skip,tiresias-l", *paper).out
    (tmp_path / "t.csv").write_text("submitted_at,gpus,duration_s\n0,2,4000\n100,2,4000\n")
    assert "Preemption" not in tiresias(*asked, "fifo,tiresias-l", "--set", "queues=100").out


def test_one_placer_or_several(tiresias, two_jobs):
    outcome = tiresias("compare", two_jobs, *ON, "--placers", "packed,count", "--placer", "count")
    assert outcome.code == 2
    assert "cannot be combined" in outcome.err


def test_jobs_run_on_nodes_of_cpus_as_in_simulate(tiresias, tmp_path):
    (tmp_path / "lab.yaml").write_text("nodes: [{gpus: 4}, {gpus: 0, cpus: 32}]\n")
    (tmp_path / "t.csv").write_text("submitted_at,gpus,duration_s\n0,4,1000\n0,4,1000\n")
    words = ("t.csv", "--cluster", "lab.yaml", "--json")
    both = ("--policies", "fifo,srsf")
    with_cpus = tiresias("compare", *words, *both, "--cpu-speed", "0.5").json
    assert [each["cpu_runs"] for each in with_cpus] == [0, 1]  # fifo never preempts
    alone = tiresias("simulate", *words, "--policy", "srsf", "--cpu-speed", "0.5").json
    assert alone | {"wall_s": 0} == with_cpus[1] | {"wall_s": 0}
    for words_more, runs in ((["--no-use-cpus"], [0, 0]), (["--use-cpus"], [1, 1])):
        outcome = tiresias("compare", *words, *both, "--cpu-speed", "0.5", *words_more)
        assert [each["cpu_runs"] for each in outcome.json] == runs


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cpu-speed", "0.1"), "Error: speed on CPUs 0.1: the cluster has no node with CPUs only"),
        (("--use-cpus",), "Error: asked to use CPUs: the cluster has no node with CPUs only"),
        (("--cpu-speed", "2"), "Error: speed on CPUs 2.0: give it relative to GPUs"),
    ],
)
def test_cpus_that_are_not_there_are_an_error_in_words(tiresias, two_jobs, words, message):
    done = tiresias("compare", two_jobs, "--cluster", "1x4", "--policies", "fifo,srsf", *words)
    assert done.code == 2
    assert message in " ".join(done.err.split())


def test_a_policy_that_raises_does_not_lose_the_others(tiresias, tmp_path, two_jobs):
    (tmp_path / "mine.py").write_text(
        "from tiresias.core.plugins import Policy, policies\n"
        "@policies.register\n"
        "class Mine(Policy):\n"
        '    """Raises."""\n'
        '    name = "mine"\n'
        "    def rank(self, job, memory, at):\n"
        "        return (1 / 0,)\n"
    )
    asked = ("--plugin", "mine.py", "compare", two_jobs, *ON, "--policies", "fifo,mine,srsf", "--json")
    outcome = tiresias(*asked)
    assert outcome.code == 1
    assert [each["policy"] for each in outcome.json] == ["fifo", "srsf"]
    assert "mine: the policy 'mine' raised ZeroDivisionError" in outcome.err
    assert "line 7" in outcome.err


def test_all_policies_and_allocators_are_compared_in_one_table(tiresias, two_jobs, tmp_path, monkeypatch):
    ours = {
        name: policies.get(name)
        for name in policies.names()
        if policies.get(name).__module__.startswith("tiresias.policies.")
    }
    monkeypatch.setattr(policies, "_classes", ours)  # other tests have registered some of their own
    outcome = tiresias("compare", two_jobs, *ON, "--all", "--json", "--out", tmp_path / "o")
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert {each["policy"] for each in found} == set(ours)
    assert {"two-level", "philly", "themis", "ftf"} <= {each["policy"] for each in found}
    assert (tmp_path / "o/fairness.png").read_bytes().startswith(b"\x89PNG")


def test_all_and_named_policies_are_refused_together(tiresias, two_jobs):
    outcome = tiresias("compare", two_jobs, *ON, "--all", "--policies", "fifo")
    assert outcome.code == 2
    assert "--all and --policies fifo" in outcome.err
