"""The live manager: how soon a job starts, how long a decision takes, what a submission costs.

Every figure is printed with its target and relative to something that was measured in the same run.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.managers import ENVIRONMENT, ManagerProcess, manager_process, share
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import still_manager

ADMIN = Caller("ann", is_admin=True)
PRINT_INSTANT = ("date", "+%s.%N")  # prints the instant at which it runs
PENDING = 10_000
SLOTS = 256


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


# --- from the acknowledgement to exec ------------------------------------------------------------------


def start(submissions: int = 300) -> None:
    """A real manager and real processes: each job is submitted when the one before it has ended."""
    with manager_process(gpus=1) as manager:
        after_ack, after_request = [], []
        for _ in range(submissions):
            requested_at = time.time()
            [id] = manager.client.submit(manager.job(*PRINT_INSTANT))
            acknowledged_at = time.time()
            ran_at = float(b"".join(chunk.data for chunk in manager.client.follow_logs(id)))
            after_ack.append(ran_at - acknowledged_at)
            after_request.append(ran_at - requested_at)
    bare = [_bare_exec_s() for _ in range(submissions)]
    for what, values in (("acknowledgement", after_ack), ("request", after_request), ("bare fork", bare)):
        print(f"start: {what} to exec: p50 {ms(share(values, 0.5))}, p99 {ms(share(values, 0.99))}")
    ratio = share(after_ack, 0.5) / share(bare, 0.5)
    print(f"start: p50 is {ratio:.1f} times that of a bare fork and exec of the same program")
    print(f"start: p99 over {submissions} jobs {ms(share(after_ack, 0.99))} (less than 300 ms wanted)")


def _bare_exec_s() -> float:
    began_at = time.time()
    done = subprocess.run(PRINT_INSTANT, stdout=subprocess.PIPE, check=True, env={"PATH": os.environ["PATH"]})
    return float(done.stdout) - began_at


# --- decisions -----------------------------------------------------------------------------------------


def decide(rounds: int = 400) -> None:
    """Submissions, cancellations and exits, decided and committed, with 256 slots and 10,000 jobs waiting.

    The manager, the Controller and the journal are real, and the policy is the default. The executor starts
    no processes, because hundreds of processes on a small machine would measure that machine.
    """
    few = _decisions(100, rounds)
    plain = _plain_commits(rounds)
    many = _decisions(PENDING, rounds)
    for what in many:
        p50, p99 = share(many[what], 0.5), share(many[what], 0.99)
        ratio = p50 / share(few[what], 0.5)
        print(
            f"decide: {what}: p50 {ms(p50)}, p99 {ms(p99)}, most {ms(max(many[what]))} with {PENDING:,}"
            f" waiting; p50 {ratio:.2f} times that with 100 waiting"
        )
    bare = share(plain, 0.5)
    print(f"decide: a bare commit of one row: p50 {ms(bare)}, p99 {ms(share(plain, 0.99))}")
    whole = share(many["submit with commit"], 0.5)
    print(f"decide: a submission with its commit takes {whole / bare:.1f} times as long as that")
    worst = max(share(values, 0.99) for what, values in many.items() if "commit" not in what)
    print(f"decide: worst p99 of a decision {ms(worst)} (less than 20 ms wanted)")


def _plain_commits(count: int) -> list[float]:
    """Seconds that SQLite takes to make one row durable."""
    took = []
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "plain.db", isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TABLE t (body TEXT)")
        for _ in range(count):
            began = time.perf_counter()
            connection.execute("INSERT INTO t VALUES (?)", (str(ENVIRONMENT),))
            took.append(time.perf_counter() - began)
        connection.close()
    return took


def _decisions(pending: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each kind of decision, alone and with its commit."""
    took: dict[str, list[float]] = {}
    random = Random(1)
    with (
        tempfile.TemporaryDirectory() as folder,
        still_manager(Path(folder), SLOTS, DEFAULT_POLICY) as (manager, executor),
    ):

        def asked() -> Submission:
            return Submission(("sleep", "86400"), folder, ENVIRONMENT, gpus=random.choice((1, 1, 2, 4, 8)))

        while manager.state.waiting < pending or manager.state.ledger.free:
            manager.requests.submit(ADMIN, [asked() for _ in range(100)])
            manager.flush()
            manager.poll()

        def timed(what: str, deed: Callable[[], object]) -> None:
            began = time.perf_counter()
            deed()
            manager.settle()
            decided = time.perf_counter()
            manager.flush()
            took.setdefault(what, []).append(decided - began)
            took.setdefault(f"{what} with commit", []).append(time.perf_counter() - began)
            manager.poll()  # started runs are up: not part of what is measured
            manager.flush()

        for _ in range(rounds):
            for one in (asked(), asked()):  # as many jobs are submitted as end
                timed("submit", partial(manager.requests.submit, ADMIN, [one]))
            timed("cancel", partial(manager.requests.cancel, ADMIN, random.choice(list(manager.state.jobs))))
            executor.finish(random.choice(list(manager.state.runs)))
            timed("exit", manager.poll)
    return took


