"""Text from outside, in a form that a database can store and an answer in JSON can hold.

An agent's text is repaired rather than refused: the agent would repeat a refused report for ever, and its job
would never end.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def clean(text: str) -> str:
    """`text` without NUL and unpaired surrogates, which no database here can store."""
    return in_pairs(text.replace("\0", "\ufffd"))


def in_pairs(text: str) -> str:
    """`text` without unpaired surrogates, which no answer in JSON can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


Told = Annotated[str, AfterValidator(clean)]
"""Text of an agent, for storage."""

Printed = Annotated[str, AfterValidator(in_pairs)]
"""Output of a job, which is shown but not stored; it keeps every NUL."""
