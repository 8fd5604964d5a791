"""`tir policy show`, `tir policy set`: the policy of the running manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from tiresias.cli.console import show
from tiresias.cli.declare import Argument, Group, Option
from tiresias.cli.lines import pairs
from tiresias.cli.live import manager_options
from tiresias.cli.live.connection import connected, home_of, is_remote, print_json
from tiresias.cli.live.job_text import brief, plain
from tiresias.cli.plugins import AsOutput, Output

LABELS = {
    "name": "policy",
    "placer_options": "its options",
    "placer_learned": "what it learned",
    "learned": "what was learned",
    "queues_gpu_s": "thresholds between queues, in GPU-seconds",
}

app = Group("Show or change the policy in use.")


@app.command("show")
def show_policy(output: AsOutput = Output.TABLE) -> None:
    """Show the policy in use, its options and its queues."""
    with connected() as client:
        _print(client.policy(), output)


@app.command("set")
def set_policy(
    name: Annotated[str, Argument(metavar="NAME", help="Policy (see: tir policies).")],
    options: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Option of the policy; may be repeated."),
    ] = None,
    placer: Annotated[
        str | None, Option("--placer", metavar="NAME", help="Placer (see: tir placers).")
    ] = None,
    placer_set: Annotated[
        list[str] | None,
        Option("--placer-set", metavar="KEY=VALUE", help="Option of the placer; may be repeated."),
    ] = None,
    output: AsOutput = Output.TABLE,
) -> None:
    """Change the policy at once; all jobs are kept.

    Options that are not given take their defaults. Without --placer and --placer-set the placer stays.
    """
    from tiresias.api.client import ApiError

    _load_plugins_for(name, placer)
    chosen = manager_options.policy_options(options or [], name)
    with connected() as client:
        there = None
        if placer is not None or placer_set:
            placer = placer or str(client.policy()["placer"])
            there = manager_options.placer_options(placer_set or [], placer)
        try:
            client.set_policy(name, chosen, placer=placer, placer_options=there)
        except ApiError as error:
            if error.message.startswith((f"no policy {name!r}", f"no placer {placer!r}")):
                error.message += (
                    "\nThe manager loads plug-ins when it starts: tir down, then tir --plugin FILE.py up. It"
                    " remembers them."
                )
            raise
        _print(client.policy(), output)


def _load_plugins_for(*names: str | None) -> None:
    """Load the plug-ins that the home remembers if one of these is not known without them.

    Otherwise they are left alone: one that cannot be loaded keeps nobody from another policy.
    """
    import tiresias.placers
    import tiresias.policies  # noqa: F401  (both for what they register)
    from tiresias.core.plugins import placers, policies

    home = home_of()
    unknown = {name for name in names if name} - {*policies.names(), *placers.names()}
    if unknown and not is_remote() and home.is_dir():
        manager_options.use_plugins(manager_options.read(home))


def _print(answer: Mapping[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print_json(answer)
        return
    shown = [(key, value) for key, value in answer.items() if value is not None]
    shown = [(key, value) for key, value in shown if value or key not in ("placer_learned", "learned")]
    show(pairs((label, plain(text)) for key, value in shown for label, text in _rows(key, value)))


def _rows(key: str, value: Any) -> list[tuple[str, str]]:
    """One row, or one row per phrase."""
    label = LABELS.get(key, key)
    if key != "learned":
        return [(label, _text(value))]
    return [(label if number == 0 else "", phrase) for number, phrase in enumerate(value)]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={brief(each)}" for key, each in value.items()) or "(defaults)"
    if isinstance(value, list):
        return ", ".join(f"{each:,g}" if isinstance(each, float) else str(each) for each in value) or "none"
    return str(value)
