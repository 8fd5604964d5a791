"""Everyday verbs: arrays and patterns, again, the words of other schedulers, the end of a log."""

from __future__ import annotations

import pytest
from live_cli import eventually

from tiresias.cli.verbs import ELSEWHERE


def test_an_array_is_listed_waited_for_and_cancelled_as_one(tir):
    array = tir("submit", "--array", "0-2", "-n", "part-{i}", "-o", "json", "--", "sleep", "600").json
    [name], ids = array["arrays"], array["ids"]
    assert [job["id"] for job in tir("ls", name, "-o", "json").json] == ids
    assert [job["id"] for job in tir("ls", "part-[12]", "-o", "json").json] == ids[1:]
    assert tir("show", name).code == 2
    done = tir("cancel", "--now", name)
    assert [f"job {id}" in done.out for id in ids] == [True] * 3
    waited = tir("wait", name, "-o", "json")
    assert [job["phase"] for job in waited.json] == ["CANCELLED"] * 3
    assert waited.code == 1
    assert tir("cancel", name).code == 3
    assert tir("wait", "--all").code == 0
    assert "not both" in tir("wait", "--all", "1").err


def test_the_output_of_several_jobs_and_of_their_last_lines(tir):
    numbers = "for n in $(seq 1 30000); do echo $n; done; printf end"
    first = tir("submit", "-n", "count-a", "--", "bash", "-c", numbers).id
    second = tir("submit", "-n", "count-b", "--", "echo", "short").id
    assert tir("wait", "count-*").code == 0
    tail = tir("logs", first, "--tail", "3")
    assert tail.out == "29999\n30000\nend"
    assert tir("logs", first, "--tail", "20000").out.startswith("10002\n")
    assert tir("logs", first, "--tail", "0").out == ""
    assert tir("logs", first, "--tail", "99999").out.startswith("1\n2\n")
    assert tir("logs", first, "-f", "--tail", "1").out == "end"
    both = tir("logs", "count-*", "--tail", "1")
    assert both.out == "endshort\n"
    assert both.err == f"==> job {first} <==\n==> job {second} <==\n"
    assert "--follow follows one" in tir("logs", "-f", "count-*").err


def test_output_can_be_read_while_the_manager_is_down(fresh):
    assert fresh("up", "--fake-gpus", "1").code == 0
    id = fresh("submit", "-n", "kept", "--", "bash", "-c", "echo one; echo two; printf three").id
    assert fresh("wait", id).code == 0
    assert fresh("down").code == 0
    whole = fresh("logs", id)
    assert (whole.code, whole.out) == (0, "one\ntwo\nthree")
    assert "no manager answers" in whole.err
    assert fresh("logs", id, "--tail", "2").out == "two\nthree"
    assert fresh("logs", id, "--run", "7").code == 3
    assert fresh("logs", "99").code == 3
    assert fresh("logs", "no-such-job").code == 3
    (fresh.home / "journal.db").rename(fresh.home / "elsewhere")  # as for users who may not read it
    by_name = fresh("logs", "kept")
    assert by_name.code == 5
    assert "by its id, not 'kept'" in by_name.err


def test_without_a_manager_jobs_are_named_as_with_one(fresh):
    assert fresh("up", "--fake-gpus", "1").code == 0
    for said in ("first", "last"):
        id = fresh("submit", "-n", "twice", "--", "echo", said).id
        assert fresh("wait", id).code == 0
    waiting = "echo begun; read < <(sleep 1000)"
    runs = fresh("submit", "-n", "runs", "--no-preempt", "--", "bash", "-c", waiting).id
    array = fresh("submit", "-n", "part-{i}", "--array", "1-2", "--", "echo", "index {i}").ids[0]
    eventually(lambda: fresh("logs", runs).out == "begun\n")
    name = fresh("show", array, "-o", "json").json["array"]
    fixed = fresh("submit", "-n", "fixed", "--array", "1-2", "-g", "0", "--", "echo", "index {i}").ids
    assert fresh("wait", "fixed").code == 0
    assert [fresh("logs", "fixed").out, fresh("logs", fixed[0]).out] == ["index 1\nindex 2\n", "index 1\n"]
    assert "an array of 2 jobs" in fresh("show", "fixed").err
    assert fresh("down").code == 0
    try:
        for ref, said in (
            ("twice", "last\n"),
            ("runs", "begun\n"),
            ("tw*", "first\nlast\n"),
            ("fixed", "index 1\nindex 2\n"),
        ):
            assert (fresh("logs", ref).out, ref) == (said, ref)
        waits = fresh("logs", name)  # its jobs have not run
        assert (waits.code, "no output of job" in waits.err) == (3, True)
        assert fresh("logs", "gpt-*").code == 3
    finally:
        assert fresh("up").code == 0
        assert fresh("cancel", "--all", "--now", "--yes").code == 0


def test_a_job_is_run_again_with_what_is_changed(tir, client):
    first = tir("submit", "-n", "twice", "--env", "WHAT=ever", "--", "bash", "-c", "echo $WHAT").id
    assert tir("wait", first).code == 0
    second = int(tir("again", first, "comment=second").out)
    assert tir("wait", second).code == 0
    assert tir("logs", second).out == "ever\n"
    assert client.job(second)["comment"] == "second"
    assert tir("again", "no-such-job").code == 3
    assert "KEY=VALUE" in tir("again", first, "gpus").err


@pytest.mark.parametrize("word", ELSEWHERE)
def test_the_words_of_other_schedulers_are_answered_with_the_verb(tir, word):
    said = tir(word, "-u", "me")
    assert said.code == 2
    assert f"here it is: tir {ELSEWHERE[word]} " in said.err
    assert "requeue" not in said.err


def test_who_asks_for_help_by_a_word_is_told_the_option(tir):
    assert tir("help", "submit").err.endswith("here it is: tir -h, or tir VERB -h\n")
    assert tir("version").err.endswith("here it is: tir --version\n")


def test_q_ends_a_view(in_terminal):
    terminal = in_terminal("top", "--interval", "0.1", columns=80)
    terminal.read_until("GPUs? in use")
    terminal.type("q")
    assert terminal.exit_code() == 0
