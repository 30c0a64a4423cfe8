"""Numbers as people read them."""

from __future__ import annotations

import math

from rota.model.units import format_duration
from rota.reports.metrics import Unit

NOTHING = "–"
"""Stands where a metric does not apply."""

SAME = "same"
_EXTREME = 10.0
"""From this factor on, and below its inverse, per cents stop saying anything."""
_LARGEST = 1000.0
"""Beyond this factor it says how little is left of one side, and nothing of the other."""
_DIRECTION = (("less", "more"), ("shorter", "longer"))
"""Of amounts and of times: below and above the baseline."""


def words(value: float | None, unit: Unit) -> str:
    """`value` in its unit: 5h 12m, 84.3%, 1.71x, 12,345, 3,210 GPU-h."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if unit == "s":
        return format_duration(value)
    if unit == "share":
        return f"{100 * value:.1f}%"
    if unit == "times":
        return f"{significant(value)}x"
    if unit == "gpu_s":
        return f"{significant(value / 3600)} GPU-h"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def significant(value: float) -> str:
    """Three digits that matter, and all digits before the point: 0.042, 1.71, 12.3, 4,711."""
    if value == 0:
        return "0"
    decimals = min(max(2 - math.floor(math.log10(abs(value))), 0), 4)
    return f"{value:,.{decimals}f}"


def change_words(ratio: float | None, unit: Unit = "s") -> str:
    """A ratio to the baseline as people say it: `−38%`, `+4.2%`, `same`, `14x shorter`."""
    if ratio is None or not math.isfinite(ratio):
        return NOTHING
    if ratio == 0 or _EXTREME > ratio > 1 / _EXTREME:
        return _percent(ratio - 1)
    return f"{_factor(ratio)} {_DIRECTION[unit == 's'][ratio > 1]}"


def factor_words(ratio: float | None, unit: Unit = "s") -> str:
    """The same for a sentence, where a factor reads better from two on: `2.6x longer`, `38% shorter`."""
    if ratio is None or not math.isfinite(ratio):
        return NOTHING
    direction = _DIRECTION[unit == "s"][ratio > 1]
    if 0.5 < ratio < 2:
        share = _percent(ratio - 1)
        return share if share == SAME else f"{share.lstrip('+−')} {direction}"
    return f"{_factor(ratio)} {direction}" if ratio else f"100% {direction}"


def _factor(ratio: float) -> str:
    """`14x`, by which the larger exceeds the smaller."""
    factor = ratio if ratio > 1 else 1 / ratio
    return f"over {_LARGEST:,.0f}x" if factor > _LARGEST else f"{two_digits(factor)}x"


def two_digits(value: float) -> str:
    """Two digits that matter: 1.6, 2, 14, 280, 12,000."""
    rounded = float(f"{value:.1e}")
    return f"{rounded:g}" if rounded < 10 else f"{rounded:,.0f}"


def _percent(change: float) -> str:
    """`-38%` with a true minus; one decimal below ten per cent, where it says something."""
    text = f"{100 * change:+.1f}" if abs(change) < 0.0995 else f"{100 * change:+.0f}"
    return SAME if text in ("+0.0", "-0.0") else text.replace("-", "−") + "%"
