"""Text that comes from outside: such as a database can store and an answer in JSON can hold.

What an agent tells is mended, not refused: a report that is refused for the words in it would be repeated for
ever, and its job would never end.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def clean(text: str) -> str:
    """`text` without NUL and without half of a surrogate pair: neither database stores those."""
    return in_pairs(text.replace("\0", "\ufffd"))


def in_pairs(text: str) -> str:
    """`text` without half of a surrogate pair, which no answer in JSON can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


Told = Annotated[str, AfterValidator(clean)]
"""What an agent says in words."""

Printed = Annotated[str, AfterValidator(in_pairs)]
"""What a job has printed, which is shown and not stored: with every NUL, as it was."""
