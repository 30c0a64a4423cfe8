"""Slurm's lists of nodes, `gpu[01-04,07]-ib,login1`, as names."""

from __future__ import annotations

import re
from itertools import product

from rota.errors import brief

NOBODY = ("", "none", "none assigned", "(null)", "unknown", "n/a")
"""Texts (in lower case) that stand for no node."""
MOST_NODES = 100_000
"""Most nodes in a list, more than any cluster has: a typing error in a range should not fill the memory."""

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")


def nodes_in(text: str) -> tuple[str, ...]:
    """Names of the nodes, in the order of the list; empty for an empty list.

    Brackets hold numbers and ranges, which keep the leading zeros of their lower bound; a name may have
    several. Raises ValueError for any other text, and for lists of more than `MOST_NODES`.
    """
    if text.strip().lower() in NOBODY:
        return ()
    names: list[str] = []
    for item in _items(text.strip()):
        names += _expanded(item)
        if len(names) > MOST_NODES:
            raise ValueError(f"lists more than {MOST_NODES:,} nodes")
    return tuple(names)


def _items(text: str) -> list[str]:
    """The parts between commas outside of brackets."""
    items, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise ValueError("has brackets that do not match")
        if letter == "," and not depth:
            items.append("")
        else:
            items[-1] += letter
    if depth or not all(items):
        raise ValueError("has brackets that do not match" if depth else "has an empty name")
    return items


def _expanded(item: str) -> list[str]:
    """The names that one part stands for."""
    choices: list[list[str]] = []
    count = 1
    for match in _PART.finditer(item):
        choices.append([match[2]] if match[2] is not None else _numbers(match[1]))
        count *= len(choices[-1])
        if count > MOST_NODES:
            raise ValueError(f"lists more than {MOST_NODES:,} nodes")
    return ["".join(parts) for parts in product(*choices)]


def _numbers(text: str) -> list[str]:
    """`01-03,07` as 01, 02, 03, 07."""
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if not match:
            raise ValueError(f"has {brief(part)} in brackets, which is no range")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MOST_NODES:
            raise ValueError(
                f"has the range {brief(part)}, which {'does not rise' if last < first else 'is too long'}"
            )
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return numbers
