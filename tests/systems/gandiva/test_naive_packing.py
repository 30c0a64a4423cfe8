"""Gandiva's packing and growing written once more from its card, on top of the naive turns."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from itertools import combinations

import pytest
from test_naive_gandiva import Home, NaiveGandiva, Scene

from play import play, trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.trace import Trace
from rota.worlds.simulated.interference import Interference
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.slowdowns import Slowdowns
from rota.worlds.simulated.speed import FixedDuration
from stays import are_alike, merged
from tiers import each_seed

Span = tuple[float, float, tuple[int, ...], int, bool]
"""From when to when, on which nodes, on how many GPUs, and whether beside another job."""
DEVICE_GIB = 16.0


@dataclass(frozen=True)
class Programs:
    """What each job leaves of a GPU, needs of its memory, and does beside each other one."""

    use: list[float]
    memory_gib: list[float]
    beside: dict[tuple[int, int], float]
    largest: list[int]
    """GPUs that it may grow to."""


@dataclass
class Room:
    """What a home knows of pairs and of idle GPUs; a pair has one place in the ring, its first's."""

    partner: dict[int, int] = field(default_factory=dict)
    trial: int = -1
    idle_since_s: float = math.inf
    """Since when there have been idle GPUs that somebody could use."""


class NaiveIntrospection(NaiveGandiva):
    """Turns of units, each a job or a pair; idle GPUs for who can use them."""

    def __init__(self, scene: Scene, programs: Programs) -> None:
        super().__init__(scene)
        self.programs = programs
        self.bad = set[frozenset[int]]()
        self.has_run_alone = set[int]()
        self.rooms: dict[int, tuple[Home, Room]] = {}
        self.held: dict[int, tuple[float, tuple[int, ...], int, int | None]] = {}
        self.extra = [0] * len(scene.jobs)
        self.stays: list[list[Span]] = [[] for _ in scene.jobs]

    def room_of(self, home: Home) -> Room:
        return self.rooms.setdefault(id(home), (home, Room()))[1]

    def members(self, home: Home) -> list[int]:
        partner = self.room_of(home).partner
        return [job for one in home.ring for job in (one, partner.get(one)) if job is not None]

    def demand(self, home: Home) -> int:
        return sum(self.jobs[job][1] for job in self.members(home))

    def width(self, home: Home) -> int:
        """GPUs that all jobs of `home` take if pairs share theirs."""
        return sum(self.jobs[job][1] for job in home.ring)

    # -- packing ---------------------------------------------------------------------------------------

    def part(self, home: Home, one: int) -> None:
        """Two jobs again, side by side."""
        room = self.room_of(home)
        home.ring.insert(home.ring.index(one) + 1, room.partner.pop(one))
        if room.trial == one:
            room.trial = -1

    def leave(self, home: Home, job: int) -> None:
        for one, other in list(self.room_of(home).partner.items()):
            if job in (one, other):
                self.part(home, one)
        super().leave(home, job)

    def may_share(self, home: Home, one: int, other: int) -> bool:
        gpus, head = self.jobs[one][1], home.ring[0]
        memory = self.programs.memory_gib[one] + self.programs.memory_gib[other]
        return (
            gpus == self.jobs[other][1]
            and frozenset((one, other)) not in self.bad
            and memory * 1.1 <= DEVICE_GIB
            and (head in (one, other) or self.jobs[head][1] + gpus <= home.gpus)
        )

    def next_pair(self, home: Home) -> tuple[int, int] | None:
        """The least busy first, then the least busy partner, of those whose rate alone was measured."""
        partner, use = self.room_of(home).partner, self.programs.use
        single = [job for job in home.ring if job not in partner and job in self.has_run_alone]
        light = sorted((job for job in single if use[job] < 1.0), key=lambda job: (use[job], job))
        pairs = (pair for pair in combinations(light, 2) if self.may_share(home, *pair))
        return next(pairs, None)

    def review(self, home: Home) -> None:
        """When a turn begins: judge who ran together, part who need not, and choose whom to try."""
        self.judge(home)
        self.part_needless(home)
        room = self.room_of(home)
        if self.width(home) > home.gpus and room.trial < 0:
            pair = self.next_pair(home)
            if pair is not None:
                home.ring = [pair[0], *(job for job in home.ring if job not in pair)]
                room.partner[pair[0]] = pair[1]
                room.trial = pair[0]

    def judge(self, home: Home) -> None:
        """Who does no more together than in turns is parted for good."""
        room, beside = self.room_of(home), self.programs.beside
        for one, other in list(room.partner.items()):
            if not all(job in self.held and self.held[job][3] is not None for job in (one, other)):
                continue  # they have not had their turn
            if room.trial == one:
                room.trial = -1
            if beside[one, other] + beside[other, one] <= 1.0:
                self.part(home, one)
                self.bad.add(frozenset((one, other)))

    def part_needless(self, home: Home) -> None:
        """Nobody is packed while GPUs are free."""
        for one, other in list(self.room_of(home).partner.items()):
            if self.width(home) + self.jobs[other][1] <= home.gpus:
                self.part(home, one)

    # -- turns -----------------------------------------------------------------------------------------

    def turn(self, home: Home) -> None:
        self.review(home)
        super().turn(home)
        self.call_partners(home)

    def join_turn(self, home: Home) -> None:
        self.part_needless(home)
        home.running &= set(home.ring)
        super().join_turn(home)
        self.call_partners(home)

    def call_partners(self, home: Home) -> None:
        home.running |= {other for one, other in self.room_of(home).partner.items() if one in home.running}

    # -- the clock -------------------------------------------------------------------------------------

    def rate(self, job: int) -> float:
        _, _, gpus, pair = self.held[job]
        if pair is not None:
            return self.programs.beside[job, pair]
        return gpus / self.jobs[job][1]

    def advance(self, until_s: float) -> list[int]:
        """Work is done; who has none left."""
        ended = list[int]()
        for job in self.held:
            rate = self.rate(job)
            self.left_s[job] -= rate * (until_s - self.now)
            if self.left_s[job] <= 1e-6:
                ended.append(job)
        if until_s > self.now:
            self.has_run_alone |= {job for job, held in self.held.items() if held[3] is None}
        self.now = until_s
        return ended

    def next_s(self, coming: list[int]) -> float:
        moments = [float(self.jobs[job][0]) for job in coming[:1]]
        moments += [self.now + self.left_s[job] / self.rate(job) for job in self.held]
        moments += [home.turn_ends_s for home in self.homes]
        moments += [moment for home in self.homes if (moment := self.grows_s(home)) > self.now]
        moment, near = min(moments), round(min(moments), 7)
        return moment if near <= self.now < moment else near  # time would stand still

    def play(self) -> list[list[Span]]:
        coming = list(range(len(self.jobs)))
        while coming or self.held:
            ended = self.advance(self.next_s(coming))
            before = {id(home): set(self.members(home)) for home in self.homes}
            shorter = [home for home in self.homes if home.running & set(ended)]
            for job in ended:
                self.halt(job)
                home = next(home for home in self.homes if job in self.members(home))
                self.leave(home, job)
            while coming and self.jobs[coming[0]][0] <= self.now:
                self.queue += [job for job in [coming.pop(0)] if self.jobs[job][1] <= sum(self.scene.sizes)]
            self.settle_all()
            if ended and self.scene.migration:
                moves = self.moves
                self.move()
                if self.moves > moves:
                    self.settle_all()
            for home in self.homes:
                self.look(home, any(home is one for one in shorter))
            for home in self.homes:
                if home.turn_ends_s == math.inf and self.demand(home) > home.gpus:
                    self.turn(home)
                elif self.demand(home) > home.gpus:
                    self.join_turn(home)
            for home in self.homes:
                self.shrink(home)
                grew = self.grow(home)  # on what was idle, also if somebody has just taken some of it
                if grew or before.get(id(home), set()) != set(self.members(home)):
                    self.room_of(home).idle_since_s = self.now if self.can_grow(home) else math.inf
            self.hand_over()
        return self.stays

    def look(self, home: Home, shortened: bool) -> None:
        if self.demand(home) <= home.gpus:
            if shortened or home.turn_ends_s <= self.now:
                self.judge(home)
            for one in list(self.room_of(home).partner):
                self.part(home, one)
            home.running, home.turn_ends_s = set(home.ring), math.inf
        elif home.turn_ends_s <= self.now or shortened:
            home.turn_ends_s = math.inf

    # -- growing ---------------------------------------------------------------------------------------

    def idle(self, home: Home) -> int:
        return home.gpus - self.demand(home) - sum(self.extra[job] for job in home.ring)

    def can_grow(self, home: Home) -> bool:
        return self.idle(home) > 0 and any(self.wants(job) for job in home.ring)

    def grows_s(self, home: Home) -> float:
        """The moment at which GPUs of `home` that somebody could use have been idle for long enough."""
        return self.room_of(home).idle_since_s + 60 if home.ring else math.inf

    def wants(self, job: int) -> int:
        return self.programs.largest[job] - self.jobs[job][1] - self.extra[job]

    def shrink(self, home: Home) -> None:
        for job in reversed(home.ring):
            if self.idle(home) < 0:
                self.extra[job] -= min(self.extra[job], -self.idle(home))

    def grow(self, home: Home) -> bool:
        if self.queue or self.grows_s(home) > self.now:
            return False
        for job in home.ring:
            if self.idle(home) > 0:
                self.extra[job] += min(self.wants(job), self.idle(home))
        return True

    # -- what is written down --------------------------------------------------------------------------

    def halt(self, job: int) -> None:
        since_s, nodes, gpus, pair = self.held.pop(job)
        if self.now > since_s:
            self.stays[job].append((since_s, self.now, nodes, gpus, pair is not None))

    def hand_over(self) -> None:
        holds = {}
        for home in self.homes:
            beside = self.room_of(home).partner
            beside = beside | {other: one for one, other in beside.items()}
            for job in home.running:
                holds[job] = home.nodes, self.jobs[job][1] + self.extra[job], beside.get(job)
        for job in list(self.held):
            if holds.get(job) != self.held[job][1:]:
                self.halt(job)
        for job, (nodes, gpus, pair) in holds.items():
            self.held.setdefault(job, (self.now, nodes, gpus, pair))


