"""`tir up`, `tir down`, `tir status`: start, stop and inspect the manager."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from tiresias.cli import errors
from tiresias.cli.console import echo, notify, show
from tiresias.cli.declare import Option
from tiresias.cli.errors import Stop
from tiresias.cli.lines import pairs
from tiresias.cli.live import manager_options, manager_process
from tiresias.cli.live.connection import HomeOption, connected, home_of, is_remote, print_json, refused
from tiresias.cli.live.job_text import brief
from tiresias.cli.live.manager_options import Given, Settings
from tiresias.cli.live.manager_process import NODES_ARE_TAKEN
from tiresias.cli.live.times import short
from tiresias.cli.plugins import AsOutput, Output
from tiresias.cli.units import count
from tiresias.core.defaults import DEFAULT_POLICY

UP_S = 60.0
UP_ON_RAY_S = 180.0  # an agent on each node takes seconds, more on a busy one
DOWN_S = 30.0


FakeGpus = Annotated[
    int | None,
    Option("--fake-gpus", metavar="N", min=0, help="Use N fake GPUs (0: real GPUs again)."),
]
FakeGroups = Annotated[
    int | None,
    Option("--fake-groups", metavar="N", min=1, help="Put the fake GPUs in N groups of near neighbours."),
]
Gpus = Annotated[
    str | None, Option("--gpus", metavar="0-3", help="Use only these GPUs (all: no restriction).")
]
PolicyName = Annotated[str | None, Option("--policy", metavar="NAME", help="Policy. Default: tiresias.")]
PolicySet = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Option of the policy; may be repeated."),
]
PlacerName = Annotated[str | None, Option("--placer", metavar="NAME", help="Placer. Default: profile.")]
PlacerSet = Annotated[
    list[str] | None,
    Option("--placer-set", metavar="KEY=VALUE", help="Option of the placer; may be repeated."),
]
Listen = Annotated[
    str | None,
    Option(
        "--listen",
        metavar="ADDRESS:PORT",
        help="Listen on TCP as well, for callers with a token (none: stop).",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    Option(
        "--allow-host",
        metavar="NAME",
        help="Name under which clients reach the manager; may be repeated (none: loopback names only).",
    ),
]
Group = Annotated[
    str | None,
    Option("--group", metavar="GROUP", help="Group whose members may use the socket (none: only you)."),
]
Auto = Annotated[bool, Option("--auto", help="Give every job --auto, which saves and resumes trainings.")]
NoAuto = Annotated[bool, Option("--no-auto", help="Give --auto only to jobs that ask for it (the default).")]
NotifyAllow = Annotated[
    list[str] | None,
    Option(
        "--notify-allow",
        metavar="NETWORK",
        help="Network to which notices may be sent although it is private; may be repeated (none: none).",
    ),
]
On = Annotated[
    str | None,
    Option("--on", metavar="ENGINE", help="Use the nodes of an engine: ray (none: this machine alone)."),
]
Address = Annotated[
    str | None, Option("--address", metavar="HOST:PORT", help="Address of the head of the Ray cluster.")
]
SharedDir = Annotated[
    str | None,
    Option("--shared", metavar="DIR", help="Folder that all nodes share, at the same path on each."),
]
Foreground = Annotated[bool, Option("--foreground", help="Run in the foreground and log to stderr.")]


def up(
    fake_gpus: FakeGpus = None,
    fake_groups: FakeGroups = None,
    gpus: Gpus = None,
    policy: PolicyName = None,
    options: PolicySet = None,
    placer: PlacerName = None,
    placer_set: PlacerSet = None,
    listen: Listen = None,
    allow_host: AllowHost = None,
    notify_allow: NotifyAllow = None,
    group: Group = None,
    auto: Auto = False,
    no_auto: NoAuto = False,
    on: On = None,
    address: Address = None,
    shared: SharedDir = None,
    foreground: Foreground = False,
    home: HomeOption = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Start the manager, unless it is running.

    Returns when the manager answers. The options are kept for the next start.
    """
    home_dir = home_of(home)
    before = manager_options.read(home_dir) if home_dir.exists() else None
    chosen = policy or (before or Settings()).policy
    manager_options.use_plugins(before)
    given = Given(
        fake_gpus,
        fake_groups,
        gpus,
        policy,
        manager_options.policy_options(options or [], chosen),
        placer,
        manager_options.placer_options(placer_set or [], placer or (before or Settings()).placer),
        listen,
        group,
        manager_options.plugins(),
        allow_host or [],
        notify_allow or [],
        True if auto else False if no_auto else None,
        on,
        address,
        None if shared is None else os.path.abspath(shared),
    )
    if auto and no_auto:
        raise Stop("--auto and --no-auto cannot be combined; give one of them")
    if fake_gpus is not None and gpus is not None:
        raise Stop("--fake-gpus and --gpus cannot be combined; give one of them")
    wanted = given.over(before or Settings())
    manager_options.check(wanted)
    status = _status(home_dir)
    if status is None:
        status = _brought_up(home_dir, before, wanted, foreground=foreground)
    else:  # another `up` may have started it just now, with other options
        now = manager_options.read(home_dir) or Settings()
        wanted = given.over(now)
        _check_running(status, now, wanted)
    if given.asks_for_policy:
        status = _use_policy(home_dir, given, wanted)
    if output is Output.JSON:
        print_json(status)
        return
    echo(_sentence(status, home_dir))
    if status["policy"] == wanted.default_policy != DEFAULT_POLICY:
        notify(
            [
                f"this home keeps {wanted.default_policy}, the default of the version with which it was made;"
                f" the default is now {DEFAULT_POLICY}. To change: tir policy set {DEFAULT_POLICY}. To stay,"
                f" without this note: tir up --policy {wanted.default_policy}"
            ]
        )
    if wanted.listen is not None and not _is_loopback(wanted.listen):
        notify(
            [
                f"warning: other machines can reach {wanted.listen}, and what is sent there, tokens "
                "included, is not encrypted; put a proxy with TLS before it, and listen on 127.0.0.1"
            ]
        )
    if home is not None and not os.environ.get("TIRESIAS_HOME"):
        notify([f"for the other commands: export TIRESIAS_HOME={home_dir}"])


