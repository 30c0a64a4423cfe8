"""The contract: what every policy keeps."""

from __future__ import annotations

from rota.testing import deciding, holding, moving
from rota.testing.sentences import Property

PROPERTIES: tuple[Property, ...] = (
    Property("the same snapshot, memory and seed give the same decision", deciding.same_decision),
    Property("a snapshot is never changed", deciding.snapshot_unchanged),
    Property("a memory survives its stored form", deciding.memory_stored),
    Property("caches can be dropped at any call", deciding.caches_droppable),
    Property("what a policy needs is declared, provided and enforced", deciding.needs_enforced),
    Property("the key of a waiting job changes only if its order is told", deciding.keys_in_order),
    Property("whoever waits is told why", deciding.waits_explained),
    Property("a policy pulls no lever that it does not declare", deciding.levers_declared),
    Property("no device is claimed beyond 1.0, the opportunistic aside", holding.devices_within_one),
    Property("a gang is whole or absent", holding.gangs_whole),
    Property("a hard quota is kept", holding.quotas_kept),
    Property("a finished job holds nothing", holding.finished_hold_nothing),
    Property("every job that could end alone ends", holding.every_job_ends),
    Property("who can never run blocks nobody", holding.hopeless_block_nobody),
    Property("when nothing happens, nothing moves", moving.rest),
    Property("an empty memory is harmless", moving.empty_memory),
    Property("nobody swaps there and back without news", moving.no_thrashing),
)
"""In the order in which they are checked."""
