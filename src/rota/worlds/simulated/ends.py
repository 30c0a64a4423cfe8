"""When jobs that begin together will end, and intervals that end together: in C (`ends.c`).

Where that could not be built, `world.py` and `recorder.py` note the same one by one, to the same bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rota import native

SOURCE: Final = Path(__file__).with_name("ends.c")  # compiled, this file ends differently
FUNCTIONS: Final[Mapping[str, Any]] = native.functions(SOURCE)
"""By name; none where it is not built.  What each takes and returns stands in the C file."""

# Each is None where it is not built.  Compiled, what is final is read at once.
ENTER: Final[Any] = FUNCTIONS.get("enter")
VALID: Final[Any] = FUNCTIONS.get("valid")
NOTE: Final[Any] = FUNCTIONS.get("note")
