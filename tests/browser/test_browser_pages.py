"""The pages in a real browser: what they show, and what can be done with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_server import eventually, job, phase, python, until_ended
from browser_lab import Dashboard, Lab
from taught_home import teach

TRAINING = """
import time
from tiresias import job
for step in range(100000):
    job.report(step=step, total_steps=100000, loss=1.0 / (step + 1))
    print("step", step, flush=True)
    if job.should_stop():
        break
    time.sleep(0.05)
"""
SLEEPS = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: exit(0))
print("begins", flush=True)
time.sleep(600)
"""


def running(lab: Lab, text: str = SLEEPS, **more: Any) -> int:
    [id] = lab.client.submit(python(text, **more))
    eventually(lambda: phase(lab.client, id) == "RUNNING")
    return id


def test_the_address_signs_in_once_and_its_code_is_gone_from_it(lab: Lab) -> None:
    page = lab.open()
    page.get_by_role("heading", name="GPUs").wait_for()
    assert "code" not in page.url
    page.reload()
    page.get_by_role("heading", name="GPUs").wait_for()
    second = lab.open(address=lab.dashboard.address)
    second.get_by_text("was used already").wait_for()
    assert second.get_by_role("heading", name="GPUs").count() == 0


def test_a_page_says_when_its_dashboard_has_ended_and_a_new_address_opens_it_again(lab: Lab) -> None:
    page = lab.open()
    page.get_by_text("live").wait_for()
    lab.dashboard.end()
    page.get_by_text("The dashboard does not answer.").wait_for()
    page.get_by_text("run tir dashboard again").wait_for()
    lab.forgive()
    lab.dashboard = Dashboard(lab.server.home)
    again = lab.open(address=lab.dashboard.address)
    again.get_by_text("live").wait_for()
    lab.forgive()


def test_now_shows_each_gpu_with_its_job_and_each_job_with_its_reason(lab: Lab) -> None:
    first = running(lab, gpus=3, name="large", preemptible=False)
    [waits] = lab.client.submit(python(SLEEPS, gpus=2, name="waits"))
    page = lab.open()
    page.get_by_role("link", name=f"in use by job {first}").first.wait_for()
    assert page.get_by_role("link", name=f"in use by job {first}").count() == 3
    page.get_by_role("img", name="GPU 3: free").wait_for()
    row = page.locator(f"tr[data-job='{waits}']")
    row.get_by_text("waiting").wait_for()
    assert row.get_by_text("other jobs are ahead").count() or row.locator(".why").inner_text()
    page.get_by_role("link", name=f"in use by job {first}").first.click()
    page.get_by_role("heading", name=re.compile("large")).wait_for()
    assert page.url.endswith(f"#/jobs/{first}")


SAVES = """
import signal, sys, time
def save(*_):
    time.sleep(600)
signal.signal(signal.SIGTERM, save)
print("begins", flush=True)
time.sleep(600)
"""


