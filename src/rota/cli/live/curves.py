"""`rota show --curves`: what a job has said over time, as a line of each curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rota.cli.live.tables import moment, table_text
from rota.model.units import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rota.wire.curves import CurvesView

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 32


def curves_text(view: CurvesView) -> str:
    """A table with a small picture of each curve, over the same time."""
    if not view.curves:
        return (
            f"nothing has been said of job {view.job} so far; programs that use rota.training tell their "
            "loss, and agents what the devices do\n"
        )
    rows = []
    for name, curve in view.curves.items():
        said = [value for value in curve.mean if value is not None]
        low, high = (_known(part) for part in (curve.low, curve.high))
        picture = spark(view.until_s, curve.mean)
        rows.append(
            (name, curve.unit, *(_short(one) for one in (said[0], said[-1], min(low), max(high))), picture)
        )
    first, last = moment(view.at_s[0]), moment(view.until_s[-1])
    text = table_text("CURVE UNIT >FIRST >LAST >LEAST >MOST ~PICTURE", rows)
    return f"{text}{plural(len(view.at_s), 'point')} from {first} to {last}\n"


def spark(at_s: Sequence[float], values: Sequence[float | None], width: int = WIDTH) -> str:
    """The last value within each part of the time, as a bar from least to most; a blank where is none."""
    known, width = _known(values), min(width, len(values))
    least, most, begin_s, span_s = min(known), max(known), at_s[0], at_s[-1] - at_s[0]
    cells: list[float | None] = [None] * width
    for moment_s, value in zip(at_s, values, strict=True):
        if value is not None:
            cells[min(int(width * (moment_s - begin_s) / span_s), width - 1) if span_s > 0 else 0] = value
    return "".join(" " if value is None else BARS[_step(value, least, most)] for value in cells)


def _step(value: float, least: float, most: float) -> int:
    half = most / 2 - least / 2  # of halves, which never overflow
    return min(int(len(BARS) * (value / 2 - least / 2) / half), len(BARS) - 1) if half > 0 else 0


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _short(value: float) -> str:
    return f"{value:.4g}"
