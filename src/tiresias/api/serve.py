"""`python -m tiresias.api.serve --home HOME`: the process of one manager.

HOME/options.json has its options. While it answers, HOME/manager.json has its addresses. It ends in good
order on SIGTERM, SIGINT or POST /api/v1/shutdown; its runs continue.
Exit codes: 0 ended in good order, 1 could not start or continue, 2 the options are invalid, 5 Ray does not
answer, 6 another manager has this home, 7 another manager has the shared folder or the nodes.
Scheduling begins before the web server is loaded, so that jobs do not wait for it after a crash.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import UnionType
from typing import Any, TextIO, get_origin, get_type_hints

from tiresias.api.garbage import loading, survivors_left_out
from tiresias.api.home import ABOUT, LOG, OPTIONS, SOCKET, default_home
from tiresias.api.sockets import host_of, is_loopback, listen_tcp, listen_unix, url_of
from tiresias.executors import procfs
from tiresias.executors.directories import make_passage
from tiresias.job._files import save
from tiresias.live.errors import Conflict, Invalid, Refused, Unreached
from tiresias.live.manager import Manager
from tiresias.live.start import Options, open_manager
from tiresias.store import InUse, StoreError

FAILED, USAGE, UNREACHABLE, REJECTED, TAKEN = 1, 2, 5, 6, 7
NOT_ENCRYPTED = (
    "What is sent there, tokens included, is not encrypted: put a proxy with TLS before it, and listen on"
    " 127.0.0.1"
)
LARGEST_LOG_BYTES = 10 * 1024 * 1024

log = logging.getLogger("tiresias.api")


def main(words: Sequence[str] | None = None) -> int:
    """Run one manager to its end and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tiresias.api.serve", description="Run one manager.")
    parser.add_argument("--home", type=Path, default=None, help="by default TIRESIAS_HOME or ~/.tiresias")
    home = (parser.parse_args(words).home or default_home()).absolute()
    try:
        make_passage(home)
        with logging_to(home / LOG):
            return _run(home)
    except OSError as error:
        return complain(FAILED, f"{error.filename or home}: {error.strerror}; choose another home")


def _run(home: Path) -> int:
    try:
        options = read_options(home / OPTIONS)
        load_plugins(options)
        with loading():
            manager = open_manager(home, options)
        try:
            with listening(manager, options) as (sockets, about):
                work(manager, sockets, names_of(options), about)
        finally:
            manager.executor.close()
            manager.store.close()
    except InUse as error:
        return complain(REJECTED, str(error))
    except Unreached as error:
        return complain(UNREACHABLE, str(error))
    except Conflict as error:
        return complain(TAKEN, str(error))
    except Refused as error:
        return complain(USAGE, str(error))
    except StoreError as error:
        return complain(FAILED, str(error))
    log.info("ended")
    return 0


def names_of(options: Options) -> list[str]:
    """The names beside those of loopback under which requests are accepted."""
    return [*options.allow_host, *([host_of(options.listen)] if options.listen else [])]


def work(
    manager: Manager, sockets: list[socket.socket], names: Sequence[str], about: Mapping[str, Any]
) -> None:
    with suppress(StoreError):  # the service tries again, and logs it
        manager.poll()
        manager.flush()
    with loading():
        from tiresias.api.server import serve  # takes half of the time of a start

    with survivors_left_out():
        asyncio.run(serve(manager, sockets, names, lambda: announce(manager.home / ABOUT, about)))


def complain(code: int, text: str) -> int:
    """Write to stderr and to the log why there is no manager; returns the exit code."""
    root = logging.getLogger()
    for handler in [each for each in root.handlers if not isinstance(each, logging.FileHandler)]:
        root.removeHandler(handler)  # stderr gets the message without the head of a log line
    log.error("%s", text)
    if not _is_log(sys.stderr):
        print(f"Error: {text}", file=sys.stderr)
    return code


