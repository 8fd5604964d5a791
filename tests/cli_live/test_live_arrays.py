"""Arrays, sweeps and parameters."""

from __future__ import annotations

import pytest

from tiresias.cli.errors import Stop
from tiresias.cli.live.arrays import environment, filled_command, named, parse_array, parse_sweep, points


@pytest.mark.parametrize(
    ("text", "indices", "limit"),
    [
        ("0-3", [0, 1, 2, 3], None),
        ("0-15%4", list(range(16)), 4),
        ("1,3,5", [1, 3, 5], None),
        ("5,0-6:3", [5, 0, 3, 6], None),
        ("7", [7], None),
    ],
)
def test_an_array_is_a_list_of_indices_and_how_many_may_run(text, indices, limit):
    found = parse_array(text)
    assert (found.indices, found.limit) == (indices, limit)


@pytest.mark.parametrize("text", ["", "a", "3-1", "0-3%0", "0-3%x", "1,1", "0-99999", "-1", "0-4:0"])
def test_what_is_no_array_is_refused(text):
    with pytest.raises(Stop, match="--array"):
        parse_array(text)


def test_a_sweep_is_every_combination_with_the_last_changing_fastest():
    sweep = parse_sweep(["lr=1e-3,1e-4", "seed=1,2"])
    assert [tuple(each.values()) for each in points(sweep)] == [
        ("1e-3", "1"),
        ("1e-3", "2"),
        ("1e-4", "1"),
        ("1e-4", "2"),
    ]
    assert points({}) == [{}]


@pytest.mark.parametrize("texts", [["lr"], ["=1"], ["lr="], ["lr=1,,2"], ["i=1,2"], ["lr=1", "lr=2"]])
def test_what_is_no_sweep_is_refused(texts):
    with pytest.raises(Stop, match="--sweep"):
        parse_sweep(texts)


def test_a_sweep_that_explodes_is_refused():
    many = ",".join(map(str, range(200)))
    with pytest.raises(Stop, match="40,000 jobs"):
        points(parse_sweep([f"a={many}", f"b={many}"]))


def test_values_go_where_the_command_names_them_and_else_to_its_end():
    command = ["python", "t.py", "--lr={lr}", '--conf={"keep": 1}']
    filled = filled_command(command, {}, {"lr": "0.1", "seed": "2"})
    assert filled == ["python", "t.py", "--lr=0.1", '--conf={"keep": 1}', "--seed=2"]


def test_a_fixed_parameter_is_filled_in_and_never_appended():
    assert filled_command(["t", "{data}"], {"data": "/d", "unused": "x"}, {}) == ["t", "/d"]


def test_jobs_of_a_sweep_differ_in_name_and_variables():
    point = {"lr": "1e-3", "data.set": "a/b"}
    assert named("bert", point) == "bert-lr=1e-3-data.set=a_b"
    assert named("bert-{lr}", point) == "bert-1e-3"
    assert named("bert-{data.set}", point) == "bert-a_b"
    assert named("a/b", {}) == "a/b"  # a name that is given is refused, not changed
    assert named("", {"lr": "1"}) == "lr=1"
    assert named("plain", {}) == "plain"
    assert environment(point) == {"TIRESIAS_SWEEP_LR": "1e-3", "TIRESIAS_SWEEP_DATA_SET": "a/b"}
