"""The form of a decision: each field is of its type, before the guard looks at what it says.

A third-party policy may answer anything.  What differs only in its type is converted: NumPy's whole
numbers as rows, a list or an array of devices, devices in another order.  For all else PolicyError names
the policy, the field, what was found and what was expected.  Every row, device and node in the result
exists, so that later code may look it up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from rota.errors import PolicyError, brief
from rota.model.grants import LIMITS, Code, Constraint, Grant, Leave, Purpose, Reservation, Role
from rota.model.promises import Offer, Promise
from rota.scheduler.decision import Decision, Event, Wake
from rota.scheduler.targets import Targets

_T = TypeVar("_T")
_Field = Callable[[str, Any], _T]
"""Reads the value of a field, or says what is wrong with it."""


_FARTHEST_S = 1e11
"""Later moments, some 3,000 years ahead, are refused; only infinity is allowed."""


class Extent(NamedTuple):
    """Limits of the numbers that a decision may use for jobs, devices and nodes."""

    jobs: int
    """Jobs submitted so far: rows are below it."""
    gpus: int
    """Devices of the cluster."""
    nodes: int
    """Nodes of the cluster."""


class _WrongError(Exception):
    """A field holds a value of the wrong form."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field}={brief(value)}; expected {expected}")


def formed(decision: object, policy: str, extent: Extent) -> Decision:
    """The answer of the class `policy`, each field of its type, each number within `extent`.

    Raises PolicyError.
    """
    if not isinstance(decision, Decision):
        raise PolicyError(f"{policy}.decide returned {brief(decision)}, not a Decision")
    try:
        _put_right(decision, extent)
    except _WrongError as wrong:
        raise PolicyError(f"{policy}.decide gave {wrong}") from None
    return decision


def rows_of(who: str, rows: object, extent: Extent) -> list[int]:
    """The rows of jobs that `who` gave outside a decision, checked.  Raises PolicyError."""
    try:
        return _rows("rows", rows, extent)
    except _WrongError as wrong:
        raise PolicyError(f"{who} gave {wrong}") from None


def _put_right(decision: Decision, extent: Extent) -> None:
    if not isinstance(decision.memory, dict):
        raise _WrongError("memory", decision.memory, "a dict, such as the one that it was given")
    given = _list_of("grants", decision.grants, "grants")
    decision.grants = [_grant(f"grants[{number}]", grant, extent) for number, grant in enumerate(given)]
    decision.preempt = _rows("preempt", decision.preempt, extent)
    if not isinstance(decision.leave, Leave):
        raise _WrongError("leave", decision.leave, _one_of(Leave))
    decision.reject = _by_row("reject", decision.reject, _sentence, extent)
    decision.cancel = _by_row("cancel", decision.cancel, _sentence, extent)
    decision.offers = _by_row("offers", decision.offers, _offer, extent)
    if decision.reservations is not None:
        kept = _list_of("reservations", decision.reservations, "reservations")
        decision.reservations = [
            _reservation(f"reservations[{number}]", one, extent) for number, one in enumerate(kept)
        ]
    _check_wake(decision.wake)
    decision.reasons = _by_row("reasons", decision.reasons, _constraint, extent)
    decision.promises = _by_row("promises", decision.promises, _promise, extent)
    nodes = decision.wanted_nodes
    if nodes is not None and (not _is_whole(nodes) or nodes < 0):
        raise _WrongError("wanted_nodes", nodes, "a whole number of nodes, or None")
    if not isinstance(decision.is_cut, bool):
        raise _WrongError("is_cut", decision.is_cut, "True or False")
    _put_right_what_is_told(decision, extent)


def _put_right_what_is_told(decision: Decision, extent: Extent) -> None:
    """Check and correct the fields that are only shown to people; none affects what is carried out."""
    ranking = decision.ranking
    if ranking is not None:
        can = [callable(getattr(ranking, name, None)) for name in ("ahead", "fits")]
        if not all(can) or not hasattr(ranking, "spreads"):
            raise _WrongError("ranking", ranking, "an object with ahead(), fits() and spreads (`Ranking`)")
    if decision.otherwise is not None:
        decision.otherwise = _constraint("otherwise", decision.otherwise)
    if decision.guaranteed is not None:
        if not isinstance(decision.guaranteed, Collection):
            raise _WrongError("guaranteed", decision.guaranteed, "a set of rows, or None")
        decision.guaranteed = frozenset(_rows("guaranteed", decision.guaranteed, extent))
    if decision.plan_of is not None and not callable(decision.plan_of):
        raise _WrongError("plan_of", decision.plan_of, "a function of a row, or None")
    for name in ("ends", "targets"):
        told = getattr(decision, name)
        if told is not None and not isinstance(told, Targets):  # which are yet to be made
            setattr(decision, name, _by_row(name, told, _finite, extent))
    if not isinstance(decision.target, str) or not decision.target.strip():
        raise _WrongError("target", decision.target, "a word or two")
    _text("target", decision.target)


