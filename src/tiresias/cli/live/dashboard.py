"""`tir dashboard`: the pages in a browser, served by a process of the caller's own."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tiresias.cli.console import echo
from tiresias.cli.declare import Option
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import connected, manager_address

if TYPE_CHECKING:
    from tiresias.api.local_pages import LocalPages

SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")
REDIRECT = '<!doctype html><meta http-equiv="refresh" content="0; url={url}"><a href="{url}">Tiresias</a>\n'


def dashboard(
    no_open: Annotated[bool, Option("--no-open", help="Print the address, and open no browser.")] = False,
    port: Annotated[
        int, Option("--port", metavar="N", min=0, max=65535, help="Port on 127.0.0.1; 0 is a free one.")
    ] = 0,
) -> None:
    """Show GPUs, queue, jobs and history in a browser.

    The pages are served on this machine only, to whoever has the address that is printed, which is good once
    and for a minute. They may do what you may do. Ctrl-C ends the dashboard and its sessions.
    """
    from tiresias.api.dashboard import Dashboard

    with connected() as client:
        client.status()  # a manager that cannot be reached is an error now, and not in the browser
    show_in_browser(Dashboard(manager_address()), port=port, is_opened=not no_open)


def show_in_browser(
    served: LocalPages, *, port: int = 0, is_opened: bool = True, what: str = "dashboard"
) -> None:
    """Serve until Ctrl-C; with `is_opened` in a browser, if there is a screen."""
    from tiresias.api.dashboard_server import serve_dashboard
    from tiresias.live.errors import Refused

    with opener(is_opened) as browse:

        def announce() -> None:
            url = served.url()
            echo(f"the {what} is at {url}")
            echo(f"this address is good once, within 60 seconds; Ctrl-C ends the {what}")
            sys.stdout.flush()
            browse(url)

        def ready() -> None:
            announce()
            if sys.stdin.isatty():
                echo("press Enter for another address")
                asyncio.get_running_loop().add_reader(sys.stdin, again)

        def again() -> None:
            if sys.stdin.readline():
                announce()
            else:  # the end of the input
                asyncio.get_running_loop().remove_reader(sys.stdin)

        try:
            serve_dashboard(served, port, ready)
        except Refused as error:
            raise Stop(str(error)) from None


@contextmanager
def opener(is_wanted: bool) -> Iterator[Callable[[str], None]]:
    """A function that opens a URL in a browser once, if there is a screen.

    The browser is given a file that only the user can read: the words of a command line, and with them the
    code, can be read by every user of the machine.
    """
    if not is_wanted or not any(os.environ.get(each) for each in SCREENS):
        yield lambda url: None
        return
    import webbrowser

    opened: list[str] = []

    def browse(url: str) -> None:
        if opened:
            return
        handle, path = tempfile.mkstemp(prefix="tiresias-", suffix=".html")
        opened.append(path)
        with os.fdopen(handle, "w") as file:
            file.write(REDIRECT.format(url=url))
        with suppress(webbrowser.Error):
            webbrowser.open(Path(path).as_uri())

    try:
        yield browse
    finally:
        for path in opened:
            Path(path).unlink(missing_ok=True)
