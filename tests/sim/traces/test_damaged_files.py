"""Whatever is in a file, the answer is a trace or a TraceError, never a traceback."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as for_all
from hypothesis import strategies as st

from tiresias.sim.trace import OPTIONAL
from tiresias.sim.traces import FORMATS, TraceError, describe, load

ATTEMPT = {
    "start_time": "2017-10-07 01:00:00",
    "end_time": "2017-10-07 02:00:00",
    "detail": [{"gpus": ["gpu0"]}],
}
JOB = {"vc": "v", "jobid": "a", "attempts": [ATTEMPT], "submitted_time": "2017-10-07 01:00:00", "user": "u"}
SAMPLES = {
    "tiresias": "id,submitted_at,gpus,duration_s,priority,name\n"
    '1,0,1,2.5,high,x\n2,2017-10-09,8,1e3,,"a, b"\n',
    "tiresias-sim": "job_id,num_gpu,submit_time,model_name,duration\n0,1,0,vgg19,164\n",
    "philly-csv": "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,11cb48\n",
    "philly-json": json.dumps([JOB, JOB | {"jobid": "b"}], indent=1),
    "helios": "job_id,user,vc,gpu_num,submit_time,duration\n1,u,v,4,2020-06-09 18:41:01,249\n2,u,v,0,5,5\n",
    "acme": "job_id,gpu_num,type,submit_time,start_time,end_time\n"
    "k,8,SFT,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00\n",
    "alibaba-2023": "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np1,1,460,5,60,10\n",
    "slurm": "JobID|Submit|Start|End|Elapsed|AllocTRES|State\n"
    "1_2|2024-05-01T10:00:00|Unknown|2024-05-01T10:00:09|1-00:00:05|gres/gpu:a=2|COMPLETED\n"
    "3|5|6|7|00:00:05|gres/gpu=2|FAILED\n",
}
PIECES = [
    "",
    "\n",
    "\r",
    ",",
    '"',
    "|",
    "-",
    "nan",
    "-1",
    "1e400",
    "[",
    "{",
    "}",
    "\0",
    "é",
    "None",
    "0",
    "\ufeff",
]


@st.composite
def damaged(draw):
    """A right file with a few pieces cut out or put in."""
    text = SAMPLES[draw(st.sampled_from(sorted(SAMPLES)))]
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = begin + draw(st.integers(0, 12))
        text = text[:begin] + draw(st.sampled_from(PIECES) | st.text(max_size=4)) + text[end:]
    data = text.encode(errors="surrogatepass")
    if draw(st.booleans()):
        packed = gzip.compress(data, mtime=0)
        data = packed[: draw(st.integers(1, len(packed)))]
    return data


def test_every_format_has_a_sample_that_reads_as_it(tmp_path):
    assert set(SAMPLES) == set(FORMATS)
    for name, text in SAMPLES.items():
        (tmp_path / "t").write_text(text)
        assert load(tmp_path / "t").format == name


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@for_all(damaged(), st.booleans(), st.sampled_from([None, None, *FORMATS]))
def test_a_damaged_file_is_an_error_in_words(tmp_path: Path, data: bytes, skip: bool, format: str | None):
    (tmp_path / "t").write_bytes(data)
    try:
        trace = load(tmp_path / "t", skip_bad_rows=skip, format=format)
    except TraceError:
        return
    assert describe(trace)["duration_s"]["min"] > 0
    assert trace.jobs["submitted_at"].is_sorted()
    assert trace.jobs.drop(OPTIONAL).null_count().sum_horizontal().item() == 0


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("text", ['""', '"', "x", "[", "|", ",", "\0", "[]x", "[1]"])
def test_next_to_nothing(tmp_path, format, text):
    (tmp_path / "t").write_text(text)
    with pytest.raises(TraceError):
        load(tmp_path / "t", format=format)