# -- values by job -------------------------------------------------------------------------------------


def _grant(field: str, grant: Any, extent: Extent) -> Grant:
    """`grant` itself if it is well formed."""
    if not isinstance(grant, Grant):
        raise _WrongError(field, grant, "a Grant, such as Grant(row, (0, 1))")
    row = _row(f"{field}.job", grant.job, extent)
    devices = _devices(f"{field}.devices", grant.devices, extent)
    share = _number(f"{field}.share", grant.share)
    role = _member(f"{field}.role", grant.role, Role)
    purpose = _member(f"{field}.purpose", grant.purpose, Purpose)
    node = _node(f"{field}.node", grant.node, bool(devices), extent)
    for name in LIMITS:
        _check_limit(f"{field}.{name}", getattr(grant, name), may_be_none=name not in _POSITIVE)
    if row is grant.job and devices is grant.devices and role is grant.role and purpose is grant.purpose:
        return grant
    return grant._replace(job=row, devices=devices, share=share, role=role, purpose=purpose, node=node)


_POSITIVE = ("batch_size", "power_limit_w")


def _check_limit(field: str, value: Any, *, may_be_none: bool) -> None:
    number = _number(field, value, "a number, or NaN to leave it to the job")
    if math.isnan(number):
        return
    if not (0.0 <= number < math.inf) or (number == 0.0 and not may_be_none):
        raise _WrongError(field, value, f"a number {'of 0 or more' if may_be_none else 'above 0'}, or NaN")


def _devices(field: str, devices: Any, extent: Extent) -> tuple[int, ...]:
    """Device numbers, ascending."""
    numbers = _numbers(field, devices)
    ascending = tuple(sorted(numbers))
    if ascending and not 0 <= ascending[0] <= ascending[-1] < extent.gpus:
        wrong = next(number for number in numbers if not 0 <= number < extent.gpus)
        raise _WrongError(field, wrong, _below(extent.gpus, "devices", "the cluster's devices"))
    return numbers if numbers == ascending else ascending


def _numbers(field: str, devices: Any) -> tuple[int, ...]:
    """Device numbers in the given order; the same object if it is a tuple of whole numbers."""
    if type(devices) is tuple and all(type(device) is int for device in devices):
        return devices
    if not isinstance(devices, list | tuple | range | set | frozenset | np.ndarray):
        raise _WrongError(field, devices, "a tuple of device numbers, such as (0, 1)")
    given = devices.tolist() if isinstance(devices, np.ndarray) and devices.ndim else devices
    return tuple(_whole(field, device, "device numbers, such as (0, 1)") for device in given)


def _node(field: str, value: Any, has_devices: bool, extent: Extent) -> int:
    node = _whole(field, value, "a node's number, or -1 if devices say it")
    if has_devices and node != -1:
        raise _WrongError(field, node, "-1 where devices say it")
    if not -1 <= node < extent.nodes:
        expected = _below(extent.nodes, "a node", "the cluster's nodes")
        raise _WrongError(field, value, f"{expected}, or -1 if devices say it")
    return node


def _reservation(field: str, one: Any, extent: Extent) -> Reservation:
    if not isinstance(one, Reservation):
        raise _WrongError(field, one, "a Reservation(row, devices, until_s)")
    until_s = _number(f"{field}.until_s", one.until_s, "a moment in seconds")
    if math.isnan(until_s):
        raise _WrongError(f"{field}.until_s", until_s, "a moment in seconds")
    row = _row(f"{field}.job", one.job, extent)
    return Reservation(row, _devices(f"{field}.devices", one.devices, extent), until_s)


def _offer(field: str, offer: Any) -> Offer:
    if not isinstance(offer, Offer):
        raise _WrongError(field, offer, "an Offer(deadline_s, until_s, why)")
    deadline_s, until_s = [
        _moment(f"{field}.{name}", getattr(offer, name)) for name in ("deadline_s", "until_s")
    ]
    return Offer(deadline_s, until_s, _text(f"{field}.why", offer.why))


def _promise(field: str, promise: Any) -> Promise:
    if not isinstance(promise, Promise):
        raise _WrongError(field, promise, "a Promise(due_s, expected_s)")
    moments = [_moment(f"{field}.{name}", getattr(promise, name)) for name in promise._fields]
    if any(map(math.isnan, moments)):
        raise _WrongError(field, promise, "two moments; infinity where there is no plan")
    return Promise(*moments)


