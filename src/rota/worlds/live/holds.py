"""Holds, which hide a job from its policy: users, other jobs, time, failures, the cluster itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rota.model.reasons import Code, Constraint

USER = "user"
SUSPENDED = "suspended"
OFFERED = "offered"
"""A later deadline is offered to its user: `requested` is that moment, `until_s` when the offer lapses."""
DEPENDENCY = "dependency"
BEGIN = "begin"
BACK_OFF = "back-off"
INFEASIBLE = "infeasible"
ARRAY = "array"
RECORD = "record"
"""The job's record cannot be read: it stays as it is until a user cancels it."""
ACCOUNT = "account"
"""Its user has not the account that it was submitted as: it waits until that is so again, or is cancelled."""

_CODES = {
    RECORD: Code.HELD,
    ACCOUNT: Code.ACCOUNT,
    USER: Code.HELD,
    SUSPENDED: Code.SUSPENDED,
    OFFERED: Code.OFFERED,
    DEPENDENCY: Code.DEPENDENCY,
    BEGIN: Code.BEGIN,
    BACK_OFF: Code.BACK_OFF,
    INFEASIBLE: Code.GANG_TOO_LARGE,
    ARRAY: Code.ARRAY,
}
ORDER = tuple(_CODES)
"""Dominant first: what a person did, then what a person can change, then what passes by itself."""


@dataclass(frozen=True, slots=True)
class Hold:
    """One reason why a job is hidden from its policy."""

    kind: str
    detail: str = ""
    """The user that holds it, the jobs that it waits for, or what failed."""
    until_s: float | None = None
    """Moment at which it ends by itself, seconds since the epoch."""
    requested: float | None = None
    provided: float | None = None
    code: str = ""
    """Code of the reason, where the kind does not say it."""

    def constraint(self, now: float | None = None) -> Constraint:
        """The hold as a reason for waiting; at `now`, one that ends by itself says in how many seconds."""
        nan = float("nan")
        requested = nan if self.requested is None else self.requested
        if self.until_s is not None and now is not None:
            requested = max(round(self.until_s - now, 3), 0.0)
        provided = nan if self.provided is None else self.provided
        if self.kind == INFEASIBLE and self.detail and not self.code:
            return Constraint(Code.GPU_TYPE, nan, 0, self.detail)
        code = Code(self.code) if self.code else _CODES[self.kind]
        return Constraint(code, requested, provided, self.detail)

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def dominant(holds: dict[str, Hold]) -> Hold:
    """The hold to name first."""
    return min(holds.values(), key=lambda hold: ORDER.index(hold.kind))


def note_of(holds: dict[str, Hold]) -> str:
    """The hold to name first, as the table of jobs notes it."""
    return dominant(holds).constraint().note()
