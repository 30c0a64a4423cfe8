"""Names that a type of device may have, wherever it is typed: A100, 2080Ti, 3090, 1g.10gb."""

from __future__ import annotations

GPU_TYPE = r"[A-Za-z0-9_.+-]+"
"""Pattern of the name of one type.  It may be digits alone: where a number may stand as well, a type has a
number of devices behind it, `3090:2`."""
