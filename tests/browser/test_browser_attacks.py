"""What users write is shown as text, and what is not theirs is not shown."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from api_server import eventually, phase, python, until_ended
from browser_lab import Dashboard, Lab

MARKUP = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
BIDI, ANSI = "abc\u202etxt.exe", "\u001b[31mred\u001b[0m\u001b]0;title\u0007"
WRITES = f"""
import json, os, time
from tiresias import job
print({MARKUP!r})
print({BIDI!r})
print({ANSI!r})
print("y" * 20_000)
print("[click](javascript:alert(1)) {{{{constructor.constructor('alert(1)')()}}}}")
job.report(step=1, total_steps=10, **{{"<b>loss</b>": 1.5, "note": {MARKUP!r}}})
job.report(step=2, total_steps=10, **{{"<b>loss</b>": 1.25}})
print("written", flush=True)
while not os.path.exists("GO"):
    time.sleep(0.05)
print("x" * 1_000_000)
print("the end", flush=True)
time.sleep(600)
"""


def is_unharmed(page: Any) -> bool:
    made = page.evaluate("document.querySelectorAll('main img, main script').length")
    return made == 0 and page.evaluate("window.hacked === undefined")


def test_names_comments_metrics_and_output_full_of_markup_are_text(lab: Lab) -> None:
    go = lab.server.home / "go"
    text = WRITES.replace("GO", str(go))
    [id] = lab.client.submit(
        python(text, name=MARKUP.replace("/", "|"), tenant="<i>t</i>".replace("/", "|"), comment=MARKUP)
    )
    page = lab.open("?who=all")
    page.get_by_text("<img src=x onerror=window.hacked=1>").first.wait_for()
    assert page.evaluate("async (text) => (await import('/web/text.js')).plain(text)", BIDI + ANSI) == (
        "abc\\u202etxt.exe\\u001b[31mred\\u001b[0m\\u001b]0;title\\u0007"
    ), "a name that the manager did not check"
    page.goto(f"{lab.dashboard.url}#/jobs/{id}")
    log = page.get_by_role("log")
    eventually(lambda: "written" in log.inner_text())
    text = log.inner_text()
    assert MARKUP in text
    assert "\\u202e" in text
    assert "\u202e" not in text
    assert "red\\u001b]0;title\\u0007" in text, "colours are left out, and nothing else is"
    assert "more characters" in text
    assert len(text) < 200_000
    page.get_by_text("<b>loss</b>").first.wait_for()
    assert is_unharmed(page)
    go.touch()
    eventually(lambda: "the end" in log.inner_text())
    assert "xxxx… (996,000 more characters)" in log.inner_text(), "of a line of a megabyte the beginning"
    assert len(log.inner_text()) < 200_000
    page.goto(f"{lab.dashboard.url}#/queue")
    page.get_by_text("<img src=x").first.wait_for()
    assert is_unharmed(page)
    assert page.evaluate("document.body.innerText").count("\u202e") == 0


def test_an_address_full_of_markup_is_text(lab: Lab) -> None:
    page = lab.open("jobs/" + "%3Cimg%20src=x%20onerror=window.hacked=1%3E")
    page.get_by_role("alert").wait_for()
    assert is_unharmed(page)
    page.goto(f"{lab.dashboard.url}#/<svg onload=window.hacked=1>")
    page.get_by_role("heading", name="There is no page").wait_for()
    assert is_unharmed(page)
    page.goto(f"{lab.dashboard.url}#/?search={MARKUP}&sort={MARKUP}")
    page.get_by_role("alert").first.wait_for()
    assert is_unharmed(page)


@pytest.fixture
def token_page(lab: Lab) -> Any:
    """The pages as the manager itself serves them on TCP, signed in by a token."""
    token = lab.client.create_token("reads", "nobody")
    about = lab.server.about
    assert about is not None
    page = lab.open(address=about["url"] + "/")
    page.get_by_label("Token").fill("tir_wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").get_by_text("not known").wait_for()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("nobody").first.wait_for()
    yield page
    assert token not in page.url
    assert page.evaluate("document.cookie") == ""
    assert token not in lab.server.log()
    lab.client.revoke_token("reads")


def test_a_user_sees_of_the_jobs_of_others_what_the_api_tells(lab: Lab, token_page: Any) -> None:
    [id] = lab.client.submit(
        python("print('secret'); import time; time.sleep(600)", name="theirs", comment="private")
    )
    eventually(lambda: phase(lab.client, id) == "RUNNING")
    url = token_page.url.partition("#")[0]
    token_page.goto(f"{url}#/?who=all")
    token_page.get_by_role("link", name="theirs").click()
    token_page.get_by_text("its details are theirs").wait_for()
    shown = token_page.locator("main").inner_text()
    assert "secret" not in shown
    assert "private" not in shown
    assert token_page.get_by_role("group", name="Actions").count() == 0


def is_short_and_unharmed(page: Any) -> bool:
    text = page.evaluate("document.body.innerText")
    return bool(
        is_unharmed(page) and len(text) < 100_000 and not any(each in text for each in "\u202e\u001b\u0007")
    )


@pytest.mark.parametrize("hostile", [MARKUP, ANSI + BIDI, "z" * 1_000_000], ids=["markup", "signs", "long"])
def test_a_reason_full_of_anything_is_text(lab: Lab, hostile: str) -> None:
    [id] = lab.client.submit(python(f"print('RuntimeError: it is', {hostile!r}); exit(3)"))
    until_ended(lab.client, id)
    page = lab.open(f"jobs/{id}")
    page.get_by_text("RuntimeError: it is").first.wait_for()
    assert is_short_and_unharmed(page)
    page.goto(f"{lab.dashboard.url}#/?who=all&ended=yes")
    page.locator(f"tr[data-job='{id}']").get_by_text("failed").first.wait_for()
    assert is_short_and_unharmed(page)


REPORTS = """
import json, os, time
hostile = {hostile}
with open(os.path.join(os.environ["TIRESIAS_RUN_DIR"], "report-0.jsonl"), "a") as file:
    for step in (1, 2, 3):
        line = {{"at": time.time(), "step": step, "loss": 1 / step, hostile: 1.5, "note": hostile}}
        file.write(json.dumps(line) + "\\n")
