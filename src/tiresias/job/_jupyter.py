"""Runs Jupyter for `tir jupyter`, and tells the supervisor of the run when a kernel was used.

    python -m tiresias.job._jupyter PROGRAM ARGUMENTS…

It chooses a port on the loopback address and starts the program there; the token is in JUPYTER_TOKEN, because
other users could read the command line. As soon as the server answers, its URL is in the file jupyter.url of
the run, which the user of the job alone can read. Then it asks the server again and again for its kernels and
terminals, and changes the time of the file `active` if one of them works or was used.

Standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

URL, ACTIVE = "jupyter.url", "active"
LOOK_S = 10.0
ANSWER_S = 5.0
STARTING_S = 0.2
LISTENING = "0A"  # the state of a socket in /proc/net/tcp


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def arguments(program: str, port: int) -> list[str]:
    """The options of Jupyter, which are the same for lab and notebook."""
    base = os.path.basename(program)
    app = "NotebookApp" if "notebook" in base and _version(program).startswith("6.") else "ServerApp"
    return [
        "--no-browser",
        f"--{app}.ip=127.0.0.1",
        f"--{app}.port={port}",
        f"--{app}.port_retries=0",
        *(["--allow-root"] if os.geteuid() == 0 else []),
    ]


def _version(program: str) -> str:
    """The version of a classic notebook; only version 6 has options of its own."""
    try:
        found = subprocess.run(
            [program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.decode(errors="replace").strip()


def is_ours(port: int) -> bool:
    """Whether what listens at this port of the loopback address belongs to the user of this process.

    Between the choice of the port and the start of the server any user may take it, and would be sent the
    token. Where the kernel does not tell (/proc/net/tcp), nothing is ours.
    """
    try:
        with open("/proc/net/tcp") as file:
            rows = [line.split() for line in file][1:]
    except OSError:
        return False
    users = {row[7] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == LISTENING}
    return users == {str(os.geteuid())}


def asked(port: int, what: str) -> Any:
    """What the server answers; None if it does not."""
    if not is_ours(port):
        return None
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/{what}")
    request.add_header("Authorization", "token " + os.environ["JUPYTER_TOKEN"])
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=ANSWER_S
        ) as answer:
            return json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return None


def use(port: int) -> tuple[list[str] | None, bool]:
    """What was used last, as something that changes with each use; and whether a kernel works now."""
    kernels = asked(port, "kernels")
    terminals = asked(port, "terminals")
    if not isinstance(kernels, list):
        return None, False
    seen = [(each.get("id"), each.get("last_activity")) for each in kernels]
    if isinstance(terminals, list):
        seen += [(each.get("name"), each.get("last_activity")) for each in terminals]
    is_busy = any(each.get("execution_state") == "busy" for each in kernels)
    return sorted(map(str, seen)), is_busy


def touch(folder: str) -> None:
    path = os.path.join(folder, ACTIVE)
    with open(path, "a"):
        os.utime(path)


def write_url(folder: str, program: str, port: int) -> None:
    where = "lab" if "lab" in os.path.basename(program) else "tree"
    url = f"http://127.0.0.1:{port}/{where}?token={os.environ['JUPYTER_TOKEN']}"
    fresh = os.path.join(folder, f".{URL}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(url + "\n")
    os.replace(fresh, os.path.join(folder, URL))


def main(program: str, *rest: str) -> None:
    folder = os.environ["TIRESIAS_RUN_DIR"]
    port = free_port()
    touch(folder)  # from now on what this says counts, and not the processor time of the server
    server = subprocess.Popen([program, *arguments(program, port), *rest])
    # The whole group gets SIGTERM; the server then ends its kernels, and this must wait for it.
    signal.signal(signal.SIGTERM, lambda *_: None)
    before: list[str] | None = None
    is_up = False
    while server.poll() is None:
        if not is_up and asked(port, "status") is not None:
            is_up = True
            write_url(folder, program, port)
            print("[tiresias: Jupyter answers; its URL: tir jupyter JOB]", flush=True)
        if is_up:
            seen, is_busy = use(port)
            if is_busy or (seen is not None and seen != before):
                before = seen
                touch(folder)
        try:
            server.wait(LOOK_S if is_up else STARTING_S)
        except subprocess.TimeoutExpired:
            continue
    code = server.returncode
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(*sys.argv[1:])
