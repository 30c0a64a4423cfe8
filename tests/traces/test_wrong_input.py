"""Each reader, given something wrong, names the file, the row, the column and what it expected.

A case is the example of the format with one text replaced by another.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError
from rota.model.parquet import without_panics
from rota.traces import formats, read
from tiers import examples

EXAMPLES = {format.name: format.example for format in formats()}
EXAMPLES["itp"] = "job_id,submission_time,duration,num_gpu\na2,30,3600,8\n"
"""With one job, as the others: a bad row among good ones is left out (`test_bad_rows.py`)."""

# format, text in its example, what stands there instead, and what the message says
CASES = [
    (
        "itp",
        "num_gpu",
        "gpus",
        "the header has no column 'num_gpu'",
    ),
    (
        "itp",
        "3600,8",
        "3600",
        "row 2: the line has 3 fields; expected 4, as many as the header",
    ),
    (
        "itp",
        "3600,8",
        "-3600,8",
        "row 2, column 'duration': '-3600' is less than 0; expected a number of at least 0",
    ),
    (
        "itp",
        "3600,8",
        "1h,8",
        "row 2, column 'duration': '1h' is not a number; expected a number of at least 0",
    ),
    (
        "itp",
        "3600,8",
        "3600,2.5",
        "row 2, column 'num_gpu': '2.5' is not a whole number; expected a whole number",
    ),
    ("itp", "3600,8", "1e300,8", "row 2, column 'duration': '1e300' is too large; expected at most 90071"),
    ("plain", "vision/ann,900", "vision/ann,1e300", "column 'deadline_s': '1e300' is too large"),
    ("itp", "a2,30", ",30", "row 2, column 'job_id': the cell is empty; expected a job id"),
    ("elasticflow", "deadline", "slo", "the header has no column 'deadline'"),
    ("elasticflow", "num_iteration", "epochs", "the header has no column 'num_iteration'"),
    ("elasticflow", ",2500,", ",soon,", "row 2, column 'deadline': 'soon' is not a number"),
    ("elasticflow", ",2000", ",", "row 2, column 'duration': the cell is empty"),
    ("tiresias", "iterations", "steps", "the header has no column 'iterations'"),
    ("tiresias", ",160,", ",-160,", "row 2, column 'duration': '-160' is less than 0"),
    ("tiresias", "0,4,0", "0,four,0", "row 2, column 'num_gpu': 'four' is not a number"),
    ("philly-list", "num_gpus", "gpus", "the header has no column 'num_gpus'"),
    (
        "philly-list",
        "2017-10-01",
        "01/10/2017",
        "row 2, column 'timestamp': '01/10/2017 08:00:00' is not a date",
    ),
    ("philly-list", ",60.0", ",-60.0", "row 2, column 'duration': '-60.0' is less than 0"),
    ("philly-list", ",vc1", ",", "row 2, column 'cluster': the cell is empty; expected a name"),
    (
        "philly-json",
        '"Pass"',
        '"Passed"',
        "'status': job 1 (application_1): 'Passed' is not known here; expected one of",
    ),
    ("philly-json", '"vc1"', "17", "column 'vc': job 1 (application_1): 17 is not a text"),
    (
        "philly-json",
        "08:00:30",
        "8h",
        "column 'start_time': job 1 (application_1): '2017-10-01 8h' is not a date",
    ),
    (
        "philly-json",
        "09:00:30",
        "07:00:30",
        "column 'end_time': job 1 (application_1): '2017-10-01 07:00:30' is before",
    ),
    (
        "philly-json",
        '"2017-10-01 08:00:00"',
        "null",
        "column 'submitted_time': job 1 (application_1): is missing",
    ),
    (
        "philly-json",
        '["gpu0", "gpu1"]',
        "2",
        "column 'detail': job 1 (application_1): [{'ip': 'm1', 'gpus': 2}] does not",
    ),
    (
        "philly-json",
        '["gpu0", "gpu1"]',
        '"gpu0"',
        "column 'detail': job 1 (application_1): [{'ip': 'm1', 'gpus': 'gpu0'}] does not list GPUs",
    ),
    (
        "philly-json",
        ', "attempts": [{',
        ', "attempts": 2, "tries": [{',
        "column 'attempts': job 1 (application_1): 2 is not a list",
    ),
    (
        "philly-json",
        '"attempts": [',
        '"attempts": [1, ',
        "column 'attempts': job 1 (application_1): 1 is not an attempt",
    ),
    (
        "philly-json",
        "}]}]}]",
        "}]}",
        "row 4: not valid JSON (Expecting ',' delimiter); expected a JSON list of jobs",
    ),
    (
        "philly-json",
        EXAMPLES["philly-json"],
        "[" * 200_000,
        "the JSON is nested too deeply; expected a JSON list",
    ),
    ("philly-json", EXAMPLES["philly-json"], "[]", "holds no job; expected a JSON list of jobs"),
    ("philly-json", EXAMPLES["philly-json"], "[7]", "column 'jobid': job 1 (?): the entry is not an object"),
    ("helios", "queue", "wait", "the header has no column 'queue'"),
    (
        "helios",
        "COMPLETED",
        "DONE",
        "row 2, column 'state': 'DONE' is not known here; expected one of COMPLETED, CANC",
    ),
    ("helios", ",3600,", ",-3600,", "row 2, column 'duration': '-3600' is less than 0"),
    ("helios", ",2020-04-01 00:00:00", ",None", "row 2, column 'submit_time': 'None' is not a date and time"),
    ("helios", ",u1,", ",,", "row 2, column 'user': the cell is empty; expected a name"),
    ("gavel", "\t1200\t", "\tmany\t", "row 1, column 'total_steps': 'many' is not a number"),
    ("gavel", "\t30\n", "\t-30\n", "row 1, column 'arrival_s': '-30' is less than 0"),
    ("gavel", "\t-1.000000\t", "\t", "row 1: the line has 9 fields; expected 7 or 10 tab-separated fields"),
    (
        "gavel",
        "\t30\n",
        "\t30\nLM\t1\n",
        "row 2: the line has 2 fields; expected 10 (job_type, command, working_dir",
    ),
    (
        "gavel",
        EXAMPLES["gavel"],
        "job_type,scale_factor\nLM,1\n",
        "the header has no column 'total_steps'",
    ),
    (
        "shockwave",
        "\tgns\t",
        "\tfast\t",
        "row 1, column 'mode': 'fast' is not known here; expected one of static, acc",
    ),
    ("shockwave", "\t600\t", "\t-600\t", "row 1, column 'duration_s': '-600' is less than 0"),
    ("shockwave", "\tgns\t", "\t", "row 1: the line has 11 fields; expected 12 tab-separated fields"),
    (
        "shockwave",
        EXAMPLES["shockwave"],
        "job_type,mode\nLM,gns\n",
        "the header has no column 'scale_factor'",
    ),
    ("synergy", "total_iterations", "iterations", "the header has no column 'total_iterations'"),
    ("synergy", ",1000,", ",many,", "row 2, column 'total_iterations': 'many' is not a number"),
    ("pollux", "application", "app", "the header has no column 'application'"),
    ("pollux", ",16,", ",noon,", "row 2, column 'time': 'noon' is not a number"),
    (
        "pollux",
        ",512",
        ",512,1",
        "row 2: the line has 6 fields; expected 5, as many as the header",
    ),
    ("openb", "gpu_milli", "milli", "the header has no column 'gpu_milli'"),
    (
        "openb",
        "Succeeded",
        "Done",
        "row 2, column 'pod_phase': 'Done' is not known here; expected one of Running, Succee",
    ),
    (
        "openb",
        ",1,250,",
        ",1,1250,",
        "row 2, column 'gpu_milli': '1250' is more than a whole GPU; expected 0 to 1000",
    ),
    ("openb", ",1,250,", ",1,0,", "row 2, column 'gpu_milli': '0' is no share of a GPU; expected 1 to 1000"),
    (
        "openb",
        ",65,6",
        ",5,6",
        "row 2, column 'deletion_time': '5' is before scheduled_time; expected a later time",
    ),
    ("lucid", "jobname", "name", "the header has no column 'jobname'"),
    ("lucid", "COMPLETED", "OK", "row 2, column 'state': 'OK' is not known here"),
    ("lucid", ",600,", ",-1,", "row 2, column 'duration': '-1' is less than 0"),
    ("pai", "num_inst", "instances", "the header has no column 'num_inst'"),
    ("pai", ",6,1", ",6,0", "row 2, column 'num_inst': '0' is less than 1; expected a number of at least 1"),
    ("pai", ",0.5,", ",-0.5,", "row 2, column 'num_gpu': '-0.5' is less than 0"),
    ("chronus", "job_type", "kind", "the header has no column 'job_type'"),
    (
        "chronus",
        ",soft",
        ",softly",
        "row 2, column 'job_type': 'softly' is not known here; expected one of strict, soft",
    ),
    (
        "chronus",
        "40-60-80-120",
        "40-x",
        "row 2, column 'expect_time_list': '40-x' is not a list; expected numbers join",
    ),
    (
        "chronus",
        "10-8-5-2",
        "10-8",
        "row 2, column 'expect_value_list': '10-8' is not as long as expect_time_list",
    ),
    (
        "pbs",
        "end=1709287500",
        "end=1709280000",
        "row 1, column 'end': job 11.srv ends before it starts; expected a",
    ),
    (
        "pbs",
        "qtime=1709283600",
        "qtime=noon",
        "column 'qtime': job 11.srv: 'noon' is no moment; expected seconds",
    ),
    (
        "pbs",
        "qtime=1709283600",
        "qtime=17092836001709283600",
        "column 'qtime': job 11.srv: '17092836001709283600' is no moment; expected seconds",
    ),
    (
        "pbs",
        "ngpus=2)",
        "ngpus=17092836001709283600)",
        "row 1, column 'ngpus': job 11.srv has too many GPUs; expected at most",
    ),
    (
        "pbs",
        "mem=64gb",
        "mem=" + "9" * 400 + "gb",
        "999... is no amount of memory; expected 64gb",
    ),
    (
        "pbs",
        "mem=64gb",
        "mem=lots",
        "row 1, column 'mem': job 11.srv: 'lots' is no amount of memory; expected 64gb",
    ),
    (
        "pbs",
        "=01:00:00\n",
        "=01:00:00\nhalf a line\n",
        "row 2: 'half a line' is no accounting record; expected MM/DD",
    ),
    ("pbs", ";11.srv;", "; ;", "is no accounting record; expected MM/DD/YYYY HH:MM:SS;LETTER;ID;key=value"),
    ("pbs", EXAMPLES["pbs"], '{"pbs_version": "1", "Jobs": {" ": {}}}', "job 1 has no id; expected a job by"),
    ("philly-json", "application_1", " ", "column 'jobid': job 1 ( ): ' ' is not a text"),
    ("plain", "deadline_s", "x" * 5000, "the header names 'xxx"),
    ("pbs", ";E;", ";Q;", "no job is left: no end recorded (1); expected jobs that ran"),
    ("pbs", ";E;", ";L;", "there is no job in it; expected records of type E"),
    ("pbs", EXAMPLES["pbs"], '{"pbs_version": "1", "Jobs": [1]}', "has no object Jobs; expected what qstat"),
    (
        "pbs",
        EXAMPLES["pbs"],
        '{"pbs_version": "1", "Jobs": {"1": 2}}',
        "job 1: 2 is not an object; expected a job",
    ),
    ("pbs", EXAMPLES["pbs"], '{"pbs_version": "1", "Jobs": {', "row 1: not valid JSON ("),
    ("sacct", "|Start|", "|Begin|", "the header has no column 'Start'"),
    (
        "sacct",
        "COMPLETED",
        "HAPPY",
        "row 2, column 'State': 'HAPPY' is not known here; expected one of COMPLETED, FAIL",
    ),
    ("sacct", "|3600|", "|-5|", "row 2, column 'ElapsedRaw': '-5' is less than 0"),
    (
        "sacct",
        "|120|",
        "|long|",
        "row 2, column 'TimelimitRaw': 'long' is not a time limit; expected minutes",
    ),
    (
        "sacct",
        "T10:05:00",
        "T08:05:00",
        "no job is left: ended before it started (1); expected",
    ),
    (
        "sacct",
        "n[1-2]",
        "n[1-",
        "row 2, column 'NodeList': 'n[1-' has brackets that do not match; expected names",
    ),
    (
        "sacct",
        "n[1-2]",
        "n[2-1]",
        "row 2, column 'NodeList': 'n[2-1]' has the range '2-1', which does not rise",
    ),
    (
        "sacct",
        "09:00:00|2024-03-01T09:05",
        "9 Uhr|2024-03-01T09:05",
        "column 'Eligible': '2024-03-01T9 Uhr' is not a",
    ),
    (
        "sacct",
        "2024-03-01T09:00:00|2024",
        "17092836|2024",
        "column 'Submit': '17092836' is not a date and time",
    ),
    ("sacct", "|120|", "|1,5|", "row 2, column 'TimelimitRaw': '1,5' is not a time limit"),
    ("sacct", "gres/gpu=2,mem=64G\n", "gres/gpu=99999999999999999\n", "column 'AllocTRES': "),
    ("sacct", "cpu=8,gres/gpu=2,", "cpu=8,gres/gpu=two,", "row 2, column 'ReqTRES': 'gres/gpu=two' is no"),
    ("sacct", "gpu:a100=2", "gpu:a100=NaN", "row 2, column 'AllocTRES': 'gres/gpu:a100=NaN' is no"),
    ("sacct", "mem=64G\n", "mem=lots\n", "row 2, column 'AllocTRES': 'mem=lots' is no amount; ex"),
    ("sacct", "|cpu=8,gres/gpu:a", "|cpu=-8,gres/gpu:a", "row 2, column 'AllocTRES': 'cpu=-8' is no amount"),
    ("sacct", "|COMPLETED|n[1-2]|", "|COMPLETED|", "row 2: the line has 13 fields; expected 14"),
    ("sacct", EXAMPLES["sacct"], EXAMPLES["sacct"].split("\n")[0], "there is no job in it"),
    ("sacct", "\n11|", "\n11.batch|", "there are only job steps; expected sacct --allocations"),
    ("sacct", "|ReqTRES|AllocTRES", "|Req|Alloc", "the header has no column 'AllocTRES'"),
    (
        "sacct",
        "2024-03-01T09:05:00|2024-03-01T10:05:00|3600|120|COMPLETED",
        "Unknown|Unknown|0|120|PENDING",
        "no job is left: still waiting at the time of the dump (1); expected jobs that ran",
    ),
    (
        "swf",
        " 3600 -1 1 ",
        " 3600 -1 9 ",
        "row 2, column 'status': '9' is not known here; expected one of 1, 0, 5, -1",
    ),
    ("swf", "1 0 10 600", "1 0 10 ten", "row 2, column 'run': 'ten' is not a number; expected a number"),
    (
        "swf",
        "1 0 10 600",
        "1 0 600",
        "row 2: the line has 17 fields; expected 18 (job, submit, wait, run, processors",
    ),
    (
        "swf",
        "1 0 10",
        "1 -5 10",
        "row 2, column 'submit': '-5' is less than 0; expected a number of at least 0",
    ),
    (
        "plain",
        "deadline_s",
        "deadline",
        "the header names 'deadline', which this format does not have; did you mean 'deadline_s'?",
    ),
    ("plain", "duration_s", "iterations", "the header has no column 'duration_s'"),
    ("plain", "j1,0,", "j1,-5,", "row 2, column 'submit_s': '-5' is less than 0"),
    ("plain", ",600,", ",-600,", "row 2, column 'duration_s': '-600' is less than 0"),
    ("plain", "j1,0,", "j1,,", "row 2, column 'submit_s': the cell is empty; expected a number"),
]


# A number in them is so long that Python or a float would stumble over it
NINES, MORE_NINES = "9" * 400, "9" * 5000
LONG_CASES = [
    ("pbs", "ngpus=2)", f"ngpus={MORE_NINES})", "row 1, column 'ngpus': job 11.srv has too many GPUs"),
    ("pbs", ".walltime=02:00:00", f".walltime={NINES}", "column 'walltime': job 11.srv: '9999"),
    ("pbs", ".walltime=02:00:00", f".walltime={NINES}:00:00", "... is no time limit; expected hours:min"),
    (
        "pbs",
        ".walltime=02:00:00",
        ".walltime=soon",
        "'soon' is no time limit; expected hours:minutes:seconds",
    ),
    ("pbs", "_List.ncpus=8", f"_List.ncpus={NINES}", "... is no number; expected a whole number"),
    ("pbs", "_List.ncpus=8", f"_List.select={NINES}:ncpus=2", "column 'select': job 11.srv: '9999"),
    ("pbs", "_List.ngpus=2", "_List.ngpus=two", "column 'ngpus': job 11.srv: 'two' is no number"),
    ("pbs", "_List.ngpus=2", "_List.select=1:ngpus=two", "column 'select': job 11.srv: 'ngpus=two' is no"),
    ("sacct", "|120|", f"|{NINES}|", "column 'TimelimitRaw': '9999"),
    ("sacct", "|120|", f"|{MORE_NINES}|", "... is not a time limit; expected minutes"),
    ("sacct", "|120|", f"|{NINES}-00:00:00|", "... is not a time limit; expected minutes"),
    ("sacct", "gres/gpu=2,mem=64G\n", f"gres/gpu={MORE_NINES}\n", "column 'AllocTRES': 'gres/gpu=999"),
    ("sacct", "mem=64G\n", f"mem={NINES}G\n", "column 'AllocTRES': 'mem=9999"),
    ("sacct", "n[1-2]", f"n[{MORE_NINES}]", "... in brackets, which is no range"),
    ("philly-json", '"vc1"', MORE_NINES, "jobs.txt: a number has too many digits; expected a JSON list"),
    (
        "philly-json",
        "application_1",
        "application\\ud800",
        "row 1: \\ud800 is half a character; expected both",
    ),
    ("philly-json", "08:00:30", "08:00:30+05:00", "'2017-10-01 08:00:30+05:00' is not a date and time"),
    ("philly-json", '2017-10-01 08:00:00"', '0001-10-01 08:00:00"', "is not a likely date; expected a date"),
    ("synergy", ",1000,1,0.64", ",9e15,1,9e15", "row 2: duration_s of job '0' comes to 8.1e+31; expected at"),
    ("chronus", ",30,1,", ",9e15,1,", "row 2: duration_s of job '0' comes to 5.4e+17"),
    ("chronus", "40-60-80-120", "40-60-80-9e15", "'40-60-80-9e15' is not a list; expected numbers"),
    ("chronus", "40-60-80-120", "40-60-80-9000000000000000", "the last of deadlines of job '0' comes to 5.4"),
    ("chronus", "40-60-80-120", "40-60-80-nan", "'40-60-80-nan' is not a list; expected numbers joined by -"),
    (
        "chronus",
        "40-60-80-120",
        "40-60-50-120",
        "'40-60-50-120' does not rise; expected the earliest time fir",
    ),
    ("shockwave", "-1.000000\t600", "9e15\t9e15", "row 1: deadline_s of job '0' comes to 8.1e+31"),
    (
        "gavel",
        "-1.000000",
        "-0.5",
        "row 1, column 'SLO': '-0.5' is no factor; expected -1 for none, or at least",
    ),
    (
        "pai",
        "0.5,6,1",
        "0,9e15,9e15",
        "row 2: cpus of job '0' comes to 8.1e+31; expected at most 9007199254740",
    ),
    (
        "openb",
        ",T4|P100,",
        "," + "|".join(f"T{n}" for n in range(64)) + ",",
        "is of 64 GPU types that the file names; expected at most 63",
    ),
]


@pytest.mark.parametrize(
    ("format", "old", "new", "says"),
    [*CASES, *LONG_CASES],
    ids=[f"{c[0]}: {c[3][:60]}" for c in (*CASES, *LONG_CASES)],
)
def test_wrong_input_is_named(read_text: Any, format: str, old: str, new: str, says: str) -> None:
    assert old in EXAMPLES[format]
    with pytest.raises(InputError) as caught:
        read_text(EXAMPLES[format].replace(old, new, 1), format, name="jobs.txt")
    message = str(caught.value)
    assert "jobs.txt" in message
    assert says in message


def test_every_format_has_wrong_inputs() -> None:
    assert {case[0] for case in CASES} == set(EXAMPLES)


def test_a_date_of_a_pbs_log_that_no_calendar_has_is_named(read_text: Any) -> None:
    """Where it counts: an attempt that was put back ended so long after its start as the log says."""
    log = "".join(
        f"99/01/2024 10:05:0{n};{kind};11.srv;start=1709283900 qtime=1709283600\n"
        for n, kind in enumerate("SR")
    )
    with pytest.raises(InputError, match="row 1: '99/01/2024 10:05:00' is no date and time; expected MM/DD"):
        read_text(log + EXAMPLES["pbs"])


def test_best_effort_is_yes_or_no(read_text: Any) -> None:
    head = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort\n"
    with pytest.raises(
        InputError, match="row 2, column 'best_effort': '2' is neither yes nor no; expected 1"
    ):
        read_text(head + "0,10,100,vgg16,500,64,2,300,2\n")


# A column of the plain format beside submit_s, gpus = 2 and duration_s; its cell; what the message says
PLAIN_CASES = [
    ("gpu_share", "0", "'0' is not a share; expected more than 0, at most 1"),
    ("gpu_share", "1.5", "'1.5' is not a share; expected more than 0, at most 1"),
    ("gpus_min", "3", "'3' is more than gpus; expected at most gpus"),
    ("gpus_max", "1", "'1' is less than gpus; expected at least gpus"),
    ("kind", "BATCH", "'BATCH' is not known here; expected one of TRAIN, OPPORTUNISTIC, SERVICE"),
    ("counts", "odd", "'odd' is not known here; expected one of ANY, POWERS_OF_TWO"),
    ("outcome", "KILLED", "'KILLED' is not known here; expected one of COMPLETED, FAILED, CANCELLED"),
    ("gang", "maybe", "'maybe' is not known here; expected one of true, false, 1, 0"),
    ("failures_s", "5;x", "'5;x' is not a list of run times; expected seconds joined by ;"),
    ("failures_s", "-5", "'-5' is not a list of run times; expected seconds joined by ;"),
    ("after", "nobody", "'nobody' names a job that is not in the file; expected job ids joined by ;"),
    ("parts", "seven", "'seven' does not list tasks; expected [{"),
    ("parts", '[{""tasks"": ""2"", ""gpus"": 1}]', '\'[{"tasks": "2", "gpus": 1}]\' does not list tasks'),
    ("parts", "[" * 100_000, "[[... does not list tasks"),
    ("parts", '[{""tasks"": -1, ""gpus"": 1}]', '\'[{"tasks": -1, "gpus": 1}]\' does not list tasks'),
    ("parts", '[{""tasks"": 1, ""gpus"": 1, ""cpus"": NaN}]', '"cpus": NaN}]\' does not list tasks'),
    ("parts", '[{""tasks"": 1, ""gpus"": 1, ""cpus"": ""x""}]', '"cpus": "x"}]\' does not list tasks'),
    ("failures_s", "5;1e300", "'5;1e300' is not a list of run times; expected seconds joined by ;"),
    ("deadlines", "1e300=1", "'1e300=1' is no list of deadlines; expected MOMENT=VALUE"),
    ("limit_s", "-1", "'-1' is less than 0; expected a number of at least 0"),
]


@pytest.mark.parametrize(("column", "cell", "says"), PLAIN_CASES)
def test_wrong_plain_columns_are_named(read_text: Any, column: str, cell: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_text(f'submit_s,gpus,duration_s,{column}\n0,2,60,"{cell}"\n')
    assert f"row 2, column '{column}': " in str(caught.value)
    assert says in str(caught.value)


def damaged_parquet(seed: int) -> bytes:
    """A Parquet file of which some bytes are others."""
    out, draw = io.BytesIO(), np.random.default_rng(seed)
    pl.DataFrame({"submit_s": [0.0], "gpus": [1], "duration_s": [9.0], "user": ["a"]}).write_parquet(out)
    data = np.frombuffer(out.getvalue(), dtype=np.uint8).copy()
    data[draw.integers(len(data) // 3, len(data) - 8, 3)] = draw.integers(0, 256, 3)
    return data.tobytes()


def test_a_panic_of_the_library_is_a_sentence(read_text: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Of a damaged Parquet file: it is printed, and an exception that `except Exception` lets through."""
    panics = 0
    for seed in range(60):
        data = damaged_parquet(seed)
        try:
            pl.read_parquet(io.BytesIO(data))
        except pl.exceptions.PanicException:
            panics += 1
        except (pl.exceptions.PolarsError, OSError):
            pass
        capfd.readouterr()
        with contextlib.suppress(InputError):
            read_text(data)
        assert capfd.readouterr().err == ""
    assert panics, "a file over which the library panics is among them"


