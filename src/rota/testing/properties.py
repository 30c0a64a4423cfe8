"""The contract: what every policy keeps."""

from __future__ import annotations

from rota.testing import deciding, holding, moving, refusing
from rota.testing.sentences import Property

PROPERTIES: tuple[Property, ...] = (
    Property("the same snapshot, memory and seed give the same decision", deciding.SameDecision),
    Property("a snapshot is never changed", deciding.SnapshotUnchanged),
    Property("a memory survives its stored form", deciding.MemoryStored, deciding.StoredAndDropped),
    Property("caches can be dropped at any call", deciding.CachesDroppable, deciding.StoredAndDropped),
    Property("what a policy needs is declared, provided and enforced", deciding.NeedsEnforced),
    Property("the key of a waiting job changes only if its order is told", deciding.KeysInOrder),
    Property("each job that waits has a reason with a code", deciding.WaitsExplained),
    Property("what a policy means to give is a number for a job", deciding.TargetsTold),
    Property("a policy pulls no lever that it does not declare", deciding.LeversDeclared),
    Property("no device is claimed beyond 1.0, the opportunistic aside", holding.DevicesWithinOne),
    Property("a gang is whole or absent", holding.GangsWhole),
    Property("a hard quota is kept", holding.QuotasKept),
    Property("a finished job holds nothing", holding.FinishedHoldNothing),
    Property("every job that could end alone ends", holding.EveryJobEnds),
    Property("who can never run blocks nobody", found_by=holding.hopeless_block_nobody),
    Property("when nothing happens, nothing moves", moving.Rest),
    Property("an empty memory is harmless", found_by=moving.empty_memory),
    Property("a resize that is refused is not asked for again and again", found_by=refusing.refusals_heeded),
    Property("nobody swaps there and back without news", moving.NoThrashing),
)
"""All properties, in the order in which they are checked."""
