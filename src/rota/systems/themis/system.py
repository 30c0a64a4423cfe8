"""Themis — serve the apps that suffer most from sharing the cluster, by auctions of GPUs for one lease.

Paper     Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020
Decides   order, preemption, placement; the number of GPUs of jobs that run on several
Needs     duration, speed by GPU type, number and placement of GPUs
Idea      1. ρ of an app is the time it takes on the shared cluster over that on its part of it alone.
          2. GPUs whose lease has ended are offered to the worst 1 - f of all apps that want more.
          3. They bid 1/ρ for groups of GPUs; the allocation with the largest product wins, and each winner
             keeps the fraction of its bundle by which it does not make the others worse off.
          4. What is left goes to apps outside the auction, at random, best where they are already.
Departs   Of many apps with nothing, the worst is the one whose ρ would be largest with its smallest gang.
          A payment never takes an app's only gang.  Bids are made one group at a time (a gang of a job, or
          the next number of GPUs it can use), the greatest gain per GPU first; auctions among few single
          jobs are solved exactly.  Jobs that all have to finish take turns where GPUs do not suffice.
          GPUs that are added to a running job share the end of its lease.  While the worst app waits for a
          gang larger than what is free, leases end together with those that will make room for it.
          Jobs of a group that end with the first of them, or came at the same moment, are one app, which
          began with the earliest of them.
Checked   systems/themis.md, worked examples 1 to 7; the auction by tables of all allocations, and that no app
          gains by lying
"""

from __future__ import annotations

import math
import random

import numpy as np

from rota.knowledge.needs import Knowledge
from rota.model.columns import Ints
from rota.model.grants import Grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import RHO, Targets
from rota.solvers.auction import fractions_kept, kept_of
from rota.stages.finish_time import Crowd
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.stages.trial import admit_placed
from rota.systems.themis.apps import Estimates, Holds, Readings
from rota.systems.themis.content import ContentApps, are_content
from rota.systems.themis.exact import MOST_GPUS, settle
from rota.systems.themis.leases import Leases
from rota.systems.themis.market import OpenMarket, Tables
from rota.systems.themis.members import Members
from rota.systems.themis.parameters import ThemisParameters
from rota.systems.themis.ranking import AppStanding, LeaseTurns, ToldApp, standings


