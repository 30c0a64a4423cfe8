"""Elastic policies beside rigid ones on real data-parallel training, and the same jobs in the simulator.

python benchmarks/elastic.py [--jobs 6] [--policy fifo,tiresias,afs,...] [--write docs/elastic.md]

Each policy gets a fresh cluster of four CPU slots in a temporary folder.  Jobs are torch programs with a rank
for each slot, DDP over gloo (examples/training/ddp_noisy.py): they ask for 1, 2 or 4 slots, run on 1 to 4,
choose their batches themselves unless the policy names them, and end when they have learnt what was asked.  A
step sleeps as long as its samples take, so that neighbouring slots disturb each other little.

Then the simulator replays them, many times over, since live starts do not all take as long.  The seconds of a
step are those that the programs sleep with what backward pass, all-reduce and optimizer took on top (means of
the live run), the noise scale is the median that programs measured.  A start takes what starts on so many
slots took, times a factor drawn from those that were seen; a program says that it can be resized only when
it has started, and keeps its slots after its last step for as long as torch takes to come apart.  What is
compared is the mean completion time.

A run takes about two minutes for each policy.  To measure one at a time, and to write the page at the end:

    python benchmarks/elastic.py --policy afs --rows rows.json
    python benchmarks/elastic.py --policy "" --rows rows.json --write docs/elastic.md
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from agreement import machine, write

from rota.api.run_setup import make_setting
from rota.client import Client
from rota.knowledge.goodput import BatchLimits, GoodputProfile, GoodputTable, Noise, StepFit, TrainingPhase
from rota.model.cluster import parse_cluster
from rota.model.grants import Can
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.wire.views import CostView
from rota.worlds.simulated.abilities import LATE
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.measured_costs import MeasuredCosts, measured_costs
from rota.worlds.simulated.run import run
from rota.worlds.simulated.semantics import Semantics
from rota.worlds.simulated.speed_goodput import GoodputSpeed

PROGRAM = Path(__file__).parents[1] / "examples" / "training" / "ddp_noisy.py"
SLOTS = 4
BAR = 0.1
"""Most that mean completion times may differ, relatively."""
BATCH, MOST = 32, 256
NOISE = 128.0
STEP_S, SAMPLE_S = 0.02, 0.004
"""A step on one slot at the first batch sleeps 0.148 s."""
FIRST_STEPS = 16
"""A program that chooses its batch looks for a better one after so many steps (`rota.training.tuning`)."""
DRAWS = 20
"""Replays, each with other starts."""
POLICIES = {
    "fifo": "fifo",
    "tiresias": "tiresias:limits=120,promote=8",
    "afs": "afs",
    "pollux": "pollux:interval_s=20,restart_s=15",
    "sia": "sia:round_s=20,restart_s=15",
}
"""With parameters that make them act within minutes."""


@dataclass(frozen=True)
class Plan:
    """What is submitted: arrival, slots and steps at the first batch of each job."""

    arrive_s: list[float]
    gpus: list[int]
    steps: list[int]


def make_plan(jobs: int, seed: int) -> Plan:
    """Arrivals 6 to 14 s apart; 20 to 90 s of work on one slot at the first batch for most."""
    rng = np.random.default_rng(seed)
    gaps = rng.uniform(6.0, 14.0, jobs)
    gpus, steps = rng.choice([1, 1, 2, 4], jobs), rng.choice([200, 300, 450, 700], jobs)
    return Plan(
        np.cumsum(gaps).round(1).tolist(), gpus.tolist(), (steps * np.sqrt(gpus)).astype(int).tolist()
    )


@dataclass(frozen=True)
class Measured:
    """What the live programs told of steps and noise."""

    alone_s: float
    """Seconds of a step beyond what it sleeps, on one slot."""
    sync_s: float
    """More of them on several."""
    noise: float
    exit_s: float
    """From the last word of a program that is done to the end of its processes."""


@dataclass(frozen=True)
class Outcome:
    """Of one run; moments are Unix times."""

    submit_s: list[float]
    start_s: list[float]
    finish_s: list[float]
    resizes: int
    batches: list[float]
    """Largest batch of each job that was seen."""
    starts: Sequence[tuple[int, float]] = ()
    """Of each start: slots, and seconds from the agent's first move to the first step."""

    @property
    def mean_jct_s(self) -> float:
        return statistics.fmean(f - s for f, s in zip(self.finish_s, self.submit_s, strict=True))


