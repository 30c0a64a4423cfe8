"""Stride scheduling of gangs: the gang that has advanced least comes first; a gang advances as a whole.

Waldspurger's stride scheduling (1995) as Gandiva_fair extends it (EuroSys 2020, section 3): a gang takes all
its GPUs in the same quantum or none; one that does not fit is passed over without being charged, so it is
first in the next quantum.  The split form has one central walk over the jobs larger than a server and one
entry for all small jobs of each server; inside a server the small ones are walked as always.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple


class StrideGang(NamedTuple):
    """A gang, or an entry for several, that takes turns."""

    passed: float
    """How far it has advanced: service received over its tickets."""
    gpus: float
    """What it takes while it runs."""
    key: int
    """Its number; equal ones come in this order, the larger gang first."""


class BigGang(NamedTuple):
    """A gang on several servers."""

    gang: StrideGang
    on: Mapping[int, float]
    """GPUs it takes of each server."""


def in_turn(gangs: Sequence[StrideGang]) -> list[StrideGang]:
    """The gangs in order of turn: least advanced first, then the larger, then the lower number."""
    return sorted(gangs, key=lambda gang: (gang.passed, -gang.gpus, gang.key))


def turn(gangs: Sequence[StrideGang], fits: Callable[[int], bool]) -> list[int]:
    """Keys of the gangs that run in the next quantum, in order; `fits` takes the room of those it admits."""
    return [gang.key for gang in in_turn(gangs) if fits(gang.key)]


def split_turn(
    bigs: Sequence[BigGang], servers: Sequence[StrideGang], room: Mapping[int, float]
) -> list[int]:
    """Keys of the big gangs that run in the next quantum, in order.

    `servers` are the entries of the small jobs of each server, with the server as their key and, as their
    gang, what those jobs can use; `room` are the GPUs of each server.  At equal passes a larger gang comes
    first, and then a big one before a server.
    """
    left = dict(room)
    central = [(gang.passed, -gang.gpus, 1, gang.key, {gang.key: gang.gpus}) for gang in servers]
    central += [(big.gang.passed, -big.gang.gpus, 0, big.gang.key, dict(big.on)) for big in bigs]
    central.sort(key=lambda entry: entry[:4])
    runs: list[int] = []
    for *_, is_server, key, on in central:
        if is_server:
            left[key] -= min(on[key], left[key])
        elif all(left[server] >= gpus for server, gpus in on.items()):
            runs.append(key)
            for server, gpus in on.items():
                left[server] -= gpus
    return runs


def advance(passed: float, part: float, gpus: float, share: float) -> float:
    """The new pass of a gang that had `gpus` for `part` of a quantum and is due `share` GPUs of each."""
    return passed + part * gpus / share
