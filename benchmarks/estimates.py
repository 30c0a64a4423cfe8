"""How good estimated starts are: what `rota why` would have said of jobs that waited, against what came.

    python benchmarks/estimates.py TRACE=CLUSTER [...] [--policy fifo ...] [--moments 150] [--json FILE]

A trace is replayed under each policy.  At moments drawn from one seed, after the first fifth of the jobs, a
job that waits is asked about, with the knowledge that a controller would have had: the jobs
that had completed by then, and limits.  The truth is when the same replay next ran it.

Limits are those of the trace.  Where it has none they are made up, from the same seed: every series of jobs
(of one size, each soon after the last) belongs to one of twenty users, each of whom asks for a multiple of
the run time by a habit of their own (1.5 to 6, each job varies by a third), rounded up to what people ask
for: 1, 2, 4, 8, 12 hours, days.

Beside ours stand two estimates that any site has: jobs ahead in the queue times the mean run time over the
jobs that run at once, and a look ahead with every time limit taken at its word.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rota.errors import RotaError
from rota.forecast.estimate import estimate_start
from rota.forecast.futures import ForecastRequest
from rota.forecast.remaining import Durations, Past, RemainingSource, series_of
from rota.model.cluster import parse_cluster
from rota.model.columns import Floats
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.moments.frozen import Frozen, freeze
from rota.scheduler.policy import PolicySpec, parse_policy
from rota.scheduler.snapshot import Snapshot, table_of
from rota.table.state import State
from rota.traces import read
from rota.traces.elsewhere import on_cluster
from rota.worlds.simulated.run import Setting, prepare

POLICIES = ("fifo", "fifo:backfill=easy", "srtf", "tiresias", "las")
PAST = 20_000
WARM = 0.2
"""Part of the jobs that have come before anybody asks."""
USERS = 20
MENU_H = np.array([1, 2, 4, 8, 12, 24, 48, 72, 120, 168, 336, 720, 2160], dtype=float)


def with_limits(trace: Trace, seed: int) -> Trace:
    """The trace with made-up users and limits where it states no limit."""
    if not np.isnan(trace.jobs.limit_s).all():
        return trace
    rng = np.random.default_rng([seed, 7])
    user = rng.integers(0, USERS, len(trace.jobs))[series_of(trace.jobs, np.arange(len(trace.jobs)))]
    habit = rng.uniform(1.5, 6.0, USERS)
    wanted_h = trace.truth.duration_s / 3600.0 * habit[user] * np.exp(rng.normal(0.0, 1 / 3, len(user)))
    place = np.minimum(np.searchsorted(MENU_H, wanted_h), len(MENU_H) - 1)
    limit_s = np.maximum(MENU_H[place] * 3600.0, trace.truth.duration_s)
    jobs = replace(
        trace.jobs, limit_s=limit_s, tenant=user, tenant_names=tuple(f"user{i}" for i in range(USERS))
    )
    return replace(trace, jobs=jobs)


@dataclass(frozen=True)
class Question:
    """A job that waits, at a moment."""

    moment: Frozen
    row: int
    now_s: float
    past: Past
    ahead: int
    mean_run_s: float
    running: int


class Asking:
    """A policy, and at some of its decisions a question about a job that goes on waiting."""

    def __init__(self, spec: PolicySpec, chance: float, seed: int, warm: int) -> None:
        self.inner = spec.make()
        self.name, self.needs = str(spec), self.inner.needs
        self.levers = getattr(self.inner, "levers", frozenset())
        self.chance, self.warm = chance, warm
        self.rng = np.random.default_rng([seed, 11])
        self.asked: Question | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        state = table_of(snapshot)
        drawn = self.rng.random() < self.chance and state.submitted >= self.warm
        moment = freeze(snapshot, memory, self.name) if drawn and len(snapshot.waiting) else None
        decision = self.inner.decide(snapshot, memory)
        if moment is not None:
            self.asked = self._question(moment, state, {grant.job for grant in decision.grants})
        return decision

    def _question(self, moment: Frozen, state: State, started: set[int]) -> Question | None:
        waiting = np.sort(state.waiting.rows)
        left = [row for row in waiting.tolist() if row not in started]
        if not left:
            return None
        row = int(self.rng.choice(left))
        past = Past.of(state)
        return Question(
            moment=moment,
            row=row,
            now_s=state.now,
            past=past,
            ahead=1 + int((waiting < row).sum()),
            mean_run_s=float(past.run_s.mean()) if len(past.run_s) else 3600.0,
            running=max(len(state.running), 1),
        )


def answers(asked: Question, samples: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Seconds until the start: middle, low and high, by who says so."""
    naive = asked.ahead * asked.mean_run_s / asked.running
    said = {"position x mean run": (naive, naive, naive)}
    for name, source, past in (
        ("limits at their word", RemainingSource.USER, Past.none()),
        ("limits and past", RemainingSource.USER, asked.past),
        ("predicted", RemainingSource.PREDICTED, asked.past),
    ):
        request = ForecastRequest(Durations(source, past), samples=samples, seed=seed)
        start = estimate_start(asked.moment, asked.row, request).start
        moments = [start.at_s, start.low_s, start.high_s]
        at, low, high = (np.inf if one is None else one - asked.now_s for one in moments)
        said[name] = (at, at, at) if start.low_s is None and start.high_s is None else (at, low, high)
    return said


