"""Every example runs and prints what stands beside it; the example policy is a policy like any other."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from play import finishes, play, trace_of
from rota.testing import policy_contract

EXAMPLES = Path(__file__).parents[1] / "examples"
FAIR_START = runpy.run_path(str(EXAMPLES / "fair_start.py"))
HANDICAP = runpy.run_path(str(EXAMPLES / "handicap.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example(script: Path, tmp_path: Path) -> None:
    """The output is the file of the same name in .out; ROTA_BLESS=1 rewrites it."""
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = script.with_suffix(".out")
    if os.environ.get("ROTA_BLESS"):
        expected.write_text(done.stdout, encoding="utf-8")
    assert done.stdout == expected.read_text(encoding="utf-8")


def test_handicap_by_hand() -> None:
    """A holds all 4 GPUs.  B (4 GPUs) came first but counts as 4 h late; C (1 GPU, 1 h) goes before it."""
    policy = HANDICAP["handicap"](HANDICAP["HandicapParameters"](per_gpu_s=3600.0))
    ends = finishes(play(policy, "A 4x100 B 4x10@10 C 1x50@20", "1x4"))
    assert ends == {"A": 100.0, "C": 150.0, "B": 160.0}


def test_fair_start_by_hand() -> None:
    """C goes before B, whose tenant has had all GPUs.  E passes B and D, which do not fit; F does not.

    It comes when B has waited for 100 s, and as long as B or D waits so long nobody starts before them.
    """
    policy = FAIR_START["FairStart"](FAIR_START["FairStartParameters"](half_life_s=100.0, patience_s=100.0))
    jobs = "A 4x100 B 2x20@50 C 3x150@60 D 4x10@110 E 1x30@120 F 1x10@220"
    trace = trace_of(jobs, tenant=[0, 0, 1, 0, 0, 0], tenant_names=("x", "y"))
    ends = finishes(play(policy, trace, "1x4"))
    assert ends == {"A": 100.0, "B": 270.0, "C": 250.0, "D": 280.0, "E": 150.0, "F": 290.0}


test_fair_start_keeps_the_contract = policy_contract(FAIR_START["FairStart"])
test_handicap_keeps_the_contract = policy_contract(HANDICAP["handicap"])
