"""Who names a folder that is not there is told at once, not when the job has waited for hours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rota.client.missing_here import missing_here
from rota.wire.job import JobSpec


def said(folder: Path, **fields: Any) -> list[str]:
    spec = JobSpec(command=["true"], **{"workdir": str(folder), **fields})
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