def test_each_gpu_shows_its_state_and_what_the_driver_knows_of_it(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Path(__file__).with_name("recorded_driver")
    monkeypatch.setenv("PYTHONPATH", str(driver))  # of the manager: its driver answers as on a real machine
    lab = Lab(tmp_path / "h", browser, fake_gpus=None)
    monkeypatch.undo()
    try:
        page = lab.open("?who=all")
        for text in (
            "GPU 0: free, works 87 % of the time, 30 of 40 GiB, 64 °C",
            "GPU 1: free, works 0 % of the time",
            "GPU 2: used by others, works 55 % of the time",
            "GPU 3: out of service, works 0 % of the time",
        ):
            page.get_by_role("img", name=text).wait_for()
        page.get_by_text("they work 36 % of the time").wait_for()
        id = running(lab, SAVES, gpus=1, name="saves", grace_s=120)
        page.get_by_role("link", name=f"GPU 0: in use by job {id}").wait_for()
        eventually(lambda: b"begins" in lab.client.logs(id))
        lab.client.requeue(id)
        page.get_by_role("link", name=f"GPU 0: saving by job {id}").wait_for()
        [node] = lab.client.nodes()
        lab.client.drain(node["name"])
        page.get_by_role("img", name="GPU 1: drained").wait_for()
        page.get_by_text("drained by").wait_for()
        lab.check()
    finally:
        lab.close()


def test_a_row_changes_while_one_looks(lab: Lab) -> None:
    page = lab.open("?who=all")
    page.get_by_text("There are no active jobs").wait_for()
    id = running(lab, name="appears")
    page.locator(f"tr[data-job='{id}']").get_by_text("running").wait_for()
    lab.client.cancel(id)
    page.locator(f"tr[data-job='{id}']").wait_for(state="detached")
    page.get_by_label("ended too").check()
    page.locator(f"tr[data-job='{id}']").get_by_text("cancelled", exact=True).first.wait_for()


def test_jobs_are_searched_sorted_and_paged_and_the_address_says_so(lab: Lab) -> None:
    lab.client.submit([python("pass", hold=True, name=f"many-{n:03}", gpus=1 + n % 2) for n in range(120)])
    page = lab.open("?who=all")
    page.get_by_text("1–50 of 120").wait_for()
    assert page.locator("tbody tr").count() == 50
    page.get_by_role("button", name="Next").click()
    page.get_by_text("51–100 of 120").wait_for()
    assert "offset=50" in page.url
    page.get_by_role("button", name="Name").click()
    page.get_by_role("link", name="many-000").wait_for()
    assert page.get_by_role("columnheader", name="Name").get_attribute("aria-sort") == "ascending"
    page.get_by_label("Search by name, user, tenant or id").fill("many-11")
    page.get_by_role("link", name="many-119").wait_for()
    page.locator("tbody tr").nth(10).wait_for(state="detached")
    assert page.locator("tbody tr").count() == 10
    assert {"sort=name", "search=many-11", "who=all"} <= set(page.url.partition("?")[2].split("&"))
    page.reload()
    page.get_by_role("link", name="many-119").wait_for()
    assert page.locator("tbody tr").count() == 10


def test_jobs_are_sorted_on_a_telephone_and_by_nothing_again_on_a_large_screen(lab: Lab) -> None:
    lab.client.submit([python("pass", hold=True, name=f"sorted-{n}", gpus=1 + n) for n in range(3)])
    small = lab.open("?who=all", viewport={"width": 360, "height": 740})
    small.get_by_label("Sort by").select_option("most GPUs")
    eventually(lambda: small.locator("tbody tr a").all_inner_texts() == ["sorted-2", "sorted-1", "sorted-0"])
    assert "sort=-gpus" in small.url
    page = lab.open("?who=all")
    heading = page.get_by_role("columnheader", name="GPUs")
    for is_sorted in ("descending", "ascending", "none"):
        page.get_by_role("button", name="GPUs").click()
        eventually(lambda: heading.get_attribute("aria-sort") == is_sorted)  # noqa: B023
    assert "sort" not in page.url


def test_where_estimates_of_starts_were_wrong_the_pages_say_how_far_off(browser: Any, tmp_path: Path) -> None:
    teach(tmp_path / "h")
    lab = Lab(tmp_path / "h", browser, fake_gpus=1, policy="fifo")
    try:
        running(lab)
        [waits] = lab.client.submit(python("pass", name="waits"))
        page = lab.open("?who=all")
        page.locator(f"tr[data-job='{waits}']").get_by_text("starts in about").wait_for()
        page.get_by_text("take them with care, they are off by 90%").wait_for()
        page.goto(f"{lab.dashboard.url}#/jobs/{waits}")
        page.get_by_text("It starts in about").wait_for()
        page.get_by_text("take them with care, they are off by 90%").wait_for()
        lab.check()
    finally:
        lab.close()


def test_the_queue_has_levels_the_way_to_the_next_and_who_is_displaced_next(lab: Lab) -> None:
    long = running(lab, gpus=4, name="long")
    eventually(lambda: lab.client.job(long)["summary"]["queue"] == 2)
    page = lab.open("queue")
    page.get_by_text("Q1 up to 4 GPU-s").wait_for()
    page.get_by_text("Q3 from 60 GPU-s on").wait_for()
    displaced = page.locator("section", has=page.get_by_role("heading", name="Who would be displaced next"))
    displaced.get_by_role("link", name="long").wait_for()
    page.locator(f"tr[data-job='{long}']").get_by_text(re.compile(r"Q3 in \d+ s")).wait_for()


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("fifo", "no job starts before those ahead"),
        ("las", "one order"),
        ("tiresias", "It learns from jobs that end"),
    ],
)
def test_the_queue_of_a_policy_without_levels_says_what_it_is(lab: Lab, policy: str, says: str) -> None:
    before = lab.client.policy()
    lab.client.set_policy(policy=policy, options={})
    try:
        id = running(lab, name="one")
        page = lab.open("queue")
        page.get_by_text(says).first.wait_for()
        page.locator(f"tr[data-job='{id}']").wait_for()
        if policy == "fifo":
            page.get_by_text("this policy never preempts").wait_for()
    finally:
        lab.client.set_policy(policy=before["name"], options=before["options"])


