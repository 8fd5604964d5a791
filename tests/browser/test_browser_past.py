"""The pages about the past: History, What-if, and the result of a simulation."""

from __future__ import annotations

import csv
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_server import eventually, job, phase, until_ended
from browser_lab import Lab, Watched

MARKUP = "<img src=x onerror=window.hacked=1>"
CHILD = "tiresias.api.what_if_child"


@pytest.fixture
def past(lab: Lab) -> list[int]:
    """Jobs that have ended, of a tenant with a name full of markup, and one that runs."""
    ids = [lab.client.submit(job("true", gpus=1 + n % 2, tenant=MARKUP))[0] for n in range(4)]
    for id in ids:
        until_ended(lab.client, id)
    [runs] = lab.client.submit(job("sleep", "600", gpus=2, tenant="vision"))
    eventually(lambda: phase(lab.client, runs) == "RUNNING")
    return [*ids, runs]


def is_unharmed(page: Any) -> bool:
    made = page.evaluate("document.querySelectorAll('main img, main script').length")
    return bool(made == 0 and page.evaluate("window.hacked === undefined"))


def test_history_has_use_queue_waits_and_shares_over_a_window(lab: Lab, past: list[int]) -> None:
    page = lab.open("history?since=1h")
    page.get_by_role("heading", name="History").wait_for()
    for title in ("GPUs", "Queue", "Wait of jobs that started", "GPUs by user"):
        page.get_by_role("img", name=re.compile(f"^{title}: ")).wait_for()
    page.locator("canvas").first.wait_for()
    page.get_by_role("button", name="By tenant").click()
    page.get_by_role("cell", name=MARKUP).wait_for()
    assert "by=tenant" in page.url
    page.get_by_role("combobox", name="Time").select_option("the last 6 hours")
    eventually(lambda: "since=6h" in page.url)
    page.reload()
    page.get_by_role("cell", name="vision").wait_for()
    assert page.get_by_role("combobox", name="Time").input_value() == "6h"
    assert is_unharmed(page)


def test_the_axis_of_time_has_24_hours_and_the_day_where_one_begins(lab: Lab, past: list[int]) -> None:
    page = lab.open("history?since=1h", timezone_id="UTC")
    at = """async ([instants, step]) => {
        const { instants: words } = await import("/web/charts.js");
        return words(null, instants, 0, 0, step);
    }"""
    midnight = 1_767_225_600  # 1 January 2026
    assert page.evaluate(at, [[midnight - 3600, midnight, midnight + 46800], 3600]) == [
        "23:00", "1 Jan", "13:00",
    ]  # fmt: skip
    assert page.evaluate(at, [[midnight, midnight + 15], 15]) == ["1 Jan", "00:00:15"]
    assert page.evaluate(at, [[midnight + 86400], 86400]) == ["2 Jan"]


def test_the_timeline_leads_to_jobs_by_mouse_and_by_keyboard(lab: Lab, past: list[int]) -> None:
    page = lab.open("history?since=1h")
    runs = page.get_by_role("region", name="Table of runs")
    runs.get_by_role("link", name=f"job {past[-1]}").wait_for()
    assert runs.locator("tbody tr").count() <= 20
    assert page.locator("tbody tr").count() + page.locator(".line").count() <= 100
    runs.get_by_role("link", name=f"job {past[-1]}").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile(rf"{past[-1]}$")).wait_for()
    page.go_back()
    page.locator(".line .job").last.click()
    eventually(lambda: "#/jobs/" in page.url)


def children() -> list[Path]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and CHILD.encode() in (entry / "cmdline").read_bytes():
                found.append(entry)
        except OSError:
            continue
    return found


def test_what_if_says_what_other_policies_and_more_gpus_would_have_given(lab: Lab, past: list[int]) -> None:
    page = lab.open("what-if?policies=fifo&more=4")
    page.get_by_label("fifo-skip").check()
    eventually(lambda: "policies=fifo%2Cfifo-skip" in page.url)
    page.get_by_role("button", name="Compute").press("Enter")
    page.get_by_text("How far this can be trusted").wait_for(timeout=120_000)
    for label in ("fifo", "fifo-skip", "4 more GPUs"):
        page.get_by_text(f"With {label}", exact=True).wait_for()
    page.get_by_text("times as long on average as was measured").wait_for()
    assert page.get_by_role("region", name="Table of scenarios").locator("tbody tr").count() == 5


