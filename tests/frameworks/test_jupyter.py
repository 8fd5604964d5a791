"""`tir jupyter` with a real JupyterLab of the user's own environment."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

from frameworks_bench import eventually

CODE = "import os; from tiresias import job; print(os.environ['TIRESIAS_JOB_ID'], job.__file__)"


def test_a_notebook_works_in_a_job_of_its_own(bench, training):
    """A kernel computes with the SDK at hand; the URL is printed again; the server is cancelled."""
    mine = training("kernel.py")
    path = f"{Path(bench.python).parent}{os.pathsep}{os.environ['PATH']}"
    [url] = bench.tir("jupyter", "-g", "1", cwd=mine.directory, PATH=path).splitlines()
    [id] = [job["id"] for job in bench.client.jobs() if job["name"] == "jupyter"]
    assert bench.phase(id) == "RUNNING"
    assert bench.tir("jupyter", str(id)).splitlines()[0] == url
    command = [bench.python, "kernel.py", url, CODE]
    # What the kernel prints can come after its reply, on another channel: then it is asked again.
    ask = partial(subprocess.check_output, command, cwd=mine.directory, text=True)
    printed = eventually(lambda: ask().split(), "what the kernel prints")
    assert printed[0] == str(id)
    assert printed[1].startswith(str(bench.home))
    bench.tir("cancel", str(id))
    eventually(lambda: bench.ended(id), "the end of the server")
    assert bench.phase(id) == "CANCELLED"
