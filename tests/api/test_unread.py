"""Options that change nothing under the chosen policies are said, not passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rota

JOBS = "job_id,submit_s,gpus,duration_s,limit_s,workload\na,0,1,100,200,x\nb,1,2,50,200,y\n"


def remarks(tmp_path: Path, policies: str, **options: Any) -> list[str]:
    (tmp_path / "jobs.csv").write_text(JOBS)
    results = rota.simulate(
        str(tmp_path / "jobs.csv"), cluster="1x4", policies=policies, workers=1, **options
    )
    return [remark for remark in results.remarks if "no effect" in remark]


@pytest.mark.parametrize(
    ("policies", "options", "expected"),
    [
        (
            "fifo",
            {"knowledge": "scaling=measured"},
            "--knowledge scaling=measured has no effect: fifo reads",
        ),
        ("fifo,drf", {"knowledge": "duration=user"}, "fifo, drf read no duration."),
        (
            "fifo",
            {"elastic": "1:4"},
            "--elastic has no effect: fifo gives each job the GPUs",
        ),
        ("srtf,fifo", {"accept": "1.5"}, "--accept has no effect: srtf, fifo offer nobody a later"),
        ("fifo", {"site_policy": "srtf"}, "--site-policy srtf has no effect: no recorded start is there"),
    ],
)
def test_what_nobody_reads_is_said(
    tmp_path: Path, policies: str, options: dict[str, Any], expected: str
) -> None:
    (said,) = remarks(tmp_path, policies, **options)
    assert expected in said


@pytest.mark.parametrize(
    ("policies", "options"),
    [
        ("fifo,srtf", {"knowledge": "duration=user"}),
        ("fifo,afs", {"elastic": "1:4"}),
        ("fifo,elasticflow", {"accept": "1.5"}),
        ("synergy:policy=srtf", {"knowledge": "duration=user"}),
        ("fifo:backfill=easy", {"knowledge": "duration=user"}),
    ],
)
def test_what_one_of_them_reads_is_not(tmp_path: Path, policies: str, options: dict[str, Any]) -> None:
    """Also through a policy around another one, and in the variants that read more."""
    assert remarks(tmp_path, policies, **options) == []


def test_pairs_nobody_puts_together(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(
        "workload,other,rate,other_rate,utilisation,other_utilisation\nx,y,.8,.8,,\n"
    )
    given = {"pairs": str(tmp_path / "pairs.csv")}
    assert remarks(tmp_path, "fifo", **given) == ["--pairs has no effect: fifo puts no two jobs on one GPU."]
    assert remarks(tmp_path, "gandiva", **given) == []
