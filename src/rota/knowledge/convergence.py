"""Sources of when jobs will have converged: the truth, or a fit to losses, reported or made up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rota.knowledge.given import Provides
from rota.knowledge.loss_curve import converged_at, fit_losses, loss_at
from rota.knowledge.needs import Knowledge, Observation, Provenance, Provider, Table
from rota.knowledge.registry import Setup, Where, provides
from rota.model.columns import Floats
from rota.model.jobs import JobTable
from rota.table.state import State

EPOCH_S = 60.0
"""An epoch of a live job is as much work as a minute at the requested allocation."""
MOST_POINTS = 64
"""Beyond this number of losses every other one is dropped."""
MADE_UP = np.array([0.2, 1.0 / 0.9, 0.1])
"""The curve of losses that are made up: it has levelled off after 30 epochs."""
_NOISE = 0.02


class _LeftOfDuration(Provides):
    """What is left of durations that are known."""

    learns = True

    def __init__(self, duration_s: Floats) -> None:
        self.duration_s = duration_s
        self.left_s = duration_s.copy()
        rows = len(duration_s)
        columns = {
            "left_s": self.left_s,
            "steps": np.full(rows, math.nan),
            "points": np.full(rows, math.inf),
        }
        super().__init__(Knowledge.CONVERGENCE, Provenance.ORACLE, Table(columns))
        self._run: State | None = None

    def attach(self, state: State) -> None:
        self._run = state

    def known(self) -> Table:
        assert isinstance(self.values, Table)
        if self._run is not None:
            rows = live_rows(self._run)
            self.left_s[rows] = np.maximum(self.duration_s[rows] - self._run.work_s(rows), 0.0)
        return self.values


def live_rows(state: State) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Rows that run or wait."""
    rows: np.ndarray[tuple[int], np.dtype[np.int64]] = np.concatenate(
        (state.running.rows, state.waiting.rows)
    )
    return rows


@provides(
    Knowledge.CONVERGENCE,
    Provenance.ORACLE,
    "the true remaining time of each job",
    where={Where.SIMULATED},
)
def oracle_convergence(setup: Setup) -> Provider | None:
    """A speed model knows it better than durations do."""
    if Knowledge.CONVERGENCE in setup.offered:
        return setup.offered[Knowledge.CONVERGENCE]
    known = setup.offered.get(Knowledge.DURATION)
    values = known.known() if known is not None else setup.truth.duration_s if setup.truth else None
    return None if values is None or isinstance(values, Table) else _LeftOfDuration(np.array(values))


class FittedConvergence(Provides):
    """Seconds left until the fitted curve of a job's losses has levelled off.

    Until there are three losses it goes by the jobs of the same workload that have completed, in the mean.
    Once there are such jobs, no job of that workload counts as one with few losses: it is reported to have
    given any number of them (`points`).
    """

    learns = True

    def __init__(self, jobs: JobTable, provenance: Provenance) -> None:
        rows = len(jobs)
        self.jobs = jobs
        self.epoch_s = np.full(rows, EPOCH_S)
        self._left_s, self._points = np.full(rows, math.nan), np.zeros(rows)
        self._end = np.full(rows, math.nan)
        """Epoch at which each will have converged."""
        self._heard: dict[int, list[tuple[float, float]]] = {}
        """Epochs and losses that each row has reported."""
        self._fresh: set[int] = set()
        """Rows with losses that are not in their fit."""
        self._past: dict[str, tuple[int, float]] = {}
        """By workload, the number of completed jobs, and the seconds of work they took in all."""
        self._run: State | None = None
        columns = {"left_s": self._left_s, "steps": np.full(rows, math.nan), "points": self._points}
        super().__init__(Knowledge.CONVERGENCE, provenance, Table(columns))

    def attach(self, state: State) -> None:
        self._run = state

    def hear(self, row: int, epoch: float, loss: float) -> None:
        """`row` had this loss after `epoch` epochs, which may be a fraction."""
        heard = self._heard.setdefault(row, [])
        if not loss > 0.0 or loss == math.inf or (heard and epoch <= heard[-1][0]):
            return
        heard.append((epoch, loss))
        if len(heard) > MOST_POINTS:
            del heard[1:-1:2]
        self._points[row] += 1
        self._fresh.add(row)

    def ended(self, row: int, ran_s: float) -> None:
        workload = self.jobs.name_of("workload", row)
        if workload and self._run is not None:
            count, total_s = self._past.get(workload, (0, 0.0))
            self._past[workload] = count + 1, total_s + self._run.work_s(row)
        self._heard.pop(row, None)
        self._fresh.discard(row)

    def known(self) -> Table:
        assert isinstance(self.values, Table)
        if self._run is not None:
            self._fit()
            self._tell(self._run)
        return self.values

    def _fit(self) -> None:
        """Fit curves through the reported losses of all rows with new ones at once."""
        rows = sorted(self._fresh)
        self._fresh.clear()
        if rows:
            most = max(len(self._heard[row]) for row in rows)
            seen = np.full((len(rows), most, 2), math.nan)
            for place, row in enumerate(rows):
                seen[place, : len(self._heard[row])] = self._heard[row]
            self._end[rows] = converged_at(fit_losses(seen[:, :, 0], seen[:, :, 1]))

    def _tell(self, state: State) -> None:
        rows = live_rows(state)
        work_s = state.work_s(rows)
        ahead = np.maximum(self._end[rows] - work_s / self.epoch_s[rows], 1.0)
        self._left_s[rows] = ahead * self.epoch_s[rows]
        for row in rows[self._points[rows] < math.inf].tolist() if self._past else ():
            if self.jobs.name_of("workload", row) in self._past:
                self._points[row] = math.inf
        for place in np.flatnonzero(np.isnan(self._end[rows])).tolist() if self._past else ():
            count, total_s = self._past.get(self.jobs.name_of("workload", int(rows[place])), (0, 0.0))
            left_s = total_s / count - work_s.item(place) if count else math.nan
            self._left_s[rows[place]] = left_s if left_s > 0.0 else math.nan


