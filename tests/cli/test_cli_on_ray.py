"""`compare` and `sweep` with `--on ray`, as far as they come without Ray; tests/ray has the rest."""

from __future__ import annotations

import pytest

COMPARE = ("compare", "builtin:example", "--cluster", "1x2")
SWEEP = ("sweep", "builtin:example", "--clusters", "1x2", "--policies", "fifo")


@pytest.mark.parametrize("command", [COMPARE, SWEEP], ids=["compare", "sweep"])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--on", "slurm"), "--on slurm: give ray, or leave it out to simulate on this machine"),
        (("--on", "ray"), "--on ray needs --address HOST:PORT, as `ray start --head` prints it"),
        (
            ("--on", "ray", "--address", "alpha"),
            "--address alpha: give HOST:PORT, as `ray start --head` prints",
        ),
        (("--address", "alpha:1"), "--address alpha:1 is for a Ray cluster; add --on ray, or leave it out"),
    ],
)
def test_half_of_what_a_cluster_needs_is_refused(tiresias, tmp_path, command, options, says):
    outcome = tiresias(*command, *options)
    assert outcome.code == 2
    assert f"Error: {says}" in outcome.err
    assert outcome.out == ""


def test_without_ray_the_command_to_run_is_named(tiresias, monkeypatch):
    monkeypatch.setattr("tiresias.executors.ray_connection.find_spec", lambda name: None)
    outcome = tiresias(*COMPARE, "--on", "ray", "--address", "alpha:6379")
    assert outcome.code == 2
    assert outcome.err.strip().endswith(
        "Error: Ray is not installed here; run `pip install 'tiresias[ray]'`, then the same command again"
    )
