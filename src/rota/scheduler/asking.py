"""A policy is asked: the one place where what somebody else has written is called, and its answer read.

Whatever goes wrong in it is a PolicyError in one sentence, which a simulation ends with and a live cluster
reports; the exception itself is its cause.  Rota's own policies are called as they are: their answers are of
the right form, and an exception of theirs is a defect of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rota.errors import PolicyError, RotaError
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.forms import formed
from rota.scheduler.policy import Policy
from rota.scheduler.snapshot import Snapshot


class SpoiltError(PolicyError):
    """A policy has changed what it was shown: of that snapshot, or of a replica behind it, nothing holds."""


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
    return formed(decision, name, len(snapshot.jobs))


def is_ours(policy: Policy) -> bool:
    """True for a policy that comes with Rota."""
    return type(policy).__module__.startswith("rota.")


def words_of(error: BaseException, module: str = "") -> str:
    """An exception in one line: what, and where in whose file; in `module`, if it came by there."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    places = _places(error)
    if not places:
        return what
    file, line = next((place[1:] for place in reversed(places) if place[0] == module), places[-1][1:])
    return f"{what} ({Path(file).name}, line {line})"


def _places(error: BaseException) -> list[tuple[Any, str, int]]:
    """Module, file and line of each frame that `error` came by, the innermost last."""
    places, trace = [], error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        places.append((frame.f_globals.get("__name__"), frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return places