print("written", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    "hostile", [repr(MARKUP), repr(ANSI + BIDI), '"z" * 1_000_000'], ids=["markup", "signs", "long"]
)
def test_reports_full_of_anything_are_text(lab: Lab, hostile: str) -> None:
    """A training may write any line into its reports: it need not use the SDK."""
    [id] = lab.client.submit(python(REPORTS.format(hostile=hostile), name="reports", comment=MARKUP))
    page = lab.open(f"jobs/{id}")
    page.get_by_role("log").get_by_text("written").wait_for()
    if not hostile.startswith('"z"'):  # a line of a megabyte is no report
        page.get_by_role("heading", name="Progress").wait_for()
        assert lab.client.job(id)["summary"]["progress"]["step"] == 3
    assert is_short_and_unharmed(page)


FOREIGN = """<!doctype html><title>foreign</title><body><script>
const asks = (path, more) => fetch("{dashboard}" + path, more).then(
  (answer) => `${{answer.type}} ${{answer.status}}`, () => "refused");
const loads = (tag, path) => new Promise((then) => {{
  const made = document.createElement(tag);
  made.onload = () => then("loaded"); made.onerror = () => then("refused");
  made.src = "{dashboard}" + path; document.body.append(made);
}});
Promise.all([
  asks("api/v1/whoami"), asks("api/v1/whoami", {{headers: {{Authorization: "Bearer guess"}}}}),
  asks("session", {{method: "POST", body: '{{"code": "{code}"}}'}}),
  asks("session", {{method: "POST", mode: "no-cors", body: '{{"code": "{code}"}}'}}),
  asks("web/main.js"), loads("script", "web/main.js"), loads("img", "web/icon.svg"),
]).then((found) => {{ document.title = found.join(", "); }});
</script>"""


def test_a_page_of_another_port_of_this_machine_gets_nothing(lab: Lab) -> None:
    """Even if it knew the code, which is good once: the owner can still sign in with it afterwards."""
    lab.dashboard.end()
    lab.dashboard = Dashboard(lab.server.home)
    code = lab.dashboard.address.partition("code=")[2]
    body = FOREIGN.format(dashboard=lab.dashboard.url, code=code).encode()

    class Foreign(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Foreign) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = lab.browser.new_context()
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        eventually(lambda: "," in page.title())
        assert page.title() == ", ".join(["refused"] * 7)
        assert page.evaluate("document.cookie") == ""
        context.close()
        server.shutdown()
    page = lab.open(address=lab.dashboard.address)
    page.get_by_role("heading", name="GPUs").wait_for()
