"""GPUs of each type that every tenant is due, before and after trading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Floats, Ints
from rota.scheduler.snapshot import Snapshot
from rota.solvers.market import Trader, take_spare, trade
from rota.solvers.water import fill_types
from rota.systems.gandiva_fair.parameters import GandivaFairParameters


@dataclass(frozen=True)
class TenantShares:
    """What each tenant with a live job is due."""

    place: dict[int, int]
    """Row of each tenant's code in `due`."""
    due: Floats
    """GPUs, [tenant, type]."""

    def of(self, tenant: int) -> Floats:
        """GPUs of each type."""
        own: Floats = self.due[self.place[tenant]]
        return own

    def totals(self) -> dict[int, float]:
        """GPUs of all types by tenant."""
        all_due = self.due.sum(axis=1).tolist()
        return {tenant: all_due[place] for tenant, place in self.place.items()}


class SharedCluster:
    """The GPUs of a cluster and the tenants of its live jobs."""

    def __init__(self, snapshot: Snapshot, rows: Ints, able: Floats, capacity: Floats) -> None:
        """`able` are the rates of the jobs `rows`, [row, type], 0 where one cannot run; `capacity` healthy
        GPUs, [type].
        """
        demand = snapshot.jobs.gpus[rows] * snapshot.jobs.gpu_share[rows]
        self.codes, owner = np.unique(snapshot.jobs.tenant[rows], return_inverse=True)
        self.capacity = capacity
        self._traders = _traders(len(self.codes), owner, demand, able)
        self._weights = _weights(snapshot, self.codes)

    def shares(self, parameters: GandivaFairParameters, boost: Mapping[int, float]) -> TenantShares:
        """What the tenants are due; the tickets of some count more or less by the factors `boost`."""
        traders, codes = self._traders, self.codes.tolist()
        weights = self._weights * np.array([boost.get(code, 1.0) for code in codes])
        due = fill_types(self.capacity, weights, traders.most, traders.usable)
        if len(self.capacity) > 1:
            spare = np.maximum(self.capacity - due.sum(axis=0), 0.0)
            due = take_spare(traders._replace(held=due), spare)
            if parameters.trade:
                due, _ = trade(traders._replace(held=due), parameters.reserve)
        return TenantShares({code: place for place, code in enumerate(codes)}, due)


def _traders(count: int, owner: Ints, demand: Floats, able: Floats) -> Trader:
    """Tenants with what their jobs can use; the speed of a type is the mean over their GPUs."""
    types = able.shape[1]
    runs = able > 0.0
    usable = np.zeros((count, types))
    np.add.at(usable, owner, demand[:, None] * runs)
    most = np.zeros(count)
    np.add.at(most, owner, demand * runs.any(axis=1))
    slowest = np.where(runs, able, np.inf).min(axis=1, keepdims=True)
    rates = np.zeros((count, types))
    np.add.at(rates, owner, np.where(runs, demand[:, None] * able / slowest, 0.0))
    rates = np.divide(rates, usable, out=np.zeros_like(rates), where=usable > 0.0)
    return Trader(np.zeros((count, types)), rates, most, usable)


def _weights(snapshot: Snapshot, codes: Ints) -> Floats:
    """Tickets of the tenants."""
    names, tenants = snapshot.jobs.table.tenant_names, snapshot.cluster.tenants
    return np.array([tenants.get(names[code]).weight for code in codes.tolist()], dtype=np.float64)


def rates_of(snapshot: Snapshot, rows: Ints) -> Floats:
    """Work per second of each job on each type, [row, type]."""
    rates: Floats = snapshot.know(Knowledge.THROUGHPUT)[rows]
    return rates
