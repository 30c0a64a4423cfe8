"""A job's life as a picture: one bar for each stretch of time, as high as it held devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rota.model.units import format_duration, plural
from rota.wire.timeline import Doing, StretchView

MOST_BARS = 400
"""The newest stretches of a job that was moved more often."""
HEIGHT, LEAST_HEIGHT, STILL_HEIGHT = 56.0, 14.0, 8.0
LEAST_WIDTH = 0.15
"""Of a bar, in parts of a hundred: what is shorter is seen all the same."""
TICKS = 4
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800,
    345600, 604800, 1209600, 2592000,
)  # fmt: skip


@dataclass(frozen=True)
class StripBar:
    """A rectangle: `left` and `width` in parts of a hundred, `top` and `height` in pixels."""

    doing: str
    left: float
    width: float
    top: float
    height: float
    title: str
    starting: float = 0.0
    """Width of its begin, in which nothing was worked on."""
    is_cut_short: bool = False
    """Others, or a failure, put an end to it."""


@dataclass(frozen=True)
class StripTick:
    """A moment of the axis, counted from the submission."""

    left: float
    text: str


@dataclass(frozen=True)
class Strip:
    """The picture; its axis goes from the first moment to the last."""

    bars: Sequence[StripBar]
    ticks: Sequence[StripTick]
    from_s: float
    to_s: float
    most_gpus: int
    left_out: int = 0
    """Stretches that came before."""


def strip(stretches: Sequence[StretchView], now_s: float) -> Strip:
    """The picture of these stretches, which are in their order, at `now_s`."""
    shown = stretches[-MOST_BARS:]
    begin = shown[0].from_s if shown else now_s
    ends = [now_s if one.to_s is None else one.to_s for one in shown]
    end = max([*ends, begin + 1.0])
    most = max((one.gpus for one in shown), default=0)

    def part(moment_s: float) -> float:
        return 100.0 * min(max(moment_s - begin, 0.0), end - begin) / (end - begin)

    bars = []
    for one, until_s in zip(shown, ends, strict=True):
        left = part(one.from_s)
        width = max(part(until_s) - left, LEAST_WIDTH)
        height = _height(one, most)
        bars.append(
            StripBar(
                doing=one.doing,
                left=min(left, 100.0 - width),
                width=width,
                top=HEIGHT - height,
                height=height,
                title=_title(one, until_s - one.from_s),
                starting=min(width, part(begin + one.starting_s)),
                is_cut_short=one.end in ("preempted", "failed", "lost"),
            )
        )
    return Strip(bars, _ticks(end - begin), begin, end, most, len(stretches) - len(shown))


def _height(one: StretchView, most: int) -> float:
    if one.doing is not Doing.RUNNING:
        return STILL_HEIGHT
    return LEAST_HEIGHT + (HEIGHT - LEAST_HEIGHT) * (one.gpus / most if most else 1.0)


def _title(one: StretchView, seconds: float) -> str:
    """`running 5m on n0, n1 (4 devices), preempted: for job 2`."""
    held = f" on {', '.join(one.nodes)} ({plural(one.gpus, 'device')})" if one.nodes else ""
    end = f", {one.end}" if one.end else ""
    why = f": {one.why}" if one.why not in ("", one.end) else ""
    return f"{one.doing} {format_duration(seconds)}{held}{end}{why}"


def _ticks(span_s: float) -> list[StripTick]:
    """Round moments, a few of them."""
    step = next((one for one in _STEPS_S if span_s / one <= TICKS + 1), _STEPS_S[-1])
    while span_s / step > 2 * TICKS:
        step *= 2
    count = int(span_s / step)
    return [
        StripTick(100.0 * i * step / span_s, f"+{format_duration(i * step)}") for i in range(1, count + 1)
    ]