class HeardConvergence(FittedConvergence):
    """Convergence fitted to the losses that programs report."""

    listens = True

    def __init__(self, jobs: JobTable) -> None:
        super().__init__(jobs, Provenance.MEASURED)

    def observed(self, seen: Sequence[Observation]) -> None:
        if self._run is not None:
            for one in seen:
                if one.loss == one.loss:
                    epoch = self._run.work_s(one.row) / self.epoch_s.item(one.row)
                    self.hear(one.row, epoch, one.loss)


@provides(
    Knowledge.CONVERGENCE,
    Provenance.MEASURED,
    "a curve through the losses that programs report: until it falls by less than 5 % of the largest loss in "
    "ten minutes of work",
    where={Where.LIVE},
)
def measured_convergence(setup: Setup) -> Provider:
    return HeardConvergence(setup.jobs)


class MadeUpLosses(FittedConvergence):
    """Convergence as if each job reported a loss after every epoch, on a curve that levels off at its end.

    Traces have no losses; with 2 % of noise on each, the errors of a fit are as they would be.
    """

    def __init__(self, jobs: JobTable, duration_s: Floats) -> None:
        super().__init__(jobs, Provenance.PREDICTED)
        epochs = float(converged_at(MADE_UP[None, :])[0])
        self.epoch_s = np.maximum(duration_s / epochs, 1e-9)
        self._next = np.ones(len(jobs), dtype=np.int64)
        """The next epoch of each row that ends."""

    def known(self) -> Table:
        if self._run is not None:
            rows = live_rows(self._run)
            passed = (self._run.work_s(rows) / self.epoch_s[rows] + 1e-9).astype(np.int64)
            for place in np.flatnonzero(passed >= self._next[rows]).tolist():
                row = int(rows[place])
                for epoch in range(self._next.item(row), passed.item(place) + 1):
                    self.hear(row, float(epoch), self._loss(row, epoch))
                self._next[row] = passed[place] + 1
        return super().known()

    @staticmethod
    def _loss(row: int, epoch: int) -> float:
        """The loss of a row at the end of an epoch: the same at every call."""
        error = np.random.default_rng((row, epoch)).standard_normal()
        return float(loss_at(MADE_UP, np.array(epoch))) * math.exp(_NOISE * error)


@provides(
    Knowledge.CONVERGENCE,
    Provenance.PREDICTED,
    "a curve through invented losses with 2 % noise that level off when the job is done",
    where={Where.SIMULATED},
)
def predicted_convergence(setup: Setup) -> Provider | None:
    known = setup.offered.get(Knowledge.DURATION)
    values = known.known() if known is not None else setup.truth.duration_s if setup.truth else None
    return None if values is None or isinstance(values, Table) else MadeUpLosses(setup.jobs, np.array(values))
