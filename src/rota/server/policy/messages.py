"""What controller and policy process say to each other, and how it crosses the pipe.

Each message is its length in 8 bytes and a pickle.  Requests are dataclasses; replies are dictionaries of
plain values, read by an unpickler that knows no classes, since a policy may be foreign code.
"""

from __future__ import annotations

import pickle
import select
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from socket import socket
from typing import Any

import numpy as np

from rota.errors import InputError, PolicyError
from rota.knowledge.needs import Knowledge, Provenance, Table
from rota.model.columns import Array
from rota.model.grants import Code, Constraint, Leave, Reservation
from rota.model.promises import DeadlinePlan, Offer, PlannedSlot, Promise
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.moments.packing import unpack_grant
from rota.scheduler.moments.replica import Frame, Whole
from rota.scheduler.moments.values import decode, encode
from rota.scheduler.own_modules import import_policies
from rota.scheduler.policy import PolicySpec, parse_policy

LONGEST = 1 << 32
"""Bytes of a message; more than that is garbage."""


class PipeError(PolicyError):
    """The other side is gone, or has sent something that is no message."""


class NotTakenError(PipeError):
    """The other side was gone before it read the message, which had no effect."""


class OutOfMemoryError(PipeError):
    """The other side has taken all the memory that it may take; only a new process helps."""


# -- requests --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NewRows:
    """News in the knowledge of one kind: some rows of its columns, or all of it."""

    kind: Knowledge
    provenance: Provenance
    values: Array | Table
    """With `rows`, the columns have only these rows, and a table shares only its news."""
    rows: Array | None = None
    """None if `values` replace everything."""


@dataclass(frozen=True)
class Begin:
    """Everything that a policy begins or restarts with."""

    whole: Whole
    policy: str
    memory: bytes | None
    """Sealed memory (`seal`); None for an empty one."""
    seed: int = 0


@dataclass(frozen=True)
class Decide:
    """One moment to decide upon."""

    frames: list[Frame]
    cause: int
    news: list[NewRows] = field(default_factory=list)
    memory: bytes | None = None
    """Go on with this sealed memory; None for the one that the last decision left."""
    costs: Mapping[int, float] = field(default_factory=dict)
    """Cost of preempting running jobs, by row."""


@dataclass(frozen=True)
class Explain:
    """Why `rows` wait."""

    frames: list[Frame]
    rows: list[int]


@dataclass(frozen=True)
class ServedOrder:
    """The order in which waiting jobs are served."""

    frames: list[Frame]


@dataclass(frozen=True)
class Freeze:
    """The present moment, for a file."""

    frames: list[Frame]


@dataclass(frozen=True)
class GuaranteedRunners:
    """Which jobs run on what their tenant can always have?"""

    frames: list[Frame]


@dataclass(frozen=True)
class WhyAnswer:
    """Why a job waits."""

    constraints: tuple[Constraint, ...]
    position: int
    """1 for the job served next."""
    ahead: list[int]
    """The first rows before it."""
    plan: DeadlinePlan | None = None
    """The policy's plan to keep its deadline."""


# -- the pipe --------------------------------------------------------------------------------------


class _Plain(pickle.Unpickler):
    """Reads numbers, texts, bytes, lists, tuples and dictionaries, and nothing that has to be imported."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def send(pipe: socket, value: object, deadline: float | None = None) -> None:
    """Send `value` before `deadline` (on the monotonic clock).  Raises PipeError or TimeoutError."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    left = memoryview(struct.pack("<Q", len(data)) + data)
    while left:
        try:
            left = left[pipe.send(left, _DONT_WAIT) :]
        except BlockingIOError:
            _until_ready(pipe, select.POLLOUT, deadline)
        except OSError as error:
            raise NotTakenError(f"the other side is gone ({error.strerror})") from None


def receive(
    pipe: socket, deadline: float | None = None, *, plain: bool = True, rest_s: float | None = None
) -> Any:
    """The next message.

    Raises TimeoutError if none begins before `deadline`; PipeError if the other side is gone, if what it
    says is no message, or if the message is not whole `rest_s` after it began.
    """
    _until_ready(pipe, select.POLLIN, deadline)
    last = None if rest_s is None else time.monotonic() + rest_s
    try:
        (length,) = struct.unpack("<Q", _read(pipe, 8, last))
        if length > LONGEST:
            raise PipeError("what came is no message")
        data = _read(pipe, length, last)
    except TimeoutError:
        raise PipeError("a message began and did not end") from None
    try:
        return _Plain(BytesIO(data)).load() if plain else pickle.loads(data)
    except Exception as error:  # a pickle of garbage may raise anything
        raise PipeError(f"what came is no message ({error})") from None


