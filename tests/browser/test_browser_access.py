"""The pages for people who cannot see them, or not well: axe finds no serious fault."""

from __future__ import annotations

import pytest
from api_server import eventually, job, phase, python
from browser_lab import Lab

SERIOUS = ("serious", "critical")
RUN = """async () => (await axe.run(document)).violations.map(
  (each) => [each.impact, each.id, each.nodes.map((node) => node.html)])"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_any_page(lab: Lab, axe: str, scheme: str) -> None:
    [id] = lab.client.submit(
        python("import time; print('runs', flush=True); time.sleep(600)", gpus=4, name="one")
    )
    lab.client.submit(python("pass", gpus=2, name="waits"))
    lab.client.submit(python("pass", hold=True, name="held"))
    eventually(lambda: phase(lab.client, id) == "RUNNING")
    page = lab.open("?who=all", color_scheme=scheme)
    ended = lab.client.submit(job("true"))[0]
    lab.client.cancel(ended)
    views = {"?who=all": "one", "queue": "one", f"jobs/{id}": "one", "history?since=1h": "By user",
             "what-if": "What would have been different?"}  # fmt: skip
    for view, text in views.items():
        page.goto(f"{lab.dashboard.url}#/{view}")
        page.get_by_text(text).first.wait_for()
        page.evaluate(axe)
        found = [each for each in page.evaluate(RUN) if each[0] in SERIOUS]
        assert found == [], view
    page.goto(f"{lab.dashboard.url}#/jobs/{id}")
    page.get_by_role("button", name="Priority…").click()
    page.get_by_role("dialog").wait_for()
    assert [each for each in page.evaluate(RUN) if each[0] in SERIOUS] == []
