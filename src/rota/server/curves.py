"""The curves of a job as users get them: the points on record, then the values reported since."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from rota.wire.curves import UNITS, CurvesView, CurveView
from rota.wire.sync import ProgressReport, Usage
from rota.wire.timeline import Doing, StretchView
from rota.worlds.live.curves import LEAST_S, Curves, Point, said_by_agent, said_by_program

if TYPE_CHECKING:
    from rota.server.store.rows import AttemptRow

PARTS = ("mean", "low", "high")


def newest_point(attempt: AttemptRow, last_s: float, now: float, epoch_s: float) -> Point | None:
    """The latest report of the living `attempt`, as a point after `last_s`; None if there is none since.

    Other reports of a job since its last point are not on record yet.  `epoch_s` is the Unix time
    of moment 0.
    """
    progress = None if attempt.progress is None else ProgressReport(**attempt.progress)
    usage = None if attempt.usage is None else Usage(**attempt.usage)
    values = {} if progress is None else said_by_program(progress)
    values |= {} if usage is None else said_by_agent(usage, usage.gpu_utilisation)
    told_s = max((said.at_s - epoch_s for said in (progress, usage) if said is not None), default=last_s)
    if min(told_s, now) <= last_s or all(value is None for value in values.values()):
        return None
    gpus = sum(len(place["devices"]) for place in attempt.parts["places"])
    return Curves().see(attempt.row, attempt.number, min(told_s, now), {**values, "gpus": float(gpus)})


def curves_view(
    job: str, points: Sequence[Point], epoch_s: float, life: Sequence[StretchView] = ()
) -> CurvesView:
    """Curves over these points of `job`, which are in their order; moments count from `epoch_s`.

    `life` are the job's stretches of time, oldest first, in Unix time.
    """
    said = {name for point in points for name in point.curves}
    return CurvesView(
        job=job,
        spacing_s=max((point.spacing_s for point in points), default=LEAST_S),
        at_s=[epoch_s + point.at_s for point in points],
        until_s=[epoch_s + point.until_s for point in points],
        gaps=_gaps(life, epoch_s + points[-1].until_s) if points else [],
        attempt=[point.attempt for point in points],
        curves={name: _curve(name, points) for name in UNITS if name in said},
    )


def _gaps(life: Sequence[StretchView], until_s: float) -> list[tuple[float, float]]:
    """When it held nothing and held something again before that moment."""
    held_nothing = [one for one in life if one.doing is not Doing.RUNNING]
    return [(one.from_s, one.to_s) for one in held_nothing if one.to_s is not None and one.to_s <= until_s]


def _curve(name: str, points: Sequence[Point]) -> CurveView:
    columns: dict[str, list[float | None]] = {
        part: [point.curves[name][place] if name in point.curves else None for point in points]
        for place, part in enumerate(PARTS)
    }
    return CurveView(unit=UNITS[name], mean=columns["mean"], low=columns["low"], high=columns["high"])


def curves_csv(view: CurvesView) -> str:
    """One line for each point; of each curve its mean under its name, `NAME_low` and `NAME_high`."""
    columns: dict[str, Sequence[object]] = {
        "at_s": view.at_s,
        "until_s": view.until_s,
        "attempt": view.attempt,
    }
    for name, curve in view.curves.items():
        columns |= {name: curve.mean, f"{name}_low": curve.low, f"{name}_high": curve.high}
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()
