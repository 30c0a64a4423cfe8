"""Grants of whole devices, unshared: most are such, and these functions make and recognise them fast.

They leave all else as it was asked for, by the very objects that `Grant` has for that: no NaN is compared,
and no function of a named tuple is called.
"""

from __future__ import annotations

from typing import Any, Final

from rota.model.grants import Grant, is_whole

# Compiled, what is final is read at once, and every other name is looked up in a dictionary.
_make: Final[Any] = tuple.__new__
_GRANT: Final[Any] = Grant
_MODEL: Final[Any] = Grant(0, ())
"""A grant that says nothing beyond job and devices."""
_SHARE: Final = _MODEL[2]
_ROLE: Final = _MODEL[3]
_NODE: Final = _MODEL[4]
_BATCH: Final = _MODEL[5]
_POWER: Final = _MODEL[6]
_PURPOSE: Final = _MODEL[7]
_CPUS: Final = _MODEL[8]
_MEMORY: Final = _MODEL[9]
_GPU_MEMORY: Final = _MODEL[10]


def whole_grant(row: Any, devices: tuple[int, ...]) -> Grant:
    """`devices` for `row` alone."""
    grant: Grant = _make(
        _GRANT,
        (row, devices, _SHARE, _ROLE, _NODE, _BATCH, _POWER, _PURPOSE, _CPUS, _MEMORY, _GPU_MEMORY),
    )
    return grant


def is_made_whole(grant: Grant) -> bool:
    """True if it holds nothing beyond job and devices; one with equal values in other objects is missed."""
    fields: tuple[Any, ...] = grant
    return (
        fields[2] is _SHARE
        and fields[5] is _BATCH
        and fields[8] is _CPUS
        and fields[9] is _MEMORY
        and fields[10] is _GPU_MEMORY
        and fields[6] is _POWER
        and fields[7] is _PURPOSE
        and fields[3] is _ROLE
        and fields[4] is _NODE
    )


def is_plainly_whole(grant: Grant) -> bool:
    """A faster form of `is_whole`."""
    return is_made_whole(grant) or is_whole(grant)
