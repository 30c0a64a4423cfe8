"""Do the two worlds agree?  The same jobs, live on four CPU slots and simulated with the measured overheads.

python benchmarks/agreement.py [--jobs 22] [--policy fifo,srtf,tiresias,gandiva] [--write docs/agreement.md]

Each policy gets a fresh cluster in a temporary folder.  Jobs of 1 to 4 devices pace themselves (each step
sleeps), so that neighbouring slots do not disturb each other, and arrive at least a second apart.  Then the
simulator replays them: durations are what the steps add up to, costs the medians of what agents measured.
Compared are the order of starts, pairs closer than half a second aside, and mean completion time.  A second
table does the same with jobs that keep their CPU busy, without a bar: on a machine with fewer cores than
slots they do disturb each other.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from rota.client import Client
from rota.model.cluster import parse_cluster
from rota.model.jobs import JobTable, Truth
from rota.model.trace import Trace
from rota.wire.views import CostView
from rota.worlds.simulated.measured_costs import MeasuredCosts, measured_costs
from rota.worlds.simulated.run import Setting, run

ROOT = Path(__file__).parents[1]
PACED = ROOT / "examples" / "training" / "paced.py"
BUSY = (
    "import sys, time\n"
    "import rota.training as rota\n"
    "job = rota.attach(state={}, checkpoint_every_s=600.0)\n"
    "for step in job.steps(int(sys.argv[1])):\n"
    "    until = time.process_time() + float(sys.argv[2])\n"
    "    while time.process_time() < until:\n"
    "        pass\n"
    "    job.step(loss=1.0, samples=1)\n"
)
"""Steps of so much CPU time each."""
CLOSE_S = 0.5
BAR = 0.1
"""Most that mean completion times may differ, relatively."""
ROTATES = "gandiva"
"""Its turns depend on who came a moment earlier: its order of starts is not compared."""
STEP_S = 0.1
LIMIT_FACTOR = 10.0
"""Limits are ten times the duration, so that none is reached; the order by them is that by durations."""
POLICIES = {
    "fifo": "fifo",
    "srtf": "srtf",
    "tiresias": "tiresias:limits=12,promote=8",
    "gandiva": "gandiva:quantum=4",
}
"""Parameters that make the policies act within a minute."""


@dataclass(frozen=True)
class Plan:
    """What is submitted: arrival, devices and duration of each job."""

    arrive_s: list[float]
    gpus: list[int]
    steps: list[int]

    @property
    def duration_s(self) -> list[float]:
        return [steps * STEP_S for steps in self.steps]


def make_plan(jobs: int, seed: int) -> Plan:
    """Arrivals 1.0 to 1.8 s apart; most jobs are short and small."""
    rng = np.random.default_rng(seed)
    gaps = 1.0 + 0.8 * rng.random(jobs)
    gpus = rng.choice([1, 1, 1, 2, 2, 4], jobs)
    steps = rng.choice([15, 20, 30, 45, 80], jobs)
    return Plan(np.cumsum(gaps).round(2).tolist(), gpus.tolist(), steps.tolist())


@dataclass(frozen=True)
class Outcome:
    """Of each job, seconds since its submission."""

    start_s: list[float]
    finish_s: list[float]
    submit_s: list[float]
    preemptions: int

    @property
    def mean_jct_s(self) -> float:
        return statistics.fmean(f - s for f, s in zip(self.finish_s, self.submit_s, strict=True))


def live(plan: Plan, policy: str, *, busy: bool) -> tuple[Outcome, MeasuredCosts, dict[str, float]]:
    """Run the plan on real processes; also what was measured, and what it is to cost in a simulation."""
    with tempfile.TemporaryDirectory(prefix="rota-agree-") as folder:
        environment = {**os.environ, "ROTA_HOME": folder}
        rota = [sys.executable, "-m", "rota.cli.main"]
        up = [
            *rota,
            "up",
            "--devices",
            "cpu:4",
            "--policy",
            policy,
            "--min-run",
            "1s",
            "--knowledge",
            "duration=user",
        ]
        subprocess.run(up, env=environment, check=True, stdout=subprocess.DEVNULL)
        try:
            with Client(str(Path(folder) / "controller.sock"), timeout_s=90) as client:
                outcome = collect(client, submit_all(client, plan, busy=busy))
                views = [CostView.model_validate(one) for one in client.call("GET", "/v1/costs")]
                medians = {view.kind: view.seconds for view in views if view.workload is None}
                return outcome, measured_costs(views, "the live run"), medians
        finally:
            down = [*rota, "down", "--kill-jobs"]
            subprocess.run(down, env=environment, check=False, stdout=subprocess.DEVNULL)


def submit_all(client: Client, plan: Plan, *, busy: bool) -> list[str]:
    """Each job at its moment; its time limit tells `user` knowledge how long it runs."""
    began, ids = time.monotonic(), []
    for arrive_s, gpus, steps in zip(plan.arrive_s, plan.gpus, plan.steps, strict=True):
        time.sleep(max(0.0, began + arrive_s - time.monotonic()))
        program = ["-c", BUSY] if busy else [str(PACED)]
        sizes = [str(steps), str(STEP_S)] if busy else ["--steps", str(steps), "--step-s", str(STEP_S)]
        spec = {
            "command": [sys.executable, *program, *sizes],
            "gpus": gpus,
            "ranks": "node",
            "time_s": LIMIT_FACTOR * steps * STEP_S,
            "workdir": "/",
        }
        ids.append(client.call("POST", "/v1/jobs", {"spec": spec})["jobs"][0]["id"])
    return ids


def collect(client: Client, ids: list[str]) -> Outcome:
    """Wait for all of them."""
    submit, start, finish, preemptions = [], [], [], 0
    for id_ in ids:
        while client.call("GET", f"/v1/jobs/{id_}/wait", query={"wait_s": 60})["end_s"] is None:
            pass
    for id_ in ids:
        detail = client.call("GET", f"/v1/jobs/{id_}")
        job = detail["job"]
        if job["state"] != "COMPLETED":
            raise SystemExit(f"job {id_} ended as {job['state']}: {job['cause']}")
        submit.append(job["submit_s"])
        start.append(min(a["start_s"] for a in detail["attempts"] if a["start_s"] is not None))
        finish.append(job["end_s"])
        preemptions += job["preemptions"]
    return Outcome(start, finish, submit, preemptions)


def simulated(plan: Plan, outcome: Outcome, policy: str, costs: MeasuredCosts) -> Outcome:
    """The same jobs, submitted when they were, in the simulated world."""
    zero = min(outcome.submit_s)
    submit = [at_s - zero for at_s in outcome.submit_s]
    durations = plan.duration_s
    jobs = JobTable.build(
        [str(i + 1) for i in range(len(submit))],
        submit_s=submit,
        gpus=plan.gpus,
        limit_s=[LIMIT_FACTOR * seconds for seconds in durations],
    )
    trace = Trace(jobs=jobs, truth=Truth.build(durations), source="agreement", format="built")
    setting = Setting(costs=costs, knowledge={"duration": "user"})
    table = run(policy, trace, parse_cluster("1x4:cpu"), setting).jobs
    return Outcome(
        start_s=[at_s + zero for at_s in table["start_s"].to_list()],
        finish_s=[at_s + zero for at_s in table["finish_s"].to_list()],
        submit_s=outcome.submit_s,
        preemptions=int(table["preemptions"].sum()),
    )


def disagreements(one: Outcome, other: Outcome) -> list[tuple[int, int]]:
    """Pairs of jobs that start in one order here and in the other there, close ones aside."""
    found = []
    for a, b in itertools.combinations(range(len(one.start_s)), 2):
        here, there = one.start_s[a] - one.start_s[b], other.start_s[a] - other.start_s[b]
        if min(abs(here), abs(there)) >= CLOSE_S and here * there < 0:
            found.append((a + 1, b + 1))
    return found


def compare(plan: Plan, name: str, *, busy: bool) -> dict[str, Any]:
    """One line of a table."""
    policy = POLICIES[name]
    outcome, costs, medians = live(plan, policy, busy=busy)
    replay = simulated(plan, outcome, policy, costs)
    return {
        "policy": policy,
        "jobs": len(plan.gpus),
        "live_jct_s": round(outcome.mean_jct_s, 2),
        "simulated_jct_s": round(replay.mean_jct_s, 2),
        "difference": outcome.mean_jct_s / replay.mean_jct_s - 1.0,
        "live_preemptions": outcome.preemptions,
        "simulated_preemptions": replay.preemptions,
        "pairs_in_other_order": disagreements(outcome, replay),
        "costs_s": {kind: round(seconds, 3) for kind, seconds in medians.items()},
    }


def markdown(rows: list[dict[str, Any]]) -> str:
    """The lines as a table."""
    head = (
        "| policy | jobs | live JCT, s | simulated, s | difference | preemptions | pairs in another order |"
    )
    lines = [
        f"| `{row['policy']}` | {row['jobs']} | {row['live_jct_s']:.2f} | {row['simulated_jct_s']:.2f} | "
        f"{100 * row['difference']:+.1f} % | {row['live_preemptions']} / {row['simulated_preemptions']} | "
        f"{len(row['pairs_in_other_order'])} |"
        for row in rows
    ]
    return "\n".join([head, "|---|---:|---:|---:|---:|---:|---:|", *lines])


def shortfalls(row: dict[str, Any]) -> list[str]:
    """Why a line of the first table does not reach the bar; empty if it does."""
    found = []
    if abs(row["difference"]) > BAR:
        found.append(f"{row['policy']}: mean JCT differs by {100 * row['difference']:+.1f} %")
    if row["pairs_in_other_order"] and not row["policy"].startswith(ROTATES):
        found.append(f"{row['policy']}: pairs in another order: {row['pairs_in_other_order']}")
    return found


def machine(loads: list[float]) -> str:
    """Where and when this was measured."""
    cores = len(os.sched_getaffinity(0))
    return (
        f"Measured {date.today()} on {cores} cores, whose load average (others' work included) was "
        f"{min(loads):.1f} to {max(loads):.1f} when a run began."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=22)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", default=",".join(POLICIES))
    parser.add_argument("--no-busy", action="store_true", help="leave the second table out")
    parser.add_argument("--write", type=Path, help="put the tables between the marks of this page")
    given = parser.parse_args()
    plan = make_plan(given.jobs, given.seed)
    loads: list[float] = []
    tables: dict[str, list[dict[str, Any]]] = {}
    for kind in ("paced",) if given.no_busy else ("paced", "busy"):
        tables[kind] = []
        for name in given.policy.split(","):
            loads.append(os.getloadavg()[0])
            tables[kind].append(compare(plan, name, busy=kind == "busy"))
            print(markdown(tables[kind][-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(json.dumps(tables, indent=2))
    if given.write:
        write(
            given.write, {kind: markdown(rows) for kind, rows in tables.items()} | {"machine": machine(loads)}
        )
    missed = [sentence for row in tables["paced"] for sentence in shortfalls(row)]
    sys.exit("\n".join(missed) if missed else 0)


def write(page: Path, pieces: dict[str, str]) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- /NAME -->`."""
    text = page.read_text(encoding="utf-8")
    for name, piece in pieces.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, _, rest = text.partition(begin)
        _, mark, after = rest.partition(end)
        if not mark:
            raise SystemExit(f"{page} has no {begin} ... {end} to write between")
        text = f"{before}{begin}\n{piece}\n{end}{after}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
