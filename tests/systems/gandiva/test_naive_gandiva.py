"""Gandiva written once more from its card: homes, turns and moves, all of it looked at at each event."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

import pytest

from outages import outages
from play import play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.worlds.simulated.faults import Fault, timeline
from rota.worlds.simulated.run import Setting
from tiers import each_seed

Span = tuple[float, float, tuple[int, ...]]
Spans = list[list[Span]]


@dataclass(frozen=True)
class Scene:
    """Jobs of (submission, GPUs, run time), servers of so many GPUs, and whether jobs may move."""

    jobs: list[tuple[int, int, int]]
    sizes: list[int]
    migration: bool
    quantum_s: int = 60
    threshold: float = 0.75
    faults: Sequence[Fault] = ()


@dataclass
class Home:
    """One server, or several joined for a job that needs them."""

    nodes: tuple[int, ...]
    gpus: int
    affinity: int = 0
    ring: list[int] = field(default_factory=list)
    running: set[int] = field(default_factory=set)
    turn_ends_s: float = math.inf


class NaiveGandiva:
    """Placement, turns and moves of the card."""

    def __init__(self, scene: Scene, told: Spans | None = None) -> None:
        """`told` says on which servers of a group its jobs run: who is on none that is lost runs on."""
        self.scene, self.jobs, self.now, self.told = scene, scene.jobs, 0.0, told or []
        self.left_s = [float(run_s) for _, _, run_s in scene.jobs]
        self.homes = [Home((node,), gpus) for node, gpus in enumerate(scene.sizes)]
        self.sizes = list(scene.sizes)
        """GPUs of each server, none of one that is lost."""
        self.news = timeline(scene.faults)
        """When servers are lost and back."""
        self.queue: list[int] = []
        self.moves = self.given_back = 0
        self.since_s: dict[int, tuple[float, tuple[int, ...]]] = {}
        self.spans: Spans = [[] for _ in scene.jobs]

    def demand(self, home: Home) -> int:
        return sum(self.jobs[job][1] for job in home.ring)

    def load(self, home: Home) -> tuple[Fraction, int]:
        return Fraction(self.demand(home), home.gpus), home.nodes[0]

    def fits(self, home: Home, gpus: int) -> bool:
        return self.demand(home) + gpus <= home.gpus

    # -- placing ---------------------------------------------------------------------------------------

    def place(self, gpus: int) -> Home | None:
        """Rules 1 to 6."""
        large = [home for home in self.homes if home.gpus >= gpus]
        n1 = min((h for h in large if h.affinity == gpus), key=self.load, default=None)
        n2 = min((h for h in large if not h.affinity), key=self.load, default=None)
        if gpus > max(self.sizes):  # it takes whole empty servers, as many as it needs
            n2 = None if n1 is not None and self.fits(n1, gpus) else self.join(gpus)
        n3 = min(large, key=self.load, default=None)
        if n1 is not None and self.fits(n1, gpus):
            return n1
        if n2 is not None:
            return n2
        if n3 is not None and self.fits(n3, gpus):
            return n3
        return n1

    def join(self, gpus: int) -> Home | None:
        """Whole empty servers for a job that is larger than any."""
        empty, nodes = [home for home in self.homes if not home.ring], list[Home]()
        for home in sorted(empty, key=lambda home: (-home.gpus, home.nodes)):
            nodes.append(home)
            if sum(one.gpus for one in nodes) >= gpus:
                joined = Home(tuple(sorted(one.nodes[0] for one in nodes)), sum(one.gpus for one in nodes))
                self.homes = [home for home in self.homes if home not in nodes] + [joined]
                return joined
        return None

    def settle(self, job: int) -> bool:
        gpus = self.jobs[job][1]
        home = self.place(gpus)
        if home is None and self.scene.migration and self.give_back(gpus):
            home = self.place(gpus)
        if home is None:
            return False
        home.affinity = home.affinity or gpus
        home.ring.append(job)
        return True

    def settle_all(self) -> None:
        """Whoever has no home asks for one, all of them again as long as somebody gets one."""
        waiting = -1
        while waiting != len(self.queue):
            waiting, refused = len(self.queue), set[int]()
            for job in list(self.queue):
                if self.jobs[job][1] not in refused and not self.settle(job):
                    refused.add(self.jobs[job][1])
                elif self.jobs[job][1] not in refused:
                    self.queue.remove(job)

    # -- groups of servers are given back --------------------------------------------------------------

    def give_back(self, gpus: int) -> bool:
        """Gangs go to others of their size if that leaves one server, or as many as it takes, for `gpus`."""
        on_one, total = gpus <= max(self.sizes), 0
        if not on_one:
            total = sum(home.gpus for home in self.homes if not home.ring)
        given = list[Home]()
        groups = [home for home in self.homes if len(home.nodes) > 1]
        for home in sorted(groups, key=lambda home: (home.gpus, home.nodes[0])):
            largest = max(self.sizes[node] for node in home.nodes)
            if (on_one and largest < gpus) or not self.can_do_without([*given, home]):
                continue
            given.append(home)
            total += largest if on_one else home.gpus
            if total >= gpus:
                break
        else:
            return False
        for home in given:
            for job in list(home.ring):
                target = self.alike(job, given)
                assert target is not None
                self.given_back += 1
                self.leave(home, job)
                target.ring.append(job)
        return True

    def can_do_without(self, homes: list[Home]) -> bool:
        return all(self.alike(job, homes) is not None for home in homes for job in home.ring)

    def alike(self, job: int, but: list[Home]) -> Home | None:
        """The least loaded home for the size of `job` that is none of `but`."""
        gpus = self.jobs[job][1]
        others = [home for home in self.homes if not any(home is one for one in but)]
        fitting = [home for home in others if home.affinity == gpus <= home.gpus]
        return min(fitting, key=self.load, default=None)

    def leave(self, home: Home, job: int) -> None:
        home.ring.remove(job)
        home.running.discard(job)
        if not home.ring:
            home.affinity, home.turn_ends_s = 0, math.inf
            if len(home.nodes) > 1:
                self.homes.remove(home)
                self.homes += [Home((node,), self.sizes[node]) for node in home.nodes]

    # -- turns -----------------------------------------------------------------------------------------

    def turn(self, home: Home) -> None:
        """Who comes first in the ring runs for a quantum."""
        free, taken = home.gpus, list[int]()
        for job in home.ring:
            if self.jobs[job][1] <= free:
                taken.append(job)
                free -= self.jobs[job][1]
        home.ring = [job for job in home.ring if job not in taken] + taken
        home.running = set(taken)
        quantum_s = self.scene.quantum_s
        others = [other.turn_ends_s for other in self.homes if other is not home]
        soon = [end for end in others if self.now + quantum_s / 2 <= end <= self.now + quantum_s]
        home.turn_ends_s = max(soon, default=self.now + quantum_s)

    # -- the clock -------------------------------------------------------------------------------------

    def hear(self) -> bool:
        """Lost servers are no homes, and whoever belonged there has none; True if others fell free."""
        is_any_free = False
        while self.news and self.news[0][0] <= self.now:
            _, lost, is_back = self.news.pop(0)
            if is_back:
                self.sizes[lost] = self.scene.sizes[lost]
                self.homes.append(Home((lost,), self.sizes[lost]))
                is_any_free = True
                continue
            self.sizes[lost] = 0
            home = next(home for home in self.homes if lost in home.nodes)
            stays = {job: nodes for job in home.ring if (nodes := self.goes_on(job))}
            for job in home.running & self.since_s.keys() - stays.keys():
                self.stop(job)
            self.queue = sorted(self.queue + [job for job in home.ring if job not in stays])
            self.homes.remove(home)
            rest = [Home((node,), self.sizes[node]) for node in home.nodes if node != lost]
            self.homes += rest
            is_any_free |= bool(rest)
            for job, nodes in sorted(stays.items()):
                self.take_over(job, nodes)
        return is_any_free

    def goes_on(self, job: int) -> tuple[int, ...]:
        """Where `job` runs that is not stopped now."""
        spans = self.told[job] if self.told else []
        return next((nodes for begin_s, end_s, nodes in spans if begin_s < self.now < end_s), ())

    def take_over(self, job: int, nodes: tuple[int, ...]) -> None:
        """The servers on which `job` runs are its home now."""
        spanned = [home for home in self.homes if set(nodes) & set(home.nodes)]
        joined = Home(
            tuple(sorted(node for home in spanned for node in home.nodes)),
            sum(home.gpus for home in spanned),
            next((home.affinity for home in spanned if home.affinity), self.jobs[job][1]),
            [*(one for home in spanned for one in home.ring), job],
            {*(one for home in spanned for one in home.running), job},
        )
        self.homes = [home for home in self.homes if home not in spanned] + [joined]

    def run(self) -> Spans:
        coming = list(range(len(self.jobs)))
        while coming or self.since_s or (self.queue and self.news):
            moments = [float(self.jobs[job][0]) for job in coming[:1]]
            moments += [since_s + self.left_s[job] for job, (since_s, _) in self.since_s.items()]
            moments += [home.turn_ends_s for home in self.homes]
            moments += [at_s for at_s, _, _ in self.news[:1]]
            self.now = min(moments)
            ended = [j for j, (since_s, _) in self.since_s.items() if since_s + self.left_s[j] <= self.now]
            shorter = [home for home in self.homes if home.running & set(ended)]
            for job in ended:
                self.stop(job)
                self.leave(next(home for home in self.homes if job in home.ring), job)
            while coming and self.jobs[coming[0]][0] <= self.now:
                self.queue.append(coming.pop(0))
            is_any_free = self.hear() or bool(ended)
            given_back = self.given_back
            self.settle_all()
            if (is_any_free or self.given_back > given_back) and self.scene.migration:
                before = self.moves
                self.move()
                if self.moves > before:
                    self.settle_all()
            for home in self.homes:
                if self.demand(home) <= home.gpus:
                    home.running, home.turn_ends_s = set(home.ring), math.inf
                elif home.turn_ends_s <= self.now or any(home is one for one in shorter):
                    home.turn_ends_s = math.inf
            for home in self.homes:
                if self.demand(home) > home.gpus and home.turn_ends_s == math.inf:
                    self.turn(home)
                elif self.demand(home) > home.gpus:
                    self.join_turn(home)
            self.switch()
        return self.spans

    def join_turn(self, home: Home) -> None:
        """Who fits beside those whose turn it is runs as well."""
        free, joined = home.gpus - sum(self.jobs[job][1] for job in home.running), list[int]()
        for job in home.ring:
            if job not in home.running and self.jobs[job][1] <= free:
                joined.append(job)
                free -= self.jobs[job][1]
        home.ring = [job for job in home.ring if job not in joined] + joined
        home.running |= set(joined)

    # -- moves, when somebody has left -----------------------------------------------------------------

    def room(self, home: Home) -> int:
        return home.gpus - self.demand(home)

    def fullest(self, job: int, below: float = math.inf) -> Home | None:
        """The home with the fewest free GPUs on which `job` needs no turns."""
        fits = [home for home in self.homes if self.jobs[job][1] <= self.room(home) < below]
        return min(fits, key=lambda home: (self.room(home), home.nodes[0]), default=None)

    def send(self, job: int, source: Home, target: Home) -> None:
        self.moves += 1
        self.leave(source, job)
        target.affinity = target.affinity or self.jobs[job][1]
        target.ring.append(job)

    def move(self) -> None:
        """Jobs that take turns go where GPUs fell free; nearly empty servers are cleared."""
        crowded = [home for home in self.homes if self.room(home) < 0]
        for source in sorted(crowded, key=lambda home: (-self.load(home)[0], home.nodes[0])):
            for job in list(source.ring):
                target = self.fullest(job) if self.room(source) < 0 else None
                if self.room(source) < 0 and target is None and self.jobs[job][1] > max(self.sizes):
                    target = self.join(self.jobs[job][1])
                if target is not None:
                    self.send(job, source, target)
        settled = list[Home]()
        while True:
            sources = [
                home
                for home in self.homes
                if home.ring and len(home.nodes) == 1 and not any(home is one for one in settled)
                if self.room(home) >= self.scene.threshold * home.gpus
            ]
            if not sources:
                return
            source = min(sources, key=lambda home: (-self.room(home), home.nodes[0]))
            targets = 0
            for job in list(source.ring):
                target = self.fullest(job, below=self.room(source))
                if target is not None:
                    self.send(job, source, target)
                    targets += 1
            if not targets:
                settled.append(source)

    def stop(self, job: int) -> None:
        since_s, nodes = self.since_s.pop(job)
        self.left_s[job] -= self.now - since_s
        if self.now > since_s or not self.jobs[job][2]:
            self.spans[job].append((since_s, self.now, nodes))

    def switch(self) -> None:
        """Who is to run does, on his server, and nobody else."""
        running = {job: home.nodes for home in self.homes for job in home.running}
        for job, (_, nodes) in list(self.since_s.items()):
            if running.get(job) != nodes:
                self.stop(job)
        for job, nodes in running.items():
            self.since_s.setdefault(job, (self.now, nodes))


def scene_of(seed: int, migration: bool) -> Scene:
    """One to four servers, up to twenty jobs, most of the sizes that divide a server."""
    draw = random.Random(seed)
    nodes = draw.randint(1, 4)
    alike = draw.random() < 0.5
    sizes = [draw.choice([1, 2, 4, 8])] * nodes if alike else [draw.choice([2, 4, 8]) for _ in range(nodes)]
    jobs = []
    for _ in range(draw.randint(2, 20)):
        gpus = draw.choice([1, 1, 1, 2, 2, 3, 4, 4, 5, 8, 12])
        run_s = draw.choice([draw.randint(1, 60), draw.randint(30, 400), 60 * draw.randint(1, 5)])
        if draw.random() < 0.05:
            run_s = draw.choice([0, 9000])
        submit_s = draw.choice([0, 0, draw.randint(0, 100), 60 * draw.randint(0, 5), draw.randint(0, 900)])
        jobs.append((submit_s, gpus, run_s))
    jobs.sort(key=lambda job: job[0])
    return Scene(jobs, sizes, migration)


def gangs_of(seed: int) -> Scene:
    """Four to eight servers, gangs of two or three of them, and jobs of one or of many that come later."""
    draw = random.Random(f"gangs {seed}")
    nodes = draw.randint(4, 8)
    size = draw.choice([1, 2, 4])
    sizes = [size] * nodes if draw.random() < 0.7 else [draw.choice([size, 2 * size]) for _ in range(nodes)]
    jobs = []
    for _ in range(draw.randint(4, 14)):
        gpus = size * draw.choice([2, 2, 2, 3, 3, 4, nodes // 2, 1])
        run_s = draw.choice([draw.randint(1, 200), draw.randint(60, 900)])
        jobs.append((draw.choice([0, draw.randint(0, 600)]), gpus, run_s))
    for _ in range(draw.randint(1, 8)):
        gpus = draw.choice([1, 1, size, max(size // 2, 1), size * (nodes - 1)])
        jobs.append((draw.randint(50, 900), gpus, draw.randint(1, 300)))
    jobs.sort(key=lambda job: job[0])
    return Scene(jobs, sizes, migration=True)


def rota(scene: Scene) -> Spans:
    """What the policy makes of the same scene."""
    text = " ".join(f"j{n} {gpus}x{run_s}@{submit_s}" for n, (submit_s, gpus, run_s) in enumerate(scene.jobs))
    policy = f"gandiva:migration={'yes' if scene.migration else 'no'}"
    cluster = Cluster.build([NodeShape(1, size) for size in scene.sizes])
    record = play(policy, trace_of(text), cluster, Setting(faults=scene.faults))
    node_of = [node for node, size in enumerate(scene.sizes) for _ in range(size)]
    spans: Spans = [[] for _ in scene.jobs]
    for row in record.intervals.sort("start_s").iter_rows(named=True):
        nodes = tuple(sorted({node_of[device] for device in row["devices"]}))
        spans[int(row["job_id"][1:])].append((row["start_s"], row["end_s"], nodes))
    return spans


def agree(ours: Spans, naive: Spans) -> bool:
    """The same moments, and GPUs within the home; within a group of servers a job may change places.

    Or keep its place when another server of the group is lost.
    """
    for mine, others in zip(ours, joined(naive), strict=True):
        left = cut(mine, {moment for begin_s, end_s, _ in others for moment in (begin_s, end_s)})
        for begin_s, end_s, nodes in others:
            while left and left[0][0] == begin_s and left[0][1] <= end_s and set(left[0][2]) <= set(nodes):
                begin_s = left.pop(0)[1]
            if begin_s < end_s:
                return False
        if left:
            return False
    return True


def cut(spans: list[Span], moments: set[float]) -> list[Span]:
    """`spans` in pieces that end at `moments`, without those of no length."""
    pieces = list[Span]()
    for begin_s, end_s, nodes in spans:
        within = sorted(moment for moment in moments if begin_s < moment < end_s)
        pieces += [(*piece, nodes) for piece in pairwise([begin_s, *within, end_s]) if piece[0] < piece[1]]
    return pieces


def joined(spans: Spans) -> Spans:
    """A job that goes on at once where it was has not stopped."""
    out: Spans = []
    for of_job in spans:
        out.append([])
        for span in of_job:
            if span[1] == span[0]:
                continue  # a turn that a job of no length cut short
            if out[-1] and out[-1][-1][1:] == (span[0], span[2]):
                out[-1][-1] = (out[-1][-1][0], *span[1:])
            else:
                out[-1].append(span)
    return out


@pytest.mark.parametrize("migration", [False, True])
@each_seed(40, 160, 800, at_once=10)
def test_every_turn_of_every_job(seed: int, *, migration: bool) -> None:
    """Homes, groups of servers, turns that end together, moves, jobs of no length and jobs that never fit."""
    scene = scene_of(seed, migration)
    assert agree(rota(scene), NaiveGandiva(scene).run())


@each_seed(60, 300, 1200, at_once=20)
def test_every_turn_where_gangs_give_servers_back(seed: int) -> None:
    """Most of these scenes have somebody without a home, and one in three a gang that goes back for that."""
    scene = gangs_of(seed)
    assert agree(rota(scene), NaiveGandiva(scene).run())


@pytest.mark.parametrize("gangs", [False, True])
@each_seed(10, 120, 800, at_once=20)
def test_every_turn_while_servers_are_lost(seed: int, *, gangs: bool) -> None:
    """Who belonged there asks for a home by submission; what a group leaves is there for moves."""
    scene = gangs_of(seed) if gangs else scene_of(seed, migration=False)
    scene = replace(scene, faults=outages(len(scene.sizes), seed))
    ours = rota(scene)
    assert agree(ours, NaiveGandiva(scene, ours).run())


def test_a_turn_does_not_end_with_one_that_has_just_been_given_up() -> None:
    """Both homes lose a job at 65: the turn of the first is over, so the second's lasts a whole minute."""
    record = play("gandiva:migration=no", "A 2x289 B 1x300 C 1x5 D 2x5 E 1x300@52", "1x1,1x1,1x1")
    spans = record.intervals.filter(record.intervals["job_id"] == "B").sort("start_s")
    assert spans.select("start_s", "end_s").rows()[:3] == [(0, 60), (65, 125), (185, 245)]


def test_what_a_group_has_left_when_it_loses_a_server_is_taken_at_once() -> None:
    """A gang of two servers loses one: the other one stood idle beside three jobs that took turns."""
    lost = Setting(faults=[Fault(0, 100.0, 5000.0)])
    record = play("gandiva", "A 4x1000 B 1x600 C 1x600 D 1x600", "3x2", lost)
    ends = dict(record.jobs.select("job_id", "finish_s").iter_rows())
    assert max(ends[name] for name in "BCD") == 660.0
