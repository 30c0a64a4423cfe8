"""Where each job sits with how much: what it wants, its share in proportion, or what others can spare.

A job never gets less than its share in proportion.  If no job on a node holds more than that, as many free
GPUs as a job asks for come with enough of everything, so cutting others to their share always ends with room.
"""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.columns import Floats
from rota.systems.synergy.room import Ask, Room


def settle(room: Room, asks: Sequence[Ask], *, migrate: bool, greedy: bool = False) -> list[Ask] | None:
    """Seat `asks`, in their order, immovable jobs first; returns the asks left out.

    A running job stays where it is if it can have there what it wants, or if no other place has it, and
    is served before new jobs.  `greedy` gives no job less than it wants.  None if the GPUs of some job
    cannot be found any more.
    """
    fixed, moving, new = [], [], []
    somewhere: dict[int, bool] = {}  # by id of a mask, which many have in common
    for ask in asks:
        if id(ask.allowed) not in somewhere:
            somewhere[id(ask.allowed)] = bool(ask.allowed.any())
        if not somewhere[id(ask.allowed)]:
            fixed.append(ask)
        elif not ask.held or not room.is_free(ask.held):
            new.append(ask)
        else:
            moving.append(ask)
    for ask in fixed:
        _stay(room, ask, ask.grant.devices)
    left = []
    for ask in moving:
        wanted = room.wanted(ask.wants)
        parts = ask.parts or room.parts_of(ask.held)
        if greedy and not room.fits(ask, parts, wanted):
            wanted = _wished(room, ask)
        if room.fits(ask, parts, wanted):
            room.keep(ask, ask.held, parts, wanted)
        else:
            left.append(ask)
    out: list[Ask] = []
    room.claims = {device: turn for turn, ask in enumerate(left) for device in ask.held}
    for ask in left + new:
        for device in ask.held:
            room.claims.pop(device, None)
        if greedy:
            if not _get(room, ask):
                out.append(ask)
        elif not _settle(room, ask, migrate):
            return None
    return out


def _settle(room: Room, ask: Ask, migrate: bool) -> bool:
    stays, wanted = bool(ask.held) and room.is_free(ask.held), room.wanted(ask.wants)
    if stays and room.fits(ask, room.parts_of(ask.held), wanted):  # now that a job there has been cut
        _stay(room, ask, ask.held)
        return True
    if migrate or not stays:
        parts = room.place(ask, wanted)
        if parts is not None:
            room.seat(ask, parts, wanted)
            return True
    if stays:
        _stay(room, ask, ask.held)
        return True
    share = room.cut(ask.wants)
    parts = room.place(ask, share)
    if parts is None:
        parts = room.with_gpus(ask)
        if parts is None:
            return False
        room.make_room(parts, share)
        parts = room.place(ask, share) or parts
    room.seat(ask, parts, share)
    return True


def _stay(room: Room, ask: Ask, devices: tuple[int, ...]) -> None:
    """Seat the job on `devices`, with less if need be."""
    parts, wanted, share = room.parts_of(devices), room.wanted(ask.wants), room.cut(ask.wants)
    if room.fits(ask, parts, wanted):
        room.keep(ask, devices, parts, wanted)
        return
    if not room.fits(ask, parts, share):
        room.make_room(parts, share, ask.share)
    room.keep(ask, devices, parts, share)


def _get(room: Room, ask: Ask) -> bool:
    """Seat the job with what it wants."""
    each = _wished(room, ask)
    parts = room.place(ask, each)
    if parts is None:
        return False
    room.seat(ask, parts, each)
    return True


def _wished(room: Room, ask: Ask) -> Floats:
    """What the job wants on each node, cut if even the empty cluster could not give it."""
    return room.wanted(ask.wants) if room.feeds_empty(ask) else room.cut(ask.wants)
