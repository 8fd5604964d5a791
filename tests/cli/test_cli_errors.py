"""What people get wrong is one message that names the value and the next step; never a traceback."""

from __future__ import annotations

import sys

import pytest

from tiresias.cli.main import run

TESTBED = "builtin:testbed-480"
ON = ("--cluster", "15x4")

WRONG = {
    "no such file": (
        ["simulate", "nope.csv", *ON],
        ["nope.csv", "no such file"],
    ),
    "no such builtin trace": (
        ["simulate", "builtin:nope", *ON],
        ["builtin:nope", "builtin:testbed-480"],
    ),
    "not a cluster": (
        ["simulate", TESTBED, "--cluster", "fifteen"],
        ["'fifteen'", "64x8"],
    ),
    "a policy misspelt": (
        ["simulate", TESTBED, *ON, "--policy", "tiresias-k"],
        ["no policy 'tiresias-k'", "did you mean 'tiresias-", "srsf"],
    ),
    "a placer misspelt": (
        ["simulate", TESTBED, *ON, "--placer", "pack"],
        ["no placer 'pack'", "did you mean 'packed'"],
    ),
    "--set without a value": (
        ["simulate", TESTBED, *ON, "--set", "queues"],
        ["--set 'queues'", "key=value", "tiresias policies"],
    ),
    "an option misspelt": (
        ["simulate", TESTBED, *ON, "--policy", "tiresias-l", "--set", "quues=3"],
        ["'quues'", "did you mean 'queues'"],
    ),
    "an option of a policy that has none": (
        ["simulate", TESTBED, *ON, "--policy", "fifo", "--set", "queues=3"],
        ["policy fifo has no option 'queues'", "it takes none"],
    ),
    "a value of the wrong kind": (
        ["simulate", TESTBED, *ON, "--policy", "tiresias-l", "--set", "queues=many"],
        ["queues='many'", "GPU-seconds"],
    ),
    "a file of an option that is not there": (
        ["simulate", TESTBED, *ON, "--policy", "tiresias-g", "--set", "distribution=@past.csv"],
        ["distribution=@past.csv", "'past.csv'"],
    ),
    "options that do not go together": (
        ["compare", TESTBED, *ON, "--policies", "tiresias-g,fifo", "--set", "index=table"],
        ["tiresias-g: index=table and table=… go together"],
    ),
    "one key twice": (
        ["simulate", TESTBED, *ON, "--set", "stay=3", "--set", "stay=5"],
        ["stay (3 and 5)", "tiresias sweep"],
    ),
    "a cost that is no number": (
        ["simulate", TESTBED, *ON, "--preemption-cost", "nan"],
        ["--preemption-cost nan", "0 or more"],
    ),
    "a negative cost": (
        ["compare", TESTBED, *ON, "--policies", "fifo", "--preemption-cost", "-1"],
        ["--preemption-cost -1", "0 or more"],
    ),
    "a seed for a file": (
        ["simulate", "two.csv", *ON, "--seed", "3"],
        ["--seed", "two.csv is a file"],
    ),
    "an output directory that is a file": (
        ["simulate", TESTBED, *ON, "--out", "two.csv"],
        ["--out two.csv", "name a directory"],
    ),
    "a journal in a directory that is not there": (
        ["simulate", TESTBED, *ON, "--journal", "no/facts"],
        ["--journal no/facts", "no directory no"],
    ),
    "a policy named twice": (
        ["compare", TESTBED, *ON, "--policies", "fifo,srsf,fifo"],
        ["--policies names fifo twice"],
    ),
    "no policy named": (
        ["compare", TESTBED, *ON, "--policies", " , "],
        ["--policies", "separate names by commas"],
    ),
    "an option that none of the policies has": (
        ["compare", TESTBED, *ON, "--policies", "fifo,srsf", "--set", "queues=3"],
        ["none of fifo, srsf has an option 'queues'", "min_run_s"],
    ),
    "an option for a policy not asked for": (
        ["compare", TESTBED, *ON, "--policies", "fifo,srsf", "--set", "tiresias-l.queues=3"],
        ["'tiresias-l' is not among the policies given (fifo, srsf)"],
    ),
    "several seeds for a file": (
        ["sweep", "two.csv", "--clusters", "1x4", "--policies", "fifo", "--seeds", "1,2"],
        ["--seeds", "two.csv is a file", "same for every seed"],
    ),
    "a seed that is no number": (
        ["sweep", TESTBED, "--clusters", "1x4", "--policies", "fifo", "--seeds", "1,two"],
        ["--seeds '1,two'", "whole numbers"],
    ),
    "a grid's option that no policy has": (
        ["sweep", TESTBED, "--clusters", "1x4", "--policies", "fifo,sjf", "--set", "queues=3"],
        ["none of fifo, sjf has an option 'queues'"],
    ),
    "a grid with one bad cluster": (
        ["sweep", TESTBED, "--clusters", "1x4,0x4", "--policies", "fifo"],
        ["0x4"],
    ),
    "a grid's table that is another file": (
        ["sweep", TESTBED, "--clusters", "1x4", "--policies", "fifo", "--out", "two.csv"],
        ["two.csv exists and is not the table of a sweep", "choose another --out"],
    ),
    "a grid's table in a directory that is not there": (
        ["sweep", TESTBED, "--clusters", "1x4", "--policies", "fifo", "--out", "no/grid.csv"],
        ["--out no/grid.csv", "no directory no"],
    ),
    "a trace written over itself": (
        ["trace", "convert", "two.csv", "two.csv"],
        ["two.csv is the trace itself"],
    ),
    "a format misspelt": (
        ["trace", "describe", "two.csv", "--format", "phily"],
        ["'phily'", "philly-csv"],
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_one_message_names_the_value_and_the_next_step(what, tiresias, two_jobs, tmp_path):
    args, fragments = WRONG[what]
    before = (tmp_path / two_jobs).read_bytes()
    outcome = tiresias(*args)
    assert outcome.code == 2
    assert outcome.out == ""
    (message,) = [line for line in outcome.err.splitlines() if not line.startswith("note: ")]
    assert message.startswith("Error: ")
    for fragment in fragments:
        assert fragment in message
    assert (tmp_path / two_jobs).read_bytes() == before


USAGE = {
    "a number that is none": (["trace", "describe", TESTBED, "--seed", "x"], ["'x': give a whole number"]),
    "a number that is too small": (["top", "--interval", "0"], ["'--interval': '0': give 0.1 or more"]),
    "a choice that there is not": (
        ["ls", "-o", "yaml"],
        ["'--output' / '-o': 'yaml' is not one of 'table', 'wide', 'json'"],
    ),
    "a missing option": (["simulate", TESTBED], ["--cluster", "-h"]),
    "an unknown option": (["simulate", TESTBED, *ON, "--polcy", "fifo"], ["--polcy", "-h"]),
    "an unknown command": (["simulat", TESTBED], ["simulat", "-h"]),
    "no workers": (["compare", TESTBED, *ON, "--policies", "fifo", "-j", "0"], ["0: give a whole"]),
    "no jobs": (["trace", "generate", "builtin:philly-like", "--jobs", "0", "-o", "x"], ["0: give a whole"]),
}


@pytest.mark.parametrize("what", USAGE)
def test_wrong_usage_points_to_the_help(what, tiresias):
    args, fragments = USAGE[what]
    outcome = tiresias(*args)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    for fragment in fragments:
        assert fragment in outcome.err


def test_a_bug_of_ours_is_not_passed_off_as_the_users(tiresias, two_jobs, monkeypatch):
    def broken(text: str) -> None:
        raise ValueError("this is a bug")

    monkeypatch.setattr("tiresias.sim.clusters.read", broken)
    with pytest.raises(ValueError, match="this is a bug"):
        tiresias("simulate", two_jobs, *ON)


def test_version_and_short_help(tiresias):
    import tiresias as package

    assert tiresias("--version").out == f"tiresias {package.__version__}\n"
    for command in ([], ["simulate"], ["trace", "convert"]):
        outcome = tiresias(*command, "-h")
        assert outcome.code == 0
        assert outcome.out.startswith("Usage: tiresias")


@pytest.mark.parametrize(
    ("called", "shown"),
    [("/usr/bin/tir", "tir"), ("/usr/bin/tiresias", "tiresias"), ("/lib/tiresias/cli/main.py", "tiresias")],
)
def test_the_help_names_the_program_as_it_was_called(tiresias, monkeypatch, capfd, called, shown):
    tiresias("--version")
    monkeypatch.setattr(sys, "argv", [called, "-h"])
    with pytest.raises(SystemExit):
        run()
    assert capfd.readouterr().out.startswith(f"Usage: {shown} [OPTIONS]")
