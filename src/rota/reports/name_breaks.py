"""Names on pages: where a long one may be broken.  Loads nothing of the reports: the server uses it, too."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_JOINT = re.compile(r"(?<=[:=,/_|])(?=[^:=,/_|])")
"""Where the name of a policy or a tenant may be broken over two lines: behind what joins its parts."""
_SHORT = 20
"""Letters up to which a table keeps a name on one line."""


def breakable(name: str) -> Markup:
    """`name` for a page: broken between its parts where it has to be, inside one only if that is too long."""
    parts = [str(escape(part)) for part in _JOINT.split(name)]
    kind = "name short" if len(name) <= _SHORT else "name"
    return Markup(f'<span class="{kind}">{"<wbr>".join(parts)}</span>')


def loose(name: str) -> str:
    """`name` with places to break it, where no element can stand: the label of a cell."""
    return _JOINT.sub("\u200b", name)
