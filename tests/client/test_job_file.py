"""Job files: every key, the dialects of others, and one sentence for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.client.fields import PARSERS, make_spec, merge
from rota.client.job_file import is_job_file, parse_job, read_job_file
from rota.errors import InputError

CALLER = {"HOME": "/home/alice"}


def job(text: str) -> dict[str, Any]:
    return parse_job(text, "job.yaml", CALLER)


def test_a_whole_job() -> None:
    """Every key of a full file becomes a field, and the job is valid."""
    fields = job(
        """
        name: resnet
        tenant: vision/alice
        command: [python, train.py, --lr, 0.1]
        gpus: 2
        gpus_range: 1:4
        counts: powers of two
        gpu-type: [A100, H100]
        node: n1,n2,n3
        exclude_node: n3
        gpus_step: 1
        gpu_memory: 16GiB
        gpu_persistent: 2GiB
        weight: 2.5
        deadlines: [+2h=10, +4h=5]
        batch_range: 128:512
        group_rule: first
        cpus: 8
        mem: 64GiB
        kind: train
        priority: -5
        time: 3h
        deadline: 2026-11-23T10:00:00
        begin: 1795341600
        after: ["17", "18:any"]
        array: 1-20%4
        group: sweep
        workload: resnet50
        batch_size: 256
        ranks: node
        workdir: /data
        output: logs/%j.out
        error: logs/%j.err
        output_limit: 1GiB
        env: {A: 1, B: yes}
        grace: 30s
        notice: USR1@60s
        requeue_code: 99
        retries: 5
        user_retries: 1
        trial: yes
        accept_later_deadline: yes
        idle_after: never
        preemptible: no
        checkpoint: own
        self_fence: true
        hold: off
        comment: "a note: with a colon"
        """
    )
    spec = make_spec(fields)
    assert spec.command == ["python", "train.py", "--lr", "0.1"]
    assert (spec.gpus, spec.gpus_min, spec.gpus_max, spec.counts) == (2, 1, 4, "powers of two")
    assert (spec.gpu_types, spec.gpu_memory_gib, spec.cpus, spec.memory_gib) == (["A100", "H100"], 16, 8, 64)
    assert (spec.gpus_step, spec.gpu_persistent_gib, spec.weight, spec.group_rule) == (1, 2, 2.5, "first")
    assert (spec.node_set, spec.exclude_nodes) == ("n1|n2|n3", ["n3"])
    assert [due.value for due in spec.deadlines] == [10, 5]
    assert spec.deadlines[1].at_s - spec.deadlines[0].at_s == pytest.approx(7200, abs=5)
    assert (spec.batch_size, spec.batch_min, spec.batch_max) == (256, 128, 512)
    assert (spec.time_s, spec.begin_s, spec.priority, spec.array) == (10800, 1795341600, -5, "1-20%4")
    assert [(a.job, a.when) for a in spec.after] == [("17", "ok"), ("18", "any")]
    assert spec.env == {"A": "1", "B": "yes"}
    assert (spec.output, spec.error, spec.output_limit_gib) == ("logs/%j.out", "logs/%j.err", 1.0)
    assert (spec.notice_signal, spec.notice_s, spec.grace_s) == ("USR1", 60, 30)
    assert spec.accept_later_deadline
    assert spec.idle_after_s == 0.0
    assert (spec.trial, spec.preemptible, spec.self_fence, spec.hold) == (True, False, True, False)
    named = {"share"} | {line.split(":")[0].strip().replace("-", "_") for line in _lines_of(fields)}
    assert set(PARSERS) - named == set(), "a key of its own for each property"


def _lines_of(fields: dict[str, Any]) -> list[str]:
    """Names of the properties that the fields came from."""
    renamed = {
        "gpu_types": "gpu_type",
        "gpu_memory_gib": "gpu_memory",
        "gpu_persistent_gib": "gpu_persistent",
        "node_set": "node",
        "exclude_nodes": "exclude_node",
        "output_limit_gib": "output_limit",
        "batch_min": "batch_range",
        "memory_gib": "mem",
        "notice_signal": "notice",
    }
    names = [renamed.get(name, name.removesuffix("_s")) for name in fields]
    return [*names, "gpus_range"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # what YAML would read as something else
        ("gpus: 1:4", {"gpus": 1, "gpus_min": 1, "gpus_max": 4}),
        ("time: 12:00:00", {"time_s": 43200.0}),
        ("name: no", {"name": "no"}),
        ("name: 007", {"name": "007"}),
        ("deadline:", {}),
        ("deadline: null", {}),
        # a count and a range, in any order
        ("gpus_range: 1:4\ngpus: 2", {"gpus": 2, "gpus_min": 1, "gpus_max": 4}),
        # what to run
        ("command: python train.py --name 'a b'", {"command": ["python", "train.py", "--name", "a b"]}),
        ("run: |\n  cd x\n  ./go\n", {"command": ["/bin/sh", "-c", "cd x\n./go\n"]}),
        ("commands:\n  - cd x\n  - ./go", {"command": ["/bin/sh", "-c", "set -e\ncd x\n./go"]}),
        # environments
        ("env: [HOME, B=2]", {"env": {"HOME": "/home/alice", "B": "2"}}),
        ("envs: {B: 2}", {"env": {"B": "2"}}),
        # other tools' words
        ("resources: {gpu: 4}", {"gpus": 4}),
        ("resources: {gpu: H100}", {"gpus": 1, "gpu_types": ["H100"]}),
        (
            "resources: {gpu: 'H100:1..2'}",
            {"gpus": 1, "gpus_min": 1, "gpus_max": 2, "gpu_types": ["H100"]},
        ),
        # types that begin with a digit; of two numbers the larger one in front is a type
        ("resources: {gpu: '2080Ti:2'}", {"gpus": 2, "gpu_types": ["2080Ti"]}),
        ("resources: {gpu: 1g.10gb}", {"gpus": 1, "gpu_types": ["1g.10gb"]}),
        ("resources: {gpu: '3090:2'}", {"gpus": 2, "gpu_types": ["3090"]}),
        ("resources: {gpu: '3090,4090:2'}", {"gpus": 2, "gpu_types": ["3090", "4090"]}),
        (
            "resources: {gpu: '3090:1..2'}",
            {"gpus": 1, "gpus_min": 1, "gpus_max": 2, "gpu_types": ["3090"]},
        ),
        ("resources: {gpu: '128:256'}", {"gpus": 128, "gpus_min": 128, "gpus_max": 256}),
        ("resources: {accelerators: '4090:1'}", {"gpus": 1, "gpu_types": ["4090"]}),
        ("gpu_type: 3090", {"gpu_types": ["3090"]}),
        ("gpu_type: [2080Ti, 1g.10gb]", {"gpu_types": ["2080Ti", "1g.10gb"]}),
        ("resources:\n  accelerators: A100:8\n  cpus: 32+", {"gpus": 8, "gpu_types": ["A100"], "cpus": 32.0}),
        ("resources: {memory: 32GiB..}", {"memory_gib": 32.0}),
        ("max_duration: 2h", {"time_s": 7200.0}),
        ("working_dir: /x", {"workdir": "/x"}),
        # JSON
        ('{"gpus": 2, "trial": true}', {"gpus": 2, "trial": True}),
    ],
)
def test_keys(text: str, expected: dict[str, Any]) -> None:
    assert job(text) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("gpu: 2", "job.yaml, row 1, column 'gpu': is nothing a job has; did you mean 'gpus'?"),
        (
            "frobnicate: 2",
            "row 1, column 'frobnicate': is nothing a job has; expected accept_later_",
        ),
        ("name: a\ntime: 90", "job.yaml, row 2, column 'time': '90' is not a duration; expected a unit"),
        ("gpus: two", "job.yaml, row 1, column 'gpus': 'two' is no number of GPUs; expected how many"),
        ("gpus_range: 4:1", "job.yaml, row 1, column 'gpus_range': '4:1' is no range; expected FEWEST:MOST"),
        ("gpus: [1, 2]", "job.yaml, row 1, column 'gpus': holds more than one value; expected one value"),
        ("gpus: 1\ngpus: 2", "job.yaml, row 2, column 'gpus': stands twice"),
        ("time: 1h\nmax_duration: 2h", "row 2, column 'max_duration': 'max_duration' says again what 'time'"),
        ("command: a\nrun: b", "job.yaml: says twice what to run; expected one of command, run, commands"),
        ("command: python 'a", "row 1, column 'command': no closing quotation; expected a line with closed"),
        ("env: [NOT_SET]", "row 1, column 'env': 'NOT_SET' is not set here; expected NAME=VALUE"),
        ("trial: perhaps", "row 1, column 'trial': 'perhaps' is neither; expected yes or no"),
        ("kind: batch", "column 'kind': 'batch' is none of them; expected train or opportunistic or service"),
        ("after: '17:never'", "column 'after': '17:never' names no job to wait for; expected JOB, JOB:ok"),
        ("resources: {disk: 1TB}", "column 'resources.disk': is nothing a job asks for; expected gpu, cpus"),
        (
            "name: train\nresources:\n  accelerators: 4090",
            "row 2, column 'resources.accelerators': '4090' may be a type or a number; expected 4090:1",
        ),
        (
            "resources: {gpu: '4:1'}",
            "column 'resources.gpu': '4:1' is no range; expected FEWEST:MOST, such as",
        ),
        (
            "gpus: 3090:2",
            "column 'gpus': '3090:2' is no range; expected FEWEST:MOST, such as 1:4; gpu_type names",
        ),
        ("resources: {gpu: many GPUs}", "column 'resources.gpu': 'many GPUs' names no GPUs; expected 2"),
        ("- a\n- b", "job.yaml: is no job; expected lines such as"),
        ("name: [a", "job.yaml, row 1: is no YAML"),
        ("", "job.yaml: is no job"),
    ],
)
def test_wrong(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        job(text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "the job has no command"),
        ({"command": []}, "the job has no command"),
        ({"command": ["a"], "gpus": 4, "gpus_max": 2}, "gpus=4 is outside the range 4:2"),
        (
            {"command": ["a"], "gpus": 2, "gpus_min": 1, "gpu_share": 0.5},
            "gpu_share=0.5 goes with one number of GPUs, 1 or more; got 1:2",
        ),
        (
            {"command": ["a"], "name": "a b"},
            "name='a b' will not do: expected letters, digits and _ . @ : + / -",
        ),
        ({"command": ["a"], "notice_signal": "KILL"}, "expected USR1, USR2, HUP, INT, WINCH, URG or CONT"),
        (
            {"command": ["a"], "output": "%Q.out"},
            "output: '%Q.out' has '%Q', which has no meaning here; expected",
        ),
        (
            {"command": ["a"], "script": "true"},
            "script does not say what runs it; expected a first line such as",
        ),
        (
            {"command": ["a"], "script": "#!/bin/sh\r\n"},
            "script ends line 1 as Windows does (\\r\\n); expected",
        ),
        ({"command": ["a"], "array": "1-"}, "array='1-' will not do: expected 1-20, 1,3,7"),
        ({"command": ["a"], "array": "9-1"}, "array '9-1': '9-1' is no range"),
        ({"command": ["a"], "array": "1,1000000000"}, "'1000000000' goes beyond the last index, 999999999"),
        ({"command": ["a"], "array": f"{2**63}"}, "goes beyond the last index, 999999999"),
        ({"command": ["a"], "array": f"1-9%{2**64}"}, "%18446744073709551616 is too large; expected at most"),
        ({"command": ["a"], "gpu_share": 5e-324}, "gpu_share=4.94066e-324 is too small; expected at least"),
        (
            {"command": ["a"], "cpus": -1.0},
            "cpus=-1.0 will not do: input should be greater than or equal to 0",
        ),
    ],
)
def test_no_job(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        make_spec(fields)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            b"gpus: 2\r\nrun: |\r\n  ./go\r\n",
            "job.yaml, row 1: ends as on Windows (\\r\\n); expected \\n: run `dos2",
        ),
        (b"gpus: 2\nname: gr\xf6\xdfe", "job.yaml, row 2: is no text in UTF-8"),
        (b"#" * (1 << 21), "job.yaml: is too large; expected a job file of at most 1 MiB"),
    ],
    ids=["Windows", "latin-1", "too large"],
)
def test_no_text(tmp_path: Path, data: bytes, sentence: str) -> None:
    (tmp_path / "job.yaml").write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_job_file(tmp_path / "job.yaml", CALLER)
    assert sentence in str(caught.value)


def test_layers() -> None:
    """What comes last counts; environments are joined; a count takes away a range below it."""
    file = {"gpus": 2, "gpus_min": 1, "gpus_max": 4, "env": {"A": "1", "B": "1"}, "name": "a"}
    assert merge(file, {"gpus": 8, "env": {"B": "2"}}) == {
        "gpus": 8,
        "env": {"A": "1", "B": "2"},
        "name": "a",
    }
    assert make_spec({"command": ["a"], "gpus_min": 2, "gpus_max": 4}).gpus == 2


def test_file(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: ./go\n")
    assert read_job_file(path, {}) == {"command": ["./go"]}
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is no text"):
        read_job_file(path, {})
    path.write_bytes(b"#" * (1 << 20) + b"#")
    with pytest.raises(InputError, match="is too large"):
        read_job_file(path, {})


def test_which_words_are_files() -> None:
    assert [is_job_file(word) for word in ("job.yaml", "a/b.yml", "job.json", "python", "train.py")] == [
        True,
        True,
        True,
        False,
        False,
    ]


@given(st.text(max_size=200))
def test_any_text_is_a_job_or_a_sentence(text: str) -> None:
    try:
        outcome: object = make_spec(job(text))
    except InputError as error:
        outcome = str(error)
    assert outcome


def test_the_page_names_every_property() -> None:
    """docs/jobs.md says what each means."""
    page = (Path(__file__).parents[2] / "docs/jobs.md").read_text(encoding="utf-8")
    assert [name for name in PARSERS if f"\n| `{name}` |" not in page] == []


@pytest.mark.parametrize("tenant", ["//", "a//b", "../..", "/a", "a/", "/", "a/./b", ".."])
def test_tenants_that_are_no_path(tenant: str) -> None:
    with pytest.raises(InputError, match=r"^tenant .* is no path; expected names with single slashes"):
        make_spec({"command": ["x"], "tenant": tenant})
    assert make_spec({"command": ["x"], "tenant": "a.b/..c"}).tenant == "a.b/..c"


def test_an_array_of_which_none_may_run() -> None:
    with pytest.raises(InputError, match=r"^array '1-3%0' lets none of its jobs run; expected at least %1$"):
        make_spec({"command": ["x"], "array": "1-3%0"})
    assert make_spec({"command": ["x"], "array": "1-3%1"}).array == "1-3%1"
