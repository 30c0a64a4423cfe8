"""Numbers and lists of names as people read them: the one home of how a report writes them.

Durations are `rota.model.units.format_duration`, GPU-hours `rota.model.words.hours`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from rota.model.columns import Floats, Ints
from rota.model.units import format_duration

Unit = Literal["s", "gpu_s", "share", "times", "count"]
"""Of a metric."""
NOTHING = "–"
"""Shown where a metric does not apply."""

SAME = "same"
_EXTREME = 10.0
"""From this factor on, and below its inverse, per cents stop saying anything."""
_LARGEST = 1000.0
"""Beyond this factor it says how little is left of one side, and nothing of the other."""
_DIRECTION = (("less", "more"), ("shorter", "longer"))
"""Of amounts and of times: below and above the baseline."""

SIZES: tuple[tuple[str, int], ...] = (
    ("CPU only", 0), ("1 GPU", 1), ("2-4 GPUs", 4), ("5-8 GPUs", 8), (">8 GPUs", 2**62),
)  # fmt: skip
"""Classes of jobs by size: name, and most GPUs that one asks for."""


def size_name(gpus: int) -> str:
    """The class of a job that asks for `gpus` GPUs."""
    return next(name for name, most in SIZES if gpus <= most)


def size_codes(gpus: Floats | Ints) -> Ints:
    """Place in `SIZES` of the class of each job, by the GPUs it asks for; both of shape (jobs,)."""
    return np.searchsorted(np.array([most for _, most in SIZES], dtype=np.float64), gpus)


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
        return _change(ratio - 1)
    return f"{_factor(ratio)} {_DIRECTION[unit == 's'][ratio > 1]}"


def factor_words(ratio: float | None, unit: Unit = "s") -> str:
    """A change in a sentence, with a factor from two on: `2.6x longer`, `38% shorter`."""
    if ratio is None or not math.isfinite(ratio):
        return NOTHING
    direction = _DIRECTION[unit == "s"][ratio > 1]
    if 0.5 < ratio < 2:
        share = _change(ratio - 1)
        return share if share == SAME else f"{share.lstrip('+−')} {direction}"
    return f"{_factor(ratio)} {direction}" if ratio else f"100% {direction}"


def _factor(ratio: float) -> str:
    """`14x`, the ratio of the larger to the smaller."""
    factor = ratio if ratio > 1 else 1 / ratio
    return f"over {_LARGEST:,.0f}x" if factor > _LARGEST else f"{two_digits(factor)}x"


def two_digits(value: float) -> str:
    """Two digits that matter: 1.6, 2, 14, 280, 12,000."""
    rounded = float(f"{value:.1e}")
    return f"{rounded:g}" if rounded < 10 else f"{rounded:,.0f}"


def _change(change: float) -> str:
    """`-38%` with a true minus; one decimal below ten per cent, where it says something."""
    text = f"{100 * change:+.1f}" if abs(change) < 0.0995 else f"{100 * change:+.0f}"
    return SAME if text in ("+0.0", "-0.0") else text.replace("-", "−") + "%"


def percent(share: float) -> str:
    """`45%`, `7.3%`, `0.04%`: two digits that matter below ten per cent."""
    hundredths = 100 * share
    if hundredths >= 9.95 or hundredths == 0:
        return f"{hundredths:.0f}%"
    return f"{hundredths:.1f}%" if hundredths >= 0.095 else f"{hundredths:.2g}%"


def part_words(error: float) -> str:
    """A part in whole per cents that is 0 only if nothing differs."""
    return "below 1%" if 0.0 < error < 0.005 else f"{100 * error:,.0f}%"


def gpu_count(amount: float) -> str:
    """GPUs: `405`, and `1.4` where MIG slices or shares leave parts below ten."""
    return f"{amount:,.0f}" if amount >= 10 or amount == round(amount) else f"{amount:.2g}"


def listed(names: Sequence[str], most: int | None = None) -> str:
    """`a`, `a and b`, `a, b and c`; with more than `most` names `a, b, c and 4 more`."""
    if most is not None and len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
