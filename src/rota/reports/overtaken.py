"""The cost of promises to other jobs: GPUs that promised jobs held while earlier submitted jobs waited.

Counted in two ways: for each job without a promise the seconds in which promised jobs that came after it held
as many GPUs as it asked for; and, so that no GPU counts twice, the GPU-seconds that waiting jobs can claim
of promised jobs that came after them, the earliest first, each up to what it asked for.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from rota.model.columns import Bools, Floats, Ints
from rota.model.record import Record
from rota.reports.occupancy import closed_intervals, whole_run
from rota.reports.sample import Sample


def unpromised(sample: Sample) -> Bools:
    """The jobs without a promised deadline that were taken, where any job of the record has one."""
    promised = sample.derived("promised", _is_promised) > 0
    taken: Bools = ~promised & (sample.state != "REJECTED")
    return taken & (sample.derived("somebody promised", _somebody_is_promised))


def overtaken_s(sample: Sample) -> Floats:
    """Seconds each job waited while later promised jobs held as many GPUs as it asked for; 0 if promised."""
    seconds: Floats = sample.derived("overtaken", _overtaken)[:, 0]
    return seconds


def claimed_gpu_s(sample: Sample) -> Floats:
    """GPU-seconds of later promised jobs that each job claims, no GPU twice; 0 for jobs with a promise."""
    claimed: Floats = sample.derived("overtaken", _overtaken)[:, 1]
    return claimed


def _is_promised(record: Record) -> Floats:
    return record.jobs["promised_s"].fill_nan(None).is_not_null().to_numpy().astype(np.float64)


def _somebody_is_promised(record: Record) -> Bools:
    """For every job whether any has a promise."""
    return np.full(len(record.jobs), _is_promised(record).any())


def _asked(record: Record) -> Floats:
    """GPUs, or parts of them, that each job asked for."""
    asked: Floats = (record.jobs["gpus"] * record.jobs["gpu_share"].fill_null(1.0)).to_numpy()
    return asked


def _overtaken(record: Record) -> Floats:
    """Of every job the seconds it is overtaken, and the GPU-seconds it claims."""
    submit_s, asked = record.jobs["submit_s"].to_numpy(), _asked(record)
    order = np.argsort(submit_s, kind="stable")
    place = np.argsort(order)
    waits = np.zeros(len(order), dtype=bool)  # in the order of submission
    held: dict[int, float] = {}  # GPUs of the promised jobs that run
    result = np.zeros((len(order), 2))
    last_s = 0.0
    for time_s, begins, holds, row, gpus in _changes(record):
        if time_s > last_s and held:
            waiting = order[np.flatnonzero(waits)]
            later = _later(submit_s[waiting], submit_s[list(held)], np.array(list(held.values())))
            result[waiting, 0] += (later >= asked[waiting]) * (time_s - last_s)
            result[waiting, 1] += _claims(asked[waiting], later) * (time_s - last_s)
        last_s = time_s
        if not holds:
            waits[place[row]] = begins
        elif begins:
            held[row] = gpus
        else:
            del held[row]
    return result


def _later(waiting_s: Floats, holding_s: Floats, held: Floats) -> Floats:
    """GPUs held by jobs submitted after each that waits, from the moments of submission of both."""
    order = np.argsort(holding_s)
    after = np.append(np.cumsum(held[order][::-1])[::-1], 0.0)
    later: Floats = after[np.searchsorted(holding_s[order], waiting_s, side="right")]
    return later


def _claims(asked: Floats, later: Floats) -> Floats:
    """The number of `later` GPUs that each job claims, the earliest first; each next job may claim fewer.

    The first k claim together what they ask for or, if less, what the first i ask for and the next one sees.
    """
    together = np.cumsum(asked)
    most = np.minimum(together, np.minimum.accumulate(together - asked + later))
    return np.diff(most, prepend=0.0)


def _changes(record: Record) -> list[tuple[float, bool, bool, int, float]]:
    """When a promised job begins or ends to hold GPUs (how many), or another to wait; ends first.

    Each is a moment, whether something begins, whether it is to hold, the row of the job, and GPUs.
    """
    if not _is_promised(record).any():
        return []
    held = _held(record)
    spans = [(True, *_promised_spans(held)), (False, *_waiting_spans(record, held))]
    changes = []
    for holds, rows, from_s, to_s, amount in spans:
        real = to_s > from_s
        whole = [of[real].tolist() for of in (rows, from_s, to_s, amount)]
        for row, begin_s, end_s, number in zip(*whole, strict=True):
            changes += [(begin_s, True, holds, row, number), (end_s, False, holds, row, number)]
    return sorted(changes)


def _held(record: Record) -> pl.DataFrame:
    """Stretches in which jobs held GPUs: `row` of the job, `promised`, `start_s`, `end_s`, `amount`."""
    jobs = record.jobs.select("job", promised=pl.Series(_is_promised(record)) > 0).with_row_index("row")
    rows = closed_intervals(record).join(jobs, on="job", how="inner")
    return rows.select("row", "promised", "start_s", "end_s", amount=pl.col("gpus") * pl.col("share"))


def _promised_spans(held: pl.DataFrame) -> tuple[Ints, Floats, Floats, Floats]:
    rows = held.filter("promised")
    return (
        rows["row"].to_numpy(),
        rows["start_s"].to_numpy(),
        rows["end_s"].to_numpy(),
        rows["amount"].to_numpy(),
    )


def _waiting_spans(record: Record, held: pl.DataFrame) -> tuple[Ints, Floats, Floats, Floats]:
    """Gaps between holdings of a job without a promise, from its earliest start to its end or the run's."""
    end_s = whole_run(record).end_s
    jobs = record.jobs.with_row_index("row").select(
        "row",
        "state",
        begin_s=pl.max_horizontal("submit_s", pl.col("eligible_s").fill_nan(None)),
        leave_s=pl.col("finish_s").fill_nan(None).fill_null(end_s),
        alone=(pl.Series(_is_promised(record)) == 0) & (pl.Series(_asked(record)) > 0),
    )
    jobs = jobs.filter(pl.col("alone") & (pl.col("state") != "REJECTED"))
    own = held.join(jobs, on="row", how="semi")
    rows = np.concatenate((jobs["row"].to_numpy(), own["row"].to_numpy()))
    from_s = np.concatenate((jobs["begin_s"].to_numpy(), own["end_s"].to_numpy()))
    to_s = np.concatenate((jobs["leave_s"].to_numpy(), own["start_s"].to_numpy()))
    by_from, by_to = np.lexsort((from_s, rows)), np.lexsort((to_s, rows))
    return rows[by_from], from_s[by_from], to_s[by_to], np.zeros(len(rows))
