"""Every example runs and prints what stands beside it; the example policy is a policy like any other."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from play import finishes, play
from rota.testing import policy_contract

EXAMPLES = Path(__file__).parents[1] / "examples"
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


test_handicap_keeps_the_contract = policy_contract(HANDICAP["handicap"])