def scene_of(seed: int, kind: str) -> tuple[Scene, Programs]:
    """Up to three servers and twelve jobs, many of them light on a GPU, elastic, or both."""
    draw = random.Random(seed)
    nodes = draw.choice([1, 1, 2, 3])
    sizes = [draw.choice([1, 2, 4])] * nodes if draw.random() < 0.7 else [2, 4, 1][:nodes]
    jobs = []
    for _ in range(draw.randint(2, 12)):
        gpus = draw.choice([1, 1, 1, 2, 2, 4])
        run_s = draw.choice([draw.randint(1, 200), 60 * draw.randint(1, 8), draw.randint(200, 900)])
        submit_s = draw.choice([0, 0, draw.randint(0, 100), 60 * draw.randint(0, 5), draw.randint(0, 900)])
        jobs.append((submit_s, gpus, run_s))
    jobs.sort(key=lambda job: job[0])
    number = range(len(jobs))
    packs, grows = kind != "growing", kind != "packing"
    use = [draw.choice([0.2, 0.25, 0.5, 0.75, 1.0]) if packs else 1.0 for _ in number]
    memory_gib = [draw.choice([1.0, 4.0, 6.0, 8.0, 12.0]) for _ in number]
    beside = {(one, other): draw.choice([0.25, 0.5, 0.75, 1.0]) for one in number for other in number}
    largest = [job[1] * draw.choice([1, 2, 3]) if grows else job[1] for job in jobs]
    return Scene(jobs, sizes, migration=draw.random() < 0.5), Programs(use, memory_gib, beside, largest)


