"""Suspend-resume turns: which jobs of a server run now, for how long, and on which of its GPUs.

The jobs of a server stand in a circle.  In each turn it is walked from the head; a job that fits what is
still free runs, and goes to the tail.  The head always runs, so that no gang waits for ever; and room that a
gang leaves is used by those behind it, which fixed groups would leave idle.

In most homes counting GPUs decides, and each is looked at by itself.  Where jobs share devices, grow, or ask
for more than GPUs, placements are tried out.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from rota.model.grants import Code, Constraint, Grant
from rota.model.whole import is_made_whole, whole_grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import consolidate
from rota.stages.runners import Fits, Runner, RunnerPlacement
from rota.stages.turn_lengths import TurnLengths
from rota.systems.gandiva.derived import Derived
from rota.systems.gandiva.introspection import Growth, PairTrials
from rota.systems.gandiva.parameters import GandivaParameters
from rota.systems.gandiva.servers import EPSILON, ServerGroup, members
from rota.table.free import mask_of

TAKES_TURNS = Constraint(
    Code.POLICY, detail="waits for its turn on a server for jobs of its size; what is free is on others"
)
"""Reason for a waiting job that would fit on what is free."""


def take_turn(circle: list[int], fits: Fits) -> list[int]:
    """The jobs of the next turn; they go to the tail of `circle`, in order, unless all jobs run."""
    taken = [row for row in circle if fits(row)]
    _to_tail(circle, taken)
    return taken


def join_turn(circle: list[int], running: Collection[int], fits: Fits) -> list[int]:
    """The jobs of a turn under way: the running jobs, and others that fit beside them."""
    stay = [row for row in circle if row in running and fits(row)]
    joined = [row for row in circle if row not in running and fits(row)]
    _to_tail(circle, joined)
    return stay + joined


def take_turn_by_count(circle: list[int], sizes: Sequence[int], room: int) -> tuple[list[int], list[int]]:
    """`take_turn` where counting decides: `sizes` GPUs of each job, `room` in all.

    Also returns the jobs of the circle that are left out.
    """
    taken: list[int] = []
    left: list[int] = []
    row: Any  # as in `TurnDevices.swap`
    for row in circle:
        size: int = sizes[row]
        if size <= room:
            room -= size
            taken.append(row)
        else:
            left.append(row)
    if left:
        circle[:] = left + taken
    return taken, left


def counting(sizes: Sequence[int], room: int) -> Fits:
    """Whether a job fits on `room` GPUs, from which it then takes its own."""

    def fits(row: int) -> bool:
        nonlocal room
        if sizes[row] > room:
            return False
        room -= sizes[row]
        return True

    return fits


def _to_tail(circle: list[int], rows: list[int]) -> None:
    if len(rows) < len(circle):
        gone = set(rows)
        circle[:] = [row for row in circle if row not in gone] + rows


class ServerTurns:
    """The turns of one moment."""

    def __init__(
        self,
        snapshot: Snapshot,
        parameters: GandivaParameters,
        derived: Derived,
        trials: PairTrials,
        growth: Growth,
        lengths: TurnLengths,
    ) -> None:
        self.snapshot = snapshot
        self.p = parameters
        self.derived = derived
        self.trials = trials
        self.growth = growth
        self.lengths = lengths
        self.left: set[int] = set()
        self.moved: set[int] = set()
        self.now = snapshot.now
        self.sizes = snapshot.gpus_of
        self.homes = derived.homes
        self.grounds = derived.grounds
        self._is_bare = snapshot.is_bare
        self._may_grow: bool = parameters.grow and derived.grounds.somebody_stretches
        self._packs: bool = parameters.packing

    def seat(self, keys: list[int], left: set[int], moved: set[int]) -> tuple[list[Grant], list[int]]:
        """Grants to jobs of the homes `keys`, in order, that come or move; and the jobs that leave.

        Jobs have `left` some of the homes; in some that are `moved`, a job holds devices of another home.
        """
        self.left, self.moved = left, moved
        swaps, others = TurnDevices(self.snapshot, self.derived), []
        for key in keys:
            home = self.homes.homes[key]
            if self._is_simple(key, home):
                self._take_turn(key, home, swaps)
            else:
                others.append(key)
        for row in swaps.leaving:
            self.trials.note_rate(row)
        if not (others or self.derived.without_gpus):
            return swaps.grants, swaps.leaving
        grants, leaving = self._place_runners(others, swaps)
        return swaps.grants + grants, swaps.leaving + leaving

    # -- homes in which counting decides -----------------------------------------------------------

    def _is_simple(self, key: int, home: ServerGroup) -> bool:
        """True if counting says which jobs run: one server, no pair, no job that grows or has moved."""
        return (
            len(home["nodes"]) == 1
            and self._counts(home["circle"])
            and not home["pairs"]
            and key not in self.moved
            and not (self._may_grow and any(self.grounds.stretches[row] for row in home["circle"]))
            and not (self._packs and self.homes.room(home) < -EPSILON and self._will_pair(key, home))
        )

    def _counts(self, rows: Sequence[int]) -> bool:
        """True if counting GPUs says which of `rows` can run together on nodes that they may use."""
        if not self._is_bare:
            return False
        grounds = self.grounds
        return grounds.all_whole_gpus or all(grounds.whole_gpus[row] for row in rows)

    def _will_pair(self, key: int, home: ServerGroup) -> bool:
        """True if two jobs of a home without pairs are to be put together now."""
        if not self.trials.may_try(home):
            return False
        for row in home["circle"]:
            self.trials.note_rate(row)
        return self._is_new_turn(key, home) and self.trials.next_of(home) is not None

    def _take_turn(self, key: int, home: ServerGroup, swaps: TurnDevices) -> None:
        """Let the jobs of a simple home run whose turn it is."""
        is_new, circle, held = self._is_new_turn(key, home), home["circle"], self.snapshot.grants
        if is_new:
            self._lead_on(home)
            rows, others = take_turn_by_count(circle, self.sizes, home["gpus"])
        else:
            rows = join_turn(circle, held, counting(self.sizes, home["gpus"]))
            others = [row for row in circle if row not in rows]
        coming = [row for row in rows if row not in held]
        self._note_turn(key, home, len(rows), bool(coming), is_new=is_new)
        leaving = [row for row in others if row in held]
        if coming or leaving:
            swaps.swap(home["nodes"][0], coming, leaving)
        if home["idle_since_s"] < math.inf:
            home["idle_since_s"] = math.inf
            self.derived.note(key)

    # -- all other homes, together -----------------------------------------------------------------

    def _place_runners(self, keys: list[int], swaps: TurnDevices) -> tuple[list[Grant], list[int]]:
        """Let the jobs of homes that are not simple run whose turn it is."""
        homes = self.homes.homes
        if not self.derived.without_gpus and all(self._needs_no_trial(key, homes[key]) for key in keys):
            return self._place_by_count(keys, swaps)
        rows = [row for key in keys for row in members(self.homes.homes[key])]
        for row in rows:
            self.trials.note_rate(row)
        counts = not self.derived.without_gpus and self._counts(rows)
        places = RunnerPlacement(self.snapshot, rows, counts=counts)
        runners = [one for key in keys for one in self._on_server(key, self.homes.homes[key], places)]
        runners += [Runner(row, -1, 0) for row in sorted(self.derived.without_gpus)]
        return places.place(runners)

    def _needs_no_trial(self, key: int, home: ServerGroup) -> bool:
        """True if counting decides in a home of any number of servers, where jobs may have moved.

        Its running jobs have as many whole GPUs as they ask for.
        """
        circle, held = home["circle"], self.snapshot.grants
        if home["pairs"] or self._may_grow or not self._counts(circle):
            return False
        if any(row in held and not self._is_as_asked(held[row]) for row in circle):
            return False
        return not (self._packs and self.homes.room(home) < -EPSILON and self._will_pair(key, home))

    def _is_as_asked(self, grant: Grant) -> bool:
        return is_made_whole(grant) and len(grant[1]) == self.sizes[grant[0]]

    def _place_by_count(self, keys: list[int], swaps: TurnDevices) -> tuple[list[Grant], list[int]]:
        """Place runners where counting decides: a job that runs on servers of its home stays there."""
        homes, held = self.homes.homes, self.snapshot.grants
        running = [row for key in keys for row in homes[key]["circle"] if row in held]
        runners = list[tuple[int, int]]()
        for key in keys:
            home = homes[key]
            for row in home["circle"]:
                self.trials.note_rate(row)
            nodes = mask_of(home["nodes"])
            runners += [(row, nodes) for row in self._runners(key, home, counting(self.sizes, home["gpus"]))]
            home["idle_since_s"] = math.inf
            self.derived.note(key)
        return swaps.place(runners, running)

    def _on_server(self, key: int, home: ServerGroup, places: RunnerPlacement) -> list[Runner]:
        """The jobs of a home that run from now on."""
        if self.p.packing and self._is_new_turn(key, home):
            self.trials.review(home)
        elif home["pairs"]:  # a job may have moved away
            self.trials.part_needless(home)
        nodes = mask_of(home["nodes"])
        rows = self._runners(key, home, places.tester(nodes, home["gpus"]))
        sizes = self.growth.sizes(home, rows, self.homes.room(home))
        self.derived.note(key)
        return [Runner(row, nodes, sizes[row], home["pairs"].get(row, -1)) for row in rows]

    # -- when a turn begins and ends ---------------------------------------------------------------

    def _is_new_turn(self, key: int, home: ServerGroup) -> bool:
        return home["turn_ends_s"] <= self.now or home["turn_ends_s"] == math.inf or key in self.left

    def _runners(self, key: int, home: ServerGroup, fits: Fits) -> list[int]:
        """The jobs that run from now on, by turns; notes when the turn ends."""
        is_new, circle = self._is_new_turn(key, home), home["circle"]
        if is_new:
            self._lead_on(home)
        rows = take_turn(circle, fits) if is_new else join_turn(circle, self.snapshot.grants, fits)
        held = self.snapshot.grants
        self._note_turn(key, home, len(rows), any(row not in held for row in rows), is_new=is_new)
        return rows

    def _lead_on(self, home: ServerGroup) -> None:
        """Put jobs whose longer turns continue first in a new turn: there is room for all of them."""
        if not self.lengths.longer:
            return
        pairs = home["pairs"]
        stay = [
            row
            for row in home["circle"]
            if self.lengths.goes_on(row) or (row in pairs and self.lengths.goes_on(pairs[row]))
        ]
        if stay:
            home["circle"][:] = stay + [row for row in home["circle"] if row not in stay]

    def _note_turn(self, key: int, home: ServerGroup, count: int, some_come: bool, *, is_new: bool) -> None:
        """Note when the turn of `count` jobs, which is new or has been joined, ends."""
        turns = self.derived.turns
        is_first = home["turn_ends_s"] == math.inf
        if count == len(home["circle"]) and not home["pairs"]:
            turns.note(key, math.inf)
            home["turn_ends_s"] = math.inf
        elif is_new:
            switches = (key in self.left or not is_first) and some_come
            home["turn_ends_s"] = turns.renew(key, self.now, self.p.switch if switches else 0.0)


class TurnDevices:
    """GPUs for jobs that come, where counting GPUs decides: all other jobs keep theirs."""

    def __init__(self, snapshot: Snapshot, derived: Derived) -> None:
        self._held = snapshot.grants
        self._free = snapshot.occupancy.free
        self._sizes = snapshot.gpus_of
        self._devices_of = derived.devices_of
        self._grant_of = derived.grant_of
        self.grants: list[Grant] = []
        self.leaving: list[int] = []

    def swap(self, node: int, coming: list[int], leaving: list[int]) -> None:
        """At `node`, the home of these jobs, let `leaving` give way and `coming` run, in order."""
        held, sizes, first, bits = self._held, self._sizes, self._free.first[node], self._free.devices[node]
        row: Any  # the same object is kept: an int would be converted again wherever it is looked up
        for row in leaving:
            for device in held[row][1]:
                bits |= 1 << (device - first)
        for row in coming:
            size: int = sizes[row]
            mask = lowest(bits, size)
            if mask:
                bits ^= mask
                self.grants.append(self._grant(row, self._devices(node, first, mask)))
        self.leaving += leaving

    def place(self, runners: list[tuple[int, int]], running: list[int]) -> tuple[list[Grant], list[int]]:
        """Devices for `runners`, each with the mask of its nodes, where `running` of their homes hold some.

        A job that runs on its nodes stays; the others get what is free or left there, in order, on as few
        nodes as possible.  Returns grants to jobs that come or move, and the jobs that leave.
        """
        held, free = self._held, self._free.copy()
        stay = {row for row, nodes in runners if row in held and self._are_within(held[row][1], nodes)}
        for row in running:
            if row not in stay:
                free.put_all(held[row][1])
        grants: list[Grant] = []
        for row, nodes in runners:
            if row not in stay:
                devices = consolidate(free, self._sizes[row], nodes)
                if devices is not None:
                    grants.append(self._grant(row, devices))
        moved = {grant[0] for grant in grants}
        return grants, [row for row in running if row not in stay and row not in moved]

    def _are_within(self, devices: tuple[int, ...], nodes: int) -> bool:
        node_of = self._free.node_of
        return all(nodes >> node_of[device] & 1 for device in devices)

    def _grant(self, row: Any, devices: tuple[int, ...]) -> Grant:
        """`devices` for `row`: in most turns a job gets the grant that it had before."""
        grant = self._grant_of.get(row)
        if grant is None or grant[1] != devices:
            grant = self._grant_of[row] = whole_grant(row, devices)
        return grant

    def _devices(self, node: int, first: int, mask: int) -> tuple[int, ...]:
        """The devices in `mask` of `node`, which begin at `first`: one tuple for all jobs that get them."""
        known = self._devices_of[node]
        devices = known.get(mask)
        if devices is None:
            places = [place for place in range(mask.bit_length()) if mask >> place & 1]
            devices = known[mask] = tuple([first + place for place in places])
        return devices


def lowest(bits: int, count: int) -> int:
    """The `count` lowest of the bits that are set; 0 if there are fewer."""
    rest = bits
    for _ in range(count):
        if not rest:
            return 0
        rest &= rest - 1
    return bits ^ rest