def live(plan: Plan, policy: str) -> tuple[Outcome, MeasuredCosts, Measured]:
    """Run the plan on real processes."""
    with tempfile.TemporaryDirectory(prefix="rota-elastic-") as folder:
        environment = {**os.environ, "ROTA_HOME": folder}
        rota = [sys.executable, "-m", "rota.cli.main"]
        up = [*rota, "up", "--devices", f"cpu:{SLOTS}", "--policy", policy, "--min-run", "5s"]
        subprocess.run(up, env=environment, check=True, stdout=subprocess.DEVNULL)
        try:
            with Client(str(Path(folder) / "controller.sock"), timeout_s=90) as client:
                ids = submit_all(client, plan)
                seen = watch(client, ids)
                outcome = collect(client, ids, seen)
                views = [CostView.model_validate(one) for one in client.call("GET", "/v1/costs")]
                return outcome, measured_costs(views, "the live run"), measured(seen, outcome.finish_s)
        finally:
            down = [*rota, "down", "--kill-jobs"]
            subprocess.run(down, env=environment, check=False, stdout=subprocess.DEVNULL)


def submit_all(client: Client, plan: Plan) -> list[str]:
    """Each job at its moment."""
    began, ids = time.monotonic(), []
    for arrive_s, gpus, steps in zip(plan.arrive_s, plan.gpus, plan.steps, strict=True):
        time.sleep(max(0.0, began + arrive_s - time.monotonic()))
        pace = ["--step-s", str(STEP_S), "--sample-s", str(SAMPLE_S), "--noise", str(NOISE)]
        sizes = [
            "--steps",
            str(steps),
            "--batch-size",
            str(BATCH),
            "--local-most",
            str(MOST),
            "--every-s",
            "5",
        ]
        spec = {
            "command": [sys.executable, str(PROGRAM), *sizes, *pace],
            "gpus": gpus,
            "gpus_min": 1,
            "gpus_max": SLOTS,
            "batch_size": BATCH,
            "batch_min": BATCH,
            "batch_max": MOST,
            "workload": "noisy",
            "workdir": "/",
        }
        ids.append(client.call("POST", "/v1/jobs", {"spec": spec})["jobs"][0]["id"])
    return ids


Seen = dict[str, list[dict[str, Any]]]
"""By job what its program said, with the slots on which it said it."""


def watch(client: Client, ids: list[str]) -> Seen:
    """Look at all jobs every second until they are over."""
    seen: Seen = {id_: [] for id_ in ids}
    left = list(ids)
    while left:
        for id_ in list(left):
            detail = client.call("GET", f"/v1/jobs/{id_}")
            for attempt in detail["attempts"][-1:]:
                if attempt["progress"] is not None and attempt["progress"]["step_s"]:
                    said = {**attempt["progress"], "slots": len(attempt["devices"])}
                    seen[id_].append({**said, "attempt": attempt["number"]})
            if detail["job"]["end_s"] is not None:
                left.remove(id_)
        time.sleep(1.0)
    return seen


def measured(seen: Seen, finish_s: list[float]) -> Measured:
    """Means over all steps that were seen; of the noise the median of what was said."""
    beyond_s, steps = {True: 0.0, False: 0.0}, {True: 0, False: 0}
    for told in seen.values():
        for before, after in itertools.pairwise(told):
            did = after["steps"] - before["steps"]
            if did > 0 and all(before[key] == after[key] for key in ("attempt", "batch_size")):
                slept_s = STEP_S + SAMPLE_S * after["batch_size"] / after["slots"]
                beyond_s[after["slots"] == 1] += after["at_s"] - before["at_s"] - did * slept_s
                steps[after["slots"] == 1] += did
    each = {alone: max(0.0, beyond_s[alone] / steps[alone]) for alone in steps if steps[alone]}
    alone_s = each.get(True, each.get(False, 0.0))
    noises = [one["gradient_noise"] for told in seen.values() for one in told]
    last = [told[-1]["at_s"] for told in seen.values()]
    return Measured(
        alone_s,
        max(0.0, each.get(False, alone_s) - alone_s),
        statistics.median(noise for noise in noises if noise is not None),
        statistics.fmean(max(0.0, end - at) for end, at in zip(finish_s, last, strict=True)),
    )