def rota(scene: Scene, programs: Programs) -> list[list[Span]]:
    trace, cluster = asked_of_rota(scene, programs)
    pairs = {
        (f"w{one}", f"w{other}"): (rate, programs.beside[other, one])
        for (one, other), rate in programs.beside.items()
    }
    company = Interference(pairs=pairs, utilisation=used(programs))
    return stays_of(scene, trace, cluster, FixedDuration(trace.jobs, cluster, Slowdowns(company=company)))


def asked_of_rota(scene: Scene, programs: Programs) -> tuple[Trace, Cluster]:
    """The scene in the words of the house; each job has a workload of its own, w0 and so on."""
    text = " ".join(f"j{n} {gpus}x{run_s}@{submit_s}" for n, (submit_s, gpus, run_s) in enumerate(scene.jobs))
    names = tuple(f"w{n}" for n in range(len(scene.jobs)))
    trace = trace_of(
        text,
        gpus_max=programs.largest,
        gpu_memory_gib=programs.memory_gib,
        workload=list(range(len(names))),
        workload_names=names,
    )
    return trace, Cluster.build([NodeShape(1, size, gpu_memory_gib=DEVICE_GIB) for size in scene.sizes])


def used(programs: Programs) -> dict[str, float]:
    """Utilisation of each workload when it runs alone."""
    return {f"w{n}": use for n, use in enumerate(programs.use)}


