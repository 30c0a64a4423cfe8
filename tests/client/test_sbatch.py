"""sbatch scripts: the job they become, and what is said about the lines that do not count."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rota.client.fields import make_spec
from rota.client.sbatch import LARGEST_INLINE, Script, parse_sbatch, read_sbatch
from rota.client.sbatch_options import FLAGS, HERE, IGNORED, READERS, SHORT, said_of
from rota.errors import InputError

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
    assert (spec.ranks, spec.command[:3], spec.command[4:]) == (
        "node",
        ["/bin/bash", "-l", "-c"],
        ["/x/go.sh", "--lr", "0.1"],
    )
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
        (["--nice"], {"priority": -100}),
        (["--nice=-50"], {"priority": 50}),
        (["--priority=7"], {"priority": 7}),
        (["-d afterok:17:18,afterany:19"], {"after": [("17", "ok"), ("18", "ok"), ("19", "any")]}),
        (["--dependency=afternotok:17_3"], {"after": [("17_3", "failed")]}),
        (["--no-requeue"], {"retries": 0}),
        (["-H"], {"hold": True}),
        (["--signal=SIGTERM@90"], {"grace_s": 90}),
        (["--signal=10"], {"notice_signal": "USR1", "notice_s": 60}),
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
    ],
)
def test_wrong(line: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        script(line)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("option", sorted(IGNORED))
def test_ignored(option: str) -> None:
    """One sentence for each, with the line and a reason."""
    (warning,) = script(f"{option}=x").warnings
    assert warning == f"line 2: {option} is ignored: {IGNORED[option]}"


def test_unknown_and_other_resources() -> None:
    found = script("--frobnicate=3 --gres=gpu:1,nvme:2", "--signal=KILL@5", "--priority=TOP")
    assert found.warnings == [
        "line 2: --frobnicate is ignored: Rota does not know it",
        "line 2: --gres=nvme:2 is ignored: Rota hands out GPUs only",
        "line 3: --signal=KILL@5 is ignored: a notice is one of CONT, HUP, INT, URG, USR1, USR2, WINCH",
        "line 4: --priority=TOP is ignored: name a number, higher wins",
    ]


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


def test_short_names_lead_somewhere() -> None:
    assert set(SHORT.values()) <= {*IGNORED, *READERS, *FLAGS}


def test_own_lines() -> None:
    """`#ROTA` lines take the options of `rota submit` and win."""
    text = "#!/bin/sh\n#ROTA --gpus-range 1:4 --trial\n#SBATCH --gpus=2\n#ROTA --time=1h\n./go\n"
    spec = make_spec(parse_sbatch(text, Path("/x/go.sh"), [], "/x").fields)
    assert (spec.gpus, spec.gpus_min, spec.gpus_max, spec.trial, spec.time_s) == (2, 1, 4, True, 3600)
    with pytest.raises(InputError, match=r"/x/go.sh, row 2, --gpu: 'gpu' is nothing a job has"):
        parse_sbatch("#!/bin/sh\n#ROTA --gpu 1\n", Path("/x/go.sh"), [], "/x")


@pytest.mark.slow
def test_the_script_runs_as_it_is_now(tmp_path: Path) -> None:
    """The text is taken at submission; Slurm's variables, arguments and line numbers are as expected."""
    path = tmp_path / "go.sh"
    path.write_text(
        '#!/bin/sh\n#SBATCH --job-name=a\necho "$SLURM_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_JOB_ID $1"\n'
        'echo "$SLURM_JOB_NAME $SLURM_SUBMIT_DIR $SLURM_PROCID"\nnot-a-command\n'
    )
    found = read_sbatch(path, ["b c"], "/x")
    path.unlink()
    said = {"ROTA_JOB_ID": "17_3", "ROTA_ARRAY_INDEX": "3", "ROTA_ARRAY_JOB_ID": "17", "RANK": "1"}
    done = subprocess.run(
        found.fields["command"],
        env={"PATH": os.environ["PATH"], **found.fields["env"], **said},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "17_3 3 17 b c\na /x 1\n"
    assert ": 5: " in done.stderr or "line 5" in done.stderr
    assert done.returncode == 127


def test_no_shell(tmp_path: Path) -> None:
    """Other interpreters, and very long scripts, read the file when the job starts; a warning says so."""
    path = tmp_path / "go.py"
    path.write_text("#!/usr/bin/env python3\n#SBATCH --gpus=1\nprint(1)\n")
    found = read_sbatch(path, ["x"], "/x")
    assert found.fields["command"] == ["/usr/bin/env", "python3", str(path), "x"]
    assert found.warnings == [
        f"{path} is read when the job starts: leave it as it is until then"
        " (and SLURM_JOB_ID is not set: use ROTA_JOB_ID)"
    ]
    long = "#!/bin/sh\n" + "#" * LARGEST_INLINE + "\ntrue\n"
    found = parse_sbatch(long, Path("/x/go.sh"), [], "/x")
    assert found.fields["command"] == ["/bin/sh", "/x/go.sh"]
    assert found.warnings == ["/x/go.sh is read when the job starts: leave it as it is until then"]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"echo hello\n", "row 1: does not say by which interpreter it runs; expected a first line such as"),
        (b"#!\ntrue\n", "row 1: names no interpreter; expected #!/bin/bash"),
        (b"#!/bin/sh\n\0\n", "is no script; expected text of at most 4 MiB"),
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
    assert [option for option in (*READERS, *FLAGS, *IGNORED) if f"`{option}" not in page] == []
