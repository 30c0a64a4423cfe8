"""Text that comes from outside: such as a database can store and an answer in JSON can hold.

What an agent tells is mended, not refused: a report that is refused for the words in it would be repeated for
ever, and its job would never end.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def clean(text: str) -> str:
    """`text` without NUL and without half of a surrogate pair: neither database stores those."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


Told = Annotated[str, AfterValidator(clean)]
"""What an agent says in words."""
