"""Marks such as `%j` in names of output files: which letters there are, and how they are filled in.

The controller fills in what it knows of a job, the agent what it knows of a rank. The agent, which reads the
name last, also turns `%%` into a percent sign.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LETTERS = "%AaJjNnstuxb"
EXPECTED = (
    "%j job, %A and %a array and index, %b last digit of the index, %x name, %u user, %t rank, "
    "%N node, %n its number in the job, %s batch, %% for a percent sign"
)
_MARK = re.compile(r"%(\d*)(.?)", re.DOTALL)
MOST_DIGITS = 10
"""Largest width of a mark: `%4j` is filled with zeros to 4 digits; wider ones are cut to this, as in
sbatch."""


def check_file_name(name: str) -> None:
    """Raise ValueError if a `%` in the name of an output file is followed by a letter without meaning."""
    for mark in _MARK.finditer(name):
        if not mark[2] or mark[2] not in LETTERS or (mark[1] and mark[2] == "%"):
            raise ValueError(f"{name!r} has {mark[0]!r}, which has no meaning here; expected {EXPECTED}")


def filled(name: str, values: Mapping[str, str], *, last: bool = False) -> str:
    """Fill the marks in `name` whose letters `values` has; leave other marks as they are.

    A value that is a number is filled with zeros to the width of its mark. With `last`, `%%` becomes a
    percent sign; otherwise percent signs in values are doubled.
    """

    def value(mark: re.Match[str]) -> str:
        if last and mark[2] == "%":
            return "%"
        if mark[2] not in values or not mark[2]:
            return mark[0]
        text = values[mark[2]].replace("/", "_")
        if mark[1] and text.isdecimal():
            text = text.zfill(min(int(mark[1]), MOST_DIGITS))
        return text if last else text.replace("%", "%%")

    return _MARK.sub(value, name)
