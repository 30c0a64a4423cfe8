"""Rules for the learning rate when the samples of a step change; the user chooses one.

keep      unchanged (the default: no other rule is safe for every model)
linear    in proportion to the batch (Goyal et al. 2017)
sqrt      with its square root (usual for Adam and similar optimizers)
adascale  with what a step is worth (Johnson et al. 2020; Pollux, OSDI 2021, section 3.2), which depends on
          the measured noise of the gradient as well; for Adam and similar optimizers with its square root
function  factor = function(old, new), both in samples of one step over all workers
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Rule = str | Callable[[float, float], float]

ADASCALE = "adascale"
RULES = ("keep", "linear", "sqrt", ADASCALE)


def factor(rule: Rule, old: float, new: float) -> float:
    """Factor for the learning rate when the batch changes from `old` to `new` samples.

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
    if rule in ("keep", ADASCALE):  # AdaScale depends on what a step is worth, not on the batch alone
        return 1.0
    raise ValueError(f"unknown learning-rate rule {rule!r}; known are {', '.join(RULES)}, or give a function")


def ramp(multiple: float, steps: int, over: int = 100) -> float:
    """Learning rate factor `steps` steps after the batch has grown, if it is `multiple` after `over` steps.

    A sudden change of the rate hurts accuracy, so it rises linearly (Elan, ICDCS 2020, from memory).  This is
    for programs that set their rate themselves, with a `function` as the rule, or `keep`.

    >>> [round(ramp(4.0, step), 3) for step in (0, 25, 50, 100, 150)]
    [1.0, 1.75, 2.5, 4.0, 4.0]
    """
    if over < 1 or steps < 0:
        raise ValueError(f"a ramp over {over} steps, of which {steps} are done: expected at least 1, and 0")
    return 1.0 + (multiple - 1.0) * min(steps / over, 1.0)


def scale(objects: Iterable[Any], by: float, adaptive: float | None = None) -> None:
    """Multiply the rates of all optimizers among `objects`, and the base rates of all schedulers, by `by`.

    An optimizer has `param_groups` with `lr`, a scheduler `base_lrs` (torch's names); other objects are not
    changed. Optimizers with `betas`, such as Adam, are multiplied by `adaptive` if that is given.
    """
    for one in objects:
        optimizer = one if hasattr(one, "param_groups") else getattr(one, "optimizer", None)
        is_adaptive = any("betas" in group for group in getattr(optimizer, "param_groups", ()))
        factor_ = adaptive if adaptive is not None and is_adaptive else by
        for group in getattr(one, "param_groups", ()):
            for key in ("lr", "initial_lr"):
                if key in group:
                    group[key] = group[key] * factor_
        base = getattr(one, "base_lrs", None)
        if isinstance(base, list):
            one.base_lrs = [rate * factor_ for rate in base]
