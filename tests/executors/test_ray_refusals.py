"""What a user is told when Ray cannot be used: what it said is from real clusters."""

from __future__ import annotations

import sys

import pytest

from tiresias.executors.ray_connection import refusal

HERE = ".".join(map(str, sys.version_info[:3]))
MISMATCH = """Version mismatch: The cluster was started with:
    Ray: {ray}
    Python: {python}
This process on node 127.0.0.1 was started with:
    Ray: 2.60.0
    Python: {here}
"""


@pytest.mark.parametrize(
    ("ray", "python", "says"),
    [
        ("2.54.1", HERE, "(Ray: 2.54.1 there, 2.60.0 here); use `pip install 'ray==2.54.1'`, then `tir up`"),
        ("2.60.0", "3.6.1", f"(Python: 3.6.1 there, {HERE} here); use a Python 3.6.1 on this machine"),
        ("2.54.1", "3.6.1", f"(Ray: 2.54.1 there, 2.60.0 here; Python: 3.6.1 there, {HERE} here)"),
    ],
    ids=["Ray", "Python", "both"],
)
def test_other_versions_are_named_with_the_command_to_run(ray, python, says):
    said = MISMATCH.format(ray=ray, python=python, here=HERE)
    found = refusal("alpha:6379", said, "2.60.0", "`tir up`")
    assert found.code == 2
    assert str(found).startswith("Ray at alpha:6379 was started by other versions (")
    assert says in str(found)


def test_what_nobody_has_foreseen_is_shown():
    found = refusal("alpha:6379", "\nthe moon is full\nand more", "2.60.0", "`tir up`")
    assert (found.code, str(found)) == (5, "Ray at alpha:6379 cannot be used: the moon is full")
