"""The compiled build is the same program: every job ends at the same moment, to the last bit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SCRIPT = """
import hashlib, json, sys
import rota.table.free
from rota.model.cluster import parse_cluster
from rota.model.grants import Grant
from rota.scheduler.decision import Decision
from rota.scheduler.guard.check import is_plainly_sound
from rota.scheduler.policy import parse_policy
from rota.traces.generate import generate
from rota.worlds.simulated.run import Setting, prepare, run
from rota.worlds.simulated.semantics import PRESETS

cluster = parse_cluster("6x8")
trace = generate(1500, seed=3, load=1.1, cluster=cluster)
policies = ["fifo", "fifo:skip=yes", "srtf", "srsf", "las", "tiresias", "tiresias@authors", "gandiva"]
policies += ["philly", "pai", "edf"]
sums = {}
for policy in policies:
    record = run(policy, trace, cluster)
    tables = record.jobs["finish_s"].to_numpy().tobytes() + record.intervals["start_s"].to_numpy().tobytes()
    sums[policy] = hashlib.sha256(tables).hexdigest()
few = generate(150, seed=4, load=1.1, cluster=cluster)
clocks = [("gavel", "exact"), ("gavel@authors", "gavel"), ("gandiva@tiresias", "tiresias-gandiva")]
clocks += [("elasticflow@authors", "elasticflow-ef"), ("shockwave@authors", "shockwave")]
for policy, clock in clocks:
    record = run(policy, few, cluster, Setting(semantics=PRESETS[clock]))
    tables = record.jobs["finish_s"].to_numpy().tobytes() + record.intervals["start_s"].to_numpy().tobytes()
    sums[f"{policy} under {clock}"] = hashlib.sha256(tables).hexdigest()
loop, _ = prepare(parse_policy("fifo").make(), trace, cluster, Setting())
for row in range(len(trace)):
    if trace.jobs.gpus[row] == 1:
        break
    loop.state.submit(row)
loop.state.submit(row)
first = Grant(row, (0,))
plain = is_plainly_sound(loop.state, Decision({}, [first]))
loop.state.start(first)
counts = loop.state.occupancy.counts_hosts
print(json.dumps({"file": rota.table.free.__file__, "sums": sums, "plain": plain, "counts": counts}))
"""


def checksums(path: Path) -> dict[str, object]:
    """What SCRIPT prints when `path` comes first on the path of imports."""
    environment = os.environ | {"PYTHONPATH": str(path)}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, cwd=path, capture_output=True, text=True, check=True
    )
    printed: dict[str, object] = json.loads(run.stdout)
    return printed


@pytest.mark.soak
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler (cc) on this machine")
def test_compiled_modules_give_the_same_answers(tmp_path: Path) -> None:
    """Building with ROTA_COMPILE=1 changes the speed of a run and nothing else."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(
        build, cwd=source, env=os.environ | {"ROTA_COMPILE": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    compiled, interpreted = checksums(source / "src"), checksums(ROOT / "src")
    assert not str(compiled["file"]).endswith(".py"), "the hot modules were not compiled"
    assert str(interpreted["file"]).endswith(".py")
    assert compiled["sums"] == interpreted["sums"]
    for build in (compiled, interpreted):  # where the quick ways are missed, nothing but time is lost
        assert (build["plain"], build["counts"]) == (True, False)
