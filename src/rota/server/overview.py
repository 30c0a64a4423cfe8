"""The cluster in one view: its troubles, its numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rota.model.reasons import listed, names_of
from rota.model.revision import are_other, full_version
from rota.server.cleanup import Tidier
from rota.server.metrics import Gauges
from rota.server.scheduler import Scheduler
from rota.server.store.failures import StoreError
from rota.server.store.rows import REAL, NodeRow
from rota.server.store.store import Store
from rota.server.views import STOPPED, node_state
from rota.wire.scaling import AutoscaleView
from rota.wire.views import ClusterStatus

LIVE = ("PENDING", "OFFERED", "RUNNING", "SUSPENDED", "COMPLETING")
"""States of jobs that are not over, or still have processes."""
MOST_NAMES = 50
"""Drained nodes that are named; `rota nodes` lists all."""


class Overview:
    """Implements `rota.server.api.services.ClusterService`; changes nothing."""

    def __init__(
        self,
        name: str,
        store: Store,
        scheduler: Scheduler,
        tidier: Tidier,
        silent: Callable[[], list[str]] = list,
        notes: Sequence[str] = (),
        autoscale: Callable[[], AutoscaleView | None] = lambda: None,
    ) -> None:
        """`silent` says which agents do not report, `notes` what was found at the start."""
        self._name, self._store, self._scheduler, self._tidier = name, store, scheduler, tidier
        self._silent, self._notes, self._autoscale = silent, notes, autoscale
        self._started_s = time.time()

    def status(self) -> ClusterStatus:
        """The operator's first view, with nodes that have just joined."""
        self._scheduler.standing.wait()
        nodes, totals = self._rows(), self._store.totals()
        return ClusterStatus(
            name=self._name,
            version=full_version(),
            started_s=self._started_s,
            policy=self._store.policies()[REAL].spec,
            nodes=len(nodes),
            gpus=_gpus(nodes),
            gpus_used=self._gpus_used(),
            pending=totals.get("PENDING", 0),
            running=totals.get("RUNNING", 0),
            suspended=totals.get("SUSPENDED", 0),
            finished=sum(count for state, count in totals.items() if state not in LIVE),
            store=self._store.where,
            autoscale=self._autoscale(),
            troubles=self._troubles(nodes),
            drained=drained(nodes),
        )

    def health(self) -> str:
        """What keeps the store, the scheduler or its policy from working; empty if nothing does."""
        try:
            self._store.facts()
        except StoreError:
            return "the store does not answer"
        if self._store.damage:
            return "the store is damaged; `rota status` says how"
        return self._scheduler.failing.for_strangers

    def now_s(self) -> float:
        """Unix seconds by the cluster's clock."""
        clock = self._scheduler.clock
        return clock.epoch_unix_s + clock()

    def _rows(self) -> list[NodeRow]:
        """The nodes as the scheduler knows them; views of ten thousand devices take long."""
        rows = list(self._scheduler.view.nodes.copy().values()) or self._store.nodes()
        return [row for row in rows if row.state != "forgotten"]

    def _gpus_used(self) -> float:
        """Shares of devices that are granted."""
        held = self._scheduler.view.holding.copy().values()
        return sum(float(attempt.grant[2]) * len(attempt.grant[1]) for attempt in held)

    def _troubles(self, nodes: Sequence[NodeRow]) -> list[str]:
        troubles = self._scheduler.troubles()
        damage = self._store.damage
        return [
            *([damage] if damage and not any(damage in said for said in troubles) else []),
            *troubles,
            *([said] if (said := self._scheduler.clock.trouble()) else []),
            *self._notes,
            *self._silent(),
            *(f"node {node.name} is lost: {node.reason}" for node in nodes if node.state == "lost"),
            *(f"node {node.name} is away: {STOPPED}" for node in nodes if node.state == "away"),
            *(said for node in nodes for said in _sick(node)),
            *of_other_sources(nodes),
            *self._tidier.troubles(),
        ]

    def gauges(self) -> Gauges:
        """This moment in numbers, jobs by tenant."""
        by_state: dict[str, dict[str, int]] = {"PENDING": {}, "RUNNING": {}, "SUSPENDED": {}}
        for (state, tenant), count in self._store.live_totals().items():
            if state in by_state:
                by_state[state][tenant] = count
        nodes, disks = self._rows(), dict(self._tidier.disks)
        busy = self._scheduler.view.holding_by_node()
        states: dict[str, int] = {}
        for node in nodes:
            state = node_state(node, is_busy=node.name in busy)
            states[state] = states.get(state, 0) + 1
        return Gauges(
            pending=by_state["PENDING"],
            running=by_state["RUNNING"],
            suspended=by_state["SUSPENDED"],
            gpus=_gpus(nodes),
            gpus_allocated=self._gpus_used(),
            nodes=states,
            disk_free_bytes={node: disk.free_bytes for node, disk in disks.items()},
            kept_bytes={node: disk.files_bytes + disk.checkpoints_bytes for node, disk in disks.items()},
        )


def drained(nodes: Sequence[NodeRow]) -> list[str]:
    """Nodes that were drained, for each person and reason: `gpu-1, gpu-2 (by ann: new power supply)`."""
    names: dict[str, list[str]] = {}
    for node in nodes:
        if node.state == "drained":
            by = f"by {node.drained_by}" if node.drained_by else ""
            names.setdefault(": ".join(part for part in (by, node.reason) if part), []).append(node.name)
    return [
        f"{names_of(theirs, MOST_NAMES)} ({why})" if why else names_of(theirs, MOST_NAMES)
        for why, theirs in names.items()
    ]


def _sick(node: NodeRow) -> list[str]:
    """A sentence for all devices of a node that are unhealthy for one reason, or for the whole node."""
    if node.info.trouble:
        return [f"node {node.name} takes no new jobs: {node.info.trouble}"] if node.state != "lost" else []
    devices: dict[str, list[str]] = {}
    for device in node.info.devices:
        if not device.healthy:
            devices.setdefault(device.why, []).append(f"{node.name}:{device.index}")
    return [
        f"{listed(names_of(names), 'device')} {'is' if len(names) == 1 else 'are'} unhealthy: {why}"
        for why, names in devices.items()
    ]


def of_other_sources(nodes: Sequence[NodeRow]) -> list[str]:
    """A sentence for each version of Rota that agents run and this controller does not."""
    ours, names = full_version(), dict[str, list[str]]()
    for node in nodes:
        if node.state != "lost" and node.info.version and are_other(node.info.version, ours):
            names.setdefault(node.info.version, []).append(node.name)
    return [
        f"{listed(names_of(theirs), 'node')} {'runs' if len(theirs) == 1 else 'run'} version {version}, the "
        f"controller {ours}: upgrade Rota where it is older, and restart it there"
        for version, theirs in names.items()
    ]


def _gpus(nodes: Sequence[NodeRow]) -> int:
    """Devices of the nodes that are there."""
    return sum(len(node.info.devices) for node in nodes if node.state != "lost")