@pytest.fixture
def under(lab: Lab) -> Iterator[Callable[[str], None]]:
    """Chooses a policy, for this test only."""
    before = lab.client.policy()
    yield lambda policy: lab.client.set_policy(policy=policy, options={})
    for each in lab.client.jobs():
        lab.client.cancel(each["id"])
    eventually(lambda: not list(lab.client.jobs()))
    lab.client.set_policy(policy=before["name"], options=before["options"])


def test_a_gpu_that_jobs_share_shows_each_of_them(lab: Lab, under: Callable[[str], None]) -> None:
    under("gandiva")
    ids = [running(lab, gpus=4, name=name, gpu_memory_bytes=1 << 30) for name in ("one", "two")]
    page = lab.open("?who=all")
    for id in ids:
        told = re.compile(f"by job {id}, shared by 2 jobs")
        page.get_by_role("link", name=told).first.wait_for()
        assert page.get_by_role("link", name=told).count() == 4
    page.get_by_text("4 shared").wait_for()
    page.goto(f"{lab.dashboard.url}#/queue")
    page.get_by_text("Nobody can be named").wait_for()
    page.goto(f"{lab.dashboard.url}#/history?since=1h")
    line = page.locator(".line").first
    line.locator(".job").nth(1).wait_for()
    tops = [line.locator(".job rect").nth(n).bounding_box()["y"] for n in (0, -1)]
    assert tops[0] != tops[1], "the runs lie one below the other"


def test_an_elastic_job_has_its_size_and_its_range_and_a_lease_has_its_end(
    lab: Lab, under: Callable[[str], None]
) -> None:
    under("themis")
    id = running(lab, gpus=1, max_gpus=3, name="elastic")
    fixed = running(lab, gpus=1, name="fixed")
    lab.client.submit(python("pass", gpus=4, name="waits"))
    page = lab.open("?who=all")
    page.locator(f"tr[data-job='{id}']").get_by_text("(1–3)").wait_for()
    assert page.locator(f"tr[data-job='{fixed}']").get_by_text("(").count() == 0
    page.goto(f"{lab.dashboard.url}#/jobs/{id}")
    page.get_by_text("1 GPU, elastic: 1–3").wait_for()
    page.goto(f"{lab.dashboard.url}#/queue")
    page.get_by_text("It decides again").wait_for()
    page.get_by_role("columnheader", name="Lease ends in").wait_for()
    page.locator(f"tr[data-job='{fixed}'] td[data-label='lease']", has_text=re.compile(r"\d")).wait_for()


def test_a_job_shows_why_it_was_preempted_and_for_whom(lab: Lab) -> None:
    victim = running(lab, gpus=4, name="victim")
    eventually(lambda: lab.client.job(victim)["summary"]["queue"] == 2)
    winner = running(lab, gpus=4, name="winner")
    page = lab.open(f"jobs/{victim}")
    told = re.compile(f"for job {winner}: it fell from Q1 to Q[23]")  # further, if the machine is slow
    page.get_by_text(told).first.wait_for()
    page.get_by_role("link", name=f"see job {winner}").click()
    page.get_by_role("heading", name="winner").wait_for()


def test_output_metrics_and_progress_appear_while_the_job_runs(lab: Lab) -> None:
    id = running(lab, TRAINING, name="trains")
    page = lab.open(f"jobs/{id}")
    page.get_by_role("log").get_by_text("step 1\n").or_(page.get_by_role("log")).wait_for()
    eventually(lambda: "step 40" in page.get_by_role("log").inner_text())
    page.get_by_role("heading", name="Progress").wait_for()
    page.locator("figure", has_text="loss").locator("canvas").wait_for()


def test_output_goes_on_over_runs(lab: Lab) -> None:
    id = running(lab, name="twice")
    page = lab.open(f"jobs/{id}")
    page.get_by_role("log").get_by_text("begins").wait_for()
    lab.client.requeue(id)
    log = page.get_by_role("log")
    eventually(lambda: "── run 2 ──\nbegins" in log.inner_text())
    page.get_by_role("combobox", name="Run").select_option("1")
    eventually(lambda: "run=1" in page.url and "begins" in log.inner_text())
    page.reload()
    page.get_by_role("combobox", name="Run").wait_for()
    assert page.get_by_role("combobox", name="Run").input_value() == "1"
    eventually(lambda: "begins" in log.inner_text())
    assert "run 2" not in log.inner_text()


