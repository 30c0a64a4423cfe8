"""What a policy wants: desired grants, and when to call it again."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Protocol

from rota.model.grants import Constraint, Grant, Leave, Reservation
from rota.model.promises import DeadlinePlan, Offer, Promise

if TYPE_CHECKING:
    from rota.scheduler.snapshot import Snapshot
    from rota.table.occupancy import Occupancy

Memory = dict[str, Any]
"""What a policy remembers between calls: JSON values and NumPy arrays, nothing else.

A policy may write into the memory it was given and hand it back; a caller that needs the old one (a replay,
a shadow, a transaction) takes a copy before the call.
"""


class Event(IntFlag):
    """What can happen in a world; a policy names those that should wake it."""

    NONE = 0
    ARRIVAL = 1
    END = 2  # a job left: completed, failed for good, cancelled
    FAILURE = 4  # an attempt failed and the job waits again
    CAPACITY = 8  # a node was lost or came back
    TIMER = 16  # the moment the policy asked for
    ROUND = 32  # a round of the world's semantics ended
    PROFILE = 64  # a grant to measure (`Purpose.PROFILE`) has ended: what was seen in it is known
    SAID = 128  # the program of a running job has reported its abilities, or they have changed
    ANY = 255
    IDLE = 256  # any of these, while no job holds a GPU: only ever asked for, `Snapshot.cause` never names it


# As in `world`: each call makes one of both, and written out `__init__` is compiled.


@dataclass(slots=True, init=False)
class Wake:
    """When to call the policy again."""

    at_s: float
    """At this moment, whatever happens."""
    on: Event
    """On these events."""
    if_waiting: bool
    """Only while some job waits; without waiting jobs even `at_s` does not wake it."""

    def __init__(self, at_s: float = math.inf, on: Event = Event.ANY, if_waiting: bool = False) -> None:
        self.at_s, self.on, self.if_waiting = at_s, on, if_waiting


class Ranking(Protocol):
    """What a policy knows of a waiting job beyond its decision: the jobs before it, whether it would fit."""

    spreads: bool
    """True if any free GPUs of one type will do, however scattered."""

    def ahead(self, snapshot: Snapshot, row: int) -> Sequence[int]:
        """Waiting rows that are served before `row`."""
        ...

    def fits(self, snapshot: Snapshot, scratch: Occupancy, row: int) -> bool:
        """True if `row` could be placed on what `scratch` leaves free."""
        ...


@dataclass(slots=True, init=False)
class Decision:
    """Desired state: a job that the decision does not name keeps what it holds.

    A job may be named once: in `grants`, `preempt`, `reject`, `offers` or `cancel`.  The first fields are
    what is decided: the loop checks them and worlds carry them out.  The last ones are what is reported:
    people, findings and the record see them, and they move no job (one kind of simulation uses `ends`).
    """

    # -- decided -----------------------------------------------------------------------------------

    memory: Memory
    grants: Sequence[Grant]
    """What each named job holds from now on."""
    preempt: Sequence[int]
    """Running jobs that hold nothing from now on."""
    leave: Leave
    """How the preempted jobs leave."""
    reject: Mapping[int, str]
    """Waiting jobs that are refused, with the reason."""
    offers: Mapping[int, Offer]
    """Waiting jobs whose deadline cannot be kept, with a later one that could be.

    Such a job is held until the offer is answered; it comes back with the new deadline, or it is refused."""
    cancel: Mapping[int, str]
    """Jobs that are ended, with the reason."""
    reservations: Sequence[Reservation] | None
    """Devices kept free for waiting jobs; replaces all earlier ones, None keeps them."""
    promises: Mapping[int, Promise]
    """Deadlines promised now, and earlier ones whose expected end has changed: for users and the record."""
    wanted_nodes: int | None
    """Desired number of nodes of the cluster, where worlds can change it; None: as it is."""
    wake: Wake
    """When to call the policy again."""

    # -- reported ----------------------------------------------------------------------------------

    reasons: Mapping[int, Constraint]
    """Binding constraints that only the policy knows; all others are derived on request."""
    is_cut: bool
    """True if a time limit ended the computation early, so that a repetition may differ."""
    ranking: Ranking | None = field(compare=False, repr=False)
    """Answers, on request, which jobs are before a waiting one and whether it would fit."""
    otherwise: Constraint | None = field(compare=False, repr=False)
    """What keeps a job waiting if nothing else does: the rule of a policy that lets jobs take turns or cuts
    the cluster into parts, in a sentence."""
    guaranteed: Collection[int] | None = field(compare=False, repr=False)
    """Rows that run on their tenants' guaranteed resources, where the policy has guarantees."""
    plan_of: Callable[[int], DeadlinePlan | None] | None = field(compare=False, repr=False)
    """How the policy means to keep the deadline of a row, on request."""
    ends: Mapping[int, float] | None = field(compare=False, repr=False)
    """Moments at which the policy plans jobs to be done.  A simulation in which jobs end as planned
    (`RoundEnds.PLANNED`) uses them; there a job that is not named ends by its present rate."""
    targets: Mapping[int, float] | None = field(compare=False, repr=False)
    """What the policy means to give each job (a part of its time, GPUs, ρ): shown and never enforced; None
    leaves what was reported before."""
    target: str = field(compare=False, repr=False)
    """What `targets` are, in a word or two: the head of a column."""

    def __init__(
        self,
        memory: Memory,
        grants: Sequence[Grant] = (),
        preempt: Sequence[int] = (),
        leave: Leave = Leave.CHECKPOINT,
        reject: Mapping[int, str] | None = None,
        cancel: Mapping[int, str] | None = None,
        reservations: Sequence[Reservation] | None = None,
        wake: Wake | None = None,
        reasons: Mapping[int, Constraint] | None = None,
        is_cut: bool = False,
        ranking: Ranking | None = None,
        otherwise: Constraint | None = None,
        offers: Mapping[int, Offer] | None = None,
        promises: Mapping[int, Promise] | None = None,
        wanted_nodes: int | None = None,
        guaranteed: Collection[int] | None = None,
        plan_of: Callable[[int], DeadlinePlan | None] | None = None,
        ends: Mapping[int, float] | None = None,
        targets: Mapping[int, float] | None = None,
        target: str = "target",
    ) -> None:
        self.memory = memory
        self.grants, self.preempt, self.leave = grants, preempt, leave
        self.reject = {} if reject is None else reject
        self.cancel = {} if cancel is None else cancel
        self.offers = {} if offers is None else offers
        self.promises = {} if promises is None else promises
        self.reservations = reservations
        self.wake = Wake() if wake is None else wake
        self.reasons = {} if reasons is None else reasons
        self.wanted_nodes = wanted_nodes
        self.is_cut, self.ranking, self.otherwise = is_cut, ranking, otherwise
        self.guaranteed, self.plan_of, self.ends = guaranteed, plan_of, ends
        self.targets, self.target = targets, target

    @property
    def names_nobody(self) -> bool:
        """True if every job keeps what it holds: there is nothing to check or to carry out."""
        if self.grants or self.preempt or self.reservations is not None:
            return False
        return not (self.reject or self.cancel or self.offers)
