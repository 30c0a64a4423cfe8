"""One moment of a run, kept in a file and decided again elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from rota.api.run_options import ARGUMENTS
from rota.api.run_setup import make_setting
from rota.arguments import FILE, NUMBER, Argument, takes
from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.grants import Grant
from rota.model.trace import Trace
from rota.model.units import format_duration
from rota.scheduler.asking import asked
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.moments.frozen import Frozen, freeze, load, save
from rota.scheduler.policy import Policy, parse_policy
from rota.scheduler.reasons.waiting import explain
from rota.scheduler.snapshot import Snapshot
from rota.traces import read
from rota.traces.capacity import cluster_from
from rota.traces.describe import TRACE
from rota.traces.elsewhere import on_cluster
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.run import prepare
from rota.worlds.simulated.semantics import Semantics

_POLICY = Argument("policy", None, "a name such as 'tiresias' or 'fifo:skip=yes'")


class _Tap:
    """Passes everything on to a policy, and keeps its inputs at its first call at or after `at_s`."""

    def __init__(self, inner: Policy, name: str, at_s: float) -> None:
        self.inner = inner
        self.name = name
        self.at_s = at_s
        self.needs = inner.needs
        self.frozen: Frozen | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if self.frozen is None and snapshot.now >= self.at_s:
            self.frozen = freeze(snapshot, memory, self.name)
        return asked(self.inner, snapshot, memory)


@takes(trace=TRACE, path=FILE, policy=_POLICY, at_s=NUMBER, **ARGUMENTS)
def snapshot(
    trace: str | PathLike[str] | Trace,
    path: str | PathLike[str],
    *,
    policy: str,
    at_s: float,
    cluster: str | PathLike[str] | Cluster = "auto",
    format: str | None = None,
    knowledge: str | Mapping[str, str] | None = None,
    semantics: str | Semantics = "exact",
    costs: str | Costs | None = None,
    seed: int = 0,
) -> Frozen:
    """Run `policy` and write to `path` its inputs at its first decision at or after `at_s`.

    `at_s` counts from the trace's second 0.  Raises InputError if the run ends before.
    """
    if seed < 0:
        raise InputError.at(f"{seed} is no seed", field="--seed", expected="0 or above")
    whole = trace if isinstance(trace, Trace) else read(trace, format)
    where = cluster if isinstance(cluster, Cluster) else cluster_from(cluster, whole)
    whole, _ = on_cluster(whole, where)
    spec = parse_policy(policy)
    tap = _Tap(spec.make(), str(spec), at_s)
    setting = make_setting(semantics=semantics, costs=costs, knowledge=knowledge, seed=seed)
    loop, _ = prepare(tap, whole, where, setting)
    while tap.frozen is None and loop.step():
        pass
    if tap.frozen is None:
        raise InputError.at(
            f"the last decision of the run is before {format_duration(at_s)}",
            field="--at",
            expected=f"a moment up to {format_duration(loop.state.now)}",
        )
    save(tap.frozen, Path(path))
    return tap.frozen


@dataclass(frozen=True)
class Replayed:
    """A stored moment and a policy's decision at it."""

    policy: str
    stored_policy: str
    moment: Snapshot
    decision: Decision

    def to_dict(self) -> dict[str, Any]:
        """The moment in numbers and the decision by job id, as plain values."""
        decision, moment = self.decision, self.moment
        held = moment.grants
        begun = [grant for grant in decision.grants if grant.job not in held]
        moved = [grant for grant in decision.grants if grant.job in held and held[grant.job] != grant]
        leaving = {*decision.preempt, *decision.reject, *decision.offers, *decision.cancel}
        waiting = [row for row in moment.waiting.tolist() if row not in leaving] + list(decision.preempt)
        started = {grant.job for grant in begun}
        return {
            "policy": self.policy,
            "taken_under": self.stored_policy,
            "now_s": moment.now,
            "running": len(moment.running),
            "waiting": len(moment.waiting),
            "free_gpus": moment.occupancy.free.total,
            "start": [self._grant(grant) for grant in begun],
            "move": [self._grant(grant) for grant in moved],
            "preempt": [self._id(row) for row in decision.preempt],
            "reject": {self._id(row): why for row, why in decision.reject.items()},
            "offer": {self._id(row): offer._asdict() for row, offer in decision.offers.items()},
            "cancel": {self._id(row): why for row, why in decision.cancel.items()},
            "wait": {self._id(row): self._why(row) for row in waiting if row not in started},
            "wake_s": decision.wake.at_s,
        }

    def _id(self, row: int) -> str:
        return self.moment.jobs.table.ids[row]

    def _grant(self, grant: Grant) -> dict[str, object]:
        cluster = self.moment.cluster
        nodes = sorted({int(cluster.device_node[device]) for device in grant.devices})
        return {
            "job": self._id(grant.job),
            "gpus": len(grant.devices),
            "share": grant.share,
            "nodes": [cluster.node_names[node] for node in nodes],
        }

    def _why(self, row: int) -> list[dict[str, object]]:
        return [
            {
                "code": str(one.code),
                "requested": one.requested,
                "provided": one.provided,
                "sentence": one.sentence(),
            }
            for one in explain(self.moment, self.decision, row)
        ]


@takes(path=FILE, policy=_POLICY)
def replay(path: str | PathLike[str], policy: str | None = None) -> Replayed:
    """What `policy`, or the one that was asked then, decides at the moment stored in `path`."""
    stored = load(Path(path))
    spec = None if policy is None else parse_policy(policy)
    decision = stored.decide(spec)
    return Replayed(str(spec or stored.policy), stored.policy, stored.snapshot(), decision)
