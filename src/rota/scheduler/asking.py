"""Calls a policy and reads its answer: the one place where third-party code runs.

Whatever goes wrong in it becomes a PolicyError in one sentence, which ends a simulation and is reported by a
live cluster; the exception itself is its cause.  Rota's own policies are called directly: their answers have
the right form, and an exception in one is a defect of Rota.
"""

from __future__ import annotations

from collections.abc import Callable

from rota.errors import PolicyError, RotaError, words_of
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.forms import Extent, formed
from rota.scheduler.moments.values import encode
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Snapshot


class SpoiltError(PolicyError):
    """A policy has changed what it was shown: that snapshot, or a replica behind it, is no longer valid."""


def asked(policy: Policy, snapshot: Snapshot, memory: Memory) -> Decision:
    """What `policy` decides, each field of its type; PolicyError if it fails, or answers something else."""
    if is_ours(policy):
        return policy.decide(snapshot, memory)
    decide: Callable[[Snapshot, Memory], object] = policy.decide
    name = type(policy).__name__
    now, claimed = snapshot.now, list(snapshot.occupancy.claimed)
    held = snapshot.grants
    snapshot.grants = dict(held)  # the loop counts by its own, whatever becomes of these
    try:
        decision = decide(snapshot, memory)
    except RotaError:
        raise
    except (Exception, SystemExit) as error:
        why = words_of(error, type(policy).__module__)
        raise PolicyError(f"{name}.decide raised {why}, at {now:,.12g} s") from error
    finally:
        snapshot.grants = held
        if list(snapshot.occupancy.claimed) != claimed:
            raise SpoiltError(
                f"{name}.decide has changed snapshot.occupancy at {now:,.12g} s, by which all claims are "
                "counted; expected it to try things on snapshot.scratch()"
            )
    return formed(decision, name, extent_of(snapshot))


def extent_of(snapshot: Snapshot) -> Extent:
    """What a decision about `snapshot` can name."""
    return Extent(len(snapshot.jobs), snapshot.cluster.gpus, snapshot.cluster.nodes)


def is_ours(policy: Policy) -> bool:
    """True for a policy that comes with Rota."""
    return type(policy).__module__.startswith("rota.")


def check_memory(memory: Memory, decisions: int) -> None:
    """Refuse a memory that cannot be stored, as a live cluster does at each decision; here now and then.

    That is at the first, second, fourth ... decision.  A simulation stores none, but a policy that runs in
    one should run in the other.
    """
    if memory and not decisions & (decisions - 1):
        encode(memory)
