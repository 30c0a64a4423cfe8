"""Who of a home runs from now on, and on which devices, by turns.

In most homes, of which nobody has moved and where counting GPUs decides, a turn is taken in C (`turns.c`), or
as there (`swaps.py`), each home by itself; elsewhere by counting too, but all homes together.  Only where two
share devices, somebody grows, or more than GPUs is asked for, placements are tried out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rota.model.grants import Grant
from rota.model.whole import is_made_whole
from rota.scheduler.snapshot import Snapshot
from rota.stages.runners import Fits, Runner, RunnerPlacement
from rota.stages.turn_lengths import TurnLengths
from rota.systems.gandiva.derived import Derived
from rota.systems.gandiva.growth import Growth
from rota.systems.gandiva.pairing import PairTrials
from rota.systems.gandiva.parameters import GandivaParameters
from rota.systems.gandiva.server_group import EPSILON, ServerGroup, members
from rota.systems.gandiva.swaps import Swaps
from rota.systems.gandiva.turns import counting, join_turn, take_turn, take_turn_by_count
from rota.table.free import mask_of

Apart = dict[int, tuple[list[Grant], list[int], list[int]]]
"""By home of several servers of which nobody else holds a GPU: who comes, who leaves, who ran before."""


class Seating:
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
        """Grants to those of the homes `keys`, in order, who come or move, and who leaves.

        Somebody has `left` some of the homes; in some that are `moved`, somebody holds devices of another.
        """
        self.left, self.moved = left, moved
        swaps, apart = Swaps(self.snapshot, self.derived.devices_of, self.derived.grant_of), Apart()
        placed = []
        for key in keys:
            home = self.homes.homes[key]
            if self._is_simple(key, home):
                self._take_turn(key, home, swaps)
            elif self._is_apart(key, home):
                apart[key] = self._take_apart(key, home, swaps)
            else:
                placed.append(key)
        for row in swaps.leaving:
            self.trials.note_rate(row)
        for _, _, running in apart.values():
            for row in running:
                self.trials.note_rate(row)
        grants, leaving = list[Grant](), list[int]()
        if placed or self.derived.without_gpus:
            grants, leaving = self._place_runners(placed, swaps)
        if apart:
            grants, leaving = self._in_order(apart, grants, leaving)
        return swaps.grants + grants, swaps.leaving + leaving

    def _in_order(
        self, apart: Apart, grants: list[Grant], leaving: list[int]
    ) -> tuple[list[Grant], list[int]]:
        """Who comes and who leaves, of homes that were placed apart and of others, by home."""
        are_mixed = bool(grants or leaving)
        for come, gone, _ in apart.values():  # in order of `keys`
            grants += come
            leaving += gone
        if are_mixed:
            home_of, none = self.homes.home_of, self.grounds.cluster.nodes
            grants.sort(key=lambda grant: home_of.get(grant[0], none))
            leaving.sort(key=lambda row: home_of.get(row, none))
        return grants, leaving

    def _is_simple(self, key: int, home: ServerGroup) -> bool:
        """True if counting says who runs: one server, nobody in a pair, nobody who grows or has moved."""
        return (
            len(home["nodes"]) == 1
            and self._counts(home["circle"])
            and not home["pairs"]
            and key not in self.moved
            and not (self._may_grow and any(self.grounds.stretches[row] for row in home["circle"]))
            and not (self._packs and self.homes.room(home) < -EPSILON and self._will_pair(key, home))
        )

    def _will_pair(self, key: int, home: ServerGroup) -> bool:
        """True if two jobs of a home without pairs are to be put together now."""
        if not self.trials.may_try(home):
            return False
        for row in home["circle"]:
            self.trials.note_rate(row)
        return self._is_new_turn(key, home) and self.trials.next_of(home) is not None

    def _counts(self, rows: Sequence[int]) -> bool:
        """True if counting GPUs says which of `rows` can run together on nodes that they may use."""
        if not self._is_bare:
            return False
        grounds = self.grounds
        return grounds.all_whole_gpus or all(grounds.whole_gpus[row] for row in rows)

    def _take_turn(self, key: int, home: ServerGroup, swaps: Swaps) -> None:
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

    def _is_apart(self, key: int, home: ServerGroup) -> bool:
        """True if a home of several servers needs no trial, and nobody else holds any of its GPUs."""
        if len(home["nodes"]) == 1 or key in self.moved or self.derived.without_gpus:
            return False
        if not self._needs_no_trial(key, home):
            return False
        occupancy, held = self.snapshot.occupancy, self.snapshot.grants
        free, nodes = occupancy.free, set(home["nodes"])
        own = [device for row in home["circle"] if row in held for device in held[row][1]]
        if any(free.node_of[device] not in nodes for device in own):
            return False
        return len(own) + sum([free.count[node] for node in home["nodes"]]) == home["gpus"]

    def _take_apart(
        self, key: int, home: ServerGroup, swaps: Swaps
    ) -> tuple[list[Grant], list[int], list[int]]:
        """Let the jobs of such a home run whose turn it is: who comes, who leaves, who ran before."""
        held = self.snapshot.grants
        running = [row for row in home["circle"] if row in held]
        grants, leaving = self._place_by_count([key], swaps)
        return grants, leaving, running

    def _place_runners(self, keys: list[int], swaps: Swaps) -> tuple[list[Grant], list[int]]:
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
        """As `_is_simple`, but of any number of servers, of which somebody may have moved.

        Those who run there have as many whole GPUs as they ask for.
        """
        circle, held = home["circle"], self.snapshot.grants
        if home["pairs"] or self._may_grow or not self._counts(circle):
            return False
        if any(row in held and not self._is_as_asked(held[row]) for row in circle):
            return False
        return not (self._packs and self.homes.room(home) < -EPSILON and self._will_pair(key, home))

    def _is_as_asked(self, grant: Grant) -> bool:
        return is_made_whole(grant) and len(grant[1]) == self.sizes[grant[0]]

    def _place_by_count(self, keys: list[int], swaps: Swaps) -> tuple[list[Grant], list[int]]:
        """The same where counting decides: who runs on servers of his home stays there."""
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
        elif home["pairs"]:  # somebody may have moved away
            self.trials.part_needless(home)
        nodes = mask_of(home["nodes"])
        rows = self._runners(key, home, places.tester(nodes, home["gpus"]))
        sizes = self.growth.sizes(home, rows, self.homes.room(home))
        self.derived.note(key)
        return [Runner(row, nodes, sizes[row], home["pairs"].get(row, -1)) for row in rows]

    def _is_new_turn(self, key: int, home: ServerGroup) -> bool:
        return home["turn_ends_s"] <= self.now or home["turn_ends_s"] == math.inf or key in self.left

    def _runners(self, key: int, home: ServerGroup, fits: Fits) -> list[int]:
        """Who runs from now on, by turns; notes when the turn ends."""
        is_new, circle = self._is_new_turn(key, home), home["circle"]
        if is_new:
            self._lead_on(home)
        rows = take_turn(circle, fits) if is_new else join_turn(circle, self.snapshot.grants, fits)
        held = self.snapshot.grants
        self._note_turn(key, home, len(rows), any(row not in held for row in rows), is_new=is_new)
        return rows

    def _lead_on(self, home: ServerGroup) -> None:
        """Those whose turns go on come first in a new one: there is room for all of them."""
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
