"""A priority policy in a few lines: the key of a job, and a decorator that makes a registered policy of it.

    @priority("shortest", "Shortest job first", needs={Knowledge.DURATION}, preemptive=True)
    def shortest(snapshot: Snapshot, rows: Rows) -> Keys:
        return snapshot.know(Knowledge.DURATION)[rows]

The job with the lowest key comes first, of equals the one submitted first.  A key is read once, when its job
begins to wait or to run; one that changes with time has to say so (`drifts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from rota.errors import PolicyError, brief
from rota.knowledge.needs import Knowledge
from rota.model.columns import Floats, Ints
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Facts, Lever, Parameters, Status, When, register
from rota.scheduler.snapshot import Snapshot
from rota.stages.place import Placement
from rota.stages.priority import ByPriority, Drift

Rows = int | Ints
"""One row, or an array of rows."""
Keys = float | Floats | Ints
"""The key of one row, or those of an array of rows."""
Key = Callable[..., Keys]
"""`key(snapshot, rows)`, or `key(snapshot, rows, parameters)` if the policy has parameters that it reads."""


@dataclass(frozen=True)
class PlacementOnly:
    """Parameters of a priority policy that has no others."""

    placement: Placement = Placement.CONSOLIDATE
    """Where on the cluster."""


@dataclass(frozen=True)
class _Options:
    """The arguments of the decorator; a parameter of the same name decides for its variant."""

    preemptive: bool
    skip: bool
    drifts: Drift
    finish: Callable[[Snapshot, int], float] | None
    by_count: bool
    placement: Placement = field(default=Placement.CONSOLIDATE)

    def of(self, name: str, parameters: Parameters) -> Any:
        return getattr(parameters, name, getattr(self, name))


class PriorityPolicy:
    """Serves jobs in the order of a key."""

    def __init__(self, name: str, key: Key, options: _Options, parameters: Parameters) -> None:
        self.parameters = parameters
        preemptive = bool(options.of("preemptive", parameters))
        bound = partial(key, parameters=parameters) if len(signature(key).parameters) > 2 else key
        self.inner = ByPriority(
            _of_numbers(name, bound),
            preemptive=preemptive,
            strict=not preemptive and not options.of("skip", parameters),
            drifts=options.drifts,
            finish=options.finish,
            placement=options.of("placement", parameters),
            by_count=options.of("by_count", parameters),
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)


_PLAIN = (float, np.float64, int, np.int64)


def _of_numbers(name: str, key: Key) -> Key:
    """Wraps `key` in a check: it must return a number for a row, and one for each of an array of rows.

    Other values may compare all the same, as None does with None where a `return` was forgotten, or NaN with
    any number: the order would be one that was never asked for.
    """

    def read(snapshot: Snapshot, rows: Rows) -> Keys:
        keys = key(snapshot, rows)
        if type(rows) is int and type(keys) in _PLAIN and keys == keys:  # the common case, checked at once
            return keys
        if _are_numbers(keys, rows):
            return keys
        at = [int(row) for row in np.atleast_1d(rows)]
        whom = f"job {snapshot.jobs.table.ids[at[0]]}" if len(at) == 1 else f"an array of {len(at)} jobs"
        wanted = "a number" if isinstance(rows, int) else "an array with a number for each"
        raise PolicyError(f"policy {name!r}: its key gives {brief(keys)} for {whom}; expected {wanted}")

    return read


def _are_numbers(keys: Any, rows: Rows) -> bool:
    """Whether `keys` are numbers, none of them NaN, and as many as `rows`."""
    if isinstance(rows, np.ndarray) and (not isinstance(keys, np.ndarray) or keys.shape != rows.shape):
        return False
    if not isinstance(keys, int | float | np.generic | np.ndarray):
        return False
    numbers = np.asarray(keys)
    return numbers.dtype.kind in "biuf" and numbers.size == np.size(rows) and not np.isnan(numbers).any()


def priority(
    name: str,
    summary: str,
    *,
    paper: str = "",
    needs: Facts[Knowledge] = (),
    status: Status = Status.WORKING,
    parameters: type[Parameters] = PlacementOnly,
    heeds_priority: When = False,
    rotates: bool = False,
    preemptive: bool = False,
    skip: bool = True,
    drifts: Drift = Drift.NEVER,
    finish: Callable[[Snapshot, int], float] | None = None,
    by_count: bool = False,
) -> Callable[[Key], Callable[..., PriorityPolicy]]:
    """Register the policy that serves jobs in the order of the decorated key.

    `preemptive` rebuilds the running set along the key at each call, passing by what does not fit; without,
    waiting jobs start beside those that run, and `skip` says whether they pass one that does not fit.
    `finish` and `by_count` are those of `ByPriority`.  A field of the parameters named `preemptive`, `skip`,
    `placement` or `by_count` decides instead.  The name of the key stands for the class of the policy.
    """
    options = _Options(preemptive, skip, drifts, finish, by_count)
    levers: dict[Lever, When] = {}
    if preemptive or "preemptive" in parameters.__dataclass_fields__:
        # In the order of the key a job may lose its GPUs to one before it and find others at once.
        levers = dict.fromkeys((Lever.PREEMPT, Lever.MIGRATE), lambda p: bool(options.of("preemptive", p)))

    def enter(key: Key) -> Callable[..., PriorityPolicy]:
        class Registered(PriorityPolicy):
            __doc__ = key.__doc__

            def __init__(self, given: Parameters | None = None) -> None:
                super().__init__(name, key, options, given or parameters())

        Registered.__name__ = Registered.__qualname__ = name
        Registered.__module__ = key.__module__
        return register(
            name,
            summary,
            paper=paper,
            needs=needs,
            levers=levers,
            status=status,
            parameters=parameters,
            rotates=rotates,
            heeds_priority=heeds_priority,
        )(Registered)

    return enter
