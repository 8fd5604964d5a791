"""`tir install-service`: a systemd unit for the manager of a home.

What the manager needs of its unit:
- Runs go on while the manager is restarted: only the main process is signalled (KillMode=process), and a run
  that the kernel kills because of its memory does not stop the unit (OOMPolicy=continue).
- Runs get cgroups of their own: Delegate=yes. The manager has one beside them (DelegateSubgroup=), without
  which the kernel does not let memory and CPUs of the runs be limited.
- It is started again after a failure, but not if its options are wrong or another manager has the home.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from tiresias.api.home import OPTIONS
from tiresias.cli.console import echo
from tiresias.cli.declare import Option
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import HomeOption, home_of

NAME = "tiresias.service"
SYSTEM_UNITS = Path("/etc/systemd/system")
UNIT = """\
[Unit]
Description=Tiresias, the GPU cluster manager of {home}
Documentation=man:systemd.service(5)
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart={command}
{account}Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2 6
KillMode=process
KillSignal=SIGTERM
TimeoutStopSec=60
OOMPolicy=continue
Delegate=yes
DelegateSubgroup=manager
TasksMax=infinity
LimitNOFILE=65536
Environment=PYTHONUNBUFFERED=1

[Install]
WantedBy={target}
"""


def install_service(
    system: Annotated[
        bool, Option("--system", help="For the whole machine, in /etc/systemd/system; needs root.")
    ] = False,
    user: Annotated[
        bool, Option("--user", help="For you alone, in ~/.config/systemd/user. Default unless root.")
    ] = False,
    run_as: Annotated[
        str | None, Option("--run-as", metavar="USER", help="With --system: the account. Default: root.")
    ] = None,
    show: Annotated[bool, Option("--print", help="Only print the unit.")] = False,
    force: Annotated[bool, Option("--force", help="Replace a unit that is there and differs.")] = False,
    home: HomeOption = None,
) -> None:
    """Write a systemd unit that starts the manager with the machine.

    The manager starts with the options that the last `tir up` has kept in the home. Nothing is enabled or
    started: the commands for that are printed.
    """
    if system and user:
        raise Stop("give --system or --user, not both")
    is_system = system or (not user and os.geteuid() == 0)
    if run_as is not None and not is_system:
        raise Stop("--run-as needs --system: a unit of a user runs as that user")
    home_dir = home_of(home).absolute()
    text = unit(home_dir, is_system=is_system, run_as=run_as)
    if show:
        echo(text, nl=False)
        return
    path = _folder(is_system) / NAME
    _write(path, text, force=force)
    echo(f"{path} is written. To start the manager now and with the machine:")
    control = "systemctl" if is_system else "systemctl --user"
    echo(f"  {control} daemon-reload && {control} enable --now {NAME}")
    if not is_system:
        echo("  loginctl enable-linger   # so that it also runs while you are not logged in")
    if not (home_dir / OPTIONS).exists():
        echo(f"{home_dir} has no options yet; choose them first: tir up --home {home_dir} … && tir down")


def unit(home: Path, *, is_system: bool, run_as: str | None = None) -> str:
    """The text of the unit."""
    words = [sys.executable, "-m", "tiresias.api.serve", "--home", str(home)]
    return UNIT.format(
        home=str(home).replace("%", "%%"),
        command=" ".join(map(_quoted, words)),
        account=f"User={run_as}\n" if run_as else "",
        target="multi-user.target" if is_system else "default.target",
    )


def _quoted(word: str) -> str:
    """A word of ExecStart, in which quotes, backslashes, % and $ have a meaning."""
    for each in ("\\", '"'):
        word = word.replace(each, "\\" + each)
    word = word.replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if any(each in word for each in " \t'\"\\;") else word


def _folder(is_system: bool) -> Path:
    if is_system:
        return SYSTEM_UNITS
    config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(config) / "systemd" / "user"


def _write(path: Path, text: str, *, force: bool) -> None:
    try:
        if path.exists() and path.read_text() != text and not force:
            raise Stop(f"{path} is there already and differs; compare it with --print, or give --force")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        hint = "; use sudo, or --user" if isinstance(error, PermissionError) else ""
        raise Stop(f"{path}: {error.strerror}{hint}") from None