def collect(client: Client, ids: list[str], seen: Seen) -> Outcome:
    """How it ended."""
    submit, start, finish, resizes, starts = [], [], [], 0, []
    for id_ in ids:
        detail = client.call("GET", f"/v1/jobs/{id_}")
        job = detail["job"]
        if job["state"] != "COMPLETED":
            raise SystemExit(f"job {id_} ended as {job['state']}: {job['cause']}")
        attempts = [one for one in detail["attempts"] if one["start_s"] is not None]
        submit.append(job["submit_s"])
        start.append(min(one["start_s"] for one in attempts))
        finish.append(job["end_s"])
        sizes = [len(one["devices"]) for one in attempts]
        resizes += sum(one != other for one, other in itertools.pairwise(sizes))
        for slots, took in zip(sizes, (one["costs"] for one in attempts), strict=True):
            if "start" in took and "ready" in took:
                starts.append((slots, took["start"] + max(took["ready"] - took.get("step", 0.0), 0.0)))
    batches = [max(one["batch_size"] for one in seen[i]) for i in ids]
    return Outcome(submit, start, finish, resizes, batches, starts)


def start_costs(outcome: Outcome, costs: MeasuredCosts) -> Costs:
    """What starts took, by slots, and how they scattered; a return takes a start, and what leaving took."""
    slots, seconds = np.array(outcome.starts, dtype=float).T
    each_s = float(np.polyfit(slots, seconds, 1)[0]) if len({*slots.tolist()}) > 1 else 0.0
    each_s = max(each_s, 0.0)  # one rank more imports torch once more, on the same cores
    first_s = max(float((seconds - each_s * slots).mean()), 0.0)
    took = CostModel(first_s, each_s)
    scatter = seconds / np.maximum(first_s + each_s * slots, 1e-3)
    return Costs(start=took, restore=took, checkpoint=costs.checkpoint, scatter=tuple(scatter.tolist()))


def simulated(plan: Plan, outcome: Outcome, policy: str, costs: Costs, took: Measured, seed: int) -> Outcome:
    """The same jobs, submitted when they were, in the simulated world."""
    zero, count = min(outcome.submit_s), len(plan.gpus)
    jobs = JobTable.build(
        [str(i + 1) for i in range(count)],
        submit_s=[at_s - zero for at_s in outcome.submit_s],
        gpus=plan.gpus,
        gpus_min=[1] * count,
        gpus_max=[SLOTS] * count,
        batch_size=[float(BATCH)] * count,
        batch_min=[float(BATCH)] * count,
        batch_max=[float(MOST)] * count,
        workload=[0] * count,
        workload_names=("noisy",),
    )
    truth = Truth.build([math.nan] * count, iterations=[float(steps) for steps in plan.steps])
    trace, cluster = Trace(jobs=jobs, truth=truth, source="elastic", format="built"), parse_cluster("1x4:cpu")
    knows_goodput = policy.startswith(("pollux", "sia"))
    speed = GoodputSpeed(
        trace, cluster, GoodputTable({"noisy": profile(took, knows_goodput)}, "the live run")
    )
    knowledge = {"scaling": "measured", **({"goodput": "measured"} if knows_goodput else {})}
    setting = make_setting(
        costs=costs,
        speed=speed,
        knowledge=knowledge,
        can={"*": Can.ALL | LATE},
        semantics=Semantics("live", lag_s=took.exit_s),
        seed=seed,
    )
    table = run(policy, trace, cluster, setting).jobs
    return Outcome(
        submit_s=outcome.submit_s,
        start_s=[at_s + zero for at_s in table["start_s"].to_list()],
        finish_s=[at_s + zero for at_s in table["finish_s"].to_list()],
        resizes=int(table["resizes"].sum()),
        batches=[],
    )


