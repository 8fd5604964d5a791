"""The dashboard with 10,000 active jobs: how soon pages are there, how soon they change, what they cost.

A real manager on fake GPUs, a real `tir dashboard` before it, a real Chromium, and readers of the stream of
events that draw nothing. Needs Playwright and Chromium, as `make test-browser` does; without them it says so.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from statistics import median
from typing import Any

from benchmarks.managers import ManagerProcess, manager_process, share
from tiresias.api import pages

JOBS, FEW = 10_000, 50
READERS = 20
PACE_S = 0.025  # between two decisions, however busy the machine is: what pages ask depends on time
EVENTS = 150
ROUNDS, DECISIONS = 7, 160  # per round; without pages and with them by turns, on a machine that may be busy
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE_MS = 120_000
CALM_MS = 3_000  # after which a page has asked for all that it asks for when it is opened
VIEWS = {  # what must be there before a page is usable
    "?who=all": "tr[data-job]",
    "queue": "tr[data-job]",
    "history?since=1h": "canvas",
    "what-if": "button.main",
}
WATCH = """
window.__seen = {};
new MutationObserver(() => {
  for (const each of document.querySelectorAll("li[data-seq]"))
    window.__seen[each.dataset.seq] ??= (performance.timeOrigin + performance.now()) / 1000;
}).observe(document, { childList: true, subtree: true });
"""


def dashboard() -> None:
    if find_spec("playwright") is None or shutil.which("chromium") is None:
        print("dashboard: not measured: Playwright or Chromium is missing (make test-browser installs them)")
        return
    from playwright.sync_api import sync_playwright

    load = os.getloadavg()[0]
    with sync_playwright() as playwright, manager_process(gpus=64) as manager:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        manager.fill(FEW, FEW)
        with _dashboard(manager) as address:
            few_s, _, page = _opened(browser, address)
            page.context.close()
        manager.fill(JOBS - FEW)
        with _dashboard(manager) as address:
            rows_s, views, page = _opened(browser, address)
            with _readers(manager, READERS):
                late = _latencies(manager, page)
            most_rows = page.evaluate("document.querySelectorAll('tr').length")
            shown, alone, among = page.url, [], []
            for _ in range(ROUNDS):
                page.goto("about:blank")
                alone.append(_per_decision(manager))
                page.goto(shown)
                page.locator("tr[data-job]").first.wait_for()
                page.wait_for_timeout(CALM_MS)
                with _readers(manager, READERS):
                    among.append(_per_decision(manager))
            times = [with_s / without_s for with_s, without_s in zip(among, alone, strict=True)]
            page.context.close()
        browser.close()
    told = f"with {JOBS:,} active jobs, load {load:.1f} to {os.getloadavg()[0]:.1f}"
    print(
        f"dashboard: first rows after {rows_s:.2f} s {told} (less than 1 s wanted), {rows_s / few_s:.2f}"
        f" times as late as with {FEW}"
    )
    for view, seconds in views.items():
        print(f"dashboard: #/{view} usable after {seconds:.2f} s (less than 2 s wanted)")
    print(
        f"dashboard: event to DOM beside {READERS} readers: p50 {share(late, 0.5) * 1e3:.0f} ms, p95"
        f" {share(late, 0.95) * 1e3:.0f} ms of {len(late)} (less than 250 ms wanted), p95"
        f" {share(late, 0.95) / share(late, 0.5):.1f} times the p50"
    )
    print(
        f"dashboard: the manager takes {median(among) * 1e3:.2f} ms of processor time per decision with a"
        f" page and {READERS} readers, {median(alone) * 1e3:.2f} ms with none: {median(times):.2f} times (at"
        f" most 1.10 wanted); medians of {ROUNDS} rounds, {min(times):.2f} to {max(times):.2f} times"
    )
    print(f"dashboard: {most_rows} rows in the DOM (at most 100 wanted)")
    whole, compressed = _sizes()
    print(
        f"dashboard: all files have {whole / 1e3:.1f} kB (less than 150 wanted), compressed"
        f" {compressed / 1e3:.1f} kB (less than 60 wanted), {compressed / whole:.2f} times as much"
    )


def _sizes() -> tuple[int, int]:
    found = pages.files().values()
    return sum(len(each.body) for each in found), sum(len(each.compressed) for each in found)


@contextmanager
def _dashboard(manager: ManagerProcess) -> Iterator[str]:
    """The address of a `tir dashboard`."""
    env = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tiresias.cli.main", "dashboard", "--no-open"],
        env={**env, "TIRESIAS_HOME": str(manager.home)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found
    try:
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        process.stdout.close()


def _opened(browser: Any, address: str) -> tuple[float, dict[str, float], Any]:
    """Seconds until the first rows are there and until each page can be used; and the page, showing Now."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.add_init_script(WATCH)
    url = address.partition("#")[0]
    page.goto(f"{url}web/icon.svg")  # Chromium itself is warm
    began = time.perf_counter()
    page.goto(address.replace("/#", "/#/?who=all&"))
    page.locator("tr[data-job]").first.wait_for()
    rows_s = time.perf_counter() - began
    views = {}
    for view, there in VIEWS.items():
        page.goto(f"{url}#/nowhere")
        page.get_by_role("heading", name="There is no page").wait_for()
        began = time.perf_counter()
        page.goto(f"{url}#/{view}")
        page.locator(there).first.wait_for()
        views[view] = time.perf_counter() - began
    page.goto(f"{url}#/?who=all")
    page.locator("tr[data-job]").first.wait_for()
    return rows_s, views, page


@contextmanager
def _readers(manager: ManagerProcess, count: int) -> Iterator[None]:
    """Readers of the stream of events, in a process of their own."""
    seq = manager.client.requester.value("GET", "/api/v1/jobs?limit=1")["seq"]
    command = [sys.executable, "-m", "benchmarks.dashboard", str(manager.home / "manager.sock"), str(count)]
    command.append(str(seq))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "reading"
        yield
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _latencies(manager: ManagerProcess, page: Any) -> list[float]:
    """Seconds from the instant of an event until it is in the DOM of the page."""
    [id] = manager.client.submit(manager.job("true", hold=True))
    begin = max(event["seq"] for event in manager.client.job_events(id))
    change: tuple[Callable[[int], Any], ...] = (manager.client.release, manager.client.hold)
    for number in range(EVENTS):
        change[number % 2](id)
        time.sleep(0.1)
    time.sleep(2.0)
    seen = {int(seq): at for seq, at in page.evaluate("window.__seen").items()}
    events = [event for event in manager.client.job_events(id) if event["seq"] > begin]
    return [seen[event["seq"]] - event["at"] for event in events if event["seq"] in seen]


def _per_decision(manager: ManagerProcess) -> float:
    """Seconds of processor time of the manager for one submission, decided and durable, at a steady pace."""
    before, next_at = manager.cpu_s(), time.monotonic()
    for _ in range(DECISIONS):
        manager.client.submit(manager.job("sleep", "86400"))
        next_at += PACE_S
        time.sleep(max(0.0, next_at - time.monotonic()))
    return (manager.cpu_s() - before) / DECISIONS


def main(path: str, count: int, since: int) -> None:
    """Read the stream of events `count` times."""
    request = f"GET /api/v1/events?follow=true&since={since} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    ready = selectors.DefaultSelector()
    for _ in range(count):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        connection.sendall(request)
        connection.recv(65536)  # it has begun
        ready.register(connection, selectors.EVENT_READ)
    print("reading", flush=True)
    while True:
        for key, _ in ready.select():
            assert isinstance(key.fileobj, socket.socket)
            if not key.fileobj.recv(65536):
                return


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
