"""The program `tiresias` (short: `tir`): what the command line does before and after a command.

Rules: a mistake of the user is one message on stderr and exit code 2, never a traceback; a refusal by the
manager has an exit code of its own (errors.py); Ctrl-C is exit code 130; a closed pipe (`| head`) is silent.
Heavy libraries are imported by the commands that need them, so that the program starts fast.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tiresias import __version__
from tiresias.cli.errors import FAILED, INTERRUPTED, USAGE, Stop
from tiresias.cli.verbs import HEADINGS, needed, register

NAMES = ("tiresias", "tir")


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

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except typer.BadParameter as error:
            error.message = _with_value(error)
            raise
        except Stop as stop:
            if str(stop):
                complain(str(stop))
            raise typer.Exit(stop.code) from None
        except BrokenPipeError:
            forget_stdout()
            raise typer.Exit(FAILED) from None
        except OSError as error:
            complain(_message(error))
            raise typer.Exit(FAILED if isinstance(error, ChildProcessError) else USAGE) from None
        except ValueError as error:
            if not is_about_input(error):
                raise
            complain(str(error))
            raise typer.Exit(USAGE) from None


def _heading(command: Any) -> str:
    return str(getattr(command, "rich_help_panel", None) or "")


def _with_value(error: typer.BadParameter) -> str:
    """The parser's message, with the value that was given if the message lacks it."""
    problems: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()  # Pydantic's, if it refused
    value = str(problems[0].get("input", "")) if problems else ""
    return f"{value!r}: {error.message}" if value and value not in error.message else error.message


def complain(text: str) -> None:
    """Print an error message."""
    typer.echo(f"Error: {text}", err=True)


def is_about_input(error: ValueError) -> bool:
    """Whether the message is meant for the user; any other ValueError is a bug."""
    from tiresias.core.plugins import OptionError
    from tiresias.profiles.errors import ProfileError
    from tiresias.sim.errors import InputError

    return isinstance(error, InputError | OptionError | ProfileError)


def forget_stdout() -> None:
    """Discard what is still to be written, because the reader of the pipe is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: OSError) -> str:
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([*names, error.strerror or str(error)])


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


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tiresias {__version__}")
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
    if plugins or os.environ.get("TIRESIAS_PLUGINS"):
        from tiresias.sim.plugins import use_plugins

        use_plugins(plugins or [])


def _called() -> str:
    """The name of the program in its help, also when it was started as a module or from another program."""
    name = os.path.basename(sys.argv[0])
    return name if name in NAMES else NAMES[0]


def run() -> None:
    """The entry point of the programs `tiresias` and `tir`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode then shows ?
    try:
        program(sys.argv[1:])(prog_name=_called())
    except KeyboardInterrupt:  # before or after the command itself
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        forget_stdout()
        sys.exit(FAILED)


if __name__ == "__main__":
    run()
