"""`tiresias policies` and `tiresias placers`: the plug-ins by name, with their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from typing import Annotated, Any

from tiresias.cli.console import echo, show
from tiresias.cli.declare import Option


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"


AsOutput = Annotated[Output, Option("--output", "-o", help="Output format.")]


def policies(output: AsOutput = Output.TABLE) -> None:
    """List the policies and their options."""
    import tiresias.policies  # noqa: F401  (for what it registers)
    from tiresias.core.plugins import policies as registry

    described = [_described(registry.get(name), preempts=True) for name in registry.names()]
    _show(described, output, _policy_line)


def placers(output: AsOutput = Output.TABLE) -> None:
    """List the placers."""
    import tiresias.placers  # noqa: F401  (for what it registers)
    from tiresias.core.plugins import placers as registry

    described = [_described(registry.get(name), preempts=False) for name in registry.names()]
    _show(described, output, lambda one: "")


def _described(cls: Any, *, preempts: bool) -> dict[str, Any]:
    summary = next(iter((cls.__doc__ or "").strip().splitlines()), "")
    entry: dict[str, Any] = {"name": cls.name, "summary": summary}
    if preempts:
        entry["preempts"] = cls.preempts
    entry["options"] = [
        {"name": each.name, "default": each.default, "help": each.metadata.get("help", "")}
        for each in fields(cls.Options)
    ]
    return entry


def _policy_line(one: dict[str, Any]) -> str:
    return "preempts" if one["preempts"] else "never preempts"


def _show(described: list[dict[str, Any]], output: Output, remark: Callable[[dict[str, Any]], str]) -> None:
    if output is Output.JSON:
        from tiresias.sim.report import to_json

        echo(to_json(described))
        return
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    for number, one in enumerate(described):
        said = remark(one)
        head = Text.assemble("\n" if number else "", (one["name"], "bold"), f"  ({said})" if said else "")
        show(head)
        show(Padding(Text(one["summary"]), (0, 0, 0, 4)))
        if one["options"]:
            options = Table.grid(padding=(0, 2))
            for option in one["options"]:
                options.add_row(f"{option['name']}={option['default']}", option["help"])
            show(Padding(options, (0, 0, 0, 4)))