def profile(took: Measured, is_named: bool) -> GoodputProfile:
    """The programs as they were measured.

    One whose batch nobody names keeps the first one for some steps: as if larger ones were worth nothing.
    """
    sync_s = max(took.sync_s, 1e-4)
    fit = StepFit(STEP_S + took.alone_s, SAMPLE_S, sync_s, 0.0, sync_s, 0.0, 1.0)
    phases = (TrainingPhase(math.inf, Noise(1.0, took.noise / BATCH)),)
    if not is_named:
        phases = (TrainingPhase(float(FIRST_STEPS * BATCH), Noise(1.0, 0.0)), *phases)
    return GoodputProfile(BatchLimits(BATCH, MOST, 1, MOST), {"*": fit}, phases)


def compare(plan: Plan, name: str) -> dict[str, Any]:
    """One line of the table."""
    policy = POLICIES.get(name, name)
    outcome, measured_, took = live(plan, policy)
    costs = start_costs(outcome, measured_)
    replays = [simulated(plan, outcome, policy, costs, took, seed) for seed in range(DRAWS)]
    simulated_s = statistics.fmean(replay.mean_jct_s for replay in replays)
    return {
        "policy": policy,
        "jobs": len(plan.gpus),
        "live_jct_s": outcome.mean_jct_s,
        "simulated_jct_s": simulated_s,
        "simulated_spread_s": statistics.pstdev(replay.mean_jct_s for replay in replays),
        "difference": outcome.mean_jct_s / simulated_s - 1.0,
        "live_makespan_s": max(outcome.finish_s) - min(outcome.submit_s),
        "resizes": (outcome.resizes, statistics.fmean(replay.resizes for replay in replays)),
        "batch": statistics.median(outcome.batches),
        "start_s": statistics.median(seconds for _, seconds in outcome.starts),
        "starts": outcome.starts,
        "measured": took.__dict__,
    }


def markdown(rows: list[dict[str, Any]]) -> str:
    """The lines as a table; ratios are to the first policy, in one run."""
    first = rows[0]["live_jct_s"]
    lines = [
        "| policy | live JCT, s | to the first | simulated, s | difference | resizes | batch | start, s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| `{row['policy']}` | {row['live_jct_s']:.1f} | {row['live_jct_s'] / first:.2f} | "
        f"{row['simulated_jct_s']:.1f} ± {row['simulated_spread_s']:.1f} | "
        f"{100 * row['difference']:+.1f} % | "
        f"{row['resizes'][0]} / {row['resizes'][1]:.1f} | {row['batch']:g} | {row['start_s']:.1f} |"
        for row in rows
    ]
    return "\n".join(lines)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As the policies are listed, whatever the order in which they were measured; others come last."""
    listed = list(POLICIES.values())
    return sorted(
        rows, key=lambda row: listed.index(row["policy"]) if row["policy"] in listed else len(listed)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", default=",".join(POLICIES))
    parser.add_argument(
        "--rows", type=Path, help="JSON file of rows, for one policy at a time: new ones are added"
    )
    parser.add_argument("--write", type=Path, help="put the table between the marks of this page")
    given = parser.parse_args()
    plan = make_plan(given.jobs, given.seed)
    rows = json.loads(given.rows.read_text()) if given.rows and given.rows.exists() else []
    for name in filter(None, given.policy.split(",")):
        load = os.getloadavg()[0]
        row = {**compare(plan, name), "load": load}
        rows = in_order([*(old for old in rows if old["policy"] != row["policy"]), row])
        print(json.dumps(row), file=sys.stderr, flush=True)
        if given.rows:
            given.rows.write_text(json.dumps(rows, indent=1))
    print(markdown(rows))
    if given.write:
        write(given.write, {"elastic": markdown(rows), "machine": machine([row["load"] for row in rows])})
    missed = [row["policy"] for row in rows if abs(row["difference"]) > BAR]
    sys.exit(f"mean JCT differs by more than 10 %: {', '.join(missed)}" if missed else 0)


if __name__ == "__main__":
    main()