# --- submissions ---------------------------------------------------------------------------------------


def submit(singles: int = 500) -> None:
    """Over HTTP on the Unix socket: 10,000 jobs in batches of 100, then one at a time with these queued."""
    with manager_process(gpus=1) as manager:
        alone = _singles(manager, singles)
        batches = manager.fill(PENDING)
        queued = _singles(manager, singles)
        empty = []
        for _ in range(singles):
            began = time.perf_counter()
            manager.client.requester.once("GET", "/healthz")
            empty.append(time.perf_counter() - began)
    rate = PENDING / sum(batches)
    tenth = len(batches) // 10
    growth = sum(batches[-tenth:]) / sum(batches[:tenth])
    print(f"submit: {rate:,.0f} jobs/s in batches of 100 (at least 500 wanted)")
    print(f"submit: the last {tenth} batches took {growth:.2f} times as long as the first {tenth}")
    p50, p99 = share(queued, 0.5), share(queued, 0.99)
    print(f"submit: p50 {ms(p50)}, p99 {ms(p99)} one at a time, {PENDING:,} queued (less than 100 ms wanted)")
    print(
        f"submit: p50 is {p50 / share(alone, 0.5):.2f} times that with none queued, "
        f"{p50 / share(empty, 0.5):.1f} times that of an empty request"
    )


def _singles(manager: ManagerProcess, count: int) -> list[float]:
    took = []
    for _ in range(count):
        body = manager.job("true")
        began = time.perf_counter()
        manager.client.submit(body)
        took.append(time.perf_counter() - began)
    return took


# --- restart and idleness ------------------------------------------------------------------------------


def restart(times: int = 5) -> None:
    """SIGKILL with 10,000 jobs queued and one running; the time from the next start until /readyz answers."""
    with manager_process(gpus=1) as manager:
        new = manager.memory_bytes()
        manager.fill(PENDING)
        grown = manager.memory_bytes()
        took, cpu = [], []
        for _ in range(times):
            manager.kill()
            took.append(manager.start())
            cpu.append(manager.cpu_s())
        list(manager.client.jobs())  # the largest answer that it can give
        again = manager.memory_bytes()
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import tiresias.api.server"], check=True)
    imports = time.perf_counter() - began
    worst, middle = max(took), share(took, 0.5)
    print(f"restart: {worst:.2f} s at worst of {times} until /readyz answers (less than 3 s wanted)")
    print(
        f"restart: {middle:.2f} s as a rule, {share(cpu, 0.5):.2f} s of them on a processor; "
        f"{middle / imports:.1f} times what importing the program takes ({imports:.2f} s)"
    )
    print(
        f"restart: memory {again / 1e6:.0f} MB after it, {grown / 1e6:.0f} MB after the submissions "
        f"(less than 300 MB wanted), {again / new:.1f} times that of an empty manager"
    )


def idle(seconds: float = 20.0) -> None:
    """Processor time of a manager without requests, without jobs and with 10,000 jobs that cannot start."""
    with manager_process(gpus=1) as manager:
        empty = _idle_share(manager, seconds)
        manager.fill(PENDING)
        full = _idle_share(manager, seconds)
    waiting = f"{full:.2%} with {PENDING:,} waiting"
    print(f"idle: {empty:.2%} of a core without jobs, {waiting} (less than 1 % wanted)")
    print(f"idle: over {seconds:g} s each; a difference of {full - empty:+.2%} of a core for the jobs")


def _idle_share(manager: ManagerProcess, seconds: float) -> float:
    time.sleep(2)  # until the last run has started
    before, began = manager.cpu_s(), time.perf_counter()
    time.sleep(seconds)
    return (manager.cpu_s() - before) / (time.perf_counter() - began)
