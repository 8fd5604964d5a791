"""nodes, drain, top, events, usage, history, policy, limits, token, doctor."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from pathlib import Path

import pytest
from live_cli import eventually

from tiresias.cli.lines import text
from tiresias.cli.live import top
from tiresias.sim import traces


def running(tir, *options: str) -> int:
    id = tir("submit", *options, "--", "sleep", "1000").id
    eventually(lambda: any(job["phase"] == "RUNNING" for job in tir("ls", "-o", "json").json))
    return id


@pytest.fixture
def node(client) -> str:
    [found] = client.nodes()
    return found["name"]


def test_nodes_and_their_gpus(tir, node):
    id = running(tir, "-g", "3", "--no-preempt")
    [found] = tir("nodes", "-o", "json").json
    assert (found["name"], found["gpus"], found["free_gpus"]) == (node, 4, 1)
    assert re.search(rf"{re.escape(node)} +4 +1  in service", tir("nodes").out)
    assert len(re.findall(rf"busy +{id} ", tir("nodes", "-o", "wide").out)) == 3


def test_a_drained_gpu_gets_nothing_until_it_is_back(tir, client, node):
    assert tir("drain", f"{node}:1", "--reason", "too hot").code == 0
    try:
        assert "1 out of service  too hot" in tir("nodes").out
        assert tir("submit", "--dry-run", "-g", "4", "--", "true").out.startswith("it would wait")
        assert tir("top", "--once").out.count("out") == 1
    finally:
        assert tir("undrain", f"{node}:1", "-o", "json").json[0]["name"] == node
    assert "in service" in tir("nodes").out
    assert tir("drain", "nowhere").code == 3
    tir("drain", node)
    try:
        assert "drained" in tir("nodes").out
    finally:
        tir("undrain", node)
    assert client.status()["free_slots"] == 4


def test_top_shows_which_job_holds_which_gpu(tir, node, in_terminal):
    id = running(tir, "-g", "2", "-n", "topmost")
    once = tir("top").out  # no terminal: once
    assert "2 of 4 GPUs in use, 1 RUNNING" in once
    grid = next(line for line in once.splitlines() if line.startswith(node))
    assert grid.split()[1:] == [str(id), str(id), "·", "·"]
    assert "topmost" in once
    assert set(tir("top", "-o", "json").json) == {"status", "nodes", "jobs"}
    terminal = in_terminal("top", "--interval", "0.1", columns=80)
    terminal.read_until("topmost")
    terminal.press_ctrl_c()
    assert terminal.exit_code() == 0


def test_top_shows_what_the_gpus_do_where_the_driver_knows_it(tir, client, monkeypatch):
    shown = top.view(client, None)
    assert not re.search("%|°C", text(shown)), "fake GPUs do nothing"
    [node] = client.nodes()
    busy = {"utilisation": 0.87, "memory_used_bytes": 30 * 2**30, "memory_bytes": 40 * 2**30}
    node["slots"] = [node["slots"][0] | busy | {"temperature_c": 64}, node["slots"][1] | {"utilisation": 0.0}]
    monkeypatch.setattr(client, "nodes", lambda: [node])
    rows = text(top.view(client, None)).splitlines()
    first = next(at for at, row in enumerate(rows) if row.startswith(node["name"]))
    assert [row.split() for row in rows[first + 1 : first + 4]] == [["87%", "0%"], ["30/40G"], ["64°C"]]


def test_events_tell_the_story_and_go_on(tir, client, in_terminal):
    id = tir("submit", "-n", "eventful", "--", "true").id
    tir("wait", id)
    lines = tir("events", "--job", id, "-o", "json").out.splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds[0] == "JobSubmitted"
    assert kinds[-1] == "RunExited"
    assert tir("events", "eventful", "-o", "json").out.splitlines() == lines
    assert tir("events", id, "--job", id).code == 2
    last = tir("events", "--last", "1", "-o", "json").json["seq"]
    assert tir("events", "--since", last).out == ""
    assert len(tir("events", "-l", "3").out.splitlines()) == 3
    terminal = in_terminal("events", "-f", "--job", str(id + 1), "--since", str(last))
    assert tir("submit", "--", "true").id == id + 1
    terminal.read_until(f"job {id + 1} +RunExited")
    terminal.press_ctrl_c()
    assert terminal.exit_code() == 130
    assert "Traceback" not in terminal.seen


def test_usage_shows_what_each_user_got_and_which_users_split_their_work(tir, client):
    me = client.whoami()["user"]
    nothing = {"jobs": 0, "short_jobs": 0}
    before = {row["who"]: row for row in tir("usage", "-o", "json").json}.get(me, nothing)
    for _ in range(2):
        tir("wait", tir("submit", "--tenant", "split", "--", "true").id)
    after = {row["who"]: row for row in tir("usage", "-o", "json").json}[me]
    assert after["jobs"] == before["jobs"] + 2
    assert after["short_jobs"] == before["short_jobs"] + 2
    [row] = [row for row in tir("usage", "--by", "tenant", "-o", "json").json if row["who"] == "split"]
    assert (row["jobs"], row["resubmitted"]) == (2, 1)
    assert "AGAIN" in tir("usage").out
    assert tir("usage", "--since", "yesterday").code == 2


def test_the_history_is_a_trace_that_can_be_replayed(tir, client, tmp_path):
    id = tir("submit", "-g", "2", "-n", "past, with a comma", "--tenant", "t", "--", "sleep", "0.3").id
    never = tir("submit", "--begin", "+1h", "--", "true").id
    tir("cancel", never)
    tir("wait", id)
    for name in ("past.csv", "past.csv.gz"):
        assert tir("history", "export", name).code == 0
        trace = traces.load(tmp_path / name)
        [row] = trace.jobs.filter(trace.jobs["id"] == str(id)).to_dicts()
        assert (row["gpus"], row["name"], row["tenant"]) == (2, "past, with a comma", "t")
        assert 0.2 < row["duration_s"] < 60
        assert str(never) not in trace.jobs["id"]
    assert tir("history", "export", "-").out == (tmp_path / "past.csv").read_text()
    assert tir("simulate", "past.csv", "--cluster", "1x4", "--policy", "fifo", "--json").json["jobs"] >= 1
    assert tir("history", "export", "no/where.csv").code == 2
    assert tir("history", "export", ".").code == 2


def test_the_policy_changes_while_jobs_run(tir, client):
    id = running(tir)
    was = tir("policy", "show", "-o", "json").json
    try:
        done = tir("policy", "set", "tiresias-l", "--set", "queues=10,20", "-o", "json")
        assert (done.json["name"], done.json["options"]) == ("tiresias-l", {"queues": "10,20"})
        assert "10, 20" in tir("policy", "show").out
        assert tir("policy", "set", "fifo").code == 0
        assert client.job(id)["summary"]["runs"] == 1
        assert tir("policy", "set", "nothing-like-it").code == 2
        assert tir("policy", "set", "fifo", "--set", "queues=3").code == 2
    finally:
        client.set_policy(was["name"], was["options"], was["placer"])


def test_limits_hold_and_are_lifted(tir, client):
    me = client.whoami()["user"]
    assert tir("limits", "show").out == "there are no limits\n"
    try:
        assert tir("limits", "set", me, "--gpus", "2", "--jobs", "2").code == 0
        assert tir("limits", "show", "-o", "json").json == {me: {"max_running_gpus": 2, "max_active_jobs": 2}}
        first = running(tir, "-g", "2")
        second = tir("submit", "-g", "1", "--", "sleep", "100").id
        assert client.job(second)["summary"]["reason"] == "Quota"
        assert "limit" in tir("ls").out
        assert tir("submit", "--", "true").code == 6
        assert tir("submit", "-g", "3", "--", "true").code == 6
        tir("limits", "set", me, "--jobs", "none")
        assert tir("limits", "show", "-o", "json").json[me]["max_running_gpus"] == 2
        assert first != second
    finally:
        tir("limits", "set", me, "--gpus", "none", "--jobs", "none")
    for words in (["set", me], ["set", me, "--gpus", "some"]):
        assert tir("limits", *words).code == 2


def test_shares_of_tenants_are_shown_set_and_lifted(tir):
    assert tir("limits", "shares").out == "all tenants have equal shares\n"
    try:
        assert "vision" in tir("limits", "shares", "vision=3,speech=1").out
        assert tir("limits", "shares", "-o", "json").json == {"vision": 3.0, "speech": 1.0}
        for wrong in ("vision", "vision=-1", "vision=a lot", "vision=0", "a=1,a=2"):
            refused = tir("limits", "shares", wrong)
            assert refused.code == 2, wrong
            assert wrong.partition("=")[0] in refused.err or "all shares are 0" in refused.err
    finally:
        assert tir("limits", "shares", "none").out == "all tenants have equal shares\n"


def test_tokens_are_made_listed_and_revoked(tir):
    token = tir("token", "create", "laptop", "--user", "daemon").out.strip()
    assert len(token) > 20
    assert [each["name"] for each in tir("token", "ls", "-o", "json").json] == ["laptop"]
    assert token not in tir("token", "ls").out
    assert tir("token", "create", "laptop").code == 6
    assert tir("token", "revoke", "laptop").code == 0
    assert tir("token", "revoke", "laptop").code == 3
    assert tir("token", "ls").out == "there are no tokens\n"


def test_over_tcp_a_token_is_needed_and_a_user_touches_its_own_jobs_only(fresh, monkeypatch):
    assert fresh("up", "--fake-gpus", "1", "--listen", "127.0.0.1:0").code == 0
    url = json.loads((fresh.home / "manager.json").read_text())["url"]
    assert url in fresh("up").out
    token = fresh("token", "create", "b", "--user", "nobody").out.strip()
    admins = fresh("submit", "--", "sleep", "1000").id
    monkeypatch.setenv("TIRESIAS_URL", url)
    assert fresh("ls").code == 4
    monkeypatch.setenv("TIRESIAS_TOKEN", token)
    assert [job["id"] for job in fresh("ls", "-o", "json").json] == [admins]
    for verb in ("cancel", "show", "logs", "hold"):
        assert fresh(verb, admins).code == 4, verb
    assert fresh("policy", "set", "fifo").code == 4
    assert fresh("submit", "--priority", "high", "--", "true").code == 4
    own = fresh("submit", "--workdir", "/", "--clean-env", "--", "true").id
    assert fresh("cancel", own).code == 0
    assert fresh("submit", "--snapshot", "--", "true").code == 2
    monkeypatch.delenv("TIRESIAS_URL")


def test_doctor_finds_nothing_wrong(tir):
    done = tir("doctor")
    assert done.code == 0, done.out
    assert "no problems found" in done.out
    findings = {each["what"]: each for each in tir("doctor", "-o", "json").json}
    assert set(findings) == {
        "version", "Python", "home", "options", "manager", "socket", "disk", "GPUs", "cgroups", "clock",
        "policy", "journal",
    }  # fmt: skip
    assert platform.python_version() in findings["Python"]["text"]
    assert "the manager runs" not in findings["Python"]["text"]  # it is the same


def test_doctor_names_each_problem_and_the_next_step(fresh):
    empty = {each["what"]: each for each in fresh("doctor", "-o", "json").json}
    assert "tir up" in empty["home"]["next_step"]
    assert "tir up" in empty["manager"]["next_step"]

    home: Path = fresh.home
    home.mkdir()
    os.chmod(home, 0o777)
    (home / "options.json").write_text("not json")
    (home / "manager.sock").write_text("no socket")
    (home / "journal.db").write_bytes(b"garbage" * 1000)
    done = fresh("doctor", "-o", "json")
    assert done.code == 1
    found = {each["what"]: each for each in done.json}
    wrong = {what for what, each in found.items() if not each["is_ok"]}
    assert {"home", "options", "manager", "socket", "journal"} <= wrong
    assert all(found[what]["next_step"] for what in wrong)
    assert "-> chmod o-w" in fresh("doctor").out


def test_slowdowns_are_shown_once_runs_have_reported_steps(fresh):
    (fresh.home.parent / "reports").write_text('{"at":1000.0,"step":0}\n{"at":1100.0,"step":500}\n')
    script = "cp reports $TIRESIAS_RUN_DIR/report-0.jsonl"
    assert fresh("up", "--fake-gpus", "2").code == 0
    assert fresh("slowdowns").out.startswith("nothing has been measured yet")
    id = fresh("submit", "-g", "2", "--model", "vgg16", "--", "sh", "-c", script).id
    assert fresh("wait", id).code == 0
    [row] = fresh("slowdowns", "-o", "json").json
    assert (row["model"], row["gpus"], row["shape"], row["runs"]) == ("vgg16", 2, "1x1", 1)
    assert (row["steps_per_s"], row["measured"], row["used"]) == (5.0, None, 1.0)
    lines = fresh("slowdowns").out.splitlines()
    assert lines[0].split() == ["MODEL", "GPUS", "SHAPE", "RUNS", "STEPS/S", "PREDICTED", "MEASURED", "USED"]
    assert lines[2].split()[:4] == ["vgg16", "2", "1", "group"]


def test_fake_gpus_in_groups(fresh):
    started = fresh("up", "--fake-gpus", "4", "--fake-groups", "2")
    assert started.code == 0, started.err
    assert fresh("nodes", "-o", "json").json[0]["groups"] == [[0, 1], [2, 3]]
    table = fresh("nodes").out.splitlines()
    assert "GROUPS" in table[0]
    assert "0-1 2-3" in table[2]
    wide = [line.split()[1:3] for line in fresh("nodes", "-o", "wide").out.splitlines()]
    assert wide[0] == ["GROUP", "STATE"]
    assert wide[2:] == [["1", "free"], ["1", "free"], ["2", "free"], ["2", "free"]]
    assert fresh("up", "--fake-gpus", "4").code == 0, "nothing else is asked for"
    refused = fresh("up", "--fake-gpus", "2", "--fake-groups", "3")
    assert (refused.code, "--fake-groups 3: there are only 2 fake GPUs" in refused.err) == (2, True)


def test_a_backup_is_made_while_the_manager_runs_and_restored_when_it_is_down(fresh, tmp_path):
    file = tmp_path / "backup.db"
    assert "there is no journal" in fresh("backup", file).err
    assert fresh("up", "--fake-gpus", "1").code == 0
    kept = fresh("submit", "--hold", "--", "true").id
    done = fresh("backup", file)
    assert (done.code, "the journal up to fact" in done.out) == (0, True), done.err
    forgotten = fresh("submit", "--", "true").id
    assert fresh("wait", forgotten).code == 0
    refused = fresh("restore", file)
    assert (refused.code, "another manager" in refused.err) == (6, True)
    assert fresh("down").code == 0
    shutil.copy(file, fresh.home / "journal.db")  # not by `restore`
    found = {each["what"]: each for each in fresh("doctor", "-o", "json").json}
    assert "commits are missing" in found["journal"]["text"]
    assert f"tir restore {fresh.home}/journal.db" in found["journal"]["next_step"]
    assert "commits are missing" in fresh("up").err
    (fresh.home / "journal.db.mark").unlink()
    assert f"there is a directory of job {forgotten}" in fresh("doctor").out
    assert f"there is a directory of job {forgotten}" in fresh("up").err
    done = fresh("restore", file)
    assert (done.code, "set-aside-" in done.out) == (0, True), done.err
    assert fresh("up").code == 0
    assert [each["id"] for each in fresh("ls", "--all", "-o", "json").json] == [kept]
    assert fresh("doctor").code == 0


def test_doctor_and_up_name_a_damaged_row_and_what_can_be_saved(fresh):
    assert fresh("up", "--fake-gpus", "1").code == 0
    kept = fresh("submit", "--hold", "--name", "before", "--", "true").id
    assert fresh("down").code == 0
    path = fresh.home / "journal.db"
    path.write_bytes(path.read_bytes().replace(b'"before"', b'"befora"'))
    found = {each["what"]: each for each in fresh("doctor", "-o", "json").json}
    assert f"row {kept} of the table jobs has not the values that were stored" in found["journal"]["text"]
    assert "--accept-damage" in found["journal"]["next_step"]
    assert "of the table" in fresh("up").err
    assert fresh("restore", path).code == 1
    assert fresh("restore", path, "--accept-damage").code == 0
    assert fresh("up").code == 0
    assert [each["name"] for each in fresh("ls", "-o", "json").json] == ["befora"]