@register(
    "themis",
    "Finish-time fairness by auctions of GPUs for a lease",
    paper="Themis, NSDI 2020",
    needs={Knowledge.DURATION, Knowledge.THROUGHPUT, Knowledge.SCALING, Knowledge.PLACEMENT},
    levers={Lever.PREEMPT, Lever.MIGRATE, Lever.RESIZE},
    parameters=ThemisParameters,
    rotates=True,
)
class Themis:
    """Auctions at the end of leases.

    Memory    `crowd`   number of apps over time (`stages.finish_time.Crowd`)
              `leases`  per running job: the moment at which its lease ends
              `won`     rows that got something the last time GPUs were handed out
              `draws`   how often chance was asked
              `rows`    live rows of the last call
    """

    def __init__(self, parameters: ThemisParameters | None = None) -> None:
        self.parameters = parameters or ThemisParameters()
        self._tables = Tables()
        self._members = Members(self.parameters.groups)
        self._leases = Leases(self.parameters.lease_s)
        self._turns = LeaseTurns(lambda: (), (), {})
        """What was reported of each app when GPUs were last handed out."""

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        leases, members = self._leases, self._members
        leases.follow(snapshot, memory)
        members.follow(snapshot)
        self._tables.follow(snapshot)
        if self._has_only_renewals(snapshot, memory):
            leases.renew(leases.ended())
            self._turns.until = leases.until
            return Decision(memory, wake=Wake(leases.next_s()), ranking=self._turns)
        rows = _live(snapshot)
        memory["rows"] = rows.tolist()
        crowd: Crowd[str] = Crowd(memory.setdefault("crowd", {}))
        members.tell(crowd, snapshot.now)
        content, seen = are_content(snapshot, rows, leases, members), Readings.of(snapshot, rows)
        others = ContentApps(seen.only(content), snapshot, crowd, self.parameters.groups)
        theirs = seen.only(~content)
        estimates = Estimates(theirs, snapshot.grants)
        apps = members.apps(theirs, estimates)
        shares = [max(crowd.mean(app.key), 1.0) for app in apps]
        market = OpenMarket(snapshot, apps, shares, estimates, leases, self._tables)
        standing = standings(apps, market.values, market.holds, estimates, shares)
        wanting = [i for i in range(len(apps)) if market.wants(i)]
        order = sorted(wanting, key=lambda i: standing[i].rank(apps[i]))
        if order and (market.scratch.free.total or market.scratch.spare):
            self._hand_out(snapshot, memory, market, order)
        return self._decision(snapshot, memory, market, order, standing, others)

    def _has_only_renewals(self, snapshot: Snapshot, memory: Memory) -> bool:
        """True if no job came or went, every bidder wins what it holds, and no app wants more."""
        tables = self._tables
        if not tables.fastest_will_do or snapshot.waiting_count or not self._are_the_same(snapshot, memory):
            return False
        return tables.any_will_do or self._bids_alone(snapshot, memory)

    def _are_the_same(self, snapshot: Snapshot, memory: Memory) -> bool:
        """True if the live jobs are those of the last auction."""
        if self._members.is_as_before(memory.get("crowd")):
            return True
        return bool(_live(snapshot).tolist() == memory.get("rows"))

    def _bids_alone(self, snapshot: Snapshot, memory: Memory) -> bool:
        """True if the leases that have ended belong to one app, which wins what it holds; notes that it does.

        That is so where each holds its gang on its fastest type, and more is on offer than is solved exactly.
        """
        occupancy, ended = snapshot.occupancy, self._leases.ended()
        if not ended or occupancy.counts_hosts or occupancy.down or occupancy.sharers:
            return False
        if len({self._members.key(row) for row in ended}) > 1:
            return False
        held = [snapshot.grants[row] for row in ended]
        if any(one.share != 1.0 or len(one.devices) != snapshot.gpus_of[one.job] for one in held):
            return False
        if occupancy.free.total + sum(len(one.devices) for one in held) <= MOST_GPUS:
            return False
        rates = snapshot.know(Knowledge.THROUGHPUT)[ended]
        kinds = snapshot.cluster.device_type[[one.devices[0] for one in held]]
        if (rates[np.arange(len(held)), kinds] < rates.max(axis=1)).any() or not rates.any(axis=1).all():
            return False
        self._members.tell(Crowd(memory["crowd"]), snapshot.now)
        memory["won"] = ended
        return True

    # -- one auction -------------------------------------------------------------------------------

    def _hand_out(self, snapshot: Snapshot, memory: Memory, market: OpenMarket, order: list[int]) -> None:
        """Hold the auction among the worst of `order`, then hand out what is left."""
        if not self.parameters.auction:
            _to_all(market, order)
            return
        count = math.ceil((1.0 - self.parameters.fairness) * len(order) - 1e-9)
        inside = order[: max(count, 1)]
        outside = order[len(inside) :]
        if not settle(market, inside, self.parameters.exact_steps):
            self._auction(market, inside)
        self._leftovers(snapshot, memory, market, outside)
        _to_all(market, inside)

    def _auction(self, market: OpenMarket, bidders: list[int]) -> None:
        """Hand out groups by the greatest gain, and take the payments."""
        counts = market.estimates.counts

        def pays(bidder: int) -> bool:
            return len(market.apps[bidder].rows) > 1 or len(counts(market.apps[bidder].rows[0])) > 1

        fractions = fractions_kept(market, bidders, pays, self.parameters.payment_steps)
        for bidder, fraction in fractions.items():
            market.pay(bidder, kept_of(market.gained(bidder), fraction))

    def _leftovers(self, snapshot: Snapshot, memory: Memory, market: OpenMarket, outside: list[int]) -> None:
        """Serve apps outside the auction, one group at a time, at random, first where they already are."""
        if not outside:
            return
        memory["draws"] = draws = memory.get("draws", 0) + 1
        chance = random.Random(f"{snapshot.seed}:{draws}")
        left = sorted(outside)
        while left:
            chance.shuffle(left)
            left.sort(key=lambda i: not market.is_near(i))
            left = [i for i in left if market.take_any(i)]

    # -- the decision ------------------------------------------------------------------------------

    def _decision(
        self,
        snapshot: Snapshot,
        memory: Memory,
        market: OpenMarket,
        order: list[int],
        standing: list[AppStanding],
        others: ContentApps,
    ) -> Decision:
        leases = self._leases
        won, ended = market.won(), leases.ended()
        grants = [grant for row, grant in won.items() if snapshot.grants.get(row) != grant]
        preempt = [row for row in ended if row not in won]
        fresh = [row for row in won if row not in leases.until or leases.has_ended(row)]
        leases.drop(preempt)
        given = {row: won[row] for row in fresh}
        leases.renew(fresh, self._together(snapshot, market, order, given))
        place = {row: rank for rank, i in enumerate(order) for row in market.apps[i].rows}
        if fresh:
            memory["won"] = sorted(fresh, key=lambda row: (place.get(row, len(place)), row))
        memory.setdefault("won", [])
        idle = snapshot.waiting[snapshot.jobs.gpus[snapshot.waiting] == 0].tolist()
        if idle:
            grants += admit_placed(idle, market.scratch, Fitter(snapshot, consolidate))
        self._turns = LeaseTurns(
            lambda: [*_told(market, standing, order), *others.told], memory["won"], leases.until
        )
        return Decision(
            memory,
            grants,
            preempt,
            wake=Wake(leases.next_s()),
            ranking=self._turns,
            targets=Targets(lambda: _rhos(market, standing) | others.rhos()),
            target=RHO,
        )

    def _together(self, snapshot: Snapshot, market: OpenMarket, order: list[int], fresh: Holds) -> float:
        """When leases in force will have made room for the smallest gang of the worst app that has nothing.

        What is granted now, `fresh`, counts as free then.  Infinite if no app lacks room, or no lease that
        ends can make it.
        """
        worst = next((i for i in order if not market.holds[i]), None)
        if worst is None:
            return math.inf
        row, leases = market.apps[worst].rows[0], self._leases
        need, free = market.estimates.counts(row)[0], market.scratch.free
        for kind, nodes in enumerate(market.fit.nodes_for(market.scratch, row)):
            if not market.estimates.runs_on(row, kind):
                continue
            room = free.within(nodes) + sum(_on_kind(snapshot, grant, kind) for grant in fresh.values())
            if room >= need:
                continue
            for until_s, other in sorted((until, other) for other, until in leases.until.items()):
                if other not in fresh and not leases.stays(other):
                    room += _on_kind(snapshot, snapshot.grants[other], kind)
                if room >= need:
                    return until_s if until_s > snapshot.now else math.inf
        return math.inf


