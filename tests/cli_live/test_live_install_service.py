"""The systemd unit that `tir install-service` writes, and a manager in the foreground without a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from live_cli import PROGRAM, environment, eventually

from tiresias.cli.live.install_service import unit


def of(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


@pytest.mark.parametrize("home", ["/srv/tiresias", '/srv/a home/100%/$x "y"'])
@pytest.mark.parametrize("is_system", [True, False])
def test_systemd_accepts_the_unit(tmp_path: Path, home: str, is_system: bool) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    path = tmp_path / "tiresias.service"
    path.write_text(unit(Path(home), is_system=is_system, run_as="root" if is_system else None))
    scope = "--system" if is_system else "--user"
    runtime = {"XDG_RUNTIME_DIR": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["systemd-analyze", scope, "--man=no", "verify", str(path)],
        capture_output=True, text=True, timeout=60, env=runtime,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "tiresias.service" in line]
    before_254 = "Unknown key 'DelegateSubgroup' in section [Service], ignoring."  # what systemd then does
    assert [line for line in ours if not line.endswith(before_254)] == [], done.stderr


def test_the_unit_keeps_runs_alive_and_delegates_cgroups() -> None:
    text = unit(Path("/srv/tiresias"), is_system=True)
    for key, value in {
        "KillMode": "process",
        "Delegate": "yes",
        "DelegateSubgroup": "manager",
        "OOMPolicy": "continue",
    }.items():
        assert of(text, key) == [value]
    assert of(text, "Restart") == ["on-failure"]
    assert of(text, "User") == []
    assert of(unit(Path("/h"), is_system=True, run_as="gpu"), "User") == ["gpu"]
    assert of(unit(Path("/h"), is_system=False), "WantedBy") == ["default.target"]


def test_the_command_of_the_unit_is_a_manager_that_logs_to_stderr(fresh, tmp_path: Path) -> None:
    fresh("up", "--fake-gpus", "1")
    fresh("down")
    [command] = of(unit(fresh.home, is_system=True), "ExecStart")
    with subprocess.Popen(
        shlex.split(command), env=environment(fresh.home), stderr=subprocess.PIPE, text=True
    ) as process:
        eventually(lambda: fresh("status").code == 0)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0
    assert "INFO tiresias.api: answers on" in said
    assert "INFO tiresias.api: ended" in said


def test_in_the_foreground_a_manager_logs_to_stderr_without_a_terminal(fresh, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, "up", "--fake-gpus", "1", "--foreground"],
        env=environment(fresh.home), cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        eventually(lambda: fresh("status").code == 0)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert "answers on" in said
    assert "answers on" in (fresh.home / "manager.log").read_text()


def test_in_the_background_each_line_is_logged_once(fresh) -> None:
    fresh("up", "--fake-gpus", "1")
    fresh("down")
    lines = (fresh.home / "manager.log").read_text().splitlines()
    assert sum("answers on" in line for line in lines) == 1


def test_the_verb_writes_the_unit_of_a_user_once(fresh, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    done = fresh("install-service", "--user")
    assert done.code == 0, done.err
    path = tmp_path / "config" / "systemd" / "user" / "tiresias.service"
    assert str(path) in done.out
    assert "systemctl --user daemon-reload && systemctl --user enable --now tiresias.service" in done.out
    assert path.read_text() == unit(fresh.home, is_system=False)
    assert fresh("install-service", "--user").code == 0  # the same again
    path.write_text("mine\n")
    refused = fresh("install-service", "--user")
    assert refused.code != 0
    assert "differs" in refused.err
    assert path.read_text() == "mine\n"
    assert fresh("install-service", "--user", "--force").code == 0
    assert fresh("install-service", "--user", "--system").code != 0
