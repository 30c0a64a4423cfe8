"""Numbers that come from outside: finite, and in a range that clocks, columns and sums can hold.

What is on record is read again at every start of a controller: one number that no column takes would keep it
from starting.  So they are refused, with a sentence, before they are on record.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

MOST_DEVICES = 1024
"""Of one machine."""
MOST_COUNT = 2**53
"""Integers up to here are the same as floating-point numbers."""
LATEST_S = 1e11
"""Unix times end here, in the year 5138."""
MOST_S = 1e10
"""Seconds, three centuries: no duration is longer."""
MOST_BYTES = 1e18
MOST_GIB = 1e7
MOST_SAMPLES = 1e18
LARGEST = 1e300
"""No finite number of a program is larger: a loss, its noise."""

SMALLEST = 1e-9
"""Seconds or samples of a step: where one is divided by the other nothing becomes infinite, or nothing."""
_NOTHING_SMALLER = AfterValidator(lambda value: value if value >= SMALLEST else None)
"""What a program said and cannot be was never said: a report that is refused would be repeated for ever."""

Unix = Annotated[float, Field(ge=0, le=LATEST_S, allow_inf_nan=False)]
Duration = Annotated[float, Field(ge=0, le=MOST_S, allow_inf_nan=False)]
Bytes = Annotated[float, Field(ge=0, le=MOST_BYTES, allow_inf_nan=False)]
Gib = Annotated[float, Field(ge=0, le=MOST_GIB, allow_inf_nan=False)]
Cores = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Part = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Samples = Annotated[float, Field(ge=0, le=MOST_SAMPLES, allow_inf_nan=False)]
Batch = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False), _NOTHING_SMALLER]
"""Samples of a step; None if it is too small to be one."""
StepTime = Annotated[float, Field(ge=0, le=MOST_S, allow_inf_nan=False), _NOTHING_SMALLER]
"""Seconds of a step; None if it is too short to be one."""
Finite = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Device = Annotated[int, Field(ge=0, lt=MOST_DEVICES)]
Port = Annotated[int, Field(ge=1, le=65535)]
Code = Annotated[int, Field(ge=-(2**31), lt=2**31)]
