"""Rules that concern all grants together, once everything the decision releases is released.

Grants are entered one by one, in the order of the decision; one that breaks a rule is not entered, so that
those after it are judged without it.  Only what the decision touches is counted: of devices and nodes that
it leaves alone nothing can have become wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rota.model.columns import Row
from rota.model.grants import Grant, Reservation, Role, is_unlimited
from rota.scheduler.decision import Decision
from rota.scheduler.guard.host_claims import HostClaims
from rota.scheduler.guard.rules import Breach, breach, name_of
from rota.table.occupancy import EPSILON
from rota.table.state import State


def check_claims(state: State, decision: Decision) -> list[Breach]:
    """Breaches of grants that are sound one by one."""
    named = [*decision.preempt, *decision.cancel, *(grant.job for grant in decision.grants)]
    gone = [state.grants[row] for row in named if row in state.grants]
    claims = _Claims(state, gone)
    limited = state.occupancy.counts_hosts or not all(map(is_unlimited, decision.grants))
    hosts = HostClaims(state, gone) if limited else None
    broken: list[Breach] = []
    for grant in decision.grants:
        breaches = claims.breaches_of(grant)
        if not breaches and hosts is not None:
            breaches = hosts.breaches_of(grant)
        if breaches:
            broken += breaches
            continue
        claims.enter(grant)
        if hosts is not None:
            hosts.enter(grant)
    reservations = state.reservations if decision.reservations is None else decision.reservations
    return broken + _check_reserved(state, decision.grants, reservations) if reservations else broken


# -- devices ---------------------------------------------------------------------------------------


class _Claims:
    """Shares and company on the devices that a decision touches."""

    def __init__(self, state: State, gone: Sequence[Grant]) -> None:
        self.state = state
        self.freed: dict[int, float] = {}
        self.left: set[tuple[int, int]] = set()
        """Devices with the jobs that leave them."""
        self.added: dict[int, float] = {}
        self.company: dict[int, list[Grant]] = {}
        """New grants on each device."""
        for grant in gone:
            for device in grant.devices:
                self.freed[device] = self.freed.get(device, 0.0) + _counted(grant)
                self.left.add((device, grant.job))

    def staying(self, device: int) -> float:
        """Shares claimed by grants that the decision leaves alone."""
        return self.state.occupancy.claimed[device] - self.freed.get(device, 0.0)

    def breaches_of(self, grant: Grant) -> list[Breach]:
        """Breaches of the first rule that `grant` would break on one of its devices."""
        for device in grant.devices:
            total = self.staying(device) + self.added.get(device, 0.0) + _counted(grant)
            if total > 1.0 + EPSILON:
                return [self._oversubscribed(grant, device, total)]
            other = self._forbidden(grant, device)
            if other is not None:
                return [self._not_alone(grant, device, other)]
        return []

    def enter(self, grant: Grant) -> None:
        for device in grant.devices:
            self.added[device] = self.added.get(device, 0.0) + _counted(grant)
            self.company.setdefault(device, []).append(grant)

    def _forbidden(self, grant: Grant, device: int) -> int | None:
        """A job on `device` that `grant` may not run beside: one of the two wants to be alone."""
        alone = grant.role == Role.ALONE
        for other in self.company.get(device, ()):
            if alone or other.role == Role.ALONE:
                return other.job
        sharers = self.state.occupancy.sharers.get(device)
        if sharers is None:
            # A job that claims a device and is not among those that share it is alone there.
            return self._holder(device) if self.staying(device) > EPSILON else None
        if not alone:
            return None
        return next((row for row in sharers if (device, row) not in self.left), None)

    def _holder(self, device: int) -> int | None:
        return next((g.job for g in self.state.grants.values() if device in g.devices), None)

    def _oversubscribed(self, grant: Grant, device: int, total: float) -> Breach:
        node = self.state.cluster.node_names[self.state.cluster.device_node[device]]
        message = f"would claim device {device} (node {node}), whose shares would sum to {total:g}"
        return breach(self.state, "oversubscribed", grant.job, message)

    def _not_alone(self, grant: Grant, device: int, other: int) -> Breach:
        name = self.state.jobs.ids[other]
        if grant.role == Role.ALONE:
            message = f"is to be alone on device {device}, where {name} stays"
        else:
            message = f"is to share device {device}, where {name} is alone"
        return breach(self.state, "alone", grant.job, message)


def _counted(grant: Grant) -> float:
    """What a grant counts against each of its devices."""
    return 0.0 if grant.role == Role.OPPORTUNISTIC else grant.share


# -- reservations ----------------------------------------------------------------------------------


def check_offers(state: State, decision: Decision) -> list[Breach]:
    """Offers that could not be accepted, or that were not asked for."""
    broken = []
    for row, offer in decision.offers.items():
        if row not in state.waiting:
            continue
        if not state.now < offer.deadline_s < math.inf:
            broken.append(breach(state, "offer", row, f"is offered the moment {offer.deadline_s:g} s"))
        elif not offer.until_s > state.now:
            broken.append(breach(state, "offer", row, f"is made an offer valid until {offer.until_s:g} s"))
        elif math.isnan(state.jobs.deadline_s.item(row)):
            broken.append(breach(state, "offer", row, "has no deadline, and is offered another"))
    return broken


def check_reservations(state: State, decision: Decision) -> list[Breach]:
    """Breaches of the reservations that a decision makes."""
    broken = []
    owners: dict[int, int] = {}
    for reservation in decision.reservations or ():
        row = reservation.job
        if row not in state.waiting and row not in state.running:
            broken.append(
                breach(state, "reservation", row, "neither waits nor runs, and devices are kept for it")
            )
        for device in reservation.devices:
            if not 0 <= device < state.cluster.gpus:
                message = f"has device {device} kept for it, which does not exist"
                broken.append(breach(state, "reservation", row, message))
            elif owners.setdefault(device, row) != row:
                other = name_of(state, owners[device])
                message = f"has device {device} kept for it, which is kept for {other}"
                broken.append(breach(state, "reservation", row, message))
    return broken


def are_plainly_kept(state: State, grants: Iterable[Grant], kept: Iterable[Reservation]) -> bool:
    """True if what is `kept` is for jobs that wait or run, no device twice, and none of it is in `grants`."""
    waiting, running = state.waiting, state.running
    devices: set[int] = set()
    count = 0
    for reservation in kept:
        row: Row = reservation[0]
        if not (row in waiting or row in running):
            return False
        count += len(reservation[1])
        devices.update(reservation[1])
    if len(devices) != count or (devices and not 0 <= min(devices) <= max(devices) < state.cluster.gpus):
        return False
    return all(devices.isdisjoint(grant[1]) for grant in grants)


def _check_reserved(state: State, grants: Iterable[Grant], kept: Iterable[Reservation]) -> list[Breach]:
    """A job may stay where it is although the place is reserved; no other job may come."""
    owner = {d: r.job for r in kept if r.until_s > state.now for d in r.devices}
    broken = []
    for grant in grants:
        present = state.grants.get(grant.job)
        held = present.devices if present else ()
        taken = [d for d in grant.devices if owner.get(d, grant.job) != grant.job and d not in held]
        if taken:
            name = name_of(state, owner[taken[0]])
            message = f"is granted device {taken[0]}, reserved for {name}"
            broken.append(breach(state, "reserved", grant.job, message))
    return broken
