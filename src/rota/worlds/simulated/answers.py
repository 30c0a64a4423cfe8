"""How the users of a simulation answer the later deadlines that a policy offers them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from rota.errors import InputError
from rota.model.promises import Offer
from rota.model.units import format_duration, parse_duration

EXPECTED = "FACTOR or FACTOR:AFTER, for instance 1.5 or 2:10m"


@dataclass(frozen=True)
class UserAnswers:
    """Users that accept waits of up to `factor` times what they asked for, and answer after a while."""

    factor: float = 1.0
    """Most seconds from submission to the offered deadline, relative to the one asked for; with 1 no user
    takes a later one."""
    after_s: float = 0.0
    """Seconds until a user answers."""

    def __str__(self) -> str:
        return f"{self.factor:g}" + (f":{format_duration(self.after_s)}" if self.after_s else "")

    def to(self, offer: Offer, now: float, submit_s: float, deadline_s: float) -> tuple[float, bool]:
        """The moment of the answer to an `offer` made `now`, and whether it is yes.

        An offer that is void by then has not been taken.
        """
        takes = offer.deadline_s - submit_s <= self.factor * (deadline_s - submit_s) * (1.0 + 1e-12)
        answer_s = now + self.after_s
        return (answer_s, takes) if answer_s <= offer.until_s else (offer.until_s, False)


def parse_answers(text: str) -> UserAnswers:
    """`1.5` or `1.5:10m`; InputError names what is expected."""
    match = re.fullmatch(r"([\d.]+)(?::(.+))?", text.strip())
    try:
        if match is None:
            raise ValueError
        factor, after_s = float(match[1]), parse_duration(match[2]) if match[2] else 0.0
        if not (1.0 <= factor < math.inf and 0.0 <= after_s < math.inf):
            raise ValueError
    except (ValueError, InputError):
        problem = f"{text!r} does not say which later deadlines users accept"
        raise InputError.at(problem, field="--accept", expected=EXPECTED) from None
    return UserAnswers(factor, after_s)
