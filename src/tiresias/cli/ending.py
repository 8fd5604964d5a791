"""How a command ends: errors as messages on stderr and exit codes.

Rules: a mistake of the user is one message and exit code 2, never a traceback; a refusal by the manager has
an exit code of its own (errors.py); Ctrl-C is exit code 130; a closed pipe (`| head`) is silent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from tiresias.cli.console import echo
from tiresias.cli.errors import FAILED, INTERRUPTED, USAGE, Stop


def guarded(command: Callable[[], object]) -> int:
    """Carry it out; the exit code. What is no mistake of the user, nor of the machine, is raised."""
    try:
        command()
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        echo("interrupted", err=True)
        return INTERRUPTED
    except Stop as stop:
        if str(stop):
            complain(str(stop))
        return stop.code
    except BrokenPipeError:
        forget_stdout()
        return FAILED
    except OSError as error:
        complain(_message(error))
        return FAILED if isinstance(error, ChildProcessError) else USAGE
    except ValueError as error:
        if not is_about_input(error):
            raise
        complain(str(error))
        return USAGE


def load_plugins(files: list[str]) -> None:
    """Load the policies and placers of users: those of these files, and of TIRESIAS_PLUGINS."""
    if files or os.environ.get("TIRESIAS_PLUGINS"):
        from tiresias.sim.plugins import use_plugins

        use_plugins(files)


def complain(text: str) -> None:
    """Print an error message."""
    echo(f"Error: {text}", err=True)


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
