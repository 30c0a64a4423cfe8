"""What a GPU-hour costs, by type."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rota.errors import InputError
from rota.wire.usage import UNKNOWN


class Prices:
    """What a GPU-hour costs, by type."""

    def __init__(self, by_type: Mapping[str, float], others: float | None) -> None:
        """`others` is the price of types that are not named; None if they have none."""
        self._by_type = {name.casefold(): price for name, price in by_type.items()}
        self._others = others

    def of(self, gpu_type: str) -> float:
        """Of one GPU of that type for an hour; InputError if it has no price."""
        price = self._by_type.get(gpu_type.casefold(), self._others)
        if price is None:
            problem = (
                "there are jobs whose GPU type is unknown, and no price for them"
                if gpu_type == UNKNOWN
                else f"GPU type {gpu_type!r} has no price"
            )
            raise InputError.at(problem, field="--price", expected="one for the rest as well: V100=1.2,2")
        return price


def parse_prices(text: str) -> Prices:
    """`2.5` for every GPU-hour, `V100=1.2,A100=3`, `A100=3,1` with a price for the rest."""
    by_type: dict[str, float] = {}
    others: float | None = None
    for part in text.split(","):
        name, equals, price = part.rpartition("=")
        if not re.fullmatch(r"\d{1,12}(\.\d{1,12})?", price.strip()) or (equals and not name.strip()):
            problem = f"{part.strip()[:80]!r} is no price"
            raise InputError.at(problem, field="--price", expected="2.5, or by type: V100=1.2,A100=3")
        if equals:
            by_type[name.strip()] = float(price)
        else:
            others = float(price)
    return Prices(by_type, others)
