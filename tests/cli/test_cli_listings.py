"""`tiresias policies`, `placers` and `trace`: what can be named."""

from __future__ import annotations

import dataclasses
import gzip

import pytest

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core.plugins import placers, policies
from tiresias.sim import traces


def test_every_policy_is_listed_with_its_options(tiresias):
    outcome = tiresias("policies", "-o", "json")
    assert [one["name"] for one in outcome.json] == policies.names()
    for one in outcome.json:
        cls = policies.get(one["name"])
        assert one["summary"], f"{one['name']} needs a docstring"
        assert one["preempts"] is cls.preempts
        assert [option["name"] for option in one["options"]] == [
            field.name for field in dataclasses.fields(cls.Options)
        ]
        for option in one["options"]:
            assert option["help"], f"{one['name']}: {option['name']} needs help"


def test_people_see_names_defaults_and_help(tiresias):
    outcome = tiresias("policies")
    assert "fifo  (never preempts)" in outcome.out
    assert "tiresias-l  (preempts)" in outcome.out
    assert "queues=auto" in outcome.out
    assert not any(line != line.rstrip() for line in outcome.out.splitlines())


def test_every_placer_is_listed(tiresias):
    assert [one["name"] for one in tiresias("placers", "-o", "json").json] == placers.names()
    assert "packed" in tiresias("placers").out


def test_every_format_and_builtin_trace_is_listed(tiresias):
    lines = tiresias("trace", "formats").out.splitlines()
    assert [line.split()[0] for line in lines] == [
        *traces.FORMATS,
        *(f"builtin:{name}" for name in traces.BUILTINS),
    ]


def test_describe_tells_the_numbers(tiresias, two_jobs):
    described = tiresias("trace", "describe", two_jobs, "-o", "json").json
    assert described["jobs"] == 2
    assert described["gpu_hours"] == pytest.approx(420 / 3600)
    assert "4 GPUs" in tiresias("trace", "describe", two_jobs).out


def test_convert_writes_the_same_jobs_in_our_own_format(tiresias, tmp_path):
    rows = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n7,2,30,5,vgg19,60,30\n"
    (tmp_path / "theirs.csv").write_text(rows)
    assert tiresias("trace", "convert", "theirs.csv", "ours.csv.gz").code == 0
    written = gzip.decompress((tmp_path / "ours.csv.gz").read_bytes())
    assert written.startswith(b"id,submitted_at,gpus,duration_s")
    theirs = tiresias("trace", "describe", "theirs.csv", "-o", "json").json
    ours = tiresias("trace", "describe", "ours.csv.gz", "-o", "json").json
    for figure in ("jobs", "gpu_hours", "sizes", "duration_s"):
        assert theirs[figure] == ours[figure]


def test_generate_asks_for_jobs_load_and_cluster(tiresias, tmp_path):
    size = ("--jobs", 500, "--load", 0.8, "--cluster", "8x8")
    outcome = tiresias("trace", "generate", "builtin:philly-like", *size, "--seed", 7, "-o", "g.csv")
    assert outcome.code == 0
    assert "wrote 500 jobs to g.csv" in outcome.err
    found = tiresias("trace", "describe", "g.csv", "-o", "json").json
    assert found["jobs"] == 500
    assert found["busy_gpus"] / 64 == pytest.approx(0.8, rel=0.05)
    tiresias("trace", "generate", "builtin:philly-like", *size, "--seed", 8, "-o", "other.csv")
    assert (tmp_path / "g.csv").read_bytes() != (tmp_path / "other.csv").read_bytes()


def test_the_testbed_is_generated_by_seed(tiresias, tmp_path):
    for seed, name in ((1, "a"), (1, "b"), (2, "c")):
        assert tiresias("trace", "generate", "builtin:testbed-480", "--seed", seed, "-o", name).code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()