def _constraint(field: str, constraint: Any) -> Constraint:
    if not isinstance(constraint, Constraint):
        raise _WrongError(field, constraint, "a Constraint, such as Constraint(Code.POLICY, detail='...')")
    if not isinstance(constraint.code, Code):
        raise _WrongError(f"{field}.code", constraint.code, "a Code, such as Code.POLICY")
    _text(f"{field}.detail", constraint.detail)
    _number(f"{field}.requested", constraint.requested)
    _number(f"{field}.provided", constraint.provided)
    return constraint


def _check_wake(wake: Any) -> None:
    """Check the types of the fields, in compiled and interpreted code equally."""
    if not isinstance(wake, Wake):
        raise _WrongError("wake", wake, "a Wake, such as Wake(at_s=snapshot.now + 60.0)")
    expected = "a moment in seconds, such as snapshot.now + 60.0"
    at_s: Any = wake.at_s
    if not isinstance(at_s, int | float) or math.isnan(_number("wake.at_s", at_s, expected)):
        raise _WrongError("wake.at_s", at_s, expected)
    if not isinstance(wake.on, Event) or not 0 <= int(wake.on) <= int(Event.ANY | Event.IDLE):
        raise _WrongError("wake.on", wake.on, "Event flags, such as Event.ARRIVAL | Event.END")
    if not isinstance(wake.if_waiting, bool):
        raise _WrongError("wake.if_waiting", wake.if_waiting, "True or False")


# -- values ----------------------------------------------------------------------------------------------


def _list_of(field: str, value: Any, what: str) -> list[Any]:
    """The items of `value`, which has an order."""
    is_one = isinstance(value, str | bytes | Mapping | Grant | Reservation | set | frozenset)
    if is_one or not isinstance(value, Iterable):
        raise _WrongError(field, value, f"a list of {what}")
    return list(value)


def _rows(field: str, value: Any, extent: Extent) -> list[int]:
    given = sorted(value) if isinstance(value, set | frozenset) else value
    return [_row(field, row, extent) for row in _list_of(field, given, "rows")]


def _by_row(field: str, value: Any, read: Callable[[str, Any], _T], extent: Extent) -> dict[int, _T]:
    """The value of each row, read by `read`."""
    if not isinstance(value, Mapping):
        raise _WrongError(field, value, "a dict by row")
    told: dict[int, _T] = {}
    for key, item in value.items():
        row = _row(f"{field}: key", key, extent)
        told[row] = read(f"{field}[{row}]", item)
    return told


def _row(field: str, value: Any, extent: Extent) -> int:
    row = _whole(field, value, "the row of a job, a whole number")
    if not 0 <= row < extent.jobs:
        raise _WrongError(field, value, _below(extent.jobs, "a row", "the jobs submitted so far"))
    return row


def _below(count: int, what: str, of: str) -> str:
    return f"{what} from 0 on and below {count}, {of}"


def _whole(field: str, value: Any, expected: str) -> int:
    if type(value) is int:
        return value
    if not _is_whole(value):
        raise _WrongError(field, value, expected)
    return int(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _number(field: str, value: Any, expected: str = "a number") -> float:
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        raise _WrongError(field, value, expected)
    try:
        return float(value)
    except OverflowError:
        raise _WrongError(field, value, f"{expected} that a float can hold") from None


def _moment(field: str, value: Any) -> float:
    moment = _number(field, value, "a number, a moment in seconds")
    if _FARTHEST_S < abs(moment) < math.inf:
        raise _WrongError(field, value, f"a moment in seconds up to {_FARTHEST_S:g}, or infinity")
    return moment


def _finite(field: str, value: Any) -> float:
    number = _number(field, value)
    if not math.isfinite(number):
        raise _WrongError(field, value, "a finite number")
    return number


def _sentence(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _WrongError(field, value, "a sentence that says why")
    return _text(field, value)


def _text(field: str, value: Any) -> str:
    """Text that can be stored and sent: a Python string may hold lone surrogates, which no file accepts."""
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _WrongError(field, value, "text")
    return value


def _member(field: str, value: Any, kind: Any) -> Any:
    """A member of `kind`, or its number."""
    if type(value) is kind:
        return value
    if _is_whole(value) and value in list(kind):
        return kind(value)
    raise _WrongError(field, value, _one_of(kind))


def _one_of(kind: Any) -> str:
    return " or ".join(f"{kind.__name__}.{member.name}" for member in kind)
