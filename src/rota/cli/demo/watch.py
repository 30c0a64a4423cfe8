"""One round of the demo: jobs are submitted on time and followed to their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rota.cli.demo.cluster import DemoCluster
from rota.cli.demo.plan import DemoPlan
from rota.errors import WorldError

LOOK_S = 0.3
ROUND_S = 300.0
"""Most seconds of a round."""
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"})


@dataclass
class Round:
    """The jobs of one policy, as they were last seen."""

    policy: str
    plan: DemoPlan
    began_s: float = 0.0
    """Unix time."""
    ids: list[str] = field(default_factory=list)
    """By number of the plan."""
    views: dict[str, dict[str, Any]] = field(default_factory=dict)
    """`JobView` by id."""
    done: dict[str, float] = field(default_factory=dict)
    """Part of its steps that a job has reported, 0 to 1."""
    preempted: set[str] = field(default_factory=set)
    """Jobs that were seen without slots before their end."""

    @property
    def is_submitted(self) -> bool:
        return len(self.ids) == len(self.plan.jobs)

    @property
    def is_over(self) -> bool:
        return self.is_submitted and all(self.views[id]["state"] in ENDED for id in self.ids)

    @property
    def running(self) -> list[str]:
        return [id for id in self.ids if self.views[id]["state"] == "RUNNING"]

    def name(self, id: str) -> str:
        """Name of a job."""
        return self.plan.jobs[self.ids.index(id)].name

    def view(self, number: int) -> dict[str, Any]:
        """Job `number` of the plan."""
        return self.views[self.ids[number]]

    def jct_s(self, number: int) -> float:
        """Submission to end of a job that has ended."""
        view = self.view(number)
        return float(view["end_s"] - view["submit_s"])

    def wait_s(self, number: int) -> float:
        """All time without slots of a job that has ended."""
        return float(self.view(number)["waiting_s"])


Show = Callable[[Round, list[str]], None]
"""Shows the present state of a round, and lines about changes."""


def play(
    cluster: DemoCluster,
    plan: DemoPlan,
    policy: str,
    show: Show,
    incident: Callable[[Round], None] | None = None,
) -> Round:
    """Submit the plan's jobs and follow them; `incident` comes once, when all are submitted and some run."""
    played = Round(policy, plan, time.time())
    while True:
        seconds = time.time() - played.began_s
        if seconds > ROUND_S:
            raise WorldError(
                f"the demo's jobs have not ended after {seconds:.0f} s; is this machine very busy?"
            )
        _submit(cluster, played, seconds)
        show(played, _look(cluster, played))
        if played.is_over:
            return played
        if incident is not None and played.is_submitted and played.running:
            incident(played)
            incident = None
        time.sleep(LOOK_S)


def _submit(cluster: DemoCluster, played: Round, seconds: float) -> None:
    for number in range(len(played.ids), len(played.plan.jobs)):
        if played.plan.jobs[number].at_s > seconds:
            return
        played.ids.append(cluster.submit(played.plan.spec(number, cluster.folder)))


def _look(cluster: DemoCluster, played: Round) -> list[str]:
    """Read the jobs again; a line for each that has changed."""
    before, played.views = played.views, cluster.jobs(played.ids)
    lines = []
    for id, view in played.views.items():
        old = before.get(id, {}).get("state", "")
        if old == "RUNNING" and view["state"] in ("PENDING", "SUSPENDED"):
            played.preempted.add(id)
        if change := _change(old, view, id in played.preempted):
            seconds = time.time() - played.began_s
            slots = f"{view['gpus']} slot{'s' if view['gpus'] > 1 else ' '}"
            lines.append(f"{seconds:6.1f} s  {view['name']:<8} {slots}  {change}")
        if view["state"] == "RUNNING":
            progress = cluster.attempt(id).get("progress") or {}
            played.done[id] = progress.get("steps", 0) / (progress.get("total_steps") or 1)
        elif view["state"] == "COMPLETED":
            played.done[id] = 1.0
    return lines


def _change(old: str, view: dict[str, Any], was_preempted: bool) -> str:
    """What happened to a job between two looks; empty for nothing that matters."""
    state = view["state"]
    if state == old or (state == "COMPLETING" and old == "RUNNING"):
        return ""
    if state in ENDED:
        return f"{state.lower()}, {view['end_s'] - view['submit_s']:.1f} s after its submission"
    if state == "RUNNING":
        return "goes on where it was" if was_preempted else "runs"
    if old in ("RUNNING", "COMPLETING"):
        return "gives its slots to others, and keeps what it has done"
    return "" if old else "waits"
