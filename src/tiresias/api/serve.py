"""`python -m tiresias.api.serve --home HOME`: one manager, until it is told to end.

HOME/options.json says what it manages and how. When it answers, HOME/manager.json says where. It ends
orderly on SIGTERM, SIGINT or POST /api/v1/shutdown; its runs go on.
Exit codes: 0 ended orderly, 1 could not start or go on, 2 the options make no sense, 6 another manager has
this home.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import TypeAdapter, ValidationError

from tiresias.api.app import create_app
from tiresias.api.errors import was_inside
from tiresias.api.home import ABOUT, LOG, OPTIONS, SOCKET, default_home
from tiresias.api.peers import PeerProtocol
from tiresias.api.sockets import listen_tcp, listen_unix, url_of
from tiresias.executors import procfs
from tiresias.job._files import save
from tiresias.live.errors import Invalid, Refused
from tiresias.live.manager import Manager
from tiresias.live.service import Service
from tiresias.live.start import Options, open_manager
from tiresias.store import InUse, StoreError

FAILED, USAGE, REJECTED = 1, 2, 6
STREAMS_END_S = 5  # after the manager's end
LARGEST_LOG_BYTES = 10 * 1024 * 1024

log = logging.getLogger("tiresias.api.serve")


def main(words: Sequence[str] | None = None) -> int:
    """Run one manager to its end; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tiresias.api.serve", description="Run one manager.")
    parser.add_argument("--home", type=Path, default=None, help="by default TIRESIAS_HOME or ~/.tiresias")
    home = (parser.parse_args(words).home or default_home()).absolute()
    try:
        home.mkdir(parents=True, exist_ok=True)
        write_log(home / LOG)
        options = read_options(home / OPTIONS)
        load_plugins(options)
        manager = open_manager(home, options)
    except InUse as error:
        return complain(REJECTED, str(error))
    except Invalid as error:
        return complain(USAGE, str(error))
    except (Refused, StoreError) as error:
        return complain(FAILED, str(error))
    except OSError as error:
        return complain(FAILED, f"{error.filename or home}: {error.strerror}; choose another home")
    try:
        asyncio.run(serve(manager, options))
    except Refused as error:
        return complain(USAGE, str(error))
    except StoreError as error:
        return complain(FAILED, str(error))
    finally:
        manager.executor.close()
        manager.store.close()
    return 0


def complain(code: int, text: str) -> int:
    """Say on stderr and in the log why there is no manager; the exit code."""
    log.error("%s", text)
    print(f"Error: {text}", file=sys.stderr)
    return code


def read_options(path: Path) -> Options:
    """What the manager was told to manage; the defaults where there is no such file."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(body, dict):
            raise Invalid(f"{path}: the options are not a JSON object; correct the file or remove it")
        Options.from_json(body)
        return TypeAdapter(Options).validate_python(body)
    except FileNotFoundError:
        return Options()
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"])
        raise Invalid(f"{path}: {where}: {wrong['msg']} (is {wrong['input']!r}); correct the file") from error
    except (OSError, ValueError) as error:
        raise Invalid(f"{path}: cannot read the options: {error}; correct the file or remove it") from error


def load_plugins(options: Options) -> None:
    """Policies and placers of the users' own; what loads them is large, and few need it."""
    if options.plugins or os.environ.get("TIRESIAS_PLUGINS"):
        from tiresias.sim.errors import InputError
        from tiresias.sim.plugins import use_plugins

        try:
            use_plugins(options.plugins)
        except InputError as error:
            raise Invalid(str(error)) from error


def write_log(path: Path) -> None:
    """Everything that is logged goes to the file, readable for the manager's user only, and to a terminal."""
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    handlers: list[logging.Handler] = [RotatingFileHandler(path, maxBytes=LARGEST_LOG_BYTES, backupCount=3)]
    if sys.stderr.isatty():
        handlers.append(logging.StreamHandler())
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, handlers=handlers, force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


async def serve(manager: Manager, options: Options) -> None:
    """Answer on the manager's sockets and let it work, until it is told to stop."""
    service = Service(manager)
    app = create_app(service, die)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: _unexpected(context))
    with listening(manager, options) as (sockets, about):
        server = _Server(app, on_started=lambda: announce(manager.home / ABOUT, about))
        working = asyncio.create_task(service.run())
        await asyncio.sleep(0)  # it runs: now it can be asked and stopped
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, service.stop)
        answering = asyncio.create_task(server.serve(sockets))
        try:
            await asyncio.wait((answering, working), return_when=asyncio.FIRST_COMPLETED)
        finally:
            app.state.tiresias.closing.set()
            server.should_exit = True
            service.stop()
            await asyncio.gather(answering, working)
    log.info("ended")


def die(problem: Exception) -> None:
    """End at once, as if killed: all that was acknowledged is stored, and the next manager goes on there."""
    log.critical("the manager ends because of a bug of ours; start it again", exc_info=problem)
    logging.shutdown()
    os._exit(FAILED)


def _unexpected(context: dict[str, Any]) -> None:
    """What went wrong where nobody waits for it: fatal inside the manager, elsewhere a line in the log."""
    problem = context.get("exception")
    if isinstance(problem, Exception) and was_inside(problem):
        die(problem)
    log.error("%s", context.get("message"), exc_info=problem)


@contextlib.contextmanager
def listening(
    manager: Manager, options: Options
) -> Iterator[tuple[list[socket.socket], dict[str, Any]]]:
    """The open sockets, and where they are; afterwards nothing is left of them."""
    path = manager.home / SOCKET
    sockets = [listen_unix(path, options.group)]
    url = None
    try:
        if options.listen:
            sockets.append(listen_tcp(options.listen, has_tokens=bool(manager.store.tokens())))
            url = url_of(sockets[-1])
        me = procfs.look(os.getpid())
        start = None if me is None else me.start
        yield sockets, {"pid": os.getpid(), "start": start, "socket": str(path), "url": url}
    finally:
        for each in sockets:
            each.close()
        path.unlink(missing_ok=True)
        (manager.home / ABOUT).unlink(missing_ok=True)


def announce(path: Path, about: Mapping[str, Any]) -> None:
    """Tell everybody who looks that the manager answers, and where."""
    save(path, lambda file: file.write(json.dumps(about).encode() + b"\n"))
    log.info("answers on %s%s", about["socket"], f" and {about['url']}" if about["url"] else "")


class _Server(uvicorn.Server):
    """Leaves signals alone and says when it answers."""

    def __init__(self, app: FastAPI, on_started: Callable[[], None]):
        super().__init__(
            uvicorn.Config(
                app,
                http=PeerProtocol,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=STREAMS_END_S,
            )
        )
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


if __name__ == "__main__":
    sys.exit(main())
