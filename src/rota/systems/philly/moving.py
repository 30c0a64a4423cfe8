"""Jobs that move: gangs that started spread, onto the fewest nodes; small ones off nodes that a gang needs.

The first is the other half of the study's first guideline, the second that of its second one.  Only a job
whose program brings its work along is moved.
"""

from __future__ import annotations

from rota.model.grants import Can, Grant
from rota.scheduler.snapshot import Snapshot
from rota.stages.fit import Fitter
from rota.systems.philly.attempt import Premises
from rota.systems.philly.locality import Locality
from rota.systems.philly.parameters import PhillyParameters
from rota.systems.philly.policy import PhillyDecision, Slept
from rota.systems.philly.queues import AttemptQueues
from rota.systems.philly.quota import QuotaShares
from rota.table.free import mask_of, nodes_in


class MovingDecision(PhillyDecision):
    """One call in which running jobs may be moved, but for those that are to stay until some moment."""

    def __init__(
        self,
        p: PhillyParameters,
        snapshot: Snapshot,
        fit: Fitter,
        queues: AttemptQueues,
        premises: Premises,
        shares: QuotaShares,
        slept: Slept,
        stays: dict[int, float],
    ) -> None:
        """`stays` has the moment before which a row may not be moved; all others may."""
        super().__init__(p, snapshot, fit, queues, premises, shares, slept)
        self.stays = stays

    def run(self, gone: list[int], come: list[int], asleep_until_s: float, *, are_others_there: bool) -> None:
        """As without moves; but what jobs brought together leave behind is offered to all jobs once more."""
        super().run(gone, come, asleep_until_s, are_others_there=are_others_there)
        left = self._bring_together()
        if left:
            self._serve_all([], left)

    def _makes_room(self, row: int) -> bool:
        """Start `row` on nodes cleared of small jobs, or spread as little as is possible at once."""
        if self.gpus_of[row] < 2:
            return False
        self.scratch.free.put_all(self.held.pop(row, ()))
        return (self.p.dedicated and self._clear_for(row)) or self._start_spread(row) or self._collect(row)

    def _start_spread(self, row: int) -> bool:
        for level in range(self._latest(row).level + 1, len(Locality)):
            nodes = self._candidates_among(self.scratch.free, row, Locality(level))
            grant, _ = self._gathered(row, nodes, ())
            if grant is not None:
                return self._start(row, grant)
        return False

    # -- closer together ---------------------------------------------------------------------------

    def _bring_together(self) -> int:
        """Move gangs onto the fewest nodes, first come first; returns the nodes where they left GPUs."""
        left = 0
        if not self.scratch.free.total:
            return left
        gangs = [(row, grant) for row, grant in self.snapshot.grants.items() if len(grant.devices) > 1]
        for row, grant in sorted(gangs):
            if not self._is_spread(grant) or not self._may_move(row):
                continue
            self.scratch.release(grant)
            nodes = self._candidates_among(self.scratch.free, row, Locality.FEWEST_NODES)
            closer, _ = self._gathered(row, nodes, ())
            if closer is None or self._width(closer) >= self._width(grant):
                self.scratch.hold(grant)
                continue
            self._move(closer)
            left |= self._nodes_of(grant)
        return left

    def _is_spread(self, grant: Grant) -> bool:
        """True if it lies on more nodes than it needs, or in more than one domain."""
        nodes, sizes = self._nodes_of(grant), self.scratch.free.size
        domain = self._domain_of(nodes)
        largest = max((sizes[node] for node in nodes_in(domain)), default=1)
        return not domain or nodes.bit_count() > -(-len(grant.devices) // largest)

    def _width(self, grant: Grant) -> tuple[bool, int]:
        """Sort key, less for jobs that lie closer together: in one domain before several, then by nodes."""
        nodes = self._nodes_of(grant)
        return not self._domain_of(nodes), nodes.bit_count()

    def _domain_of(self, nodes: int) -> int:
        """The domain that holds all `nodes`; 0 if none does."""
        return next((mask for mask in self.domains.masks if not nodes & ~mask), 0)

    def _nodes_of(self, grant: Grant) -> int:
        node_of = self.scratch.free.node_of
        return mask_of(list({node_of[device] for device in grant.devices}))

    def _may_move(self, row: int) -> bool:
        """True if `row`, which runs, brings its work along, has not just begun and is not forced to stay."""
        if row in self.grants or row in self.victims or self._has_just_begun(row):
            return False
        is_to_stay = self.stays.get(row, 0.0) > self.now
        return not is_to_stay and bool(self.snapshot.jobs.can(row) & int(Can.CHECKPOINT))

    def _move(self, grant: Grant) -> None:
        self.scratch.hold(grant)
        self.grants[grant.job] = grant

    # -- out of the way ----------------------------------------------------------------------------

    def _clear_for(self, row: int) -> bool:
        """Start `row` after moving jobs of one GPU onto other nodes of such jobs; no job moves in vain.

        Nodes with few of them are cleared first, and their jobs go to the fullest nodes on which they fit.
        """
        moved, taking = list[Grant](), 0
        small = self._small_jobs()
        others = mask_of(list(small))
        for node in sorted(small, key=lambda node: (len(small[node]), node)):
            others &= ~(1 << node)
            moves = () if taking >> node & 1 else self._moves_off(small[node], others)
            if not moves:
                continue
            moved += moves
            self.grants.update({move.job: move for move in moves})
            taking |= mask_of([self.scratch.free.node_of[move.devices[0]] for move in moves])
            grant, _ = self._gathered(row, self._candidates(row), ())
            if grant is not None:
                return self._start(row, grant)
        for move in reversed(moved):
            del self.grants[move.job]
            self.scratch.release(move)
            self.scratch.hold(self.snapshot.grants[move.job])
        return False

    def _small_jobs(self) -> dict[int, list[int]]:
        """By node, jobs of one whole GPU where no other job runs and all of them may be moved."""
        rows_of: dict[int, list[int]] = {}
        others, node_of = set[int](), self.scratch.free.node_of
        for row, grant in self.snapshot.grants.items():
            for device in grant.devices:
                rows_of.setdefault(node_of[device], []).append(row)
                if len(grant.devices) > 1 or grant.share < 1.0 or not self._may_move(row):
                    others.add(node_of[device])
        for grant in self.grants.values():
            others.update(node_of[device] for device in grant.devices)
        return {node: rows for node, rows in rows_of.items() if node not in others}

    def _moves_off(self, rows: list[int], others: int) -> list[Grant]:
        """Grants for all `rows` on `others`, held on the scratch; empty if some would find no place."""
        free, moves = self.scratch.free, list[Grant]()
        for row in rows:
            old = self.snapshot.grants[row]
            nodes = others & self.fit.accepted(row)
            place = free.best_fit(1, nodes) if nodes else -1
            new = old if place < 0 else old._replace(devices=free.lowest(place, 1))
            if place < 0 or not self.fit.admits(self.scratch, new):
                for move in reversed(moves):
                    self.scratch.release(move)
                    self.scratch.hold(self.snapshot.grants[move.job])
                return []
            self.scratch.release(old)
            self.scratch.hold(new)
            moves.append(new)
        return moves
