"""The public traces' CSV formats: which columns count, what is left out, what the notes say."""

from __future__ import annotations

import pytest

from tiresias.sim.traces import load

WHAT = ("id", "submitted_at", "gpus", "duration_s")


def test_tiresias_simulator(given):
    trace = load(
        given(
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\r\n"
            "1,8,30,133,vgg11,147,23\r\n0,1,0,606,vgg19,164,30\r\n10,2,30,5,vgg16,9,1\r\n"
        )
    )
    assert trace.format == "tiresias-sim"
    assert trace.jobs.select(*WHAT, "model").rows() == [
        ("0", 0.0, 1, 164.0, "vgg19"),
        ("1", 30.0, 8, 147.0, "vgg11"),
        ("10", 30.0, 2, 9.0, "vgg16"),
    ]


def test_philly_csv_has_no_ids_no_zone_and_no_order(given, monkeypatch):
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    trace = load(
        given(
            "timestamp,duration,num_gpus,gpu_time,cluster\n"
            "2017-11-05 03:00:00,66.0,1,66.0,11cb48\n"
            "2017-11-05 01:30:00,2951.0,8,23608.0,6214e9\n"
            "\n"
            "2017-11-05 00:30:00,5.0,2,10.0,6214e9\n"
        )
    )
    assert trace.format == "philly-csv"
    assert trace.jobs["id"].to_list() == ["3", "2", "1"]
    assert trace.jobs["tenant"].to_list() == ["6214e9", "6214e9", "11cb48"]
    # The clocks went back that night in Los Angeles: an hour is an hour here all the same.
    assert trace.jobs["submitted_at"].diff().to_list() == [None, 3600.0, 5400.0]


def test_helios_leaves_out_jobs_without_gpus_and_those_that_never_ran(given):
    trace = load(
        given(
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
            "7,ua,vcx,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
            "8,ua,vcx,0,16,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:45:36,248,0\n"
            "9,ub,vcy,1,1,1,CANCELLED,2020-06-09 18:41:29,,,0,0\n"
            "10,ub,vcy,1,1,1,CANCELLED,2020-06-09 18:41:29,,,,\n"
        )
    )
    assert trace.format == "helios"
    assert trace.jobs.select(*WHAT, "user", "tenant").rows() == [("7", 1591728087.0, 4, 249.0, "ua", "vcx")]
    assert trace.notes == [
        "left out 1 job that asked for no GPU",
        "left out 2 jobs that never ran (duration 0)",
    ]
    assert trace.skipped_rows == 0


def test_acme_measures_from_start_to_end_since_kalos_counts_the_queue_in_its_duration(given):
    trace = load(
        given(
            "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
            "k1,uf,8,64,960,Pretrain,FAILED,"
            "2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,18,10.0,1152.0\n"
            "s1,uf,1,8,128,Other,FAILED,"
            "2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,117,32,936.0\n"
            "s2,uf,1,0,128,Other,COMPLETED,2023-03-01 00:18:22+08:00,,,117,32,0\n"
            "s3,uf,1,8,128,Other,CANCELLED,2023-03-01 00:18:22+08:00,,2023-03-01 00:20:51+08:00,0,0,0\n"
            "s4,uf,1,8,128,Other,RUNNING,2023-03-01 00:18:22+08:00,2023-03-01 00:20:51+08:00,,0,0,0\n"
            "s5,uf,1,8,128,Other,FAILED,"
            "2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:18:54+08:00,0,32,0\n"
        )
    )
    assert trace.format == "acme"
    assert trace.jobs.select(*WHAT, "name").rows() == [
        ("s1", 1677601102.0, 8, 117.0, "Other"),
        ("k1", 1684321258.0, 64, 8.0, "Pretrain"),
    ]
    assert trace.notes == [
        "left out 1 job that asked for no GPU",
        "left out 1 job that never started",
        "left out 1 job without an end",
        "left out 1 job of no length",
    ]


def test_acme_refuses_an_end_before_the_start(given, complaint):
    header = "job_id,user,gpu_num,type,state,submit_time,start_time,end_time\n"
    row = "a,u,1,Other,FAILED,2023-03-01 00:00:00,2023-03-01 00:00:09,2023-03-01 00:00:05\n"
    assert "line 2, column end_time: '2023-03-01 00:00:05' is not after start_time" in complaint(
        given(header + row)
    )


def test_alibaba_counts_a_share_of_a_gpu_as_one(given):
    trace = load(
        given(
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
            "creation_time,deletion_time,scheduled_time\n"
            "openb-pod-0010,12000,16384,8,1000,,LS,Running,5,100,10\n"
            "openb-pod-0009,6000,12288,1,460,V100M16|V100M32,LS,Running,5,60,10\n"
            "openb-pod-0011,20000,65536,0,0,,LS,Running,6,70,6\n"
            "openb-pod-0012,20000,65536,1,1000,,LS,Pending,6,70,\n"
        )
    )
    assert trace.format == "alibaba-2023"
    assert trace.jobs.select(WHAT).rows() == [
        ("openb-pod-0009", 5.0, 1, 50.0),
        ("openb-pod-0010", 5.0, 8, 90.0),
    ]
    assert trace.notes == [
        "left out 1 job that asked for no GPU",
        "left out 1 job that never started",
        "counted 1 job with a share of a GPU as if with a whole one",
    ]


def test_errors_in_rows_use_the_column_names_of_the_file(given, complaint):
    header = "job_id,user,vc,gpu_num,submit_time,duration\n"
    assert "column gpu_num: 'two' is not a number" in complaint(given(f"{header}1,u,v,two,5,5\n"))
    message = complaint(given(f"{header}1,u,v,2,5,5\n1,u,v,2,5,5\n"))
    assert "line 3, column job_id: '1' is also the id on line 2" in message


def test_nothing_but_jobs_without_gpus(given, complaint):
    message = complaint(given("job_id,user,vc,gpu_num,submit_time,duration\n1,u,v,0,5,5\n"))
    assert "no job that can be replayed (left out 1 job that asked for no GPU)" in message


@pytest.mark.parametrize("format", ["tiresias-sim", "philly-csv", "helios", "acme", "alibaba-2023", "slurm"])
def test_a_named_format_says_which_of_its_columns_are_missing(given, complaint, format):
    assert "missing columns " in complaint(given("a,b\n1,2\n"), format=format)
