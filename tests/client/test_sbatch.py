"""sbatch scripts: the job they become, and what is said about the lines that do not count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rota.client.fields import make_spec
from rota.client.sbatch import Script, parse_sbatch, read_sbatch
from rota.client.sbatch_names import (
    IGNORED,
    REFUSED,
    SHORT,
    SYNONYMS,
    VALUE_BEHIND_EQUALS,
    WITHOUT_VALUE,
    long_name,
)
from rota.client.sbatch_options import FLAGS, HERE, READERS, known_options, said_of
from rota.errors import InputError
from rota.wire.script import MOST_BYTES
from shared_data import ROOT, needs_shared

TYPICAL = """\
#!/bin/bash -l
#SBATCH --job-name=resnet
#SBATCH --account=vision
#SBATCH --partition=gpu          # our only one
#SBATCH -N 2 --ntasks-per-node=1
#SBATCH --gres=gpu:a100:4
#SBATCH --cpus-per-task=16
#SBATCH --mem=64G
#SBATCH --time=1-12:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --output=logs/%j.out
##SBATCH --time=99:00:00

# a comment
#SBATCH --array=1-8%2
export X=1
#SBATCH --hold
python train.py "$@"
"""


def script(*lines: str, body: str = "true") -> Script:
    text = "\n".join(["#!/bin/sh", *(f"#SBATCH {line}" for line in lines), body])
    return parse_sbatch(text, Path("/x/go.sh"), [], "/x")


def test_typical() -> None:
    found = parse_sbatch(TYPICAL, Path("/x/go.sh"), ["--lr", "0.1"], "/x")
    spec = make_spec(found.fields)
    assert (spec.name, spec.tenant, spec.gpus, spec.gpu_types) == ("resnet", "vision", 8, ["a100"])
    assert (spec.cpus, spec.memory_gib, spec.time_s, spec.array) == (32, 128, 129600, "1-8%2")
    assert (spec.notice_signal, spec.notice_s, spec.retries, spec.hold) == ("USR1", 120, 3, False)
    assert spec.output == "logs/%j.out"
    assert (spec.ranks, spec.command, spec.script) == ("node", ["go.sh", "--lr", "0.1"], TYPICAL)
    assert [warning.split(": ")[0] for warning in found.warnings] == [
        "line 4",
        "line 5",
        "line 18",
    ]
    assert found.warnings[0] == (
        "line 4: --partition is ignored: there are no partitions; "
        "--node names nodes or their labels, --gpu-type types of devices"
    )
    assert found.warnings[2] == "line 18: #SBATCH is ignored: it stands behind the first command"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # a script that asks for no GPU gets none, as under Slurm
        ([], {"gpus": 0, "cpus": 1}),
        (["--gres=gpu"], {"gpus": 1}),
        (["--gres=gpu:2"], {"gpus": 2}),
        (["--gres=gpu:a100:2(S:0)"], {"gpus": 2, "gpu_types": ["a100"]}),
        (["--gpus=h100:3"], {"gpus": 3, "gpu_types": ["h100"]}),
        (["-G 3", "--nodes=2"], {"gpus": 3}),
        (["--gpus-per-node=4", "-N2"], {"gpus": 8}),
        (["--gpus-per-task=1 --ntasks=6"], {"gpus": 6, "cpus": 6}),
        (["--gpus-per-task=1", "-N 2", "--ntasks-per-node=3"], {"gpus": 6}),
        (["--gres=gpu:4", "--nodes=2-4"], {"gpus": 8}),
        (["--gpus=2 --cpus-per-gpu=8"], {"cpus": 16}),
        (["-n 4 -c 2 --mem-per-cpu=1500M"], {"cpus": 8, "memory_gib": 8 * 1500 / 1024}),
        (["--gpus=2 --mem-per-gpu=40G"], {"memory_gib": 80}),
        (["--mem=64000"], {"memory_gib": 62.5}),
        (["-t 90"], {"time_s": 5400.0}),
        (["--time=UNLIMITED"], {"time_s": None}),
        (["--time=00:00:00"], {"time_s": None}),
        (["-t 0"], {"time_s": None}),
        (["-t 0-0"], {"time_s": None}),
        # types that begin with a digit
        (["--gres=gpu:2080Ti:1"], {"gpus": 1, "gpu_types": ["2080Ti"]}),
        (["--gres=gpu:2080Ti"], {"gpus": 1, "gpu_types": ["2080Ti"]}),
        (["--gres=gpu:1g.10gb:3"], {"gpus": 3, "gpu_types": ["1g.10gb"]}),
        (["--gres=gpu:3090:2(S:0-1)"], {"gpus": 2, "gpu_types": ["3090"]}),
        (["--gres=gpu:4090"], {"gpus": 4090, "gpu_types": []}),
        (["--gpus=3090:2"], {"gpus": 2, "gpu_types": ["3090"]}),
        (["--gpus=4090"], {"gpus": 4090, "gpu_types": []}),
        (["--gpus-per-node=2080Ti:2", "-N2"], {"gpus": 4, "gpu_types": ["2080Ti"]}),
        (["--gpus-per-task=1g.10gb:1 -n 3"], {"gpus": 3, "gpu_types": ["1g.10gb"]}),
        # shortened, and by another name
        (["--depend=afterok:1"], {"after": [("1", "ok")]}),
        (["--arr=1-3"], {"array": "1-3"}),
        (["--mem-per-c=4g -n2"], {"memory_gib": 8}),
        (["--gpus-per-task=1 --tasks-per-node=2"], {"gpus": 2}),
        (["--tasks-per-n 2 --gpus-per-t 1"], {"gpus": 2}),
        (["--workdir=/data"], {"workdir": "/data"}),
        (["--no-req"], {"retries": 0}),
        (["-HQ"], {"hold": True}),
        (["--input=none"], {}),
        (["--nice"], {"priority": -100}),
        (["--nice=-50"], {"priority": 50}),
        (["--priority=7"], {"priority": 7}),
        (["-d afterok:17:18,afterany:19"], {"after": [("17", "ok"), ("18", "ok"), ("19", "any")]}),
        (["--dependency=afternotok:17_3"], {"after": [("17_3", "failed")]}),
        (["--no-requeue"], {"retries": 0}),
        (["-H"], {"hold": True}),
        (["--signal=SIGTERM@90"], {"grace_s": 90}),
        (["--signal=10"], {"notice_signal": "USR1", "notice_s": 60, "notice_to": "children"}),
        (["--signal=B:USR2@30"], {"notice_signal": "USR2", "notice_s": 30, "notice_to": "rank"}),
        (["--sig=RB:USR2@30"], {"notice_to": "rank"}),
        (["--signal=R:USR2"], {"notice_to": "children"}),
        (["--begin=2026-11-23T10:00:00+00:00"], {"begin_s": 1795428000.0}),
        (["--comment='two words'"], {"comment": "two words"}),
        (["-D /data"], {"workdir": "/data"}),
        (["-J 'my job'"], {"name": "my_job"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options(lines: list[str], expected: dict[str, Any]) -> None:
    spec = make_spec(script(*lines).fields)
    found = {name: getattr(spec, name) for name in expected}
    if "after" in found:
        found["after"] = [(after.job, after.when) for after in spec.after]
    assert found == expected


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--nodes=two", "/x/go.sh, row 2, 'two' is no number; expected a whole number"),
        ("--gpus=many", "/x/go.sh, row 2, 'many' is no number of GPUs; expected 4 or a100:4"),
        ("--mem=16Q", "/x/go.sh, row 2, '16Q' is no amount of memory; expected 16G, 64000M or 64000"),
        ("--gres=gpu:a100:4:5", "/x/go.sh, row 2, 'gpu:a100:4:5' names no GPUs; expected gpu, gpu:4 or"),
        ("--time=2h", "/x/go.sh, row 2, '2h' is not a duration of sbatch; expected MINUTES"),
        ("--begin=soon", "/x/go.sh, row 2, 'soon' is not a moment of sbatch; expected now+1hour"),
        (
            "--dependency=singleton",
            "--dependency=singleton is nothing Rota can wait for; expected afterok:JOB",
        ),
        ("--dependency=after:17", "--dependency=after:17 is nothing Rota can wait for"),
        ("--job-name", "/x/go.sh, row 2, --job-name has no value"),
        ("train.py", "/x/go.sh, row 2: 'train.py' is no option; expected --name=value"),
        ("--comment='open", "/x/go.sh, row 2: no closing quotation"),
        ("--cpus=4", "/x/go.sh, row 2, --cpus may be --cpus-per-gpu or --cpus-per-task; write the one that"),
        ("--frobnicate=3", "/x/go.sh, row 2, --frobnicate is no option of sbatch"),
        ("--job-nam3=x", "/x/go.sh, row 2, --job-nam3 is no option of sbatch; did you mean --job-name?"),
        ("-z 3", "/x/go.sh, row 2, -z is no option of sbatch"),
        ("--hold=yes", "/x/go.sh, row 2, --hold takes no value; got 'yes'"),
        ("--requeue yes", "/x/go.sh, row 2: 'yes' is no option; expected --name=value"),
        (
            "--test-only",
            "/x/go.sh, row 2, --test-only cannot be had here: it would submit nothing; use",
        ),
        (
            "--input=data.txt",
            "--input=data.txt cannot be had here: a job reads /dev/null; write `exec < data.txt",
        ),
        (
            "--signal=KILL@5",
            "row 2, --signal=KILL@5: KILL cannot be a notice; expected one of CONT, HUP",
        ),
    ],
)
def test_wrong(line: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        script(line)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("option", sorted(IGNORED))
def test_ignored(option: str) -> None:
    """One sentence for each, with the line and a reason."""
    (warning,) = script(option if option in WITHOUT_VALUE else f"{option}=x").warnings
    assert warning == f"line 2: {option} is ignored: {IGNORED[option]}"


@pytest.mark.parametrize("option", sorted(REFUSED))
def test_refused(option: str) -> None:
    """Without it something else would run: nothing is submitted."""
    with pytest.raises(InputError) as caught:
        script(f"{option}=x")
    assert str(caught.value) == f"/x/go.sh, row 2, {option} cannot be had here: {REFUSED[option]}"


def test_other_resources() -> None:
    found = script("--gres=gpu:1,nvme:2", "--priority=TOP")
    assert found.warnings == [
        "line 2: --gres=nvme:2 is ignored: Rota hands out GPUs only",
        "line 3: --priority=TOP is ignored: name a number, higher wins",
    ]


@pytest.mark.parametrize("option", sorted(known_options()))
def test_any_beginning_that_one_option_has_means_it(option: str) -> None:
    """As getopt has it: the whole name always, and each beginning that no other option shares."""
    names = {*known_options(), *SYNONYMS}
    assert long_name(option, known_options()) == option
    for length in range(4, len(option)):
        short = option[:length]
        meant = {SYNONYMS.get(name, name) for name in names if name.startswith(short)}
        if short in names:
            continue
        if len(meant) == 1:
            assert long_name(short, known_options()) == option
        else:
            with pytest.raises(InputError, match=" or "):
                long_name(short, known_options())


def test_nodes_that_a_script_excludes() -> None:
    """It was said that a job does not choose its nodes, which it may."""
    assert script("--exclude=n3,n4").fields["exclude_nodes"] == ["n3", "n4"]
    brackets = script("-x n[3-4]")
    assert "exclude_nodes" not in brackets.fields
    assert brackets.warnings == ["line 2: --exclude=n[3-4] is ignored: name the nodes one by one: n3,n4"]


def test_each_option_is_called_something_in_one_place() -> None:
    """What is said of an option is either what does not count, and why, or what it is here."""
    assert not HERE.keys() & IGNORED.keys()
    assert said_of("-d") == said_of("--dependency") == "here it is --after"
    assert said_of("-J") == "here it is --name"
    assert said_of("-t") == "here it is --time"
    assert said_of("--qos") == "there are no qualities of service; use --priority"
    assert said_of("--lr") == ""


INPUTS: dict[str, dict[str, Any]] = {
    "guard.sh": {"gpus": 0, "time_s": 60.0, "command": ["guard.sh", "data/"]},
    "own_folder.sh": {"gpus": 0},
    "shortened.sh": {"array": "1-3", "memory_gib": 8.0, "name": "stage2", "time_s": 60.0},
    "signal_children.sh": {"notice_signal": "USR1", "notice_s": 20.0, "notice_to": "children", "time_s": 5.0},
    "digit_types.sh": {"gpus": 1, "gpu_types": ["2080Ti"], "time_s": 864000.0},
    "digit_types_mig.sh": {"gpus": 1, "gpu_types": ["1g.10gb"]},
    "digit_types_count.sh": {"gpus": 2, "gpu_types": ["3090"]},
}


@needs_shared
@pytest.mark.parametrize("name", INPUTS)
def test_scripts_that_came_out_wrong(name: str) -> None:
    found = read_sbatch(ROOT / "inputs" / name, ["data/"], "/x")
    spec = make_spec(found.fields)
    assert {field: getattr(spec, field) for field in INPUTS[name]} == INPUTS[name]
    assert found.warnings == []


@needs_shared
def test_a_script_from_windows() -> None:
    with pytest.raises(InputError, match="ends as on Windows"):
        read_sbatch(ROOT / "inputs/windows_ends.sh", [], "/x")


def test_short_names_lead_somewhere() -> None:
    assert {*SHORT.values(), *SYNONYMS.values(), *WITHOUT_VALUE, *VALUE_BEHIND_EQUALS} <= known_options()
    assert not {*READERS, *FLAGS} & {*IGNORED, *REFUSED}


def test_own_lines() -> None:
    """`#ROTA` lines take the options of `rota submit` and win."""
    text = "#!/bin/sh\n#ROTA --gpus-range 1:4 --trial\n#SBATCH --gpus=2\n#ROTA --time=1h\n./go\n"
    spec = make_spec(parse_sbatch(text, Path("/x/go.sh"), [], "/x").fields)
    assert (spec.gpus, spec.gpus_min, spec.gpus_max, spec.trial, spec.time_s) == (2, 1, 4, True, 3600)
    with pytest.raises(InputError, match=r"/x/go.sh, row 2, --gpu: 'gpu' is nothing a job has"):
        parse_sbatch("#!/bin/sh\n#ROTA --gpu 1\n", Path("/x/go.sh"), [], "/x")


def test_the_script_is_taken_as_it_is_now(tmp_path: Path) -> None:
    """Byte for byte, whatever runs it, also if the file goes before the job starts."""
    path = tmp_path / "go.py"
    text = "#!/usr/bin/env python3\n#SBATCH --gpus=1\nprint('ä')\x0c\n"
    path.write_text(text)
    found = read_sbatch(path, ["b c"], "/x")
    path.unlink()
    assert (found.fields["command"], found.fields["script"]) == (["go.py", "b c"], text)
    assert found.warnings == []


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"echo hello\n", "go.sh: does not say what runs it; expected a first line such as #!/bin/bash"),
        (b"#!\ntrue\n", "go.sh: names no program in line 1; expected #!/bin/bash"),
        (b"#!/bin/sh\n\0\n", "holds NUL characters; expected an sbatch script, as text"),
        (b"#!/bin/sh\n# gr\xf6\xdfe\n", "row 2: is no text in UTF-8; expected UTF-8; `iconv -f latin1"),
        (b"#!/bin/sh\r\ntrue\r\n", "row 1: ends as on Windows (\\r\\n); expected \\n: run `dos2unix "),
        (b"#!/bin/sh\ntrue\r\n", "row 2: ends as on Windows"),
        (
            b"#!/bin/sh\n" + b"#" * MOST_BYTES,
            "is too large; expected an sbatch script of at most 1 MiB;",
        ),
    ],
)
def test_no_script(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "go.sh"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_sbatch(path, [], "/x")
    assert sentence in str(caught.value)


@pytest.mark.parametrize("export", ["ALL", "NONE", "A,B=2"])
def test_export(export: str) -> None:
    assert script(f"--export={export}").export == export


def test_the_page_names_every_option() -> None:
    """docs/jobs.md says what becomes of each."""
    page = (Path(__file__).parents[2] / "docs/jobs.md").read_text(encoding="utf-8")
    assert [option for option in sorted(known_options()) if f"`{option}" not in page] == []