_DONT_WAIT = 0x40  # MSG_DONTWAIT: the socket itself stays blocking, and is only waited for if it has to be


def _read(pipe: socket, length: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < length:
        try:
            piece = pipe.recv(min(length - len(data), 1 << 20), _DONT_WAIT)
        except BlockingIOError:
            _until_ready(pipe, select.POLLIN, deadline)
            continue
        except ConnectionResetError:  # it ended with something unread
            raise NotTakenError("the other side is gone") from None
        except OSError as error:
            raise PipeError(f"the other side is gone ({error.strerror})") from None
        if not piece:
            raise PipeError("the other side is gone")
        data += piece
    return bytes(data)


def _until_ready(pipe: socket, event: int, deadline: float | None) -> None:
    poll = select.poll()
    poll.register(pipe, event)
    left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000.0
    if not poll.poll(left):
        raise TimeoutError


# -- memories --------------------------------------------------------------------------------------


def seal(memory: Memory) -> bytes:
    """A memory as bytes for the store; PolicyError names the first thing in it that cannot be stored."""
    text, arrays = encode(memory)
    head = text.encode()
    columns = BytesIO()
    if arrays:
        np.savez(columns, **arrays)  # type: ignore[arg-type]
    return struct.pack("<Q", len(head)) + head + columns.getvalue()


def unseal(sealed: bytes | None) -> Memory:
    """The memory that was sealed; an empty one for None and for no bytes."""
    if not sealed:
        return {}
    (length,) = struct.unpack_from("<Q", sealed)
    text, rest = sealed[8 : 8 + length].decode(), sealed[8 + length :]
    if not rest:
        return dict(decode(text, {}))
    with np.load(BytesIO(rest), allow_pickle=False) as arrays:
        return dict(decode(text, arrays))


def sealed_memory(sealed: bytes | None) -> Memory:
    """The loop's memory for a policy in another process: sealed, or empty at first."""
    return {} if sealed is None else {"sealed": sealed}


# -- decisions -------------------------------------------------------------------------------------


def unpack_decision(packed: Mapping[str, Any], memory: Memory) -> Decision:
    """The decision that `rota.scheduler.moments.frozen.packed_decision` packed."""
    at_s, on, if_waiting = packed["wake"]
    reservations = packed["reservations"]
    return Decision(
        memory,
        [unpack_grant(fields) for fields in packed["grants"]],
        packed["preempt"],
        Leave(packed["leave"]),
        packed["reject"],
        packed["cancel"],
        None if reservations is None else [Reservation(j, tuple(d), s) for j, d, s in reservations],
        Wake(at_s, Event(on), if_waiting),
        {row: unpack_constraint(fields) for row, fields in packed["reasons"].items()},
        packed["is_cut"],
        offers={row: Offer(*fields) for row, fields in packed["offers"].items()},
        promises={row: Promise(*fields) for row, fields in packed["promises"].items()},
        wanted_nodes=packed["wanted_nodes"],
    )


def pack_constraint(constraint: Constraint) -> list[Any]:
    """A constraint as plain values."""
    return [constraint.code.value, constraint.requested, constraint.provided, constraint.detail]


def unpack_constraint(packed: list[Any]) -> Constraint:
    code, requested, provided, detail = packed
    return Constraint(Code(code), requested, provided, detail)


def pack_plan(plan: DeadlinePlan | None) -> list[Any] | None:
    """A plan as plain values."""
    return None if plan is None else [float(plan.due_s), [list(map(float, slot)) for slot in plan.slots]]


def unpack_plan(packed: list[Any] | None) -> DeadlinePlan | None:
    if packed is None:
        return None
    due_s, slots = packed
    return DeadlinePlan(due_s, tuple(PlannedSlot(begin, end, int(gpus)) for begin, end, gpus in slots))


# -- which policies can run ------------------------------------------------------------------------


def check_policy(text: str, knowledge_available: frozenset[Knowledge] | set[Knowledge]) -> PolicySpec:
    """`text` as a policy that can run on a live cluster where `knowledge_available` is provided.

    Raises InputError in one sentence if it is unknown, a parameter is wrong, or it needs knowledge that is
    not available.
    """
    import_policies()
    spec = parse_policy(text)
    missing = sorted(kind.value for kind in spec.make().needs if kind not in knowledge_available)
    if missing:
        have = ", ".join(sorted(kind.value for kind in knowledge_available)) or "nothing"
        raise InputError(
            f"policy {text!r} needs {', '.join(missing)}, which this cluster does not provide; "
            f"expected a policy that needs no more than {have}"
        )
    return spec
