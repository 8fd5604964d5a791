"""The program `tiresias` (short: `tir`): what the command line does before and after a command.

Rules: what a person got wrong is one message on stderr and exit code 2, never a traceback; Ctrl-C is
exit code 130; a reader that went away (`| head`) is silent. Heavy libraries are imported by the command
that needs them, so that --help is there at once.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tiresias import __version__
from tiresias.cli.compare import compare
from tiresias.cli.demo import demo
from tiresias.cli.plugins import placers, policies
from tiresias.cli.simulate import simulate
from tiresias.cli.sweep import sweep
from tiresias.cli.trace import app as trace

FAILED = 1
USAGE = 2
INTERRUPTED = 130


class Commands(TyperGroup):
    """A group that turns what goes wrong inside its commands into messages and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            forget_stdout()
            raise typer.Exit(FAILED) from None
        except OSError as error:
            complain(_told(error))
            raise typer.Exit(FAILED if isinstance(error, ChildProcessError) else USAGE) from None
        except ValueError as error:
            if not is_about_input(error):
                raise
            complain(str(error))
            raise typer.Exit(USAGE) from None


def complain(text: str) -> None:
    """Say what went wrong."""
    typer.echo(f"Error: {text}", err=True)


def is_about_input(error: ValueError) -> bool:
    """Whether the message is for the user; any other ValueError is a bug of ours."""
    from tiresias.core.plugins import OptionError
    from tiresias.sim.errors import InputError

    return isinstance(error, InputError | OptionError)


def forget_stdout() -> None:
    """Let what is still to be written go nowhere: nobody reads it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(error: OSError) -> str:
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([*names, error.strerror or str(error)])


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tiresias {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    plugins: Annotated[
        list[str] | None,
        typer.Option("--plugin", metavar="FILE.py", help="Load policies or placers of your own; repeatable."),
    ] = None,
) -> None:
    """Schedule GPU jobs without knowing how long they run: replay traces, compare policies, size clusters.

    Start with: tiresias demo
    """
    if plugins or os.environ.get("TIRESIAS_PLUGINS"):
        from tiresias.sim.plugins import use_plugins

        use_plugins(plugins or [])


app.command()(simulate)
app.command()(compare)
app.command()(sweep)
app.command()(demo)
app.command()(policies)
app.command()(placers)
app.add_typer(trace, name="trace")


def run() -> None:
    """The entry point of the programs `tiresias` and `tir`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows ? and not an error
    try:
        app()
    except KeyboardInterrupt:  # before or after the command itself
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        forget_stdout()
        sys.exit(FAILED)


if __name__ == "__main__":
    run()