@pytest.mark.parametrize(
    ("action", "becomes"), [("Cancel", "CANCELLED"), ("Hold", "HELD"), ("Requeue", "RUNNING")]
)
def test_an_action_asks_first_and_then_is_done(lab: Lab, action: str, becomes: str) -> None:
    id = running(lab, name="acted-on")
    page = lab.open(f"jobs/{id}")
    page.get_by_role("button", name=f"{action}…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Keep as it is").click()
    dialog.wait_for(state="detached")
    assert phase(lab.client, id) == "RUNNING", "nothing was done yet"
    page.get_by_role("button", name=f"{action}…").click()
    page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()
    runs = 2 if becomes == "RUNNING" else 1
    eventually(lambda: phase(lab.client, id) == becomes and lab.client.job(id)["summary"]["runs"] == runs)
    if becomes == "HELD":
        page.get_by_role("button", name="Release…").click()
        page.get_by_role("dialog").get_by_role("button", name="Release").click()
        eventually(lambda: phase(lab.client, id) == "RUNNING")


def test_the_priority_is_changed_by_keyboard_alone(lab: Lab) -> None:
    id = lab.client.submit(python("pass", hold=True, name="urgent"))[0]
    page = lab.open(f"jobs/{id}")
    page.get_by_role("button", name="Priority…").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.evaluate("document.activeElement.textContent") == "Priority…", "the focus is where it was"
    page.keyboard.press("Enter")
    page.get_by_role("dialog").wait_for()
    page.get_by_label("normal").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    eventually(lambda: lab.client.job(id)["summary"]["priority"] == "low")


def test_a_refused_action_says_why(lab: Lab) -> None:
    id = lab.client.submit(python("pass", hold=True))[0]
    page = lab.open(f"jobs/{id}")
    page.get_by_role("button", name="Cancel…").click()
    lab.client.cancel(id)
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("alert").get_by_text("has ended").wait_for()


def test_everything_is_reached_by_keyboard(lab: Lab) -> None:
    id = running(lab, name="here")
    page = lab.open()
    page.get_by_role("link", name="here").wait_for()
    seen = []
    page.locator("body").press("Tab")
    for _ in range(40):
        seen.append(page.evaluate("document.activeElement.textContent.trim()"))
        page.keyboard.press("Tab")
    assert {"To the contents", "Now", "Queue", str(id), "Mine", "All", "Name", "here"} <= set(seen)


def test_a_page_catches_up_with_a_restarted_manager_and_nothing_is_lost_or_doubled(lab: Lab) -> None:
    id = running(lab, name="goes-on")
    page = lab.open("?who=all")
    page.get_by_role("link", name="goes-on").wait_for()
    seen = """async () => (await import("/web/live.js")).live.events.map((event) => event.seq)"""
    begun = max(eventually(lambda: page.evaluate(seen)))
    for kill in (lab.server.terminate, lab.server.kill):
        kill()
        page.get_by_text("not connected").wait_for()
        page.get_by_text("The manager does not answer. What is shown is of").wait_for()
        page.get_by_text("No manager answers at").wait_for()
        page.get_by_role("alert").first.wait_for(state="detached")  # it is said once
        lab.server.start()
        [while_away] = lab.client.submit(job("true", name="while-away"))
        until_ended(lab.client, while_away)
        page.get_by_text("live", exact=False).first.wait_for()
        page.get_by_text("The manager does not answer").wait_for(state="detached")
    there = [event["seq"] for event in lab.client.events(since=begun)]
    eventually(lambda: max(page.evaluate(seen)) >= there[-1])
    assert sorted(seq for seq in page.evaluate(seen) if begun < seq <= there[-1]) == there
    assert page.locator(f"tr[data-job='{id}']").count() == 1
    lab.forgive()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_small_telephone(lab: Lab, scheme: str) -> None:
    id = running(lab, gpus=4, name="a-rather-long-name-of-a-job-that-somebody-has-given-without-any-space")
    page = lab.open(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    views = {"?who=all": "GPUs", "queue": "Levels", f"jobs/{id}": "Runs", "history?since=1h": "By user",
             "what-if": "What would have been different?"}  # fmt: skip
    for view, heading in views.items():
        page.goto(f"{lab.dashboard.url}#/{view}")
        page.get_by_role("heading", name=heading, exact=True).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
