"""How often a job that fails is tried again, and after which pause.

Blind retries have one budget and no pause.  The adaptive ones follow the third guideline of the Philly
study (Jeon et al., USENIX ATC 2019, section 5): a budget for each class of failure, growing pauses after
failures of the infrastructure, and no retry after the same signature a few times in a row, or where it has
been in vain for other jobs and users.  The study names no numbers; the ones here are inferred.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rota.errors import InputError
from rota.model.failures import FailureClass, RetryHistory, class_of
from rota.model.trace import Trace
from rota.model.units import parse_duration

BUDGETS = {FailureClass.USER: 0, FailureClass.UNKNOWN: 1, FailureClass.INFRASTRUCTURE: 5}
OF_SIGNATURE = {"incorrect inputs": 1}
"""Signatures with a budget of their own: inputs may have been late."""


@dataclass(frozen=True)
class Retries:
    """When a job that has failed is given up, and how long it pauses before it is tried again."""

    budgets: Mapping[FailureClass, float] = field(
        default_factory=lambda: dict.fromkeys(FailureClass, math.inf)
    )
    """Retries after failures of each class; never more than the attempts left in the trace."""
    of_signature: Mapping[str, float] = field(default_factory=dict)
    """Budgets of single signatures, in place of their class's."""
    pause_s: float = 0.0
    """Seconds to wait after the first failure of the infrastructure; doubled after each further one."""
    alike: int = 0
    """Given up once this many attempts in a row failed with the same known signature; 0: never for that."""
    in_all: float = math.inf
    """Retries after failures of all classes together."""
    others: int = 0
    """Given up if trying again after the same signature was in vain for this number of other jobs of its
    user, or for jobs of this number of other users (`RetryHistory`); 0: nothing is learnt from others."""

    @classmethod
    def blind(cls, most: int | None) -> Retries:
        """`most` retries whatever the failures are; None tries as often as the trace did."""
        return cls(in_all=math.inf if most is None else most)

    @classmethod
    def adaptive(cls) -> Retries:
        return cls(BUDGETS, OF_SIGNATURE, pause_s=60.0, alike=3, others=3)

    def pause_after(self, failed_of: Sequence[str]) -> float | None:
        """Seconds to wait after attempts that failed with these signatures, in order; None: give the job up.

        A budget counts the failures of the last one's class; signatures with their own budget are apart.
        """
        last = failed_of[-1]
        own = last in self.of_signature
        of_class = [s for s in failed_of if class_of(s) is class_of(last) and s not in self.of_signature]
        count = sum(s == last for s in failed_of) if own else len(of_class)
        budget = self.of_signature[last] if own else self.budgets[class_of(last)]
        ends_alike = self.alike and last and list(failed_of[-self.alike :]) == [last] * self.alike
        if count > budget or len(failed_of) > self.in_all or ends_alike:
            return None
        is_infrastructure = class_of(last) is FailureClass.INFRASTRUCTURE
        return self.pause_s * 2.0 ** (count - 1) if is_infrastructure else 0.0


class Retrier:
    """Decides after each failure of the jobs of a trace, and learns from what became of other jobs."""

    def __init__(self, retries: Retries, trace: Trace) -> None:
        self.retries = retries
        self.jobs, self.truth = trace.jobs, trace.truth
        self._history = RetryHistory()

    def pause_after(self, row: int, failed: int) -> tuple[float | None, str]:
        """As `Retries.pause_after`, once `failed` attempts of `row` have failed; and why the last failed."""
        failed_of = [self.truth.signature(row, attempt) for attempt in range(failed)]
        others, user = self.retries.others, self.jobs.name_of("tenant", row)
        if others and failed > 1:
            self._history.note(user, row, failed_of[-2], failed_of[-1])
        if others and self._history.is_vain(user, row, failed_of[-1], others):
            return None, failed_of[-1]
        return self.retries.pause_after(failed_of), failed_of[-1]

    def ended(self, row: int, failed: int, in_vain: bool) -> None:
        """`row` has ended after `failed` failures; `in_vain` if its last attempt failed as well."""
        if failed and self.retries.others:
            user, before = self.jobs.name_of("tenant", row), self.truth.signature(row, failed - 1)
            self._history.note(user, row, before, self.truth.signature(row, failed) if in_vain else None)


def retries_of(said: Retries | int | None) -> Retries:
    """The retries of a setting, as a `Retries`."""
    return said if isinstance(said, Retries) else Retries.blind(said)


def parse_retries(text: str | int | None) -> Retries:
    """`3`, `adaptive`, or `adaptive:user=0,unknown=1,infrastructure=5,pause=60s,alike=3,others=3`.

    Raises `InputError` that names the part that is wrong.
    """
    if text is None:
        return Retries.blind(None)
    word, _, rest = str(text).strip().partition(":")
    if word != "adaptive":
        return Retries.blind(_count(str(text), str(text)))
    retries = Retries.adaptive()
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        retries = _with(retries, name.strip(), value.strip(), part)
    return retries


def _with(retries: Retries, name: str, value: str, part: str) -> Retries:
    if name in set(FailureClass):
        return replace(retries, budgets={**retries.budgets, FailureClass(name): _count(value, part)})
    if name == "alike":
        return replace(retries, alike=_count(value, part))
    if name == "others":
        return replace(retries, others=_count(value, part))
    if name == "pause":
        return replace(retries, pause_s=parse_duration(value))
    names = ", ".join([*FailureClass, "pause", "alike", "others"])
    raise InputError.at(f"{part!r} sets nothing", field="--retries", expected=f"one of {names}")


def _count(text: str, part: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise InputError.at(
            f"{part!r} is no number of retries", field="--retries", expected="a number, or adaptive"
        ) from None
    if count < 0:
        raise InputError.at(f"{part} is below 0", field="--retries", expected="0 or more")
    return count