def stays_of(scene: Scene, trace: Trace, cluster: Cluster, speed: FixedDuration) -> list[list[Span]]:
    """What the policy makes of it, job by job."""
    policy = f"gandiva:migration={'yes' if scene.migration else 'no'}"
    record = play(policy, trace, cluster, Setting(speed=speed))
    node_of = [node for node, size in enumerate(scene.sizes) for _ in range(size)]
    stays: list[list[Span]] = [[] for _ in scene.jobs]
    for row in record.intervals.sort("start_s").iter_rows(named=True):
        if row["end_s"] > row["start_s"]:
            nodes = tuple(sorted({node_of[device] for device in row["devices"]}))
            span = row["start_s"], row["end_s"], nodes, len(row["devices"]), row["role"] == "packed"
            stays[int(row["job_id"][1:])].append(span)
    return stays


@pytest.mark.parametrize("kind", ["packing", "growing", "both"])
@each_seed(20, 130, 1000, at_once=10)
def test_every_stay_of_every_job(seed: int, kind: str) -> None:
    """Starts, ends, GPUs and company of every job."""
    scene, programs = scene_of(seed, kind)
    assert are_alike(rota(scene, programs), NaiveIntrospection(scene, programs).play())


def test_a_pair_parts_when_others_move_away() -> None:
    """D's server is empty at 150 and takes those who are not in the pair: each of the two has a GPU then."""
    scene = Scene([(0, 2, 150), *[(0, 1, 900)] * 4], [2, 2], migration=True)
    beside = {(one, other): 0.75 for one in range(5) for other in range(5)}
    programs = Programs([1.0, 0.2, 0.2, 1.0, 1.0], [1.0] * 5, beside, [2, 1, 1, 1, 1])
    stays = rota(scene, programs)
    assert {end_s for _, end_s, _, _, is_packed in stays[1] if is_packed} == {150.0}
    assert are_alike(stays, NaiveIntrospection(scene, programs).play())


def test_nobody_grows_on_what_another_has_grown_to() -> None:
    """B brings its two GPUs to A's server at 89; A could use one of them, but it is not idle."""
    scene = Scene([(0, 2, 307), (13, 1, 443), (26, 2, 63)], [4, 4], migration=True)
    programs = Programs([1.0] * 3, [1.0] * 3, {}, [6, 2, 4])
    assert [gpus for *_, gpus, _ in merged(rota(scene, programs))[1]] == [1, 2, 2]
