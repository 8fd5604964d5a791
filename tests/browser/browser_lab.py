"""A real manager on fake GPUs, a real dashboard before it, and a real Chromium that looks at it.

Whatever a test does, its pages are watched: a request that leaves the origin, a report of the content
security policy or an error in a script fails the test.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from api_server import Server

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
REPORTS = """
window.__reports = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__reports.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}`));
"""
HARMLESS = ("Failed to load resource",)  # what the API refuses, or while a manager is down


def chromium() -> str | None:
    names = (os.environ.get("TIRESIAS_CHROMIUM"), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def missing() -> str:
    """What is missing for tests in a browser; empty if nothing is."""
    if not os.environ.get("TIRESIAS_BROWSER"):
        return "make test-browser runs it, with Chromium and Playwright"
    if find_spec("playwright") is None:
        return "Playwright is not installed: pip install playwright"
    if chromium() is None:
        return "there is no Chromium on this machine; TIRESIAS_CHROMIUM may name one"
    return ""


class Dashboard:
    """`tir dashboard --no-open` for one home."""

    def __init__(self, home: Path, *words: str):
        env = {
            name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tiresias.cli.main", "dashboard", "--no-open", *words],
            env={**env, "TIRESIAS_HOME": str(home)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found
        self.address = found[0]  # with its code
        self.url = self.address.partition("#")[0]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()


class Watched:
    """A page of a browser, and everything about it that must not happen."""

    def __init__(self, context: Any, origin: str):
        self.origin = origin.rstrip("/")
        self.problems: list[str] = []
        self.page = context.new_page()
        self.page.add_init_script(REPORTS)
        self.page.on("request", self._request)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.problems.append("a dialog"), dialog.dismiss()))

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.origin + "/", "data:")):
            self.problems.append(f"a request left the origin: {request.url}")
        if request.headers.get("referer"):
            self.problems.append(f"a Referer was sent: {request.headers['referer']}")

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(HARMLESS):
            self.problems.append(f"console: {message.text}")

    def check(self) -> None:
        reports = [] if self.page.is_closed() else self.page.evaluate("window.__reports ?? []")
        assert not self.problems + reports, self.problems + reports


class Lab:
    """One manager, one dashboard, and the pages that a test opens."""

    def __init__(self, home: Path, browser: Any, **options: Any):
        self.browser = browser
        self.server = Server(home, **{"fake_gpus": 4, "policy": "tiresias-l", **options}).start()
        self.client = self.server.client()
        self.dashboard = Dashboard(home)
        self._contexts: list[Any] = []
        self._watched: list[Watched] = []

    def open(self, view: str = "", address: str | None = None, **context: Any) -> Any:
        """A page in a browser without any past, signed in and at this view."""
        made = self.browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        made.set_default_timeout(60_000)  # the machine may be busy
        self._contexts.append(made)
        if address is None:
            self.dashboard.end()
            self.dashboard = Dashboard(self.server.home)
            address = self.dashboard.address
        watched = Watched(made, address.partition("#")[0])
        self._watched.append(watched)
        watched.page.goto(address)
        if view:
            watched.page.locator(".connection").wait_for()  # it has signed in
            watched.page.goto(f"{address.partition('#')[0]}#/{view}")
        return watched.page

    def forgive(self) -> None:
        """Forget the problems so far: the test has looked at them itself."""
        for each in self._watched:
            each.problems.clear()

    def check(self) -> None:
        watched, self._watched = self._watched, []
        contexts, self._contexts = self._contexts, []
        try:
            for each in watched:
                each.check()
        finally:
            for context in contexts:
                context.close()

    def close(self) -> None:
        self.dashboard.end()
        self.client.close()
        self.server.stop()