def _is_log(stream: TextIO) -> bool:
    """Whether the stream leads to the log, as it does for a manager in the background."""
    return _leads_to(
        stream, [each for each in logging.getLogger().handlers if isinstance(each, logging.FileHandler)]
    )


def _leads_to(stream: TextIO, logs: list[logging.FileHandler]) -> bool:
    try:
        at = os.fstat(stream.fileno())
        return any(os.path.samestat(at, os.stat(each.baseFilename)) for each in logs)
    except (OSError, ValueError):  # not a file
        return False


def read_options(path: Path) -> Options:
    """The options of the manager; the defaults if there is no such file."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Options()
    except (OSError, ValueError) as error:
        raise Invalid(f"{path}: cannot read the options: {error}; correct the file or remove it") from error
    if not isinstance(body, dict):
        raise Invalid(f"{path}: the options are not a JSON object; correct the file or remove it")
    options = Options.from_json(body)
    for name, kind in get_type_hints(Options).items():
        value = getattr(options, name)
        plain = kind if isinstance(kind, UnionType) else get_origin(kind) or kind
        if not isinstance(value, plain):
            raise Invalid(f"{path}: {name}: {value!r} is not {kind}; correct the file")
    return options


def load_plugins(options: Options) -> None:
    """Load policies and placers of the users' own. The loader is a large import that few managers need."""
    if options.plugins or os.environ.get("TIRESIAS_PLUGINS"):
        from tiresias.sim.errors import InputError
        from tiresias.sim.plugins import use_plugins

        try:
            use_plugins(options.plugins)
        except InputError as error:
            raise Invalid(str(error)) from error


class PrivateLog(RotatingFileHandler):
    """Only the manager's user can read the log, the new file after each rotation included.

    What cannot be written, as on a full disk, is no error. Otherwise logging would write a traceback to
    stderr for each message, and closing the log would raise an exception.
    """

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with suppress(OSError):
            super().close()

    def _open(self) -> TextIOWrapper:
        os.close(os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return super()._open()


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Log to a file that only the manager's user can read, and to stderr unless it leads to that file.

    `tir up` starts a manager in the background with stderr in the log. In the foreground stderr is a
    terminal, or the pipe of a service manager, which wants to have the log.
    """
    file = PrivateLog(path, maxBytes=LARGEST_LOG_BYTES, backupCount=3)
    handlers: list[logging.Handler] = [file]
    if not _leads_to(sys.stderr, [file]):
        handlers.append(logging.StreamHandler())
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    for handler in handlers:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root.addHandler(handler)
    try:
        yield
    finally:
        root.setLevel(before)
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()


@contextmanager
def listening(manager: Manager, options: Options) -> Iterator[tuple[list[socket.socket], dict[str, Any]]]:
    """The open sockets and their addresses; they are closed and removed afterwards."""
    path = manager.home / SOCKET
    sockets = [listen_unix(path, options.group)]
    url = None
    try:
        if options.listen:
            sockets.append(listen_tcp(options.listen, has_tokens=bool(manager.store.tokens())))
            url = url_of(sockets[-1])
            if not is_loopback(sockets[-1]):
                log.warning("%s can be reached from other machines. %s", url, NOT_ENCRYPTED)
        me = procfs.look(os.getpid())
        start = None if me is None else me.start
        yield sockets, {"pid": os.getpid(), "start": start, "socket": str(path), "url": url}
    finally:
        for each in sockets:
            each.close()
        path.unlink(missing_ok=True)
        (manager.home / ABOUT).unlink(missing_ok=True)


def announce(path: Path, about: Mapping[str, Any]) -> None:
    """Write the addresses of the manager to the home, now that it answers."""
    save(path, lambda file: file.write(json.dumps(about).encode() + b"\n"))
    log.info("answers on %s%s", about["socket"], f" and {about['url']}" if about["url"] else "")


if __name__ == "__main__":
    sys.exit(main())
