"""The simulated world in rounds: the policy decides only at round ends.

A round opens when the policy has answered.  Allocations do not change until it ends, so what each job does
in it, and when it stops, is known at once; a rate that ends inside is followed through its changes.  At
the round end a speed model may rebase a job (`rebase`).  Jobs that finish inside a round are recorded at
their exact moment (`Finish.EPOCH`) without asking the policy, or when the round ends (`Finish.ROUND_END`);
either way their devices stay idle until then.  Arrivals, timers and lost nodes are seen at the next round
end: jobs that were done by then have ended; all others on a lost node stop, even if it is back by then.

Rounds of fixed length begin at multiples of it.  A round that ends at the latest stop begins when the one
before ended, or, after an idle time, with the next arrival.  No round passes while nothing runs: a policy
that leaves every job waiting is called again at an arrival, or at the moment it asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from mypy_extensions import mypyc_attr

from rota.errors import WorldError
from rota.model.columns import Bools, Floats, Ints
from rota.model.units import format_duration
from rota.scheduler.decision import Event
from rota.scheduler.world import Batch, Ended
from rota.table.state import Phase
from rota.worlds.simulated.attempt_targets import AttemptTargets
from rota.worlds.simulated.pace import Rebase
from rota.worlds.simulated.semantics import Charge, Finish, RoundEnds, Work, round_s_of
from rota.worlds.simulated.world import SimulatedWorld

RESTART_S = 20.0
"""What a restart costs under `Charge.SCALED`."""
_SPARED_S = 5.0
"""Seconds of a round that a job must leave unused to pay nothing for it."""

# As plain integers: joining flags costs more than all the rest of a quiet round end.
_ARRIVAL, _END, _FAILURE = int(Event.ARRIVAL), int(Event.END), int(Event.FAILURE)
_TIMER, _ROUND = int(Event.TIMER), int(Event.ROUND)

_MOST_EMPTY = 10
"""Most empty rounds in a row that end at once, where a speed model may recount work after each."""
_ROUNDING = 1e-9
"""Iterations by which a division may miss a whole number of them."""
_FEW = 64
"""Up to this number of jobs, a loop over them is faster than columns."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RoundWorld(SimulatedWorld):
    """Replays a trace on a cluster, round by round."""

    def _begin(self) -> None:
        self.round_s = round_s_of(self.semantics)
        self.progress.steady = False  # jobs stand still between their last whole step and the round end
        self._is_open = False
        self._end = math.inf
        self._rows: Ints = np.zeros(0, dtype=np.int64)
        self._work: Floats = np.zeros(0)
        """Work done by each row of the round when it ends."""
        self._finishes: list[tuple[float, int]] = []
        """Moments and rows of the finishes still to come in this round, latest first."""
        self._cause = 0
        self._changing: set[int] = set()
        """Rows whose rate ends at some work or moment."""
        self._worked: Floats = np.zeros(0)
        """Seconds that each row of the round works."""
        self._ran: set[int] | None = None
        """Rows that ran in the last round, where that matters; None before the first."""
        self._empty = 0
        """Rounds in a row in which no job could do anything."""
        self._rebase: Rebase | None = getattr(self.speed, "rebase", None)
        self._targets = AttemptTargets(self._target)
        self._step = self._steps()
        """Work of one iteration of each row, where work is counted in another unit; None if in
        iterations."""

    def _steps(self) -> Floats | None:
        """Seconds of an iteration, where the trace states both; a second, where it does not."""
        if getattr(self.speed, "per_s", None) is not None or self.semantics.work is not Work.WHOLE_STEPS:
            return None
        truth = self.trace.truth
        known = (truth.iterations > 0.0) & (truth.duration_s > 0.0)
        return np.divide(truth.duration_s, truth.iterations, out=np.ones(len(known)), where=known)

    # -- time --------------------------------------------------------------------------------------

    def next(self, until_s: float) -> Batch | None:
        if not self._is_open:
            self._open()
        if self._finishes and self.semantics.finish is Finish.EPOCH:
            return self._finish_inside()
        return self._round_end(until_s)

    def _finish_inside(self) -> Batch:
        """The next finishes of the round; without a cause, so that the policy is not called yet."""
        moment = self._finishes[-1][0]
        batch = Batch(moment, 0, ended=self._take_finishes(moment))
        self._cause |= _cause_of(batch.ended)
        self._end_groups(batch)
        return batch

    def _end_groups(self, batch: Batch) -> None:
        """Drop later finishes in this round of jobs that are cancelled with their group."""
        if self._groups.members and batch.ended:
            self._groups.end_others(batch, self.state)
            over = {one.row for one in batch.ended}
            self._finishes = [finish for finish in self._finishes if finish[1] not in over]

    def _round_end(self, until_s: float) -> Batch | None:
        idle = not len(self._rows)
        now = self._idle_until(until_s) if idle else self._end
        if now == math.inf or (idle and self._next == len(self._submit) and self._is_over()):
            return None
        self._close(now)
        ended = self._take_finishes(now)
        cause = _ROUND | self._cause | _cause_of(ended)
        batch = Batch(now, cause, ended=ended)
        self._cause = 0
        self._end_groups(batch)
        batch.arrived = self._arrived(now)
        if len(batch.arrived):
            batch.cause |= _ARRIVAL
        if self._holds and self._holds.follow(batch, self.state):
            batch.cause |= _ARRIVAL
        if until_s <= now:
            batch.cause |= _TIMER
        if self._fault < len(self._faults) and self._faults[self._fault][0] <= now:
            self._add_faults(batch)
        return batch

    def _take_finishes(self, now: float) -> list[Ended]:
        """What becomes of the jobs whose work is done by `now`, in order of rows."""
        rows = []
        while self._finishes and self._finishes[-1][0] <= now:
            rows.append(self._finishes.pop()[1])
        return [self._outcome(row, now) for row in sorted(rows)]

    def _arrived(self, now: float) -> range:
        first = last = self._next
        while last < len(self._submit) and self._submit[last] <= now:
            last += 1
        self._next = last
        return range(first, last)

    def _idle_until(self, until_s: float) -> float:
        """The next moment at which a round may begin, when nothing runs; infinite if there is none."""
        arrival = self._submit[self._next] if self._next < len(self._submit) else math.inf
        moment = min(arrival, until_s, self._holds.next_s, self._next_fault())
        if moment < math.inf and self.semantics.round_ends is RoundEnds.FIXED:
            return math.ceil(moment / self.round_s) * self.round_s
        return max(moment, self.state.now)

    def _next_fault(self) -> float:
        """When a node is lost or back next, if any live job is affected by it; else infinite."""
        state = self.state
        lives = self._next < len(self._submit) or state.waiting.n or state.running.n
        return self._faults[self._fault][0] if lives and self._fault < len(self._faults) else math.inf

    # -- one round ---------------------------------------------------------------------------------

    def _open(self) -> None:
        """Compute what every running job does until the round ends."""
        if self._dirty:
            self._settle()
        self._is_open = True
        rows = self._rows = self.state.running.sorted()
        self._worked = np.zeros(len(rows))
        if not len(rows):
            return
        begin, progress = self.state.now, self.progress
        length = self._length(begin)
        if len(rows) <= _FEW and self._is_plain() and self._open_few(rows.tolist(), begin, length):
            return
        since, rate = np.maximum(progress.since[rows], begin), progress.rate[rows]
        target = self._targets.of(rows)
        left = target - progress.base[rows]
        done = self._done(rows, rate, np.maximum(length - (since - begin), 0.0))
        finishes = done >= left - 1e-9 * np.maximum(target, 1.0)
        done = np.where(finishes, left, done)
        stops = since + np.divide(done, rate, out=np.zeros_like(done), where=rate > 0.0)
        through = np.flatnonzero(np.isin(rows, sorted(self._changing))).tolist() if self._changing else []
        for place in through:
            done[place], stops[place] = self._work_through(
                rows.item(place), since.item(place), begin + length
            )
            finishes[place] = done[place] >= left[place] - 1e-9 * max(target[place], 1.0)
        self._worked = stops - begin
        if self.semantics.charge is Charge.SCALED:
            done, finishes = self._scaled(rows, done, finishes)
        clock_s = self.semantics.clock_s
        if clock_s and self.semantics.finish is Finish.EPOCH and finishes.any():
            stops = np.where(finishes, np.ceil(stops / clock_s - 1e-9) * clock_s, stops)
        end = self._end_of(stops, done, begin + length)
        self._note_end(end, begin, is_empty=not (rate > 0.0).any())
        self._work = progress.base[rows] + done
        self._note_finishes(stops, finishes)

    def _is_plain(self) -> bool:
        """True if every job keeps its rate in this round, and nothing else is charged or rounded."""
        rules = self.semantics
        return not (self._changing or rules.charge is Charge.SCALED or rules.clock_s)

    def _open_few(self, rows: list[int], begin: float, length: float) -> bool:
        """Open a round for a few rows, one by one: this is faster; False, without effect, if one is stuck."""
        is_whole, steps, round_s = self.semantics.work is Work.WHOLE_STEPS, self._step, self.round_s
        bases, rates, sinces = self.progress.of(self._rows)
        end, is_empty = -math.inf, True
        work, worked, finishes = list[float](), list[float](), list[tuple[float, int]]()
        for at, row in enumerate(rows):
            base, rate, since = bases[at], rates[at], sinces[at]
            begins = since if since > begin else begin
            seconds = length - (begins - begin)
            done = rate * seconds if seconds > 0.0 else 0.0
            if is_whole:
                step: float = 1.0 if steps is None else steps.item(row)
                if 0.0 < rate * round_s < step:
                    return False
                done = math.floor(done if steps is None else done / step + _ROUNDING) * step
            target = self._target(row)
            if done >= target - base - 1e-9 * (target if target > 1.0 else 1.0):
                done = target - base
                finishes.append((begins + (done / rate if rate > 0.0 else 0.0), row))
            stop = begins
            if rate > 0.0:
                is_empty = False
                stop += done / rate
            if done > 0.0 and stop > end:
                end = stop
            work.append(base + done)
            worked.append(stop - begin)
        self._work, self._worked = np.array(work), np.array(worked)
        is_latest = self.semantics.round_ends is RoundEnds.LATEST_STOP and end > -math.inf
        self._note_end(end if is_latest else begin + length, begin, is_empty=is_empty)
        if self.semantics.finish is Finish.ROUND_END:
            finishes = [(self._end, row) for _, row in finishes]
        self._finishes = sorted(self._with_company(finishes), reverse=True)
        return True

    def _with_company(self, finishes: list[tuple[float, int]]) -> list[tuple[float, int]]:
        """Moments and rows of this round's finishes; jobs that share devices end with the last of them."""
        sharers = self.state.occupancy.sharers
        if not (sharers and finishes and self.semantics.ends_with_company):
            return finishes
        stops = (self.state.now + self._worked).tolist()
        stop_of = dict(zip(self._rows.tolist(), stops, strict=True))
        together = list[tuple[float, int]]()
        for moment, row in finishes:
            devices = self.state.grants[row].devices
            company = [other for device in devices for other in sharers.get(device, ())]
            together.append((max([moment, *[stop_of[other] for other in company if other != row]]), row))
        return together

    def _note_end(self, end: float, begin: float, *, is_empty: bool) -> None:
        """Note when the round ends; `is_empty` if no job works in it."""
        self._end = end
        self._empty = self._empty + 1 if is_empty else 0
        if self._rebase is not None and 0 < self._empty <= _MOST_EMPTY:
            self._end = begin  # no job has a step to do, and the model may recount work after the round

    def _scaled(self, rows: Ints, done: Floats, finishes: Bools) -> tuple[Floats, Bools]:
        """The work left to each row where restarts cost: one that did not run before loses part of it.

        No row loses any in the very first round; the moments at which jobs stop do not change.
        """
        before, self._ran = self._ran, set(rows.tolist())
        pays = self._worked > self.round_s - _SPARED_S
        pays &= np.array([before is not None and row not in before for row in rows.tolist()], dtype=bool)
        left_s = np.maximum(self._worked - RESTART_S, 0.0)  # of rounds that are shorter nothing is left
        part = np.where(pays, left_s / np.where(pays, self._worked, 1.0), 1.0)
        self._worked = np.where(pays, left_s, self._worked)
        return np.where(pays, np.floor(done * part), done), finishes & ~pays

    def _work_through(self, row: int, since: float, end: float) -> tuple[float, float]:
        """Work that `row` does from `since` to `end`, and when it has, through all changes of its rate."""
        base = self.progress.base.item(row)
        done, stop = self._walk(row, since, end, self._target(row))
        if self.semantics.work is Work.WHOLE_STEPS and done < self._target(row):
            step = 1.0 if self._step is None else self._step.item(row)
            done, stop = self._walk(row, since, end, base + math.floor((done - base) / step) * step)
        return done - base, stop

    def _walk(self, row: int, since: float, end: float, goal: float) -> tuple[float, float]:
        """Work and moment at which `row` has done `goal`, or at which `end` has come."""
        grant, done, now = self.state.grants[row], self.progress.base.item(row), since
        while now < end and done < goal:
            rate, until_work, until_s = self._pace_at(row, grant, done, now)
            if rate <= 0.0 and until_s == math.inf:
                return done, end
            work, until_s = min(goal, until_work), min(end, until_s)
            reached = now + (work - done) / rate if rate > 0.0 else math.inf
            if reached <= until_s:
                done, now = work, reached
            else:
                done, now = done + rate * (until_s - now), until_s
        return done, now

    def _length(self, begin: float) -> float:
        """Seconds after which the round that opens at `begin` ends at the latest."""
        if self.semantics.round_ends is RoundEnds.LATEST_STOP:
            return self.round_s
        return (math.floor(begin / self.round_s) + 1) * self.round_s - begin

    def _end_of(self, stops: Floats, done: Floats, limit: float) -> float:
        works = done > 0.0 if self.semantics.round_ends is RoundEnds.LATEST_STOP else None
        return limit if works is None or not works.any() else float(stops[works].max())

    def _done(self, rows: Ints, rate: Floats, seconds: Floats) -> Floats:
        """Work of each row in `seconds`."""
        if self.semantics.work is not Work.WHOLE_STEPS:
            return rate * seconds
        step = np.ones(len(rows)) if self._step is None else self._step[rows]
        slow = (rate > 0.0) & (rate * self.round_s < step)
        stuck = np.flatnonzero(slow & ~np.isin(rows, sorted(self._changing))).tolist() if slow.any() else []
        if stuck:
            name, step_s = self.jobs.ids[rows.item(stuck[0])], (step / rate).item(stuck[0])
            raise WorldError(
                f"job {name} needs {format_duration(step_s)} for one iteration and would never finish one in "
                f"a round of {format_duration(self.round_s)}; make rounds longer, or work continuous"
            )
        if self._step is None:
            whole: Floats = np.floor(rate * seconds)
            return whole
        return np.floor(rate * seconds / step + _ROUNDING) * step

    def _note_finishes(self, stops: Floats, finishes: Bools) -> None:
        at_end = self.semantics.finish is Finish.ROUND_END
        ending = np.flatnonzero(finishes)
        moments = np.full(len(ending), self._end) if at_end else stops[ending]
        finishing = list(zip(moments.tolist(), self._rows[ending].tolist(), strict=True))
        self._finishes = sorted(self._with_company(finishing), reverse=True)

    def _close(self, now: float) -> None:
        """Write down what the jobs that still run have done."""
        progress = self.progress
        rows, running = self._rows, self.state.running
        work = self._work[: len(rows)]  # nothing was computed for an empty round
        if rows is not running.sorted():
            here = [row in running for row in rows.tolist()]
            rows, work = rows[here], work[here]
        progress.base[rows] = work
        progress.worked[self._rows] = self._worked
        progress.since[rows] = np.maximum(progress.since[rows], now)
        self._dirty |= self._changing
        if self._rebase is not None:
            self._rebase_all(rows, self._rebase)
        self._is_open = False

    def _rebase_all(self, rows: Ints, rebase: Rebase) -> None:
        """Let the speed model recount the work of `rows`."""
        for row in rows.tolist():
            counted = rebase(row, self.progress.base.item(row), self._total[row])
            if counted is not None:
                self._targets.forget()
                done, since = self.progress.base.item(row), self.progress.since.item(row)
                self.progress.base[row], self._total[row] = counted
                if self.progress.per_s is not None:
                    self._per_s[row] = self.progress.per_s.item(row)
                self._attempts[row] = self._attempt(row)
                self._dirty.add(row)
                if self._stretches is not None:
                    self._stretches.end(row, since, done)
                    self._stretches.begin(row, self.state.grants[row], since, counted[0])

    def _schedule(
        self,
        row: int,
        rate: float,
        since: float,
        until_work: float = math.inf,
        until_s: float = math.inf,
    ) -> None:
        """Note only rates that end: a round computes its own finishes."""
        if until_work < math.inf or until_s < math.inf:
            self._changing.add(row)
        else:
            self._changing.discard(row)


def _cause_of(ended: Sequence[Ended]) -> int:
    cause = 0
    for end in ended:
        cause |= _FAILURE if end.phase is Phase.PENDING else _END
    return cause
