"""What policies go by and neither the trace nor a table says is named, with what to give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rota

BARE = "job_id,submit_s,duration_s,gpus\n1,0,100,2\n2,10,50,4\n3,20,30,8\n"
SIZES = "jobs that may change their size"
DEADLINES = "deadlines"
CASES = {
    "afs": ("speeds by number of GPUs", SIZES),
    "chronus": ("what lying apart costs", DEADLINES),
    "deadline_sla": (DEADLINES,),
    "drf": ("several tenants",),
    "edf": (DEADLINES,),
    "edf:size=fastest": ("speeds by number of GPUs", SIZES, DEADLINES),
    "elan": ("speeds by number of GPUs", SIZES),
    "elasticflow": ("speeds by number of GPUs", SIZES, DEADLINES),
    "gandiva": ("how busy a job keeps its GPUs", SIZES),
    "gandiva_fair": ("speeds by GPU type", "several tenants"),
    "gavel": ("speeds by GPU type",),
    "optimus": ("speeds by number of GPUs", "speeds by parameter servers", SIZES),
    "pai": ("groups of jobs that are alike",),
    "pollux": ("goodput by size and batch", SIZES),
    "prerun:policy=pollux": ("goodput by size and batch", SIZES),
    "shockwave": ("batch sizes that change",),
    "sia": ("goodput by size and batch", SIZES),
    "synergy": ("speeds by cores and memory",),
    "themis": ("speeds by GPU type", "speeds by number of GPUs", "what lying apart costs", SIZES),
    "tiresias:skew=yes": ("models whose tensors are known",),
    "fifo": (),
    "srtf": (),
    "tiresias": (),
    "pai:estimate=user": (),
}


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    (tmp_path / "bare.csv").write_text(BARE)
    return tmp_path / "bare.csv"


@pytest.mark.parametrize(("policy", "lacks"), CASES.items())
def test_on_a_bare_trace(policy: str, lacks: tuple[str, ...], bare: Path) -> None:
    result = rota.simulate(bare, cluster="2x4", policies=[policy])
    without: Any = result[policy].provenance.get("without", {})
    assert tuple(without) == lacks
    said = [one for one in result.terms if "went without" in one]
    assert len(said) == bool(lacks)
    for one in said:
        assert one.startswith(policy)
        assert all(name in one for name in lacks)
        assert all(give in one for give in without.values())


@pytest.mark.parametrize(
    ("policy", "options", "left"),
    [
        ("afs", {"elastic": "1:4"}, ("speeds by number of GPUs",)),
        ("elasticflow", {"deadlines": "0.5:1.5"}, ("speeds by number of GPUs", SIZES)),
        ("gandiva", {"slowdowns": "utilisation=0.5", "elastic": "1:4"}, ()),
        ("chronus", {"slowdowns": "spread=0.8", "deadlines": "0.5:1.5"}, ()),
    ],
)
def test_what_is_given_is_not_lacking(
    policy: str, options: dict[str, Any], left: tuple[str, ...], bare: Path
) -> None:
    result = rota.simulate(bare, cluster="2x4", policies=[policy], **options)
    without: Any = result[policy].provenance.get("without", {})
    assert tuple(without) == left


def test_what_is_measured_of_a_world_that_has_none_is_lacking(bare: Path) -> None:
    result = rota.simulate(bare, cluster="2x4", policies=["gavel"], knowledge="throughput=measured")
    without: Any = result["gavel"].provenance["without"]
    assert without == {"speeds by GPU type": "--throughput FILE"}


def test_policies_that_lack_the_same_share_a_line(bare: Path) -> None:
    result = rota.simulate(bare, cluster="2x4", policies=["sia", "pollux"])
    (said,) = (one for one in result.terms if "went without" in one)
    assert said == (
        "sia and pollux went without goodput by size and batch and jobs that may change their size: give "
        "--goodput FILE and --elastic 1:64."
    )
