"""Prices of a GPU-hour by type: typed, from a cluster file, or from the configuration of a cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.errors import InputError
from rota.model.gpu_slices import gpu_part
from rota.wire.usage import UNKNOWN

CLASSES = ("on_demand", "spot")
MOST = 1e12


class Prices:
    """Price of a GPU-hour, by type."""

    def __init__(
        self, by_type: Mapping[str, float], others: float | None, *, is_partial: bool = False
    ) -> None:
        """`others` is the price of types that are not named; None if they have none.

        With `is_partial` a type without a price costs nothing and is noted in `missing`.
        """
        self._by_type = {name.casefold(): price for name, price in by_type.items()}
        self._others, self._is_partial = others, is_partial
        self.missing: set[str] = set()

    def of(self, gpu_type: str) -> float:
        """Of one device of that type for an hour; InputError if it has no price.

        A MIG slice without a price of its own costs its part of the price for the rest.
        """
        price = self._by_type.get(gpu_type.casefold())
        if price is None and self._others is not None:
            price = self._others * gpu_part(gpu_type)
        if price is None and self._is_partial:
            self.missing.add(gpu_type)
            return 0.0
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


def prices_text(text: str) -> str:
    """`text`, or where it names a cluster file, the prices that the file states, as `V100=1.2,A100=3`.

    Raises InputError for a file that states none.
    """
    if not text.strip().endswith((".yaml", ".yml")):
        return text
    from rota.model.cluster_file import load_cluster

    cluster = load_cluster(Path(text.strip()))
    stated = {name: cluster.gpu_price(code) for code, name in enumerate(cluster.type_names)}
    known = {name: price for name, price in stated.items() if not math.isnan(price)}
    said = [f"{name}={price:.12f}".rstrip("0").rstrip(".") for name, price in known.items()]
    if not said:
        raise InputError.at(f"{text} states no prices", field="--price", expected="`prices` in the file")
    return ",".join(said)


def prices_of(said: Any) -> Prices | None:
    """The list `prices` of a configuration: a number or a number per class, by type; None if it is empty.

    A class that a type does not name counts as in a cluster file: on demand, else the cheapest.
    """
    if not isinstance(said, Mapping):
        raise InputError("prices: is no list of prices; expected such as {V100: 1.2}")
    by_type = {_name(name): _price(f"prices.{name}", price) for name, price in said.items()}
    return Prices(by_type, None, is_partial=True) if by_type else None


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"prices: {name!r} is no GPU type; expected a name such as V100")
    return name


def _price(field: str, said: Any) -> float:
    if isinstance(said, Mapping):
        classes = {name: _price(f"{field}.{name}", price) for name, price in said.items()}
        unknown = sorted(set(classes) - set(CLASSES), key=str)
        if unknown or not classes:
            problem = f"has no class {unknown[0]!r}" if unknown else "states no price"
            raise InputError(f"{field}: {problem}; expected {' or '.join(CLASSES)}")
        return classes.get("on_demand", min(classes.values()))
    is_number = isinstance(said, int | float) and not isinstance(said, bool)
    if not is_number or not 0.0 <= said <= MOST:
        raise InputError(f"{field}: {said!r} is no price; expected a number such as 1.2")
    return float(said)
