"""Parameters of Themis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rota.errors import InputError


class Groups(StrEnum):
    """Which jobs of a group are one app."""

    TOGETHER = "together"  # jobs that end with the first of them, and jobs submitted at the same moment
    EVERY = "every"  # all that live at the same time
    NONE = "none"  # each job is an app of its own


@dataclass(frozen=True)
class ThemisParameters:
    """Parameters of `themis`."""

    fairness: float = 0.8
    """f, the fairness knob: the worst 1 - f of all apps take part in an auction, at least one."""
    lease_s: float = 1200.0
    """Seconds for which GPUs are won."""
    auction: bool = True
    """Hold auctions; `no`, the strawman, gives free GPUs to the app with the largest ρ, then to the next."""
    groups: Groups = Groups.TOGETHER
    """Which jobs of a group are one app.  Groups in traces are mostly series that recur, which are none."""
    exact_steps: int = 20_000
    """Auctions among few are solved exactly if no more bundles than this have to be looked at."""
    payment_steps: int = 4000
    """Most groups handed out again to find what each winner pays; beyond, payments are bounds by the price of
    the last GPU."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.fairness <= 1.0:
            raise InputError(f"policy 'themis': fairness={self.fairness:g} is not between 0 and 1")
        if not self.lease_s > 0.0:
            raise InputError(f"policy 'themis': lease_s={self.lease_s:g} is not above 0")
