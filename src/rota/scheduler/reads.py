"""The knowledge and levers that one policy, or several together, use; any others have no effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rota.knowledge.needs import SIZES, Knowledge
from rota.scheduler.policy import Lever, Policy, levers_of


class Reads(NamedTuple):
    """Kinds of knowledge that some policy asks for, and levers that some policy moves."""

    needs: frozenset[Knowledge]
    levers: frozenset[Lever]

    @classmethod
    def of(cls, policies: Iterable[Policy]) -> Reads:
        """What all of `policies` together read and may do."""
        listed = list(policies)
        needs = frozenset[Knowledge]().union(*(policy.needs for policy in listed))
        return cls(needs, frozenset[Lever]().union(*map(levers_of, listed)))

    @property
    def sizes(self) -> bool:
        """True if a job may get another number of GPUs than it asks for, even if only at its start."""
        return Lever.RESIZE in self.levers or bool(SIZES & self.needs)

    @property
    def batches(self) -> bool:
        """True if a job may get another batch size."""
        return Lever.RESIZE in self.levers or Knowledge.GOODPUT in self.needs

    @property
    def offers(self) -> bool:
        """True if a job may be offered a later deadline."""
        return Lever.REJECT in self.levers