def _on_kind(snapshot: Snapshot, grant: Grant, kind: int) -> int:
    """GPUs of a grant, if they are of this type."""
    devices = grant.devices
    return len(devices) if devices and int(snapshot.cluster.device_type[devices[0]]) == kind else 0


def _rhos(market: OpenMarket, standing: list[AppStanding]) -> dict[int, float]:
    """ρ of each job's app, with what it holds; for an app that holds nothing, with the smallest gang."""
    return {
        row: stands.rho if math.isfinite(stands.rho) else stands.at_best
        for app, stands in zip(market.apps, standing, strict=True)
        for row in app.rows
    }


def _told(market: OpenMarket, standing: list[AppStanding], order: list[int]) -> list[ToldApp]:
    """The standing of apps once everything is handed out, and their former places in `order`."""
    place = {i: at for at, i in enumerate(order)}
    return [
        ToldApp(app.rows, math.exp(-value) if held else math.inf, stands.at_best, place.get(i, -1))
        for i, (app, value, held, stands) in enumerate(
            zip(market.apps, market.values, market.holds, standing, strict=True)
        )
    ]


def _live(snapshot: Snapshot) -> Ints:
    """Live rows with GPUs, in order of submission."""
    rows = np.sort(np.concatenate((snapshot.waiting, snapshot.running)))
    live: Ints = rows[snapshot.jobs.gpus[rows] > 0]
    return live


def _to_all(market: OpenMarket, order: list[int]) -> None:
    """Give each app whatever it can use, in this order."""
    for bidder in order:
        while (market.left or market.scratch.spare) and market.take_any(bidder):
            pass
