"""What happens in the middle of the rounds: a question, and a crash."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import typer

from rota.cli.demo.cluster import DemoCluster
from rota.cli.demo.watch import LOOK_S, Round
from rota.errors import WorldError

MINIMUM_DOWN_S = 1.0
"""Least seconds without a controller, long enough to see that jobs run on."""
FOUND_S = 60.0


@dataclass(frozen=True)
class WhatIfAnswer:
    """The answer of `rota whatif` at a moment of a round."""

    at_s: float
    """Seconds after the start of the round."""
    policy: str
    """The other policy."""
    stayed_s: dict[str, float]
    """Job -> Unix time of its end if nothing changes."""
    swapped_s: dict[str, float]
    """Job -> Unix time of its end under the other policy, from this moment on."""
    took_s: float


def ask(cluster: DemoCluster, played: Round, policy: str) -> WhatIfAnswer:
    """Ask what would become of the jobs under `policy` from now on."""
    question = {"policies": [policy], "duration": "user"}
    answer = cluster.client.call("POST", "/v1/whatif", question, timeout_s=60.0, idempotent=True)
    label = next(line["policy"] for line in answer["summary"] if line["policy"] != "now")
    return WhatIfAnswer(
        at_s=time.time() - played.began_s,
        policy=policy,
        stayed_s=_ends(answer["rows"], "now"),
        swapped_s=_ends(answer["rows"], label),
        took_s=answer["took_s"],
    )


def _ends(rows: list[dict[str, Any]], policy: str) -> dict[str, float]:
    return {r["job"]: r["finish_s"] for r in rows if r["policy"] == policy and r["finish_s"] is not None}


@dataclass(frozen=True)
class Alive:
    """A running job: its attempt, processes and progress."""

    name: str
    attempt: int
    processes: tuple[int, ...]
    steps: int


@dataclass(frozen=True)
class Crash:
    """A controller that was killed, and the jobs before and after."""

    killed: int
    """Process id."""
    down_s: float
    before: dict[str, Alive]
    after: dict[str, Alive]
    """Jobs that ran when the controller was back."""
    gone: dict[str, str] = field(default_factory=dict)
    """The fate of jobs that did not continue in their processes, as clauses."""

    @property
    def kept(self) -> list[str]:
        """Jobs with an unchanged attempt and unchanged processes."""
        return [
            id
            for id, was in self.before.items()
            if (now := self.after.get(id)) and (now.attempt, now.processes) == (was.attempt, was.processes)
        ]


def crash(cluster: DemoCluster, played: Round) -> Crash:
    """kill -9 of the controller, a moment without any, `rota up`."""
    before = _alive(cluster, played.running)
    killed = cluster.kill_controller()
    began = time.monotonic()
    time.sleep(MINIMUM_DOWN_S)
    cluster.up()
    down_s = time.monotonic() - began
    after = _progressed(cluster, before)
    crashed = Crash(killed, down_s, before, after)
    lost = [id for id in before if id not in crashed.kept]
    views = cluster.jobs(lost) if lost else {}
    return replace(crashed, gone={id: _became(cluster, id, view, before[id]) for id, view in views.items()})


def _became(cluster: DemoCluster, id: str, view: dict[str, Any], was: Alive) -> str:
    """The fate of a job with other processes after the crash, as a clause."""
    name, number = view["name"] or f"job {id}", int((cluster.attempt(id) or {}).get("number", 0))
    why = f" ({view['cause']})" if view["cause"] else ""
    if number != was.attempt:
        return f"{name} was started again as attempt {number}{why}"
    if view["state"] == "COMPLETED":
        return f"{name} had come to its end before it was looked at again"
    return f"{name} is {view['state'].lower()}{why}"


def _progressed(cluster: DemoCluster, before: dict[str, Alive]) -> dict[str, Alive]:
    """The jobs that still run, once all of them have done further steps."""
    until = time.monotonic() + FOUND_S
    while True:
        after = _alive(cluster, list(before))
        if all(now.steps > before[id].steps for id, now in after.items()):
            return after
        if time.monotonic() > until:
            raise WorldError("the jobs that ran when the controller was killed make no progress any more")
        time.sleep(LOOK_S)


def _alive(cluster: DemoCluster, ids: list[str]) -> dict[str, Alive]:
    alive = {}
    for id, view in cluster.jobs(ids).items():
        attempt = cluster.attempt(id)
        if view["state"] == "RUNNING" and attempt:
            number = int(attempt["number"])
            steps = int((attempt.get("progress") or {}).get("steps", 0))
            alive[id] = Alive(view["name"], number, tuple(cluster.processes(id, number)), steps)
    return alive


def tell(crash: Crash) -> None:
    """Print the fate of the jobs."""
    typer.echo(
        f"    the controller, process {crash.killed}, is killed; {crash.down_s:.1f} s later `rota up` is done"
    )
    for id, was in crash.before.items():
        where = f"attempt {was.attempt}, process {'/'.join(map(str, was.processes))}, step {was.steps}"
        if id in crash.kept:
            now = f"the same attempt and process, step {crash.after[id].steps}"
        elif id in crash.after:
            now = f"attempt {crash.after[id].attempt} now, step {crash.after[id].steps}"
        else:
            now = "ended by itself or made room meanwhile"
        typer.echo(f"    {was.name:<8} was {where}; it is {now}")