def down(
    stop_jobs: Annotated[
        bool, Option("--stop-jobs", help="Stop the runs as well. Their jobs run again after the next up.")
    ] = False,
    timeout: Annotated[
        float | None,
        Option("--timeout", metavar="SECONDS", help="Longest time to wait until the manager has ended."),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Stop the manager; its runs continue.

    Returns when the process has ended. The next up takes the runs over.
    """
    home_dir = home_of(home)
    record = manager_process.read_record(home_dir)
    running = _shut_down(home_dir, stop_jobs)
    if record is None or not record.is_alive:
        if not running and stop_jobs:
            raise Stop(
                f"no manager runs in {home_dir}, so no runs can be stopped; start one with `tir up` first",
                errors.UNREACHABLE,
            )
        echo("the manager is down" if running else f"no manager runs in {home_dir}")
        return
    patience_s = timeout if timeout is not None else None if stop_jobs else DOWN_S
    if not manager_process.wait_until_gone(record, patience_s):
        raise Stop(
            f"the manager (pid {record.pid}) has not ended after {patience_s:g} s; see "
            f"{home_dir / manager_process.LOG}. `kill -9 {record.pid}` loses nothing: the next up recovers.",
            errors.TIMEOUT,
        )
    if stop_jobs:
        manager_process.wait_until_runs_end(home_dir, patience_s)
    left = "; no run is left" if stop_jobs else "; runs continue, and the next up takes them over"
    echo(f"the manager is down{left}")


def status(home: HomeOption = None, output: AsOutput = Output.TABLE) -> None:
    """Show whether the manager runs, with its GPUs and jobs."""
    with connected(home) as client:
        status = client.status()
    if output is Output.JSON:
        print_json(status)
        return
    show(pairs(_status_lines(status, home_of(home))))


def _status(home_dir: Path) -> dict[str, Any] | None:
    """The status of the manager of this home; None if none answers."""
    from tiresias.api.client import ApiError, Client, Unreachable

    try:
        return dict(Client(home_dir).status())
    except Unreachable:
        return None
    except ApiError as error:
        raise refused(error) from None


def _brought_up(
    home_dir: Path, before: Settings | None, wanted: Settings, *, foreground: bool
) -> dict[str, Any]:
    """Start the manager of this home, and return its status."""
    _require_gpus(wanted)
    _make_home(home_dir)
    manager_options.write(home_dir, wanted)
    if foreground:
        os.execv(manager_process.command(home_dir)[0], manager_process.command(home_dir))
    return _start(home_dir, before, UP_S if wanted.on is None else UP_ON_RAY_S)


def _check_running(status: dict[str, Any], before: Settings, wanted: Settings) -> None:
    """Refuse changes that a running manager cannot make."""
    fixed = [name for name in before.differences(wanted) if name not in manager_options.LIVE]
    if fixed:
        asked = " ".join(wanted.written(name) for name in fixed)
        has = " ".join(before.written(name) for name in fixed)
        raise Stop(
            f"the manager (pid {status['pid']}) runs with {has} and cannot change that while it runs. "
            f"Restart it (runs continue meanwhile): tir down && tir up {asked}",
            errors.REJECTED,
        )


def _use_policy(home_dir: Path, given: Given, wanted: Settings) -> dict[str, Any]:
    """Change the policy of the running manager if it differs, and keep it for the next start."""
    with connected(home_dir) as client:
        now = client.policy()
        name = given.policy or now["name"]
        options = {**(now["options"] if name == now["name"] else {}), **given.set}
        placer = given.placer or now["placer"]
        there = {**(now["placer_options"] if placer == now["placer"] else {}), **given.placer_set}
        has = (now["name"], now["options"], now["placer"], now["placer_options"])
        if (name, options, placer, there) != has:
            client.set_policy(name, options, placer=placer, placer_options=there)
            notify([f"the manager now uses {name}"])
        status = dict(client.status())
    manager_options.write(
        home_dir, replace(wanted, policy=name, set=options, placer=placer, placer_set=there)
    )
    return status


def _require_gpus(wanted: Settings) -> None:
    """Refuse to start a manager that would have no GPUs."""
    if wanted.fake_gpus is not None or wanted.on is not None:
        return
    from tiresias.executors.gpus import Nvml, find, parse_selection

    found = find(Nvml(), None if wanted.gpus is None else parse_selection(wanted.gpus))
    if not found.gpus:
        raise Stop(f"{found.problem}\nOn a machine without GPUs: tir up --fake-gpus 4", errors.REJECTED)


def _make_home(home_dir: Path) -> None:
    from tiresias.executors.directories import make_passage

    try:
        make_passage(home_dir)
    except FileExistsError:
        raise Stop(f"{home_dir} is a file; name a directory with --home or TIRESIAS_HOME") from None


def _start(home_dir: Path, before: Settings | None, patience_s: float) -> dict[str, Any]:
    started = manager_process.start(home_dir)
    found: list[dict[str, Any]] = []

    def answers() -> bool:
        status = _status(home_dir)
        if status is not None:
            found.append(status)
        return status is not None

    if not manager_process.wait_until_up(started, answers, patience_s):
        manager_options.put_back(home_dir, before)
        code = started.process.returncode
        said = started.last_lines() or f"it ended with exit code {code} and logged nothing"
        raise Stop(
            f"the manager did not start: {said}\n(its log: {started.log})",
            errors.FAILED if code < 1 else errors.REJECTED if code == NODES_ARE_TAKEN else code,
        )
    return found[-1]


def _shut_down(home_dir: Path, stop_jobs: bool) -> bool:
    """Ask the manager to end, by a signal if it does not answer. Returns whether there was one."""
    from tiresias.api.client import ApiError, Client, Unreachable

    if is_remote() and not home_dir.exists():
        raise Stop(f"{home_dir} is not on this machine; run `tir down` on the machine of the manager")
    try:
        Client(home_dir).shutdown(stop_jobs=stop_jobs)
    except Unreachable:
        record = manager_process.read_record(home_dir)
        if record is None or not record.is_alive:
            return False
        if stop_jobs:
            raise Stop(
                f"the manager (pid {record.pid}) does not answer, so it cannot be asked to stop runs; "
                "try again, or leave --stop-jobs out",
                errors.UNREACHABLE,
            ) from None
        from tiresias.executors import procfs

        if found := procfs.look(record.pid):
            procfs.send(found, signal.SIGTERM)
    except ApiError as error:
        raise refused(error) from None
    return True


def _sentence(status: dict[str, Any], home_dir: Path) -> str:
    record = manager_process.read_record(home_dir)
    url = f", {record.url}" if record is not None and record.url else ""
    return (
        f"the manager is up (pid {status['pid']}): {count(status['slots'], 'GPU')}, {_policy(status)}, "
        f"home {home_dir}{url}"
    )


def _is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address; a name other than localhost may be reachable."""
    import ipaddress

    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _policy(status: dict[str, Any]) -> str:
    options = " ".join(f"{key}={brief(value)}" for key, value in status["policy_options"].items())
    return f"{status['policy']} ({options})" if options else str(status["policy"])


def _status_lines(status: dict[str, Any], home_dir: Path) -> list[tuple[str, str]]:
    jobs = ", ".join(f"{number:,} {phase}" for phase, number in status["jobs"].items() if number)
    lines = [
        ("manager", f"pid {status['pid']}, up {short(status['uptime_s'])}, version {status['version']}"),
        ("policy", _policy(status)),
        ("placer", str(status["placer"])),
        ("GPUs", f"{status['free_slots']:,} of {status['slots']:,} free"),
        ("jobs", jobs or "none"),
    ]
    if not is_remote():
        lines.append(("home", str(home_dir)))
    if status["problem"]:
        lines.append(("problem", status["problem"]))
    if status.get("start_problem"):
        lines.append(("starting", status["start_problem"]))
    if status.get("clock_problem"):  # an earlier version does not send it
        lines.append(("clock", status["clock_problem"]))
    if status.get("plugin_problem"):
        lines.append(("plug-in", status["plugin_problem"]))
    return lines
