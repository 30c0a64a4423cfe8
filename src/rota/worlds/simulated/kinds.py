"""Which world keeps time as some semantics say."""

from __future__ import annotations

from rota.worlds.simulated.planned import PlannedWorld
from rota.worlds.simulated.rounds import RoundWorld
from rota.worlds.simulated.semantics import RoundEnds, Semantics
from rota.worlds.simulated.slots import SlotWorld
from rota.worlds.simulated.ticks import TickWorld
from rota.worlds.simulated.world import SimulatedWorld

_WORLDS: dict[RoundEnds, type[SimulatedWorld]] = {
    RoundEnds.FIXED: RoundWorld,
    RoundEnds.LATEST_STOP: RoundWorld,
    RoundEnds.TICKS: TickWorld,
    RoundEnds.MERGED_ALL: PlannedWorld,
    RoundEnds.PLANNED: PlannedWorld,
}


def world_of(semantics: Semantics) -> type[SimulatedWorld]:
    """The world that keeps time as `semantics` says."""
    if not semantics.round_s:
        return SimulatedWorld
    return _WORLDS.get(semantics.round_ends, SlotWorld)
