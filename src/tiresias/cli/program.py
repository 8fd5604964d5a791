"""The program as Typer knows it: help, errors, and every command line that `quick.py` leaves to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from tiresias import __version__
from tiresias.cli.console import echo
from tiresias.cli.declare import Argument, CommandLine, Declared, Group, Option, declared, parameters
from tiresias.cli.ending import guarded, load_plugins
from tiresias.cli.errors import Stop
from tiresias.cli.verbs import ELSEWHERE, HEADINGS, HELP, VERBS, needed

AFTER_DASHES = "tiresias.after_dashes"
REFUSALS = {  # by the name that Pydantic has for what is wrong
    "int_parsing": "give a whole number",
    "float_parsing": "give a number",
    "greater_than_equal": "give {ge:g} or more",
    "less_than_equal": "give {le:g} or less",
}
TAKES_WORDS = {"ignore_unknown_options": True, "allow_extra_args": False}


class Commands(TyperGroup):
    """A group that turns errors inside its commands into messages and exit codes."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under their headings; without Rich, which takes time to load."""
        found: dict[str, Any] = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        width = max(map(len, found), default=0)
        for heading in HEADINGS:
            about = {name: each for name, each in found.items() if _heading(each) == heading}
            with formatter.section(heading):
                limit = formatter.width - 6 - width
                rows = [(f"{name:<{width}}", each.get_short_help_str(limit)) for name, each in about.items()]
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Answer the words of other schedulers with the verb; a similar one could do something else."""
        if args and args[0] in HELP:
            raise Stop(f"there is no verb {args[0]!r}; here it is: tir {HELP[args[0]]}")
        if args and args[0] in ELSEWHERE:
            verb = ELSEWHERE[args[0]]
            raise Stop(
                f"there is no verb {args[0]!r}; here it is: tir {verb} (see: tir {verb.split()[0]} -h)"
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            code = guarded(lambda: super(Commands, self).invoke(ctx))
        except typer.BadParameter as error:
            error.message = _with_value(error)
            raise
        if code:
            raise typer.Exit(code)


class Carrying(TyperCommand):
    """Sets the words after `--`, which are another command, aside before options are parsed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            where = args.index("--")
            ctx.meta[AFTER_DASHES] = args[where + 1 :]
            args = args[:where]
        return super().parse_args(ctx, args)


def _heading(command: Any) -> str:
    return str(getattr(command, "rich_help_panel", None) or "")


def _with_value(error: typer.BadParameter) -> str:
    """The parser's message in the words of this program, with the value that was given."""
    problems: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()  # Pydantic's, if it refused
    if not problems:
        return error.message
    [problem, *_] = problems
    value = str(problem.get("input", ""))
    limits = problem.get("ctx", {})
    message = REFUSALS.get(problem["type"], error.message).format(**limits).removeprefix("Value error, ")
    return f"{value!r}: {message}" if value and repr(value) not in message else message


def program(words: list[str]) -> typer.Typer:
    """The program, with the verbs that this command line can need."""
    made = typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_main)
    register(made, needed(words))
    return made


def register(app: typer.Typer, names: Iterable[str]) -> None:
    """Add these verbs to the program."""
    for name in names:
        verb = VERBS[name]
        found = verb.load()
        if isinstance(found, Group):
            found = _typer_group(found)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, rich_help_panel=verb.heading)
            continue
        how = _how(verb.carries, verb.takes_words)
        app.command(name, rich_help_panel=verb.heading, **how)(for_typer(found))


def _how(carries: bool, takes_words: bool) -> dict[str, Any]:
    """How Typer must read a command that carries another one."""
    return {"cls": Carrying, "context_settings": TAKES_WORDS if takes_words else None} if carries else {}


def _typer_group(group: Group) -> typer.Typer:
    made = typer.Typer(no_args_is_help=True, help=group.help)
    for name, command in group.commands.items():
        made.command(name)(for_typer(command))
    return made


def for_typer(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its declarations in Typer's words."""
    mine = parameters(command)
    lines = [each.name for each in mine if each.annotation is CommandLine]
    theirs = [each.replace(annotation=_annotation(each), kind=each.KEYWORD_ONLY) for each in mine]

    def called(**given: Any) -> None:
        for name in lines:
            given[name] = CommandLine(given[name].command_path, given[name].meta.get(AFTER_DASHES))
        command(**given)

    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    called.__signature__ = inspect.Signature(theirs)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in theirs}
    return called


def call_with_typer(
    command: Callable[..., None], words: Sequence[str], name: str, *, carries: bool = False
) -> None:
    """Call the command with these words; what is wrong with them is a ValueError with Typer's message."""
    usage_error: type[Exception] = typer.BadParameter.__bases__[0]
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(**_how(carries, takes_words=False))(for_typer(command))
    made: Any = typer.main.get_command(app)
    try:
        with made.make_context(name, list(words)) as context:
            made.invoke(context)
    except usage_error as error:
        raise ValueError(str(error)) from None


def _annotation(parameter: inspect.Parameter) -> Any:
    if parameter.annotation is CommandLine:
        return typer.Context
    type_, found = declared(parameter)
    return parameter.annotation if found is None else Annotated[type_, _typers(found)]


def _typers(found: Declared) -> Any:
    match found:
        case Option():
            return typer.Option(
                *found.names, help=found.help, metavar=found.metavar, min=found.min, max=found.max
            )
        case Argument():
            return typer.Argument(metavar=found.metavar, help=found.help, show_default=False)
        case _:
            raise AssertionError(found)


def _version(wanted: bool) -> None:
    if wanted:
        echo(f"tiresias {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    plugins: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin", metavar="FILE.py", help="Load policies or placers of your own; may be repeated."
        ),
    ] = None,
) -> None:
    """Schedule GPU jobs without knowing how long they run, on your machine or in a simulation.

    Start with: tir up, then tir submit -g 1 -- python train.py
    """
    load_plugins(plugins or [])
