"""Where the GPU-hours of a history went: by tenant, user, GPU type, size, month, and what they cost.

A job holds GPUs from its start for as long as its attempts ran in all; where the trace records no start, from
its submission.  Hours are of GPUs times the share of each, as asked for unless it is known what was held.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from rota.errors import InputError
from rota.model.columns import Array, Bools, Floats
from rota.model.jobs import Outcome
from rota.model.trace import Trace

HOUR_S = 3600.0
UNKNOWN = "-"
"""Name of whatever the trace does not say."""
SIZES: tuple[tuple[str, int], ...] = (
    ("CPU only", 0), ("1 GPU", 1), ("2-4 GPUs", 4), ("5-8 GPUs", 8), (">8 GPUs", 2**62),
)  # fmt: skip
"""Name and most GPUs of each class of size."""


@dataclass(frozen=True)
class UsageLine:
    """What some jobs have used."""

    names: tuple[str, ...]
    """What they have in common, in the order of `Usage.by`."""
    jobs: int
    """That held something in this part; a job of two months counts in both."""
    gpu_hours: float
    share: float | None
    """Of all GPU-hours; None if there are none."""
    failed_gpu_hours: float
    """Of attempts that failed, whether or not the job was tried again."""
    cancelled_gpu_hours: float
    """Of attempts that their users ended."""
    wait_hours: float | None
    """Mean hours from submission to start; None where no start is recorded."""
    cost: float | None
    """None without prices."""


@dataclass(frozen=True)
class Usage:
    """Lines, those with the most GPU-hours first, or by month."""

    source: str
    by: tuple[str, ...]
    lines: tuple[UsageLine, ...]
    total: UsageLine
    without_duration: int
    """Jobs of which nobody knows how long they ran: they count, with no hours."""
    from_submission: bool
    """True if the trace records no starts, so that hours stand where jobs were submitted."""

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return asdict(self)


class Prices:
    """What a GPU-hour costs, by type."""

    def __init__(self, by_type: Mapping[str, float], others: float | None) -> None:
        """`others` is the price of types that are not named; None if they have none."""
        self._by_type = {name.casefold(): price for name, price in by_type.items()}
        self._others = others

    def of(self, gpu_type: str) -> float:
        """Of one GPU of that type for an hour; InputError if it has no price."""
        price = self._by_type.get(gpu_type.casefold(), self._others)
        if price is None:
            problem = (
                "there are jobs whose GPU type is unknown, and no price for them"
                if gpu_type == UNKNOWN
                else f"GPU type {gpu_type!r} has no price"
            )
            raise InputError.at(problem, field="--price", expected="one for the rest as well: V100=1.2,2")
        return price


def parse_prices(text: str) -> Prices:
    """`2.5` for every GPU-hour, `V100=1.2,A100=3`, `A100=3,1` with a price for the rest."""
    by_type: dict[str, float] = {}
    others: float | None = None
    for part in text.split(","):
        name, equals, price = part.rpartition("=")
        if not re.fullmatch(r"\d+(\.\d+)?", price.strip()) or (equals and not name.strip()):
            problem = f"{part.strip()!r} is no price"
            raise InputError.at(problem, field="--price", expected="2.5, or by type: V100=1.2,A100=3")
        if equals:
            by_type[name.strip()] = float(price)
        else:
            others = float(price)
    return Prices(by_type, others)


def usage_of(
    trace: Trace,
    by: Sequence[str] = ("tenant",),
    *,
    prices: Prices | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    held: Floats | None = None,
) -> Usage:
    """What the jobs of `trace` have used between two moments, on the clock of the trace, if they are given.

    `held` are the GPUs that each job has held on average while it ran; None for those it asked for.

    Raises InputError for an unknown `by`, and where dates are asked for and the trace has none.
    """
    wrong = [name for name in by if name not in BY]
    if wrong or not by:
        problem = f"{wrong[0]!r} is nothing to count by" if wrong else "names nothing to count by"
        raise InputError.at(problem, field="--by", expected=", ".join(BY))
    stretches = _stretches(trace)
    epoch = _epoch(trace)
    if epoch is None and ("month" in by or since or until):
        raise InputError(f"{trace.source} has no dates: it counts its seconds from nowhere in particular")
    cuts = _cuts(stretches, epoch, "month" in by, since, until)
    pieces = _cut(stretches, cuts)
    names = [BY[name](trace, pieces, epoch) for name in by]
    gpus = trace.jobs.gpus * trace.jobs.gpu_share if held is None else held
    hours = (pieces.end_s - pieces.start_s) / HOUR_S * gpus[pieces.row]
    return _summed(trace, tuple(by), pieces, hours, names, prices)


# -- who held what from when to when -------------------------------------------------------------------


@dataclass(frozen=True)
class _Stretches:
    """Times in which jobs held GPUs; arrays of one length."""

    row: Array
    start_s: Floats
    end_s: Floats
    failed: Floats
    """Part of each in attempts that failed."""
    cancelled: Bools
    known: bool
    """True if the trace records starts."""


def _stretches(trace: Trace) -> _Stretches:
    """One for each job."""
    truth, jobs = trace.truth, trace.jobs
    known = trace.observed is not None and bool(np.isfinite(trace.observed.start_s).any())
    start_s = trace.observed.start_s if trace.observed is not None and known else jobs.submit_s
    run_s = np.nan_to_num(truth.run_s())
    began = np.isfinite(start_s)
    run_s = np.where(began, run_s, 0.0)
    start_s = np.where(began, start_s, jobs.submit_s)
    lost_s = np.zeros(len(trace))
    for row, runs in truth.failures.items():
        lost_s[row] = sum(runs)
    lost_s = np.where(truth.outcome == Outcome.FAILED, run_s, np.minimum(lost_s, run_s))
    failed = np.divide(lost_s, run_s, out=np.zeros(len(trace)), where=run_s > 0.0)
    cancelled = truth.outcome == Outcome.CANCELLED
    return _Stretches(np.arange(len(trace)), start_s, start_s + run_s, failed, cancelled, known)


def _cuts(
    stretches: _Stretches,
    epoch: datetime | None,
    by_month: bool,
    since: datetime | None,
    until: datetime | None,
) -> Floats:
    """Moments at which stretches are cut; what lies before the first and behind the last does not count."""
    first = -math.inf if since is None or epoch is None else (since - epoch).total_seconds()
    last = math.inf if until is None or epoch is None else (until - epoch).total_seconds()
    inside: list[float] = []
    if by_month and epoch is not None and len(stretches.row):
        begins, ends = max(stretches.start_s.min(), first), min(stretches.end_s.max(), last)
        began = epoch + timedelta(seconds=float(begins))
        month = datetime(began.year, began.month, 1, tzinfo=UTC)
        while (at_s := (month - epoch).total_seconds()) <= ends:
            inside.append(at_s)
            month = (month + timedelta(days=32)).replace(day=1)
    return np.array([first, *(at_s for at_s in inside if first < at_s < last), last])


def _cut(stretches: _Stretches, cuts: Floats) -> _Stretches:
    """The parts of the stretches between each two cuts; jobs that held nothing stand where they began."""
    parts = []
    for low, high in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        starts_inside = (stretches.start_s >= low) & (stretches.start_s < high)
        inside = starts_inside | ((stretches.start_s < low) & (stretches.end_s > low))
        chosen = np.flatnonzero(inside & (stretches.start_s < high))
        start_s = np.maximum(stretches.start_s[chosen], low)
        end_s = np.minimum(stretches.end_s[chosen], high)
        parts.append((chosen, start_s, end_s))
    row, start_s, end_s = (np.concatenate([part[i] for part in parts]) for i in range(3))
    row = row.astype(np.int64)
    return _Stretches(row, start_s, end_s, stretches.failed[row], stretches.cancelled[row], stretches.known)


def _epoch(trace: Trace) -> datetime | None:
    stamp = trace.calendar.get("epoch")
    if not isinstance(stamp, str):
        return None
    return datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)


# -- what they have in common --------------------------------------------------------------------------

_Names = Callable[[Trace, _Stretches, datetime | None], list[str]]


def _user(trace: Trace, pieces: _Stretches, epoch: datetime | None) -> list[str]:
    jobs = trace.jobs
    return [jobs.name_of("tenant", row) or UNKNOWN for row in pieces.row.tolist()]


def _tenant(trace: Trace, pieces: _Stretches, epoch: datetime | None) -> list[str]:
    return [name.partition("/")[0] for name in _user(trace, pieces, epoch)]


def _named(column: str) -> _Names:
    def names(trace: Trace, pieces: _Stretches, epoch: datetime | None) -> list[str]:
        return [trace.jobs.name_of(column, row) or UNKNOWN for row in pieces.row.tolist()]

    return names


def _type(trace: Trace, pieces: _Stretches, epoch: datetime | None) -> list[str]:
    """The type that a job got, or the only one it accepts."""
    got = trace.observed.types if trace.observed is not None else {}
    return [got.get(row) or _only_type(trace, row) for row in pieces.row.tolist()]


def _only_type(trace: Trace, row: int) -> str:
    mask, names = int(trace.jobs.gpu_types[row]), trace.jobs.type_names
    accepted = [name for code, name in enumerate(names) if not mask or mask >> code & 1]
    return accepted[0] if len(accepted) == 1 else UNKNOWN


def _size(trace: Trace, pieces: _Stretches, epoch: datetime | None) -> list[str]:
    asked = trace.jobs.gpus[pieces.row].tolist()
    return [next(name for name, most in SIZES if gpus <= most) for gpus in asked]


def _month(trace: Trace, pieces: _Stretches, epoch: datetime | None) -> list[str]:
    assert epoch is not None
    return [f"{epoch + timedelta(seconds=at_s):%Y-%m}" for at_s in pieces.start_s.tolist()]


def _outcome(trace: Trace, pieces: _Stretches, epoch: datetime | None) -> list[str]:
    running = _running(trace)
    codes = zip(pieces.row.tolist(), trace.truth.outcome[pieces.row].tolist(), strict=True)
    return ["running" if running[row] else Outcome(code).name.lower() for row, code in codes]


def _running(trace: Trace) -> Bools:
    """Jobs that began and have no end, where others have one."""
    if trace.observed is None or not np.isfinite(trace.observed.end_s).any():
        return np.zeros(len(trace), dtype=np.bool_)
    going: Bools = np.isfinite(trace.observed.start_s) & np.isnan(trace.observed.end_s)
    return going


BY: Mapping[str, _Names] = {
    "tenant": _tenant, "user": _user, "group": _named("group"), "workload": _named("workload"), "type": _type,
    "size": _size, "month": _month, "outcome": _outcome,
}  # fmt: skip
"""What may be counted by."""


# -- sums ----------------------------------------------------------------------------------------------


def _summed(
    trace: Trace,
    by: tuple[str, ...],
    pieces: _Stretches,
    hours: Floats,
    names: list[list[str]],
    prices: Prices | None,
) -> Usage:
    """`hours` of GPUs of each piece, by `names`."""
    cost = None if prices is None else _costs(trace, pieces, hours, prices)
    of: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(zip(*names, strict=True)):
        of.setdefault(key, []).append(place)
    whole = float(hours.sum())

    def line(key: tuple[str, ...], places: Array) -> UsageLine:
        rows, part = pieces.row[places], hours[places]
        mine = float(part.sum())
        waits_s = _waits_s(trace, np.unique(rows)) if pieces.known else np.empty(0)
        return UsageLine(
            names=key,
            jobs=len(np.unique(rows)),
            gpu_hours=mine,
            share=mine / whole if whole else None,
            failed_gpu_hours=float((part * pieces.failed[places]).sum()),
            cancelled_gpu_hours=float(part[pieces.cancelled[places]].sum()),
            wait_hours=float(waits_s.mean()) / HOUR_S if len(waits_s) else None,
            cost=None if cost is None else float(cost[places].sum()),
        )

    lines = [line(key, np.array(places)) for key, places in of.items()]
    if by[0] == "month":
        lines.sort(key=lambda one: (one.names[0], -one.gpu_hours, one.names))
    else:
        lines.sort(key=lambda one: (-one.gpu_hours, one.names))
    return Usage(
        source=trace.source,
        by=by,
        lines=tuple(lines),
        total=line(("all",), np.arange(len(pieces.row))),
        without_duration=int(np.isnan(trace.truth.run_s()[np.unique(pieces.row)]).sum()),
        from_submission=not pieces.known,
    )


def _costs(trace: Trace, pieces: _Stretches, hours: Floats, prices: Prices) -> Floats:
    """Of each piece; one without GPU-hours needs no price."""
    types = _type(trace, pieces, None)
    used = zip(types, hours.tolist(), strict=True)
    return np.array([prices.of(name) * of if of else 0.0 for name, of in used], dtype=np.float64)


def _waits_s(trace: Trace, rows: Array) -> Floats:
    """From submission to the recorded start, of those that started."""
    assert trace.observed is not None
    waits_s = trace.observed.start_s[rows] - trace.jobs.submit_s[rows]
    started: Floats = np.maximum(waits_s[np.isfinite(waits_s)], 0.0)
    return started
