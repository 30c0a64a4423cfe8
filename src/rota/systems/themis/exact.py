"""The auction among few, solved exactly: tables of bids by number of GPUs on each node."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rota.model.grants import Grant
from rota.solvers.auction import LEAST_VALUE, Bid, Bundle, auction
from rota.systems.themis.apps import finish_s
from rota.systems.themis.market import OpenMarket

MOST_BIDDERS = 4
MOST_GPUS = 8


def settle(market: OpenMarket, bidders: list[int], steps: int) -> bool:
    """Hold the auction among `bidders` exactly, payments included; False if that would take too many steps.

    Exact auctions are among single jobs on whole GPUs where counting decides, few of each kind, as long as
    no more than `steps` bundles have to be looked at.
    """
    free = market.scratch.free
    if len(bidders) > MOST_BIDDERS or free.total > MOST_GPUS or not _is_plain(market, bidders):
        return False
    nodes = [node for node, count in enumerate(free.count) if count]
    supply = tuple(free.count[node] for node in nodes)
    bids = [
        Bid(_table(market, bidder, nodes, supply), tuple(market.estimates.counts(_row(market, bidder))))
        for bidder in bidders
    ]
    states = math.prod(count + 1 for count in supply)
    if states * sum(len(bid.values) for bid in bids) * len(bids) > steps:
        return False
    outcome = auction(bids, supply)
    for bidder, bundle, kept in zip(bidders, outcome.fair, outcome.kept, strict=True):
        if kept:
            row = _row(market, bidder)
            market.give(bidder, _grant(market, row, nodes, _closest(bundle, kept)))
    return True


def _row(market: OpenMarket, bidder: int) -> int:
    return market.apps[bidder].rows[0]


def _is_plain(market: OpenMarket, bidders: list[int]) -> bool:
    """True if nothing but free devices limits them, and none of them has anything yet."""
    jobs, snapshot = market.snapshot.jobs.table, market.snapshot
    if market.scratch.counts_hosts or snapshot.reservations or jobs.node_set_names:
        return False
    if not all(len(market.apps[bidder].rows) == 1 and not market.holds[bidder] for bidder in bidders):
        return False
    class_of, rows = market.estimates.class_of, [_row(market, bidder) for bidder in bidders]
    if any(market.closely.looks_inside(class_of[row]) for row in rows):
        return False
    return all(jobs.gpu_share.item(row) == 1.0 for row in rows)


def _table(market: OpenMarket, bidder: int, nodes: list[int], supply: Bundle) -> dict[Bundle, float]:
    """Values of all bundles that the app can use: numbers of GPUs on accepted nodes of one type."""
    row, app, estimates = _row(market, bidder), market.apps[bidder], market.estimates
    values = {(0,) * len(supply): LEAST_VALUE}
    kinds = market.snapshot.cluster.node_type.tolist()
    fitting = market.fit.nodes_for(market.scratch, row)
    for kind, within in enumerate(fitting):
        if not estimates.runs_on(row, kind):
            continue
        room = tuple(
            have if kinds[node] == kind and within >> node & 1 else 0
            for node, have in zip(nodes, supply, strict=True)
        )
        for count in estimates.counts(row):
            for bundle in _splits(count, room):
                grant = _grant(market, row, nodes, bundle)
                finish = finish_s(app, estimates, {row: grant}, {row: estimates.seconds(grant)})
                values[bundle] = app.cluster_s * market.crowd[bidder] / finish
    return values


def _splits(count: int, room: Bundle) -> Iterator[Bundle]:
    """All ways to take `count` of `room`."""
    if not room:
        if not count:
            yield ()
        return
    for here in range(min(count, room[0]), -1, -1):
        for rest in _splits(count - here, room[1:]):
            yield (here, *rest)


def _closest(bundle: Bundle, kept: int) -> Bundle:
    """`kept` of the bundle, on as few nodes as can be."""
    left, chosen = kept, [0] * len(bundle)
    for place in sorted(range(len(bundle)), key=lambda place: (-bundle[place], place)):
        chosen[place] = min(bundle[place], left)
        left -= chosen[place]
    return tuple(chosen)


def _grant(market: OpenMarket, row: int, nodes: list[int], bundle: Bundle) -> Grant:
    """Free devices for the bundle: first those that the job had before, then the lowest."""
    free, own = market.scratch.free, market.snapshot.grants.get(row)
    before = set(own.devices) if own is not None else set()
    devices: list[int] = []
    for node, count in zip(nodes, bundle, strict=True):
        span = range(free.first[node], free.first[node + 1])
        there = sorted(
            (d for d in span if free.is_free(d)), key=lambda device: (device not in before, device)
        )
        devices += there[:count]
    return Grant(row, tuple(sorted(devices)))