def test_what_others_say_meanwhile_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with without_panics():
        os.write(2, b"before\n\nthread 'a' (7) panicked at b.rs:1:2:\nc\nd\nnote: run with it\nafter\n")
        os.write(2, b"thread is a word\nthread 'x' panicked at the end")
    assert capfd.readouterr().err == "before\nafter\nthread is a word"


@pytest.mark.parametrize(
    ("head", "cells", "says"),
    [
        ("gpus", "0", "'0.5' of no GPU; expected 1, or gpus of at least 1"),
        ("gpus,gpus_max", "2,4", "'0.5' of a number of GPUs that may change; expected 1, or gpus alone"),
    ],
)
def test_a_share_goes_with_a_number_of_gpus(read_text: Any, head: str, cells: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_text(f"submit_s,duration_s,gpu_share,{head}\n0,60,0.5,{cells}\n")
    assert f"row 2, column 'gpu_share': {says}" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"PAR1 and then nothing that belongs there", "jobs: cannot be read as Parquet ("),
        (
            b"#rota {half\nsubmit_s,gpus,duration_s\n0,1,2\n",
            "row 1: what stands there beside the columns is not",
        ),
        (
            b"#rota []\nsubmit_s,gpus,duration_s\n0,1,2\n",
            "row 1: what stands there beside the columns is not",
        ),
        (
            b'#rota {"odd": [{"what": "a", "done": "b", "count": "x", "examples": []}]}\n'
            b"submit_s,gpus,duration_s\n0,1,2\n",
            "row 1: what stands there beside the columns is not",
        ),
        (
            b"#rota " + b"[" * 100_000 + b"\nsubmit_s,gpus,duration_s\n0,1,2\n",
            "row 1: what stands there beside the columns is not",
        ),
        (
            b'#rota {"names": {"tenant": ["\\ud800"]}}\nsubmit_s,gpus,duration_s\n0,1,2\n',
            "row 1: what stands there beside the columns is not",
        ),
        (
            b'#rota {"odd": [], "facts": {"epoch": "yesterday"}}\nsubmit_s,gpus,duration_s\n0,1,2\n',
            "row 1: what stands there beside the columns is not",
        ),
        (
            b'#rota {"odd": [1]}\nsubmit_s,gpus,duration_s\n0,1,2\n',
            "row 1: what stands there beside the columns is not",
        ),
    ],
)
def test_broken_plain_files_are_named(read_text: Any, data: bytes, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_text(data)
    assert says in str(caught.value)


@st.composite
def damaged(draw: st.DrawFn, example: str) -> bytes:
    """The example with a few stretches of it replaced by something else."""
    text = example
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        scraps = st.sampled_from(
            [*',|;:\t\n"[{}-', "", "-1", "nan", "1e400", "\r", "\x00", "é", "9" * 25, "None"]
        )
        text = text[:start] + draw(scraps | st.text(max_size=4)) + text[end:]
    return text.encode("utf-8", "surrogatepass")


@pytest.mark.slow
@pytest.mark.parametrize("format", formats(), ids=lambda format: format.name)
@given(data=st.data())
@examples(60)
def test_damage_is_read_or_refused_but_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, format: Any, data: st.DataObject
) -> None:
    file = tmp_path_factory.getbasetemp() / f"damaged-{format.name}"
    file.write_bytes(data.draw(damaged(format.example)))
    with contextlib.suppress(InputError):
        trace = read(file, format.name)
        assert len(trace) > 0
        assert np.isfinite(trace.jobs.submit_s).all()
        assert (np.diff(trace.jobs.submit_s) >= 0).all()
        assert (trace.jobs.gpus >= 0).all()
        assert not (trace.truth.duration_s < 0).any()
        assert len(set(trace.jobs.ids)) == len(trace)
