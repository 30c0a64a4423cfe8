"""What becomes of the learning rate when the samples of a step change: the user's choice.

keep      as it is (the default: without knowing the model nothing else is safe)
linear    in proportion to the batch (Goyal et al. 2017)
sqrt      with its square root (usual for Adam and its kin)
function  factor = function(old, new), both in samples of one step over all workers
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Rule = str | Callable[[float, float], float]

RULES = ("keep", "linear", "sqrt")


def factor(rule: Rule, old: float, new: float) -> float:
    """What to multiply the rate with when the batch goes from `old` to `new` samples.

    >>> factor("linear", 32, 128), factor("sqrt", 32, 128), factor("keep", 32, 128)
    (4.0, 2.0, 1.0)
    """
    if old <= 0 or new <= 0:
        raise ValueError(f"a batch goes from {old} to {new} samples: both must be positive")
    if callable(rule):
        multiple = float(rule(old, new))
        if not math.isfinite(multiple) or multiple <= 0:
            raise ValueError(
                f"the learning-rate function gave {multiple} for a batch from {old} to {new} samples"
            )
        return multiple
    if rule == "linear":
        return new / old
    if rule == "sqrt":
        return math.sqrt(new / old)
    if rule == "keep":
        return 1.0
    raise ValueError(f"unknown learning-rate rule {rule!r}; known are {', '.join(RULES)}, or give a function")


def scale(objects: Iterable[Any], by: float) -> None:
    """Multiply the rates of all optimizers among `objects`, and the base rates of all schedulers, by `by`.

    An optimizer has `param_groups` with `lr`, a scheduler `base_lrs` (torch's words); others are left alone.
    """
    for one in objects:
        for group in getattr(one, "param_groups", ()):
            for key in ("lr", "initial_lr"):
                if key in group:
                    group[key] = group[key] * by
        base = getattr(one, "base_lrs", None)
        if isinstance(base, list):
            one.base_lrs = [rate * by for rate in base]
