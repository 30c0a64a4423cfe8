"""AFS — hand GPUs out one by one, weighing jobs that end first against jobs that gain more.

Paper     Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021
Decides   order, number of GPUs, preemption
Needs     speed of each job by number of GPUs; AFS-L (`lengths=yes`) the duration as well
Idea      1. Of two jobs that could have one more GPU, a ends first and b later (at their present shares).
          2. a gets it if (p_a' - p_a) / p_a > (p_b' - p_b) / p_b', p being speed: the GPU goes on to b when a
             is done, which is why the two gains are measured against different speeds.
          3. All GPUs are handed out by tournaments of this rule, at each arrival and completion.
          4. CoDDL resizes while jobs train: the old workers continue until the new ones are ready, and the
             newest target counts.  The world does this: `rota simulate --costs resize=coddl`.
Departs   AFS-P (`lengths=no`) assumes that the job with less GPU time received ends first: our reading, as
          the paper's text was not at hand; so are its queues (`queues`).  Ours: a resized job does not grow
          again for a minute, and shrinks in that time only for a waiting job; a job that would end before a
          resize pays off keeps its size (`resize_cost_s`); room that no job used is given back; jumps
          between sizes are compared by gain per GPU.  The cluster is assumed to have one type: on several a
          job gets the first type on which its share fits, and GPUs that some jobs cannot use are handed out
          again.  Also ours: no resize of a job that would lose its work by it; a pause after a refused
          resize; a job that bears no stop keeps what it holds.
Checked   systems/afs.md, worked examples 1 to 6; the tournament against comparing all with all.  Neither the
          authors' code nor results of it are public
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.knowledge.scaling import rates_on, shared_curves
from rota.model.columns import Floats, Ints
from rota.model.gpu_counts import feasible_counts
from rota.model.grants import Code, Constraint, Grant
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.targets import GPUS
from rota.solvers.one_by_one import Filling
from rota.solvers.tournament import fill_apathetic
from rota.stages.fit import Fitter
from rota.stages.place import consolidate
from rota.stages.plenty import Plenty, start_beside
from rota.stages.quota_caps import caps_of
from rota.stages.remaining import remaining_s
from rota.stages.resize import Settled
from rota.stages.sizes import BySize, Sizes, remember_nothing_new, settle_sizes, sizes_now

_SOON_S = 1.0
"""AFS-P: a job that may reach the next queue within this counts as there, so that no two decisions follow
closely and undo each other: one because something happened, the other because a limit is reached."""
_OUTBID = Constraint(Code.POLICY, detail="others end sooner or gain more from the GPUs it could have")


@dataclass(frozen=True)
class AfsParameters:
    """Parameters of `afs`."""

    lengths: bool = True
    """AFS-L: use durations.  `no` is AFS-P, which goes by GPU time received."""
    min_resize_s: float = 60.0
    """Seconds after a change of its GPUs before a job grows again; AFS-P by GPU time also waits until the
    job has worked for a period since."""
    resize_cost_s: float = 0.0
    """AFS-L: seconds that a resize costs a job, and must save at least."""
    period_s: float = 60.0
    """AFS-P: seconds between two looks at the GPU time received, if there are no queues."""
    queues: tuple[float, ...] = ()
    """AFS-P: GPU-seconds received at which a job falls to the next queue, as in 3600/36000; a job in a higher
    queue ends first, and within a queue the earlier job.  None: by GPU time received itself."""

    def __post_init__(self) -> None:
        for name in ("min_resize_s", "resize_cost_s"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise InputError(f"policy 'afs': {name}={getattr(self, name):g}; expected 0 or more")
        if not self.period_s > 0.0:
            raise InputError(f"policy 'afs': period_s={self.period_s:g}; expected more than 0")
        if any(high <= low for low, high in pairwise((0.0, *self.queues))):
            limits = "/".join(f"{limit:g}" for limit in self.queues)
            raise InputError(f"policy 'afs': queues={limits} do not ascend; expected such as 3600/36000")


@register(
    "afs",
    "Elastic shares by pairwise comparison, short jobs against efficient ones",
    paper="AFS/CoDDL, NSDI 2021",
    needs={Knowledge.SCALING: True, Knowledge.DURATION: lambda p: p.lengths},
    levers={Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE},
    parameters=AfsParameters,
)
class Afs:
    """Apathetic future share.

    Memory    `works_s`  AFS-P by GPU time: from when on each running row works, since it began
              and what `sizes_now` and `settle` remember
    """

    def __init__(self, parameters: AfsParameters | None = None) -> None:
        self.parameters = parameters or AfsParameters()
        self._ranking = BySize(lambda snapshot, row: row)
        self._plenty = Plenty(self._most_of, self.parameters.min_resize_s)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        parameters = self.parameters
        if parameters.lengths and (decision := self._at_most(snapshot, memory)) is not None:
            return decision
        turn_s = 0.0 if parameters.lengths or parameters.queues else parameters.period_s
        sizes = sizes_now(snapshot, memory, parameters.min_resize_s, turn_s)
        shares, grants, preempt = self._settled(snapshot, memory, sizes)
        reasons = {row: _OUTBID for row, share in shares.items() if not share}
        wake = Wake(min(sizes.again_s, self._look_again_s(snapshot, shares)))
        return Decision(
            memory,
            grants,
            preempt,
            wake=wake,
            reasons=reasons,
            ranking=self._ranking,
            targets=shares,
            target=GPUS,
        )

    def _at_most(self, snapshot: Snapshot, memory: Memory) -> Decision | None:
        """The decision where each job can have all that it can use; None elsewhere.

        It equals the result of going through all jobs: whichever wins, none loses.
        """
        moment_s, misfits = memory.get("no_place", (-math.inf, ()))
        is_asked_again = moment_s == snapshot.now and misfits
        if memory.get("refused") or is_asked_again or not self._plenty.holds(snapshot):
            return None
        grants: list[Grant] | None = []
        if snapshot.waiting_count:
            shares = {row: self._plenty.most[row] for row in snapshot.waiting.tolist()}
            grants = start_beside(Fitter(snapshot, consolidate), snapshot, shares)
        if grants is None:
            return None
        remember_nothing_new(snapshot, memory)
        memory["no_place"] = [snapshot.now, []]
        wake = Wake(self._plenty.again_s(snapshot.now))
        targets = self._plenty.targets()
        return Decision(memory, grants, [], wake=wake, ranking=self._ranking, targets=targets, target=GPUS)

    def _most_of(self, snapshot: Snapshot, row: int) -> int:
        """GPUs that `row` has once no further step makes it faster; 0 if it may still be given others."""
        counts = feasible_counts(snapshot.jobs.table, row)
        steps = np.array([0, *counts])
        rates = rates_on(snapshot.know(Knowledge.SCALING), np.full(len(steps), row), steps).tolist()
        level = 0
        while level < len(counts) and rates[level + 1] > rates[level]:
            level += 1
        # The cost of a resize may rule out a step that gains nothing, and so open the way to the next.
        if not level or (self.parameters.resize_cost_s and level < len(counts)):
            return 0
        return counts[level - 1]

    def _settled(self, snapshot: Snapshot, memory: Memory, sizes: Sizes) -> Settled:
        """Shares, grants and preemptions that would not change if asked for again at once.

        A job resized recently shrinks only if a job would wait otherwise: after that no job waits.
        """
        calm = sizes.calm()
        if calm is not None:
            tried = dict(memory)
            placed = self._placed(snapshot, tried, calm)
            starts = {grant.job for grant in placed[1]}.difference(snapshot.grants)
            if starts.issuperset(snapshot.waiting.tolist()):
                memory.update(tried)
                return placed
        return self._placed(snapshot, memory, sizes)

    def _placed(self, snapshot: Snapshot, memory: Memory, sizes: Sizes) -> Settled:
        begun = self._just_begun(snapshot, memory)

        def shares_of(some: Sizes) -> dict[int, int]:
            return dict(zip(some.rows.tolist(), self._shares(snapshot, some, begun), strict=True))

        return settle_sizes(snapshot, memory, sizes, shares_of)

    def _shares(self, snapshot: Snapshot, sizes: Sizes, begun: Set[int]) -> list[int]:
        """GPUs for each row."""
        rows, scaling = sizes.rows, snapshot.know(Knowledge.SCALING)
        most = max((count[-1] for count in sizes.counts), default=0)
        rates, caps = shared_curves(scaling, rows, most), caps_of(snapshot, rows)
        if not self.parameters.lengths:
            filling = Filling(rates, sizes.counts, caps)
            served = self._served(snapshot, rows)
            least_by = np.where(np.isin(rows, sorted(begun)), -1.0, served).tolist()
            return fill_apathetic(filling, sizes.gpus, served.tolist(), least_by=least_by)
        left = self._left(snapshot, rows)
        work = left.tolist()
        counts = sizes.counts
        if self.parameters.resize_cost_s:
            counts = [
                self._paying(count, has, rate, todo)
                for count, has, rate, todo in zip(counts, sizes.held, rates, work, strict=True)
            ]
        speed = np.array([rate[count[0]] for rate, count in zip(rates, counts, strict=True)])
        alone_s = np.divide(left, speed, out=np.full(len(rows), math.inf), where=speed > 0.0)
        return fill_apathetic(Filling(rates, counts, caps), sizes.gpus, alone_s.tolist(), work)

    def _left(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """w: work left of each job, in the unit of its speeds; infinite if it is unknown."""
        asked = rates_on(snapshot.know(Knowledge.SCALING), rows, snapshot.jobs.gpus[rows])
        left: Floats = np.maximum(remaining_s(snapshot, rows), 0.0) * asked
        return np.where(np.isnan(left), math.inf, left)

    def _paying(self, counts: Sequence[int], has: int, rates: Sequence[float], left: float) -> Sequence[int]:
        """The numbers of `counts` that a job with `has` GPUs would not get in vain.

        One that ends within the cost of a resize is left alone; a larger number has to save as much.
        """
        cost_s = self.parameters.resize_cost_s
        if not has or has >= len(rates) or not rates[has] > 0.0:
            return counts
        if left / rates[has] <= cost_s:
            return (has,)
        return [k for k in counts if k <= has or left / rates[has] - left / rates[k] > cost_s] or (has,)

    def _served(self, snapshot: Snapshot, rows: Ints) -> Floats:
        """GPU time received, or the queue that it leads to."""
        served: Floats = snapshot.jobs.service_gpu_s(rows)
        if not self.parameters.queues:
            return served
        # What counts is a sum of products: a limit that is missed by a rounding has been reached.
        jobs = snapshot.jobs
        most = np.minimum(jobs.gpus_max[rows], snapshot.cluster.gpus) * jobs.gpu_share[rows]
        soon = served * (1.0 + 1e-12) + _SOON_S * most  # whether it has them now makes no difference
        queue = np.searchsorted(self.parameters.queues, soon, side="right")
        return queue.astype(np.float64)

    def _just_begun(self, snapshot: Snapshot, memory: Memory) -> frozenset[int]:
        """AFS-P: jobs that restore, or worked for less than a period since: stopped now, they get nowhere.

        A period may be shorter than a start and what is lost since the last checkpoint: jobs that took turns
        so fast would never end.  They come before all others when every job gets the least, and only then:
        a job that has begun by a decision has the same share when asked again.
        """
        if self.parameters.lengths or self.parameters.queues:
            return frozenset()
        rows, known = snapshot.running, memory.get("works_s", {})
        works_s = {}
        for row, ready_s in zip(rows.tolist(), snapshot.jobs.ready_s(rows).tolist(), strict=True):
            before = known.get(row, math.inf)
            works_s[row] = ready_s if before == math.inf else before
        memory["works_s"] = works_s
        period_s = self.parameters.period_s
        return frozenset(row for row, at_s in works_s.items() if snapshot.now < at_s + period_s)

    def _look_again_s(self, snapshot: Snapshot, shares: Mapping[int, int]) -> float:
        """AFS-P: when the GPU time received alone may change the decision, without any event."""
        if self.parameters.lengths or len(shares) < 2:
            return math.inf
        if not self.parameters.queues:
            return snapshot.now + self.parameters.period_s
        rows = np.array([row for row, share in shares.items() if share], dtype=np.int64)
        rate = np.array([share for share in shares.values() if share]) * snapshot.jobs.gpu_share[rows]
        limits = np.array((*self.parameters.queues, math.inf))
        nearest = limits[self._served(snapshot, rows).astype(np.int64)] - snapshot.jobs.service_gpu_s(rows)
        after_s = float((nearest / rate).min(initial=math.inf))
        return max(snapshot.now + after_s, math.nextafter(snapshot.now, math.inf))
