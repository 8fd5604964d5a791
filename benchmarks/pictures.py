"""Makes the pictures of README and docs: a manager, real trainings of three users, the pages, a browser.

    make pictures
    python -m benchmarks.pictures DIRECTORY    # all looks, to be looked at: light, dark, and on a telephone

The trainings are those of `tiresias demo`, on sixteen fake GPUs. Needs Playwright and Chromium, as
`make test-browser` does, and as root `unshare`, so that the users need no accounts on this machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiresias.api.client import Client

OUT = Path(__file__).parents[1] / "docs/pictures"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
OPTIONS = {"fake_gpus": 16, "listen": "127.0.0.1:0", "policy": "tiresias-l", "set": {"queues": "60,400"}}
ENV = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
PATIENCE_S = 900.0
Look = tuple[str, int]  # colours, and the width of the window
LOOKS: list[Look] = [("light", 1180)]
ALL_LOOKS: list[Look] = [("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)]
HEIGHTS = {"history": 1420, "what-if": 1000, "simulation": 880}  # others are 760 high
LONG = (
    ("bob", "pretrain-large", "language", 8),
    ("cleo", "resnet50-aug", "vision", 4),
    ("ada", "tune-lr", "vision", 4),
)
SHORT = (
    *(("ada", f"ablation-{number}", "vision", 2) for number in range(4)),
    ("cleo", "eval-nightly", "vision", 1),
    ("bob", "pretrain-small", "language", 4),
    ("ada", "big-gang", "vision", 16),
)


def until(is_so: Callable[[], Any]) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > ends_at:
            raise SystemExit(f"not so within {PATIENCE_S:.0f} s")
        time.sleep(0.2)


@contextmanager
def running(command: list[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, **more)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


def training(name: str, tenant: str, gpus: int, steps: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tiresias.cli.live.demo_training", str(steps), "1", "0.2"]
    return {
        "command": command,
        "cwd": "/",
        "env": ENV,
        "gpus": gpus,
        "name": name,
        "tenant": tenant,
        "grace_s": 20,
    }


def main(words: Sequence[str]) -> None:
    out, looks = (Path(words[0]), ALL_LOOKS) if words else (OUT, LOOKS)
    out.mkdir(exist_ok=True)
    simulations(out, looks)
    home = Path(tempfile.mkdtemp(prefix="tiresias-pictures-"))
    (home / "options.json").write_text(json.dumps(OPTIONS))
    alone = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []
    try:
        with running([*alone, sys.executable, "-m", "tiresias.api.serve", "--home", str(home)]):
            until((home / "manager.json").exists)
            with Client(home) as client:
                try:
                    url = json.loads((home / "manager.json").read_text())["url"]
                    take(client, url, play(client, url), out, looks)
                finally:
                    client.shutdown(stop_jobs=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def play(client: Client, url: str) -> str:
    """Long trainings take all GPUs and fall to lower levels; short ones displace them. The token is ada's."""
    tokens = {user: client.create_token(user, user) for user in ("ada", "bob", "cleo")}
    people = {user: Client(url=url, token=token) for user, token in tokens.items()}
    for number in range(32):  # from so many ended jobs starts are estimated
        people[("ada", "bob", "cleo")[number % 3]].submit(
            training(f"warm-up-{number}", "vision", (1, 2, 4, 8)[number % 4], 5 + 7 * number % 60)
        )
    until(lambda: not list(client.jobs()))
    for user, name, tenant, gpus in LONG:
        people[user].submit(training(name, tenant, gpus, 3000))
    until(lambda: all(job["queue"] == 2 for job in client.jobs()))
    for user, name, tenant, gpus in SHORT:
        people[user].submit(training(name, tenant, gpus, 400))
    people["bob"].submit({**training("on-hold", "language", 2, 10), "hold": True})
    until(lambda: sum(job["phase"] == "RUNNING" and job["runs"] == 1 for job in client.jobs()) >= 6)
    return tokens["ada"]


def take(client: Client, url: str, token: str, out: Path, looks: Sequence[Look]) -> None:
    """The pages as the user of this token sees them."""
    [victim] = [job["id"] for job in client.jobs() if job["name"] == "tune-lr"]
    views = {
        "now": ("?who=all", "tune-lr"),
        "queue": ("queue", "tune-lr"),
        "job": (f"jobs/{victim}", "tune-lr"),
        "history": ("history?since=1h", "By user"),
        "what-if": (
            "what-if?policies=fifo,fifo-skip,srsf&more=8&since=1h",
            "What would have been different?",
        ),
    }
    env = {"TIRESIAS_URL": url, "TIRESIAS_TOKEN": token}
    shoot(["dashboard", "--no-open"], env, views, out, looks)


def simulations(out: Path, looks: Sequence[Look]) -> None:
    """The page of a comparison on the testbed trace of the paper."""
    views = {"simulation": ("", "Jobs that had ended after so long")}
    shoot(["compare", "builtin:testbed-480", "--cluster", "15x4", "--open"], {}, views, out, looks)


def shoot(
    words: Sequence[str],
    more_env: Mapping[str, str],
    views: Mapping[str, tuple[str, str]],
    out: Path,
    looks: Sequence[Look],
) -> None:
    """Pictures of views, each as soon as its text is there, of the pages that this command serves."""
    from playwright.sync_api import sync_playwright

    env = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    command = [sys.executable, "-m", "tiresias.cli.main", *words]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with running(command, env={**env, **more_env}, **pipes) as served, sync_playwright() as playwright:
        assert served.stdout is not None
        found = next(match for line in served.stdout if (match := re.search(r"http://\S+", line)))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        session = ""
        for scheme, width in looks:
            page = browser.new_context(color_scheme=scheme).new_page()
            if session:
                page.add_init_script(f"sessionStorage.setItem('tiresias.session', '{session}')")
            page.goto(found[0])
            page.locator("main h1, main h2").first.wait_for()
            session = session or page.evaluate("sessionStorage.getItem('tiresias.session')")
            for name, (view, text) in views.items():
                page.set_viewport_size({"width": width, "height": HEIGHTS.get(name, 760)})
                page.goto(f"{found[0].partition('#')[0]}#/{view}")
                page.get_by_text(text).first.wait_for()
                if name == "what-if":
                    page.get_by_role("button", name="Compute").click()
                    page.get_by_text("How far this can be trusted").wait_for(timeout=PATIENCE_S * 1e3)
                page.wait_for_timeout(1500)  # until charts and estimates are there too
                is_small = width < 500
                ending = f"{scheme}-{width}" if is_small else scheme
                page.screenshot(path=out / f"{name}-{ending}.png", full_page=is_small)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
