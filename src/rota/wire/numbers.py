"""Numbers from outside: finite, and in a range that clocks, columns and sums can hold.

A controller reads its records again at every start, and a number that no column can hold would keep it from
starting. Such numbers are refused, with a sentence, before they are recorded.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

MOST_DEVICES = 1024
"""Most devices of one machine."""
MOST_COUNT = 2**53
"""Largest integer up to which every integer is exact as a floating-point number."""
LATEST_S = 1e11
"""Latest Unix time, in the year 5138."""
MOST_S = 1e10
"""Longest duration in seconds: three centuries."""
MOST_BYTES = 1e18
MOST_GIB = 1e7
MOST_SAMPLES = 1e18
LARGEST = 1e300
"""Largest finite number that a program may report, as its loss or gradient noise."""

SMALLEST = 1e-9
"""Smallest seconds or samples of a step, so that their quotient is neither infinite nor 0."""
_NOTHING_SMALLER = AfterValidator(lambda value: value if value >= SMALLEST else None)
"""Turns an impossibly small value into None: a report that was refused would be repeated for ever."""

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