def test_a_what_if_is_cancelled_and_its_process_is_gone(lab: Lab, past: list[int]) -> None:
    page = lab.open("what-if")
    before = set(children())
    page.get_by_role("button", name="Compute").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled").wait_for()
    eventually(lambda: set(children()) <= before)
    page.get_by_role("button", name="Compute").click()
    page.goto(f"{lab.dashboard.url}#/queue")
    page.get_by_role("heading", name="Queue").wait_for()
    eventually(lambda: set(children()) <= before)


def test_a_what_if_that_is_refused_says_why(lab: Lab, past: list[int]) -> None:
    page = lab.open(f"what-if?policies={MARKUP.replace(' ', '')}&more=")
    page.get_by_role("button", name="Compute").click()
    page.get_by_role("alert").get_by_text("no policy").wait_for()
    assert is_unharmed(page)


def test_history_catches_up_with_a_restarted_manager(lab: Lab, past: list[int]) -> None:
    page = lab.open("history?since=1h")
    page.get_by_role("region", name="Table of runs").get_by_role("link", name=f"job {past[-1]}").wait_for()
    lab.server.kill()
    page.get_by_text("not connected").wait_for()
    lab.server.start()
    [while_away] = lab.client.submit(job("true"))
    until_ended(lab.client, while_away)
    page.get_by_text("live", exact=False).first.wait_for()
    row = page.get_by_role("region", name="Table of runs").get_by_role("link", name=f"job {while_away}")
    row.wait_for(timeout=60_000)
    assert row.count() == 1
    lab.forgive()


# --- simulations ---------------------------------------------------------------------------------------


class Simulated:
    """A command that shows its result in a browser."""

    def __init__(self, words: list[str], folder: Path):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tiresias.cli.main", *words, "--open"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        found = (re.search(r"http://\S+", line) for line in self.process.stdout)
        self.address = next(each for each in found if each)[0]

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("t") / "trace.csv"
    with path.open("w", newline="") as file:
        sheet = csv.writer(file)
        sheet.writerow(["id", "submitted_at", "gpus", "duration_s", "user", "tenant"])
        for n in range(60):
            sheet.writerow([n, n * 10, 1 + n % 4, 50 + 37 * n % 400, "ann", MARKUP if n % 2 else "vision"])
    return path


@pytest.fixture
def pages(browser: Any) -> Iterator[list[Watched]]:
    watched: list[Watched] = []
    yield watched
    for each in watched:
        each.check()
        each.page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_comparison_is_opened_as_a_page(
    browser: Any, pages: list[Watched], trace: Path, tmp_path: Path, scheme: str, axe: str
) -> None:
    simulated = Simulated(["compare", str(trace), "--cluster", "2x4", "--policies", "fifo,srsf"], tmp_path)
    try:
        context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
        context.set_default_timeout(60_000)
        watched = Watched(context, simulated.address.partition("#")[0])
        pages.append(watched)
        page = watched.page
        page.goto(simulated.address)
        page.get_by_role("img", name=re.compile("^Jobs that had ended after so long")).wait_for()
        page.get_by_text("★ best").wait_for()
        assert "code" not in page.url
        url = page.url.partition("#")[0]
        for view, title in (("", "on 2x4"), ("time", "Over time"), ("tenants", "Tenants")):
            page.goto(f"{url}#/{view}")
            page.get_by_role("heading", name=re.compile(title)).first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
            assert is_unharmed(page)
            page.evaluate(axe)
            serious = """async () => (await axe.run(document)).violations.filter(
                (each) => ["serious", "critical"].includes(each.impact)).map((each) => each.id)"""
            assert page.evaluate(serious) == [], view
    finally:
        assert simulated.end() == 0


def test_a_sweep_is_opened_as_a_page(browser: Any, pages: list[Watched], trace: Path, tmp_path: Path) -> None:
    words = ["sweep", str(trace), "--clusters", "1x4,2x4,3x4", "--policies", "fifo,srsf"]
    simulated = Simulated(words, tmp_path)
    try:
        context = browser.new_context(viewport={"width": 1180, "height": 800})
        context.set_default_timeout(60_000)
        watched = Watched(context, simulated.address.partition("#")[0])
        pages.append(watched)
        page = watched.page
        page.goto(simulated.address)
        page.get_by_role("img", name=re.compile("^Mean JCT by the size of the cluster")).wait_for()
        assert page.locator("tbody tr").count() == 6
        page.get_by_role("button", name="GPUs").press("Enter")
        assert "sort=gpus" in page.url
        page.reload()
        page.locator("tbody tr").nth(5).wait_for()
    finally:
        assert simulated.end() == 0
