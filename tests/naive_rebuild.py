"""Clusters that are scheduled along an order, once more and naively: all of it anew at every moment.

A twin of a policy names the key of a job; here stand the cluster, the clock, what a start costs, attempts
that fail, and how the set of those who run is rebuilt along the key. Times are fractions: nothing is
rounded.

Cards say that a job is admitted if it "fits" and that whoever runs keeps its GPUs, and leave open which
GPUs those are. Where only counting matters (whole GPUs of one type) the set is a walk along the order.
Elsewhere the choice is ours (`stages/trial.py` and `place.py`), and agreement in it proves no
more than that it is made as it is described: a waiting job takes what is free, and only if it finds no
place there jobs behind it give way one by one, the last in order first; whoever gave way and finds its
GPUs free in its turn keeps them, else it looks for others.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from play import play
from rota.knowledge.needs import Provider
from rota.model.cluster import Cluster, NodeShape
from rota.model.jobs import JobTable, Truth
from rota.model.record import Record
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.run import Setting

Device = tuple[int, int]
"""Node, and which of its GPUs."""
Span = tuple[float, float, tuple[int, ...]]
"""From when to when, and the node of each GPU."""
INF = Fraction(10**12)


@dataclass(frozen=True)
class Want:
    """What a job asks for; no `types` is any, `fails` are the seconds of its failing attempts."""

    submit_s: Fraction
    gpus: int
    run_s: Fraction
    types: tuple[int, ...] = ()
    tenant: int = 0
    fails: tuple[Fraction, ...] = ()
    due_s: Fraction = INF
    model: str = ""
    each_cpus: int = 0
    """Cores for each of its GPUs."""
    priority: int = 0
    says_s: Fraction | None = None
    """How long its user says that it runs."""


@dataclass(frozen=True)
class Site:
    """Nodes of (type, GPUs, rack), types in ascending order, who may have how much of them, and prices."""

    nodes: list[tuple[int, int, int]]
    wants: list[Want]
    caps: tuple[int, ...] = ()
    """Hard quota of each tenant; none if nobody has one."""
    start_s: int = 0
    back_s: int = 0
    placement: str = "consolidate"
    weights: tuple[Fraction, ...] = ()
    cores: int = 0
    """Of each node; 0 is as many as one likes."""


@dataclass
class Live:
    """A job that has been submitted and is not over."""

    job: int
    left_s: Fraction
    failed: int = 0
    ran_s: Fraction = Fraction(0)
    """Seconds in which it held GPUs, before the present stretch."""
    waited_s: Fraction = Fraction(0)
    first_s: Fraction | None = None
    devices: tuple[Device, ...] = ()
    since_s: Fraction = Fraction(0)
    ready_s: Fraction = Fraction(0)
    starts: int = 0
    begins_anew: bool = True
    """It has not been started, or failed after that: it has nothing to go on with."""


class NaiveRebuild:
    """One cluster under one order; a twin says what it adds."""

    def __init__(self, site: Site) -> None:
        self.site, self.wants, self.now = site, site.wants, Fraction(0)
        self.live: dict[int, Live] = {}
        self.spans: list[list[Span]] = [[] for _ in site.wants]

    # -- what a twin says --------------------------------------------------------------------------

    def key(self, one: Live) -> Any:
        """Lowest first; equals in order of submission."""
        raise NotImplementedError

    def alarm_s(self) -> Fraction:
        """When something changes besides arrivals and ends."""
        return INF

    def look(self) -> None:
        """What changes by time alone, at each moment before anybody is chosen."""

    def ended(self, one: Live) -> None:
        """`one` has completed."""

    def about_to_stop(self, losers: list[int]) -> bool:
        """True if that changes an order, and all has to be chosen anew."""
        return False

    # -- who there is ------------------------------------------------------------------------------

    def runs(self, one: Live) -> bool:
        return bool(one.devices)

    def held_s(self, one: Live) -> Fraction:
        """Seconds in which it has held GPUs."""
        return one.ran_s + (self.now - one.since_s if one.devices else 0)

    def gpus(self, one: Live) -> int:
        return self.wants[one.job].gpus

    def work_left_s(self, one: Live) -> Fraction:
        """Of the present attempt, as if it did not fail."""
        done = max(self.now - one.ready_s, Fraction(0)) if one.devices else Fraction(0)
        return one.left_s - done

    def rank(self, one: Live) -> Any:
        return self.key(one), one.job

    # -- where -------------------------------------------------------------------------------------

    def free_on(self, node: int, held: dict[int, tuple[Device, ...]]) -> list[Device]:
        busy = {device for devices in held.values() for device in devices}
        return [(node, i) for i in range(self.site.nodes[node][1]) if (node, i) not in busy]

    def fits_quota(self, job: int, held: dict[int, tuple[Device, ...]]) -> bool:
        if not self.site.caps:
            return True
        own = self.wants[job].tenant
        used = sum(len(devices) for other, devices in held.items() if self.wants[other].tenant == own)
        return used + self.wants[job].gpus <= self.site.caps[own]

    def place(self, job: int, held: dict[int, tuple[Device, ...]]) -> tuple[Device, ...]:
        """Where `job` would go beside those that hold something; nothing if it finds no place."""
        want = self.wants[job]
        if not self.fits_quota(job, held):
            return ()
        kinds = sorted({kind for kind, _, _ in self.site.nodes})
        for kind in kinds:
            if want.types and kind not in want.types:
                continue
            room = {
                node: self.free_on(node, held)
                for node, (of, _, _) in enumerate(self.site.nodes)
                if of == kind
            }
            taken = self.on_type(job, room, held)
            if taken:
                return taken
        return ()

    def on_type(
        self, job: int, room: dict[int, list[Device]], held: dict[int, tuple[Device, ...]]
    ) -> tuple[Device, ...]:
        return PLACES[self.site.placement](room, self.wants[job].gpus)

    # -- the rebuild -------------------------------------------------------------------------------

    def counts(self) -> bool:
        """True if counting GPUs decides whether a job fits."""
        if self.site.caps or self.site.placement in {"one_node", "packed"} or self.site.cores:
            return False
        if len({kind for kind, _, _ in self.site.nodes}) == 1:
            return True
        return all(not self.wants[job].types and self.wants[job].gpus == 1 for job in self.live)

    def chosen(self) -> dict[int, tuple[Device, ...]]:
        """Who is to hold what."""
        return self.walk() if self.counts() else self.trial()

    def walk(self) -> dict[int, tuple[Device, ...]]:
        """From an empty cluster along the order, by counting; who runs stays where it is."""
        room, admitted = sum(size for _, size, _ in self.site.nodes), list[Live]()
        for one in sorted(self.live.values(), key=self.rank):
            if self.gpus(one) <= room:
                room -= self.gpus(one)
                admitted.append(one)
        held = {one.job: one.devices for one in admitted if one.devices}
        for one in admitted:
            if not one.devices:
                held[one.job] = self.place(one.job, held)
        return held

    def trial(self) -> dict[int, tuple[Device, ...]]:
        """Along the order; who runs gives way only if somebody before it finds no place otherwise."""
        order = sorted(self.live.values(), key=self.rank)
        keeps = [one.job for one in order if one.devices]
        held = {one.job: one.devices for one in order if one.devices}
        for one in order:
            if one.job in keeps:
                continue
            if one.devices:  # it gave way
                busy = {device for devices in held.values() for device in devices}
                if not busy & set(one.devices) and self.fits_quota(one.job, held):
                    held[one.job] = one.devices
                    continue
            behind = [other.job for other in order[order.index(one) + 1 :] if other.job in keeps]
            without = dict(held)
            while not (devices := self.place(one.job, without)) and behind and not one.devices:
                del without[behind.pop()]
            if devices:
                keeps = [job for job in keeps if job in without]
                held = without | {one.job: devices}
        return held

    # -- the clock ---------------------------------------------------------------------------------

    def target_s(self, one: Live) -> Fraction:
        fails = self.wants[one.job].fails
        return fails[one.failed] if one.failed < len(fails) else self.wants[one.job].run_s

    def end_s(self, one: Live) -> Fraction:
        """When the attempt of a running job ends."""
        done = self.wants[one.job].run_s - one.left_s
        return one.ready_s + self.target_s(one) - done

    def halt(self, one: Live) -> None:
        nodes = tuple(node for node, _ in one.devices)
        if self.now > one.since_s:
            self.spans[one.job].append((float(one.since_s), float(self.now), nodes))
        one.left_s = self.work_left_s(one)
        one.ran_s = self.held_s(one)
        one.devices = ()

    def begin(self, one: Live, devices: tuple[Device, ...], *, moves: bool) -> None:
        one.devices, one.since_s = devices, self.now
        one.ready_s = self.now + (self.site.start_s if one.begins_anew else self.site.back_s)
        one.begins_anew = False
        one.starts += not moves
        if one.first_s is None:
            one.first_s = self.now

    def pass_time(self, moment: Fraction) -> None:
        for one in self.live.values():
            if not one.devices and one.starts:
                one.waited_s += moment - self.now
        self.now = moment

    def play(self) -> list[list[Span]]:
        coming = list(range(len(self.wants)))
        while coming or self.live:
            moments = [self.wants[job].submit_s for job in coming[:1]]
            moments += [self.end_s(one) for one in self.live.values() if one.devices]
            self.pass_time(min([*moments, self.alarm_s()]))
            for one in [one for one in self.live.values() if one.devices and self.end_s(one) <= self.now]:
                fails = one.failed < len(self.wants[one.job].fails)
                self.halt(one)
                if fails:
                    one.failed, one.left_s = one.failed + 1, self.wants[one.job].run_s
                    one.begins_anew = True
                else:
                    del self.live[one.job]
                    self.ended(one)
            while coming and self.wants[coming[0]].submit_s <= self.now:
                job = coming.pop(0)
                if self.is_possible(job):
                    self.live[job] = Live(job, self.wants[job].run_s)
            self.look()
            self.decide()
        return self.spans

    def decide(self) -> None:
        held = self.chosen()
        while self.about_to_stop(
            [one.job for one in self.live.values() if one.devices and one.job not in held]
        ):
            held = self.chosen()
        self.carry_out(held)

    def carry_out(self, held: dict[int, tuple[Device, ...]]) -> None:
        moved = [one for one in self.live.values() if one.devices and held.get(one.job, ()) != one.devices]
        for one in moved:
            self.halt(one)
        for job, devices in held.items():
            one = self.live[job]
            if not one.devices:
                self.begin(one, devices, moves=one in moved)

    def is_possible(self, job: int) -> bool:
        """False for who could never run, and is refused."""
        want = self.wants[job]
        room = max(
            (
                sum(size for of, size, _ in self.site.nodes if of == kind)
                for kind, _, _ in self.site.nodes
                if not want.types or kind in want.types
            ),
            default=0,
        )
        return want.gpus <= room and (not self.site.caps or want.gpus <= self.site.caps[want.tenant])


# -- the commonest orders ------------------------------------------------------------------------


class NaiveQueue(NaiveRebuild):
    """Nobody who runs gives way; who does not fit holds up those behind him, unless it `skips`."""

    skips = False

    def key(self, one: Live) -> Any:
        return 0

    def chosen(self) -> dict[int, tuple[Device, ...]]:
        held = {one.job: one.devices for one in self.live.values() if one.devices}
        for one in sorted(self.live.values(), key=self.rank):
            devices = one.devices or self.place(one.job, held)
            if devices:
                held[one.job] = devices
            elif not self.skips:
                break
        return held


class NaiveSrtf(NaiveRebuild):
    def key(self, one: Live) -> Any:
        return self.work_left_s(one)


class NaiveSrsf(NaiveRebuild):
    def key(self, one: Live) -> Any:
        return self.work_left_s(one) * self.gpus(one)


# -- placements: each takes of `room`, the free GPUs by node ---------------------------------------


def consolidated(room: dict[int, list[Device]], gpus: int) -> tuple[Device, ...]:
    """The node with the least room to spare, else the fewest nodes: the emptiest, best fit for the rest."""
    left, taken = {node: list(devices) for node, devices in room.items()}, list[Device]()
    if sum(map(len, left.values())) < gpus:
        return ()
    while len(taken) < gpus:
        rest = gpus - len(taken)
        enough = [(len(devices), node) for node, devices in left.items() if len(devices) >= rest]
        emptiest = min((-len(devices), node) for node, devices in left.items())[1]
        node = min(enough)[1] if enough else emptiest
        taken += left[node][:rest]
        left[node] = left[node][rest:]
    return tuple(sorted(taken))


def on_one_node(room: dict[int, list[Device]], gpus: int) -> tuple[Device, ...]:
    enough = [(len(devices), node) for node, devices in room.items() if len(devices) >= gpus]
    return tuple(room[min(enough)[1]][:gpus]) if enough else ()


def scattered(room: dict[int, list[Device]], gpus: int) -> tuple[Device, ...]:
    """One at a time from the emptiest node."""
    left, taken = {node: list(devices) for node, devices in room.items()}, list[Device]()
    while len(taken) < gpus:
        node = min((-len(devices), node) for node, devices in left.items())[1]
        if not left[node]:
            return ()
        taken.append(left[node].pop(0))
    return tuple(sorted(taken))


def in_fragments(room: dict[int, list[Device]], gpus: int) -> tuple[Device, ...]:
    """A node with just as many, else from the fullest nodes on."""
    exact = [node for node, devices in room.items() if len(devices) == gpus]
    if exact:
        return tuple(room[min(exact)])
    taken = list[Device]()
    for _, node in sorted((len(devices), node) for node, devices in room.items() if devices):
        taken += room[node][: gpus - len(taken)]
    return tuple(sorted(taken)) if len(taken) == gpus else ()


def on_least_nodes(room: dict[int, list[Device]], gpus: int, sizes: dict[int, int]) -> tuple[Device, ...]:
    """On as few nodes as an empty cluster would need: whole ones, and the rest on one more."""
    parts, rest = list[int](), gpus
    if gpus <= max(sizes.values(), default=0):
        parts, rest = [gpus], 0
    for size in sorted(sizes.values(), reverse=True) if rest else ():
        parts += [min(size, rest)] if rest else []
        rest -= parts[-1] if rest else 0
    if rest or not parts:
        return ()
    left, taken = {node: list(devices) for node, devices in room.items()}, list[Device]()
    for part in parts:
        enough = [(len(devices), node) for node, devices in left.items() if len(devices) >= part]
        if not enough:
            return ()
        node = min(enough)[1]
        taken += left[node][:part]
        left[node] = left[node][part:]
    return tuple(sorted(taken))


PLACES: dict[str, Callable[[dict[int, list[Device]], int], tuple[Device, ...]]] = {
    "consolidate": consolidated,
    "one_node": on_one_node,
    "spread": scattered,
    "fragments": in_fragments,
}


# -- scenes, and what the house makes of them ------------------------------------------------------


def site_of(seed: int, kind: str = "plain", widths: Sequence[int] = (1, 1, 2, 3, 4, 6, 8)) -> Site:
    """Up to four nodes and eighteen jobs.  All moments are multiples of a half, none is ever rounded.

    `plain` is counting, `costs` has start-up times and attempts that fail, `types`, `quotas` and `nodes` (all
    GPUs of one node) are places.
    """
    draw = random.Random(f"{kind} {seed}")
    count = draw.randint(1, 4)
    sizes = [draw.choice([1, 2, 4, 8])] * count if draw.random() < 0.6 else draw.choices([1, 2, 4], k=count)
    kinds = sorted(draw.randrange(2) for _ in sizes) if kind == "types" else [0] * count
    kinds = [of - kinds[0] for of in kinds]
    racks = sorted(draw.randrange(2) for _ in sizes)
    nodes = list(zip(kinds, sizes, racks, strict=True))
    tenants = draw.randint(1, 3)
    wants = [_want(draw, sum(sizes), kind, kinds, tenants, widths) for _ in range(draw.randint(3, 18))]
    wants.sort(key=lambda want: want.submit_s)
    if kind == "nodes":
        wants = [replace(want, gpus=min(want.gpus, max(sizes))) for want in wants]
    caps = tuple(draw.randint(1, sum(sizes) + 1) for _ in range(tenants)) if kind == "quotas" else ()
    start_s, back_s = (draw.choice([0, 2]), draw.choice([0, 1, 5])) if kind == "costs" else (0, 0)
    placement = (
        "one_node" if kind == "nodes" else draw.choice(["consolidate", "consolidate", "spread", "fragments"])
    )
    return Site(nodes, wants, caps, start_s, back_s, placement)


def _want(
    draw: random.Random, total: int, kind: str, kinds: Sequence[int], tenants: int, widths: Sequence[int]
) -> Want:
    submit_s = draw.choice([0, 0, draw.randint(0, 20), draw.randint(0, 120)])
    run_s = draw.choice([draw.randint(1, 12), draw.randint(5, 60), draw.randint(20, 300)])
    gpus = draw.choice(list(widths))
    gpus = max(width for width in widths if width <= min(gpus, total))  # by others limits do not divide
    if draw.random() < 0.03:
        gpus = total + 1  # it never fits
    types = tuple(sorted(set(draw.choices(kinds, k=2)))) if kind == "types" and draw.random() < 0.6 else ()
    fails = tuple(Fraction(draw.randint(1, 15)) for _ in range(draw.choice([0, 0, 0, 1, 2])))
    due_s = Fraction(submit_s + draw.randint(1, 4) * run_s) if draw.random() < 0.8 else INF
    return Want(
        Fraction(submit_s),
        gpus,
        Fraction(run_s),
        types,
        draw.randrange(tenants),
        fails if kind == "costs" else (),
        due_s,
    )


def trace_of_site(site: Site, tenant_names: Sequence[str]) -> Trace:
    """Its jobs as the house reads them."""
    wants, kinds = site.wants, sorted({kind for kind, _, _ in site.nodes})
    models = tuple(sorted({want.model for want in wants if want.model}))
    table = JobTable.build(
        [f"j{job}" for job in range(len(wants))],
        submit_s=[float(want.submit_s) for want in wants],
        gpus=[want.gpus for want in wants],
        gpu_types=[sum(1 << kind for kind in want.types) for want in wants],
        type_names=tuple(f"T{kind}" for kind in kinds),
        tenant=[want.tenant for want in wants],
        tenant_names=tenant_names,
        deadline_s=[float(want.due_s) if want.due_s < INF else math.nan for want in wants],
        workload=[models.index(want.model) if want.model else -1 for want in wants],
        workload_names=models,
        cpus=[float(want.each_cpus * want.gpus) for want in wants],
        priority=[want.priority for want in wants],
        limit_s=[math.nan if want.says_s is None else float(want.says_s) for want in wants],
    )
    fails = {job: tuple(map(float, want.fails)) for job, want in enumerate(wants) if want.fails}
    truth = Truth.build([float(want.run_s) for want in wants], failures=fails)
    return Trace(table, truth, source="test", format="test")


def spans_of(
    policy: str, site: Site, providers: Sequence[Provider] = (), knowledge: dict[str, str] | None = None
) -> list[list[Span]]:
    """The same from the house: stays of each job, and the node of each GPU."""
    tenants = 1 + max(want.tenant for want in site.wants)
    names = tuple(f"t{tenant}" for tenant in range(tenants))
    shapes = [
        NodeShape(1, size, f"T{kind}", levels={"rack": f"r{rack}"}, cpus=float(site.cores))
        for kind, size, rack in site.nodes
    ]
    weights = site.weights or (Fraction(1),) * tenants
    owners = [
        Tenant(name, float(site.caps[n]) if site.caps else math.inf, bool(site.caps), float(weights[n]))
        for n, name in enumerate(names)
    ]
    cluster = Cluster.build(shapes, Tenants.of(*owners) if site.caps or site.weights else None)
    setting = Setting(costs=costs_of(site), providers=tuple(providers), knowledge=knowledge or {})
    return stays(play(policy, trace_of_site(site, names), cluster, setting))


def costs_of(site: Site) -> Costs:
    """What starts cost there."""
    return Costs(start=CostModel(float(site.start_s)), restore=CostModel(float(site.back_s)))


def stays(record: Record) -> list[list[Span]]:
    """When each job held GPUs, and the node of each."""
    spans: list[list[Span]] = [[] for _ in record.jobs["job_id"]]
    for row in record.intervals.sort("start_s").iter_rows(named=True):
        if row["end_s"] > row["start_s"]:
            spans[row["job"]].append((row["start_s"], row["end_s"], tuple(row["nodes"])))
    return spans


def joined(spans: Iterable[list[Span]]) -> list[list[Span]]:
    """Who goes on at once on the nodes where it was has not stopped."""
    whole: list[list[Span]] = []
    for of_job in spans:
        whole.append([])
        for span in of_job:
            last = whole[-1][-1] if whole[-1] else None
            if last is not None and last[1:] == (span[0], span[2]):
                whole[-1][-1] = (last[0], span[1], span[2])
            else:
                whole[-1].append(span)
    return whole
