"""Philly written once more from its card: every job, node and attempt looked at, at every event.

Virtual clusters are numbered; a place is a set of (node, device).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import pytest

from outages import outages
from play import play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.worlds.simulated.faults import Fault, timeline
from rota.worlds.simulated.run import Setting
from tiers import each_seed

TIMEOUT_S, BACKOFF_S = 180, 120
Place = set[tuple[int, int]]
Span = tuple[float, float, tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Asked:
    """A job of a scene; `types` are the GPU types that will do."""

    submit_s: int
    gpus: int
    run_s: int
    owner: int
    types: tuple[int, ...]


@dataclass(frozen=True)
class Scene:
    """Nodes of so many GPUs in racks, of types in ascending order, and what is asked of them."""

    jobs: list[Asked]
    sizes: list[int]
    racks: list[int]
    types: list[int]
    quotas: list[int]
    relax_after: int
    tight: float
    patience_per_h: int = 0
    dedicated: bool = False
    migrate: bool = False
    faults: Sequence[Fault] = ()


@dataclass
class Wait:
    """The efforts of one job; `opened_s` is None in a pause, which ends at `retry_s`."""

    level: int
    retry_s: float
    patience: int
    failed: int = 0
    opened_s: float | None = None
    nodes: list[int] = field(default_factory=list)
    held: Place = field(default_factory=set)


class NaivePhilly:
    """Rules 1 to 7 of the card, one method each."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.jobs, self.sizes, self.now = scene, scene.jobs, scene.sizes, 0.0
        self.left_s = [float(job.run_s) for job in scene.jobs]
        self.running: dict[int, tuple[float, Place]] = {}
        self.waiting: dict[int, Wait] = {}
        self.spans: list[list[Span]] = [[] for _ in scene.jobs]
        self.news = timeline(scene.faults)
        """When nodes are lost and back."""
        self.down = set[int]()
        self.anew = set[int]()
        """Whose open attempt looks for nodes anew."""

    def used(self, owner: int) -> int:
        return sum(self.jobs[job].gpus for job in self.running if self.jobs[job].owner == owner)

    def ratio(self, owner: int) -> float:
        quota = self.scene.quotas[owner]
        return self.used(owner) / quota if quota else math.inf

    def free_devices(self, node: int, job: int, gone: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Devices of `node` that nobody but `job` itself, or one of `gone`, has or holds."""
        if node in self.down:
            return []
        busy = {device for other, (_, place) in self.running.items() if other not in gone for device in place}
        busy |= {device for other, wait in self.waiting.items() if other != job for device in wait.held}
        return [(node, device) for device in range(self.sizes[node]) if (node, device) not in busy]

    def is_open(self, node: int, job: int, gone: Sequence[int] = ()) -> bool:
        """False on a node that is lost, and on a dedicated one: a gang is alone on its nodes."""
        if node in self.down:
            return False
        here = [
            other
            for other, (_, place) in self.running.items()
            if other not in gone and any(at == node for at, _ in place)
        ]
        is_gang = self.jobs[job].gpus > 1
        return not (self.scene.dedicated and any(is_gang or self.jobs[other].gpus > 1 for other in here))

    # -- rules 5 and 6: where an attempt looks ---------------------------------------------------------

    def offers(
        self, job: int, level: int, free: Callable[[int], int], kind: int, is_open: Callable[[int], bool]
    ) -> Iterator[list[int]]:
        """Nodes of one type that the level allows, best first."""
        nodes = [node for node, of in enumerate(self.scene.types) if of == kind and is_open(node)]
        racks = {self.scene.racks[node] for node in nodes}
        domains = [[node for node in nodes if self.scene.racks[node] == rack] for rack in sorted(racks)]
        domains.sort(key=lambda domain: -sum(map(free, domain)))
        for domain in [nodes] if level == 2 else domains:
            offer = self.offer(self.jobs[job].gpus, level, domain, free)
            if offer:
                yield offer

    def offer(self, gpus: int, level: int, domain: list[int], free: Callable[[int], int]) -> list[int]:
        """The nodes of `domain` to look at, none if it is too small."""
        if not domain or sum(self.sizes[node] for node in domain) < gpus:
            return []
        largest = max(self.sizes[node] for node in domain)
        if level:
            return domain
        if 2 * gpus < largest and any(free(node) >= gpus for node in domain):
            return [min((free(node), node) for node in domain if free(node) >= gpus)[1:][0]]
        sets = combinations(domain, -(-gpus // largest))
        large = [nodes for nodes in sets if sum(self.sizes[node] for node in nodes) >= gpus]
        return list(min(large, key=lambda nodes: (-sum(map(free, nodes)), nodes), default=()))

    def choose(self, job: int, level: int, gone: Sequence[int] = ()) -> list[int]:
        """Nodes where the gang fits now, if anywhere; of one type, and those of the first type come first.

        If no nodes that are open to it are enough, all are looked at as if they were.
        """
        best = list[int]()

        def free(node: int) -> int:
            return len(self.free_devices(node, job, gone))

        for kind in self.jobs[job].types:
            offers = list(self.offers(job, level, free, kind, lambda node: self.is_open(node, job, gone)))
            if fitting := [nodes for nodes in offers if sum(map(free, nodes)) >= self.jobs[job].gpus]:
                return fitting[0]
            closed = list(self.offers(job, level, free, kind, lambda node: node not in self.down))
            fitting = [nodes for nodes in closed if sum(map(free, nodes)) >= self.jobs[job].gpus]
            best = best or next(iter(offers + fitting + closed), [])
        return best

    # -- rule 4: gangs ---------------------------------------------------------------------------------

    def enter(self, job: int) -> None:
        """The strictest level that the empty cluster could meet; a job too large for it is rejected."""
        levels = [
            level
            for level in range(3)
            for kind in self.jobs[job].types
            if any(self.offers(job, level, self.sizes.__getitem__, kind, lambda _: True))
        ]
        if levels:
            hours = self.left_s[job] / 3600
            patience = self.scene.relax_after + math.ceil(self.scene.patience_per_h * hours)
            self.waiting[job] = Wait(levels[0], self.now, patience)

    def collect(self, job: int) -> bool:
        """Hold what is free on the nodes of the attempt; start if that is all."""
        wait, gpus = self.waiting[job], self.jobs[job].gpus
        free = {
            node: [one for one in self.free_devices(node, job) if one not in wait.held] for node in wait.nodes
        }
        for node in sorted(wait.nodes, key=lambda node: (-len(free[node]), node)):
            if self.is_open(node, job):
                wait.held |= set(free[node][: gpus - len(wait.held)])
        if len(wait.held) == gpus:
            self.running[job] = self.now, wait.held
            del self.waiting[job]
            return True
        return False

    def expire(self, wait: Wait) -> None:
        wait.opened_s, wait.retry_s, wait.held = None, self.now + BACKOFF_S, set()
        wait.failed += 1
        if wait.failed >= wait.patience and wait.level < 2:
            wait.level, wait.failed = wait.level + 1, 0

    def stop(self, job: int) -> None:
        since_s, place = self.running.pop(job)
        self.left_s[job] -= self.now - since_s
        on = sorted({(node, sum(n == node for n, _ in place)) for node, _ in place})
        self.spans[job].append((since_s, self.now, tuple(on)))

    # -- rule 7: quotas are taken back -----------------------------------------------------------------

    def next_victim(self, gone: list[int]) -> int | None:
        """Of the furthest above its quota the latest, if its virtual cluster does not fall below."""
        use = [self.used(owner) for owner in range(len(self.scene.quotas))]
        for job in gone:
            use[self.jobs[job].owner] -= self.jobs[job].gpus
        above = [
            (use[o] / quota if quota else math.inf, o)
            for o, quota in enumerate(self.scene.quotas)
            if use[o] > quota
        ]
        for _, owner in sorted(above, reverse=True):
            spare = [
                (self.running[job][0], job)
                for job in self.running
                if job not in gone and self.jobs[job].owner == owner
                if self.running[job][0] < self.now  # what starts at this moment stays
                if use[owner] - self.jobs[job].gpus >= self.scene.quotas[owner]
            ]
            if spare:
                return max(spare)[1]
        return None

    def reclaim(self, job: int) -> bool:
        """Take GPUs back for `job`, from as few as will do; False if it would not fit after all."""
        asked, gone = self.jobs[job], list[int]()
        there = sum(size for node, size in enumerate(self.sizes) if node not in self.down)
        if sum(self.jobs[other].gpus for other in self.running) < self.scene.tight * there:
            return False
        if self.used(asked.owner) + asked.gpus > self.scene.quotas[asked.owner]:
            return False

        while (victim := self.next_victim(gone)) is not None:
            gone.append(victim)
            nodes = self.choose(job, self.waiting[job].level, gone)
            room = [
                len(self.free_devices(node, job, gone)) for node in nodes if self.is_open(node, job, gone)
            ]
            if sum(room) >= asked.gpus:
                self.start_over(job, nodes, gone)
                return True
        return False

    def start_over(self, job: int, nodes: list[int], gone: list[int]) -> None:
        """`job` starts where `gone` run; who of them loses nothing by it stays."""
        were = {victim: self.running.pop(victim) for victim in gone}
        self.waiting[job].nodes, self.waiting[job].held = nodes, set()
        assert self.collect(job)
        for victim, was in were.items():
            self.running[victim] = was
            if was[1] & self.running[job][1]:
                self.stop(victim)
                self.enter(victim)

    # -- rule 2: order ---------------------------------------------------------------------------------

    def decide(self) -> None:
        asked = set[int]()
        while True:
            due = [
                job
                for job, wait in self.waiting.items()
                if job not in asked and (wait.opened_s is not None or wait.retry_s <= self.now)
            ]
            if not due:
                return
            job = min(due, key=lambda job: (self.ratio(self.jobs[job].owner), self.jobs[job].owner, job))
            asked.add(job)
            wait = self.waiting[job]
            if wait.opened_s is not None and job not in self.anew:
                self.collect(job)
                continue
            wait.opened_s = self.now if wait.opened_s is None else wait.opened_s
            wait.nodes = self.choose(job, wait.level)
            self.anew.discard(job)
            if self.collect(job) or self.clear_for(job) or self.start_spread(job):
                continue
            if self.reclaim(job):
                asked = set()

    # -- guideline 2, with moves -----------------------------------------------------------------------

    def clear_for(self, job: int) -> bool:
        """Jobs of one GPU move onto fuller nodes of such jobs where that makes room for a gang.

        That much the page says; in which order nodes are cleared, and that nobody moves twice, is ours.
        """
        if not (self.scene.migrate and self.scene.dedicated) or self.jobs[job].gpus == 1:
            return False
        wait, before = self.waiting[job], dict(self.running)
        nodes, held, wait.held = wait.nodes, wait.held, set()
        small, cleared, taking = self.small_jobs(), set[int](), set[int]()
        for node in sorted(small, key=lambda node: (len(small[node]), node)):
            cleared.add(node)
            to = {} if node in taking else self.moves_off(small[node], set(small) - cleared)
            taking |= {device[0] for device in to.values()}
            for other, device in to.items():
                self.running[other] = self.now, {device}
            wait.nodes = self.choose(job, wait.level)
            if to and self.collect(job):
                self.note_moves(before)
                return True
            wait.held = set()
        self.running = before
        wait.nodes, wait.held = nodes, held
        return False

    def small_jobs(self) -> dict[int, list[int]]:
        """By node, jobs of one GPU where nobody else is, nobody has begun just now, and all may move."""
        here: dict[int, list[int]] = {}
        for job, (_, place) in self.running.items():
            for node in {node for node, _ in place}:
                here.setdefault(node, []).append(job)
        return {
            node: sorted(jobs)
            for node, jobs in here.items()
            if all(self.jobs[job].gpus == 1 and self.running[job][0] < self.now for job in jobs)
        }

    def moves_off(self, jobs: list[int], nodes: set[int]) -> dict[int, tuple[int, int]]:
        """Where each of `jobs` goes, the fullest of `nodes` with room; nowhere if that is not so for all."""
        to: dict[int, tuple[int, int]] = {}
        for job in jobs:
            free = {
                node: [device for device in self.free_devices(node, -1) if device not in to.values()]
                for node in nodes
                if self.scene.types[node] in self.jobs[job].types
            }
            room = [(len(devices), node) for node, devices in free.items() if devices]
            if not room:
                return {}
            to[job] = free[min(room)[1]][0]
        return to

    def note_moves(self, before: dict[int, tuple[float, Place]]) -> None:
        """Who is elsewhere than before has moved now."""
        for other, was in before.items():
            new = self.running[other]
            if new != was:
                self.running[other] = was
                self.stop(other)
                self.running[other] = new

    # -- guideline 1, with moves -----------------------------------------------------------------------

    def start_spread(self, job: int) -> bool:
        """As close together as is possible at once."""
        if not self.scene.migrate or self.jobs[job].gpus == 1:
            return False
        wait = self.waiting[job]
        nodes, held, wait.held = wait.nodes, wait.held, set()
        for level in range(wait.level + 1, 3):
            wait.nodes = self.choose(job, level)
            if self.collect(job):
                return True
            wait.held = set()
        wait.nodes, wait.held = nodes, held
        return False

    def is_spread(self, place: Place) -> bool:
        """True if it is not in one rack, or on more nodes than that needs at least."""
        nodes = {node for node, _ in place}
        racks = {self.scene.racks[node] for node in nodes}
        sizes = [size for size, rack in zip(self.sizes, self.scene.racks, strict=True) if rack in racks]
        return len(racks) > 1 or len(nodes) > -(-len(place) // max(sizes))

    def width(self, place: Place) -> tuple[int, int]:
        return len({self.scene.racks[node] for node, _ in place}), len({node for node, _ in place})

    def bring_together(self) -> bool:
        """Gangs move onto the fewest nodes where those are free, first come first."""
        has_moved = False
        for job, (since_s, place) in sorted(self.running.items()):
            if since_s == self.now or self.jobs[job].gpus == 1 or not self.is_spread(place):
                continue
            del self.running[job]
            nodes = self.choose(job, 0)
            free = {node: self.free_devices(node, job) for node in nodes if self.is_open(node, job)}
            self.running[job] = since_s, place
            if sum(map(len, free.values())) < self.jobs[job].gpus:
                continue
            del self.running[job]
            self.waiting[job] = Wait(0, self.now, 0, nodes=nodes)
            assert self.collect(job)
            new = self.running[job]
            self.running[job] = since_s, place
            if self.width(new[1]) < self.width(place):  # else it gains nothing
                self.stop(job)
                self.running[job] = new
                has_moved = True
        return has_moved

    # -- nodes that are lost and back ------------------------------------------------------------------

    def hear(self) -> None:
        """What is told of nodes now: who ran there waits again, and open attempts look for nodes anew."""
        before = set(self.down)
        while self.news and self.news[0][0] <= self.now:
            _, node, is_back = self.news.pop(0)
            if is_back:
                self.down.discard(node)
                continue
            self.down.add(node)
            for job, (_, place) in sorted(self.running.items()):
                if any(at == node for at, _ in place):
                    self.stop(job)
                    self.enter(job)
        if self.down != before:
            self.anew = {job for job, wait in self.waiting.items() if wait.opened_s is not None}
            for job in self.anew:
                self.waiting[job].held = set()

    def run(self) -> list[list[Span]]:
        coming = list(range(len(self.jobs)))
        while coming or self.running or self.waiting:
            moments = [float(self.jobs[job].submit_s) for job in coming[:1]]
            moments += [since_s + self.left_s[job] for job, (since_s, _) in self.running.items()]
            moments += [at_s for at_s, _, _ in self.news[:1]]
            for wait in self.waiting.values():
                moments.append(wait.retry_s if wait.opened_s is None else wait.opened_s + TIMEOUT_S)
            self.now = min(moments)
            for job in [
                j for j, (since_s, _) in self.running.items() if since_s + self.left_s[j] <= self.now
            ]:
                self.stop(job)
            while coming and self.jobs[coming[0]].submit_s <= self.now:
                self.enter(coming.pop(0))
            over = [
                w
                for w in self.waiting.values()
                if w.opened_s is not None and w.opened_s + TIMEOUT_S <= self.now
            ]
            is_silent = self.now not in moments[: -len(self.waiting) or None] and not any(
                w.held for w in over
            )
            for wait in over:
                self.expire(wait)
            self.hear()
            if is_silent and not any(
                w.opened_s is None and w.retry_s <= self.now for w in self.waiting.values()
            ):
                continue  # attempts end that hold nothing: nobody looks
            self.decide()
            if self.scene.migrate and self.bring_together():
                self.decide()
        return self.spans


def scene_of(seed: int, guideline: str = "none") -> Scene:
    """One to five nodes, alike or not, in up to three racks and of up to two types; up to three owners."""
    draw = random.Random(seed)
    nodes, alike, owners = draw.randint(1, 5), draw.random() < 0.5, draw.choice([1, 2, 2, 3])
    sizes = [draw.choice([1, 2, 4, 8])] * nodes if alike else [draw.choice([2, 4, 8]) for _ in range(nodes)]
    kinds = draw.choice([1, 1, 2])
    types = sorted(draw.randrange(kinds) for _ in range(nodes))
    types = [kind - types[0] for kind in types]
    racks = sorted(draw.randrange(draw.choice([1, 2, 3])) for _ in range(nodes))
    racks = [sorted(set(racks)).index(rack) for rack in racks]
    total, jobs = sum(sizes), []
    for _ in range(draw.randint(3, 18)):
        gpus = min(draw.choice([1, 1, 2, 3, 4, 5, 8, 12, 16]), total)
        if draw.random() < 0.04:
            gpus = total + draw.randint(1, 9)  # it never fits
        run_s = draw.choice([draw.randint(1, 30), draw.randint(30, 400), draw.randint(100, 2000)])
        if draw.random() < 0.06:
            run_s = draw.choice([0, 12000])
        submit_s = draw.choice([0, 0, draw.randint(0, 60), draw.randint(0, 900), 60 * draw.randint(0, 10)])
        will_do = tuple(range(types[-1] + 1)) if draw.random() < 0.7 else (draw.randint(0, types[-1]),)
        jobs.append(Asked(submit_s, gpus, run_s, draw.randrange(owners), will_do))
    quotas = [0] * owners
    for _ in range(draw.choice([total, total, total // 2, 2 * total])):
        quotas[draw.randrange(owners)] += 1
    jobs.sort(key=lambda job: job.submit_s)
    relax_after, tight = draw.choice([1, 2, 2, 3]), draw.choice([0.9, 0.9, 0.5])
    patience_per_h = draw.choice([1, 5, 20, 36]) if guideline == "patience" else 0
    guidelines = patience_per_h, guideline in {"dedicated", "both"}, guideline in {"migrate", "both"}
    return Scene(jobs, sizes, racks, types, quotas, relax_after, tight, *guidelines)


def rota(scene: Scene) -> list[list[Span]]:
    """What the policy makes of the same scene."""
    names = tuple(f"vc{owner}" for owner in range(len(scene.quotas)))
    text = " ".join(f"j{n} {job.gpus}x{job.run_s}@{job.submit_s}" for n, job in enumerate(scene.jobs))
    every = set(scene.types)
    masks = [
        0 if set(job.types) == every else sum(1 << kind for kind in job.types) for job in scene.jobs
    ]  # 0: any will do
    names_of_types = tuple(f"T{kind}" for kind in sorted(every))
    trace = trace_of(
        text,
        tenant=[job.owner for job in scene.jobs],
        tenant_names=names,
        gpu_types=masks,
        type_names=names_of_types,
    )
    shapes = [
        NodeShape(1, size, f"T{kind}", levels={"rack": f"r{rack}"})
        for size, kind, rack in zip(scene.sizes, scene.types, scene.racks, strict=True)
    ]
    tenants = Tenants.of(*(Tenant(name, float(q)) for name, q in zip(names, scene.quotas, strict=True)))
    policy = f"philly:relax_after={scene.relax_after},reclaim_util={scene.tight}"
    policy += f",patience_per_h={scene.patience_per_h},dedicated={'yes' if scene.dedicated else 'no'}"
    policy += f",migrate={'yes' if scene.migrate else 'no'}"
    record = play(policy, trace, Cluster.build(shapes, tenants), Setting(faults=scene.faults))
    owner_of = [node for node, size in enumerate(scene.sizes) for _ in range(size)]
    spans: list[list[Span]] = [[] for _ in scene.jobs]
    for row in record.intervals.sort("start_s").iter_rows(named=True):
        on = [owner_of[device] for device in row["devices"]]
        place = tuple((node, on.count(node)) for node in sorted(set(on)))
        spans[int(row["job_id"][1:])].append((row["start_s"], row["end_s"], place))
    return spans


def joined(spans: list[list[Span]]) -> list[list[Span]]:
    """A job that is stopped and goes on at once in its place has not been stopped."""
    joined: list[list[Span]] = []
    for of_job in spans:
        joined.append([])
        for span in of_job:
            last: Any = joined[-1][-1] if joined[-1] else None
            if last and last[1:] == (span[0], span[2]):
                joined[-1][-1] = (last[0], *span[1:])
            else:
                joined[-1].append(span)
    return joined


def test_nobody_moves_who_gains_nothing_by_it() -> None:
    """Of the jobs' five GPUs four would fit on one node when A ends: that is still two nodes."""
    shapes = [NodeShape(1, 4, "T0"), NodeShape(1, 2, "T0"), NodeShape(1, 8, "T1")]
    trace = trace_of("A 1x50 B 8x900 C 5x900", gpu_types=[1, 2, 0], type_names=("T0", "T1"))
    record = play("philly:migrate=yes", trace, Cluster.build(shapes))
    assert record.intervals.filter(record.intervals["job_id"] == "C").height == 1


@each_seed(10, 140, 800, at_once=20)
def test_every_span_while_nodes_are_lost(seed: int) -> None:
    """Attempts look for nodes among those that are there, and anew whenever those are others."""
    scene = scene_of(seed, ("none", "none", "dedicated", "both")[seed % 4])
    scene = replace(scene, faults=outages(len(scene.sizes), seed))
    assert joined(rota(scene)) == joined(NaivePhilly(scene).run())


@pytest.mark.parametrize("guideline", ["patience", "dedicated", "migrate", "both"])
@each_seed(8, 125, 800, at_once=25)
def test_every_span_under_a_guideline(seed: int, guideline: str) -> None:
    """Longer jobs wait longer for locality; gangs are alone on their nodes."""
    scene = scene_of(seed, guideline)
    assert joined(rota(scene)) == joined(NaivePhilly(scene).run())


@each_seed(20, 260, 1500)
def test_every_span_of_every_job(seed: int) -> None:
    """Starts, ends and GPUs on each node, through quotas, retries, racks, types and jobs that never fit."""
    scene = scene_of(seed)
    assert joined(rota(scene)) == joined(NaivePhilly(scene).run())
