"""Who names a folder that is not there is told at once, not when the job has waited for hours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rota.client.missing_here import missing_here
from rota.wire.job import JobSpec


def said(folder: Path, **fields: Any) -> list[str]:
    spec = JobSpec(**{"command": ["true"], "workdir": str(folder), **fields})
    return [sentence.replace(str(folder), "HERE") for sentence in missing_here(spec)]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, []),
        ({"output": "x.out", "error": "logs/%x-%j.err"}, []),
        ({"output": "/dev/null"}, []),
        ({"output": "logs/%N/x"}, []),  # who knows which folders are there
        ({"output": "/nodir/x"}, ["output=/nodir/x: there is no folder /nodir, and none is made, on this"]),
        ({"output": "gone/%j"}, ["output=gone/%j: there is no folder HERE/gone,"]),
        ({"output": "gone/%j/x"}, ["output=gone/%j/x: there is no folder HERE/gone,"]),
        ({"error": "gone/x"}, ["error=gone/x: there is no folder HERE/gone,"]),
        ({"output": "logs"}, ["output=logs: HERE/logs is a folder on this machine"]),
        ({"output": "file/x"}, ["output=file/x: there is no folder HERE/file,"]),
        ({"workdir": "/nodir", "output": "x"}, ["workdir=/nodir: there is no such folder on this machine"]),
    ],
)
def test_what_is_not_there(tmp_path: Path, fields: dict[str, Any], says: list[str]) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "file").touch()
    sentences = said(tmp_path, **fields)
    assert len(sentences) == len(says)
    assert all(one.startswith(part) for one, part in zip(sentences, says, strict=True))
    assert all(one.endswith("the job ends at once") for one in sentences)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        # what is typed                     what its first word is
        ("sh -c true", ""),
        ("./go.sh", ""),
        ("30m -- true", "there is no command '30m' on this machine; on a node"),  # `--time 1h 30m`
        (
            "train.py",
            "there is no command 'train.py' on this machine, only a file: put its interpreter before it, or",
        ),
        (
            "./train.py",
            "'./train.py' is no program on this machine: `chmod +x` it, or put its interpreter before it; on",
        ),
        ("./gone.sh", "there is no file './gone.sh' to run on this machine; on a node"),
        ("./logs", "'./logs' is no program on this machine: "),
    ],
)
def test_a_program_that_would_not_start(tmp_path: Path, command: str, says: str) -> None:
    """Everything else was looked at beforehand but the one thing that each job has."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "train.py").touch(mode=0o644)
    (tmp_path / "go.sh").touch(mode=0o755)
    sentences = said(tmp_path, command=command.split(), env={"PATH": os.environ["PATH"]})
    assert [one[: len(says)] for one in sentences] == [says] * bool(says)


def test_nobody_can_tell_where_another_path_or_folder_counts(tmp_path: Path) -> None:
    assert said(tmp_path, command=["nowhere"]) == []
    here = said(tmp_path, command=["./nowhere"], workdir="/nodir")
    assert len(here) == 1
    assert here[0].startswith("workdir=/nodir")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_what_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o555)
    (tmp_path / "file").touch(mode=0o444)
    assert said(tmp_path, output="theirs/x")[0].startswith(
        "output=theirs/x: you may not write in HERE/theirs"
    )
    assert said(tmp_path, output="theirs/%j")[0].startswith(
        "output=theirs/%j: you may not write in HERE/theirs"
    )
    assert said(tmp_path, output="file")[0].startswith("output=file: you may not write HERE/file")
