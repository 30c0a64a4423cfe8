"""Numbers as people read them."""

from __future__ import annotations

import math

from rota.model.units import format_duration
from rota.reports.metrics import Unit

NOTHING = "–"
"""Stands where a metric does not apply."""

_LEAST = 0.0001
"""A smaller ratio would be printed as if it were nothing."""


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


def ratio_words(ratio: float | None) -> str:
    """`0.62x`: times the baseline, two decimals where they say something; `<0.0001x` is less than any."""
    if ratio is None:
        return NOTHING
    if 0 < ratio < _LEAST:
        return f"<{_LEAST}x"
    return f"{significant(ratio)}x" if ratio < 0.01 or ratio >= 100 else f"{ratio:.2f}x"