def ask(trace: Trace, cluster: str, policy: str, moments: int, samples: int, seed: int) -> dict[str, Floats]:
    """One row for each question: true seconds until the start, then middle, low, high, by who says so."""
    whole, _ = on_cluster(trace, parse_cluster(cluster))
    policy_asked = Asking(parse_policy(policy), 1.0, seed, int(WARM * len(whole.jobs)))
    policy_asked.chance = _chance(whole, cluster, policy, moments, seed)
    loop, recorder = prepare(policy_asked, whole, parse_cluster(cluster), _setting(policy_asked))
    made: list[tuple[Question, Mapping[str, tuple[float, float, float]]]] = []
    while loop.step():
        if policy_asked.asked is not None and len(made) < 2 * moments:
            made.append(
                (replace(policy_asked.asked, moment=EMPTY), answers(policy_asked.asked, samples, seed))
            )
            policy_asked.asked = None
    truth = np.array([next_start_s(recorder.intervals, one) - one.now_s for one, _ in made])
    names = made[0][1] if made else {}
    return {"truth": truth, **{name: np.array([said[name] for _, said in made]) for name in names}}


def next_start_s(intervals: Sequence[Any], asked: Question) -> float:
    """When the job asked about has begun to run after the question."""
    return min(start for grant, start, *_ in intervals if grant.job == asked.row and start >= asked.now_s)


EMPTY = Frozen("", {}, {})


def _setting(policy: Any) -> Setting:
    """Nobody is told the truth."""
    told = {kind.value: "predicted" for kind in policy.needs if kind.value == "duration"}
    return Setting(knowledge=told)


def _chance(trace: Trace, cluster: str, policy: str, moments: int, seed: int) -> float:
    """Such that about so many decisions are asked about, found by a run that asks nothing."""
    counter = Asking(parse_policy(policy), 0.0, seed, 0)
    loop, _ = prepare(counter, trace, parse_cluster(cluster), _setting(counter))
    eligible = 0
    while loop.step():
        state = loop.state
        eligible += state.submitted >= WARM * len(trace.jobs) and len(state.waiting) > 0
    return min(1.0, moments / max(eligible, 1))


@dataclass(frozen=True)
class Score:
    """What somebody's estimates are worth; seconds."""

    who: str
    questions: int
    median_error_s: float
    p90_error_s: float
    bias_s: float
    """Mean of what was said minus what came."""
    covered: float
    """Share of truths inside the stated range."""
    width_s: float
    """Median width of the range."""


def score(who: str, truth: Floats, said: Floats) -> Score:
    at, low, high = np.minimum(said.T, 1e9)
    error = np.abs(at - truth)
    inside = (truth >= low - 1.0) & (truth <= high + 1.0)
    width = float(np.median(high - low))
    return Score(
        who, len(truth), float(np.median(error)), float(np.quantile(error, 0.9)),
        float(np.mean(at - truth)), float(inside.mean()), width,
    )  # fmt: skip


def show(scores: Sequence[Score]) -> None:
    for one in scores:
        hours = [one.median_error_s, one.p90_error_s, one.bias_s, one.width_s]
        told = "".join(f"{value / 3600.0:>9.2f}" for value in hours)
        print(f"  {one.who:<24}{one.questions:>6}{told}{one.covered:>9.0%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("inputs", nargs="+", metavar="TRACE=CLUSTER")
    parser.add_argument("--policy", nargs="+", default=POLICIES)
    parser.add_argument("--moments", type=int, default=150)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    for each in asked.inputs:
        if "=" not in each:
            parser.error(f"{each!r} names no cluster; expected TRACE=CLUSTER such as jobs.csv=12x8")
    if min(asked.moments, asked.samples) < 1:
        parser.error("--moments and --samples are 1 or more")
    if asked.json and not asked.json.absolute().parent.is_dir():  # before hours of work
        parser.error(f"--json: there is no folder {asked.json.parent}")
    try:
        results = measured(asked)
    except RotaError as error:
        parser.error(str(error))
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1))


def measured(asked: argparse.Namespace) -> list[dict[str, object]]:
    """Errors of all estimates on each trace under each policy, printed as they come."""
    results: list[dict[str, object]] = []
    for each in asked.inputs:
        file, cluster = each.rsplit("=", 1)
        trace = with_limits(read(file), asked.seed)
        for policy in asked.policy:
            columns = ask(trace, cluster, policy, asked.moments, asked.samples, asked.seed)
            truth = columns.pop("truth")
            if not len(truth):
                print(f"{Path(file).name} on {cluster} under {policy}: nobody waited at these moments")
                continue
            print(
                f"{Path(file).name} on {cluster} under {policy}: median true wait "
                f"{np.median(truth) / 3600.0:.2f} h\n"
                f"  {'':<24}{'asked':>6}{'median':>9}{'p90':>9}{'bias':>9}{'width':>9}{'covered':>9}"
            )
            scores = [score(who, truth, said) for who, said in columns.items()]
            show(scores)
            results += [{"trace": Path(file).name, "policy": policy, **vars(one)} for one in scores]
    return results


if __name__ == "__main__":
    main()
