"""Messages for a policy that does not exist: which one was meant, or how several are joined."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

from rota.errors import InputError

_BETWEEN = re.compile(r"[\s;|+]+")


def no_such_policy(name: str, known: Collection[str]) -> InputError:
    """The error for `name`, which is none of `known`."""
    several = [part for part in _BETWEEN.split(name) if part]
    close = get_close_matches(name.lower(), known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "`rota systems` lists them"
    if len(several) > 1 and {part.partition(":")[0] for part in several} <= set(known):
        hint = f"expected commas between them: {','.join(several)}"
    return InputError(f"there is no policy {name!r}; {hint}")
