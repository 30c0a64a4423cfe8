"""Why a job waits, or runs as it does: codes, the numbers behind them, and the sentences people read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from rota.model.units import format_duration, number, plural


class Code(StrEnum):
    """Why a job waits, in Slurm's words where it has one; the last ones say why it runs as it does."""

    RESOURCES = "Resources"
    FRAGMENTATION = "Fragmentation"
    GANG_TOO_LARGE = "GangTooLarge"
    GPU_TYPE = "GpuType"
    MEMORY = "Memory"
    MEMORY_TOO_LARGE = "MemoryTooLarge"
    HOST = "HostResources"
    HOST_TOO_LARGE = "HostTooLarge"
    NODE = "ReqNodeNotAvail"
    NODE_SET = "NodeSet"
    UNHEALTHY = "UnhealthyDevice"
    PRIORITY = "Priority"
    EARLIER = "Earlier"
    ORDER = "Order"
    SHARE = "Share"
    QUOTA = "Quota"
    RESERVATION = "Reservation"
    DEPENDENCY = "Dependency"
    HELD = "Held"
    ACCOUNT = "InvalidAccount"
    OFFERED = "Offered"
    SUSPENDED = "Suspended"
    LOCALITY = "Locality"
    PREEMPTED = "Preempted"
    ROUND = "Round"
    TURN = "Turn"
    REFUSED = "Refused"
    BEGIN = "BeginTime"
    BACK_OFF = "BackOff"
    ARRAY = "ArrayTaskLimit"
    DEADLINE = "Deadline"
    POLICY = "Policy"
    STARTING = "Starting"
    RUNNING = "Running"
    SHRUNK = "Shrunk"
    SIZE = "Size"
    PACKED = "Packed"
    PROFILING = "Profiling"


class Constraint(NamedTuple):
    """One thing that keeps a job waiting: what it asked for, and what there was."""

    code: Code
    requested: float = math.nan
    provided: float = math.nan
    detail: str = ""
    """Name of the tenant, nodes, type or jobs concerned; several are joined by `, `."""

    def sentence(self, device: str = "GPU") -> str:
        """The constraint in words that follow the job's name; `device` is what the cluster's are called."""
        return _SENTENCES[self.code](self, device)

    def remedy(self, device: str = "GPU") -> str:
        """What would have to change, as a sentence; empty if that is unknown."""
        make = _REMEDIES.get(self.code)
        return make(self, device) if make else ""

    def note(self) -> str:
        """The form in which the table of jobs notes what holds a job: `noted` reads it."""
        return f"{self.code}:{self.requested:g}:{self.provided:g}:{self.detail}"


def noted(text: str) -> Constraint:
    """The constraint of a `note`; other words are the name of the user who holds the job."""
    parts = text.split(":", 3)
    if len(parts) < 4 or parts[0] not in list(Code):
        return Constraint(Code.HELD, detail=text)
    return Constraint(Code(parts[0]), float(parts[1]), float(parts[2]), parts[3])


# -- words -----------------------------------------------------------------------------------------


def listed(names: str, noun: str = "job") -> str:
    """`job 3`, `jobs 3 and 4`, `jobs 3, 4 and 5`; as they are if they begin with the noun's plural."""
    parts = names.split(", ")
    if len(parts) == 1:
        return f"{noun} {names}"
    return f"{noun}s {', '.join(parts[:-1])} and {parts[-1]}"


def names_of(names: list[str], most: int = 3) -> str:
    """At most `most` names and the number of further ones, as `detail` holds them."""
    more = len(names) - most
    return ", ".join([*names[:most], f"{more} more"] if more > 0 else names)


def _are(value: float) -> str:
    return "is" if value == 1 else "are"


def _ahead(how: str) -> Callable[[Constraint, str], str]:
    def say(c: Constraint, device: str) -> str:
        names = f" ({_joined(c.detail)})" if c.detail else ""
        return f"stands behind {plural(c.provided, 'job')} {how}{names}"

    return say


def _joined(names: str) -> str:
    parts = names.split(", ")
    return names if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _gang(c: Constraint, device: str) -> str:
    if c.detail == "node":
        return f"needs {plural(c.requested, device)} in one node; the largest node has {number(c.provided)}"
    return f"needs {plural(c.requested, device)} at once; the cluster has {number(c.provided)} it could use"


def _type(c: Constraint, device: str) -> str:
    if c.provided == 0 and math.isnan(c.requested):
        return f"needs {device}s of type {c.detail.replace('|', ' or ')}; the cluster has none"
    return (
        f"needs {plural(c.requested, device)} of type {c.detail.replace('|', ' or ')}; "
        f"{number(c.provided)} of that type {_are(c.provided)} free"
    )


def _node_set(c: Constraint, device: str) -> str:
    """Without a number provided there is no such node at all."""
    needs = f"needs {plural(c.requested, device)} on " if c.requested else "needs "
    if math.isnan(c.provided):
        return f"{needs}{_nodes_named(c.detail)}; the cluster has none"
    return f"{needs}{_nodes_named(c.detail)}; {number(c.provided)} {_are(c.provided)} free there"


def _nodes_named(node_set: str) -> str:
    """The nodes that a node set admits: `nodes a or b`, `nodes other than c`, `a node` for any."""
    parts = [part for part in node_set.split("|") if part]
    wanted = " or ".join(part for part in parts if not part.startswith("!"))
    barred = " and ".join(part[1:] for part in parts if part.startswith("!"))
    named = f"nodes {wanted}" if wanted else "nodes" if barred else "a node"
    return f"{named} other than {barred}" if barred else named


def _host(c: Constraint, device: str) -> str:
    return f"needs {_host_need(c)} on one node; the most free on one is {number(c.provided)}"


def _host_too_large(c: Constraint, device: str) -> str:
    is_beyond_all = c.requested > c.provided
    has = f"the largest node has {number(c.provided)}" if is_beyond_all else "too few nodes have it"
    return f"needs {_host_need(c)} on one node; {has}"


def _host_need(c: Constraint) -> str:
    """`1 CPU core`, `8 GiB of host memory`."""
    need = f"{number(c.requested)} {c.detail}"
    return need.replace("cores", "core") if c.requested == 1 else need


def _memory_too_large(c: Constraint, device: str) -> str:
    is_beyond_all = c.requested > c.provided
    has = f"the largest {device} has {number(c.provided)}" if is_beyond_all else f"too few {device}s have it"
    return f"needs {number(c.requested)} GiB of device memory; {has}"


def _quota(c: Constraint, device: str) -> str:
    uses, quota = f"would use {plural(c.requested, device)}", f"quota is {number(c.provided)}"
    if c.detail:
        return f"tenant {c.detail} {uses}; its {quota}"
    return f"the tenants without a quota of their own {uses} together; their {quota}"


def _back_off(c: Constraint, device: str) -> str:
    when = "after a pause" if math.isnan(c.requested) else f"in {format_duration(max(c.requested, 0.0))}"
    return f"is tried again {when}: {c.detail}"


def _begin(c: Constraint, device: str) -> str:
    left = "" if math.isnan(c.requested) else f", in {format_duration(max(c.requested, 0.0))}"
    return f"is not to begin before {c.detail}{left}"


def _round(c: Constraint, device: str) -> str:
    """The text depends on what is known: the moment in the run, the time until then, or neither."""
    if math.isfinite(c.requested):
        return f"waits for the round that begins at {number(c.requested)} s"
    if math.isfinite(c.provided):
        return f"waits for the round that begins in {format_duration(max(c.provided, 0.0))}"
    return "waits for the next round"


def _turn(c: Constraint, device: str) -> str:
    until = "" if math.isinf(c.provided) or math.isnan(c.provided) else format_duration(c.provided)
    following = f"; its turn ends in {until}" if c.requested else f"; the next round begins in {until}"
    return f"takes turns: {c.detail}{following if until else ''}"


def _preempted(c: Constraint, device: str) -> str:
    heirs = c.detail if c.detail in ("", "nobody yet") else listed(c.detail)
    return f"gave up {plural(c.requested, device)} to {heirs or 'nobody yet'}"


def _shrunk(c: Constraint, device: str) -> str:
    room = f", to make room for {listed(c.detail)}" if c.detail else "; no more were free"
    return f"runs on {number(c.provided)} of the {plural(c.requested, device)} it asked for{room}"


def _size(c: Constraint, device: str) -> str:
    how = f"; as fast as on {number(c.requested)}: {c.detail}" if c.detail else ""
    return f"was given {plural(c.provided, device)} by what they bring it{how}"


def _packed(c: Constraint, device: str) -> str:
    beside = f" with {listed(c.detail)}" if c.detail else ""
    rate = "" if math.isnan(c.provided) else f", at {100 * c.provided:.0f} % of the speed it would have alone"
    return f"shares its {device}s{beside}: it may use {100 * c.requested:.0f} % of each{rate}"


def _profiling(c: Constraint, device: str) -> str:
    left = "" if math.isnan(c.requested) else f", for another {format_duration(max(c.requested, 0.0))}"
    what = "is on trial" if c.detail else "is being profiled"
    return f"{what} on {plural(c.provided, device)}{left}; then it gets {c.detail or 'what it asked for'}"


def _starting(c: Constraint, device: str) -> str:
    if c.detail:
        return f"has been given {plural(c.provided, device)}, which {listed(c.detail)} {_leave(c.detail)} now"
    return f"is being started on {plural(c.provided, device)}"


def _running(c: Constraint, device: str) -> str:
    if c.provided > c.requested:
        return f"runs on {plural(c.provided, device)}, more than the {number(c.requested)} it asked for"
    return f"runs on the {plural(c.provided, device)} it asked for" if c.provided else "runs without devices"


def _leave(names: str) -> str:
    return "leaves" if ", " not in names else "leave"


_SENTENCES: dict[Code, Callable[[Constraint, str], str]] = {
    Code.RESOURCES: lambda c, d: (
        f"needs {plural(c.requested, d)}; {number(c.provided)} {_are(c.provided)} free"
    ),
    Code.FRAGMENTATION: lambda c, d: (
        f"needs {plural(c.requested, d)} in one {c.detail}; the most free in one is {number(c.provided)}"
    ),
    Code.GANG_TOO_LARGE: _gang,
    Code.GPU_TYPE: _type,
    Code.MEMORY: lambda c, d: (
        f"needs {number(c.requested)} GiB of device memory; the most free on one device is "
        f"{number(c.provided)} GiB"
    ),
    Code.MEMORY_TOO_LARGE: _memory_too_large,
    Code.NODE_SET: _node_set,
    Code.HOST: _host,
    Code.HOST_TOO_LARGE: _host_too_large,
    Code.NODE: lambda c, d: f"would fit if {listed(c.detail, 'node')} took new jobs",
    Code.UNHEALTHY: lambda c, d: f"would fit if {listed(c.detail, 'device')} {_were(c.detail)} healthy",
    Code.PRIORITY: _ahead("of higher priority"),
    Code.EARLIER: _ahead("submitted earlier"),
    Code.ORDER: _ahead("in the order of the policy"),
    Code.SHARE: lambda c, d: (
        f"belongs to tenant {c.detail}, which holds {plural(c.requested, d)} and has a share of "
        f"{number(c.provided)}: tenants with less go first"
    ),
    Code.QUOTA: _quota,
    Code.RESERVATION: lambda c, d: (
        f"needs {plural(c.requested, d)}; {number(c.provided)} {_are(c.provided)} free, "
        f"the rest is reserved for {listed(c.detail)}"
    ),
    Code.DEPENDENCY: lambda c, d: f"waits for {listed(c.detail)} to end",
    Code.HELD: lambda c, d: f"is held by {c.detail}",
    Code.ACCOUNT: lambda c, d: f"has no account that it may run as: {c.detail}",
    Code.OFFERED: lambda c, d: f"waits for an answer to a later deadline: {c.detail}",
    Code.SUSPENDED: lambda c, d: f"was suspended by {c.detail}",
    Code.LOCALITY: lambda c, d: (
        f"waits for {plural(c.requested, d)} closer together; {number(c.provided)} {_are(c.provided)} free "
        f"in all" + (f" ({c.detail})" if c.detail else "")
    ),
    Code.PREEMPTED: _preempted,
    Code.ROUND: _round,
    Code.TURN: _turn,
    Code.REFUSED: lambda c, d: f"was to start, but was refused: {c.detail}",
    Code.BEGIN: _begin,
    Code.BACK_OFF: _back_off,
    Code.ARRAY: lambda c, d: f"only {plural(c.provided, 'job')} of its array may run at once",
    Code.DEADLINE: lambda c, d: f"would end {format_duration(c.requested)} after its deadline, {c.detail}",
    Code.POLICY: lambda c, d: c.detail,
    Code.STARTING: _starting,
    Code.RUNNING: _running,
    Code.SHRUNK: _shrunk,
    Code.SIZE: _size,
    Code.PACKED: _packed,
    Code.PROFILING: _profiling,
}


def _were(names: str) -> str:
    return "was" if ", " not in names else "were"


# -- what would have to change ---------------------------------------------------------------------


def _more(c: Constraint, device: str) -> str:
    return f"{_missing(c, device)} would have to be free."


def _missing(c: Constraint, device: str) -> str:
    """`1 more GPU`, `2 more GPUs`."""
    return plural(c.requested - c.provided, f"more {device}")


_BRACKETS = re.compile(r" \([^)]*\)")
_REMEDIES: dict[Code, Callable[[Constraint, str], str]] = {
    Code.RESOURCES: _more,
    Code.GPU_TYPE: lambda c, d: (
        "Ask for another type, or wait for a node that has it."
        if math.isnan(c.requested)
        else f"{_missing(c, d)} of that type would have to be free, or the job accept other types."
    ),
    Code.FRAGMENTATION: lambda c, d: (
        f"{_missing(c, d)} would have to be free in one {c.detail}, or the policy place jobs on several."
    ),
    Code.GANG_TOO_LARGE: lambda c, d: (
        f"Ask for {number(c.provided)} or fewer, or add nodes."
        if c.provided
        else "Add nodes, or open the ones that are closed."
    ),
    Code.MEMORY: lambda c, d: (
        f"Ask for {number(c.provided)} GiB or less, or wait until a device has more left."
    ),
    Code.MEMORY_TOO_LARGE: lambda c, d: (
        f"Ask for less, or add nodes whose {d}s have {number(c.requested)} GiB."
    ),
    Code.HOST: lambda c, d: f"Ask for less, or wait until a node has {_host_need(c)} free.",
    Code.HOST_TOO_LARGE: lambda c, d: f"Ask for less, or add a node that has {_host_need(c)}.",
    Code.NODE: lambda c, d: (
        f"Open {listed(c.detail, 'node')} again: `rota drain NODE --undo` ends a drain, `rota up` or "
        "`rota agent` brings back what is lost, and what a node reports is to be mended there."
    ),
    Code.UNHEALTHY: lambda c, d: f"Repair {listed(c.detail, 'device')}.",
    Code.PRIORITY: lambda c, d: "Those jobs would have to start or end, or the job get more priority.",
    Code.EARLIER: lambda c, d: "Those jobs would have to start or end.",
    Code.ORDER: lambda c, d: "Those jobs would have to start or end.",
    Code.SHARE: lambda c, d: (
        f"Tenant {c.detail} would have to give back {plural(c.requested - c.provided, d)}, "
        "or the others to want less."
    ),
    Code.QUOTA: lambda c, d: (
        f"The job would have to ask for {plural(c.requested - c.provided, d)} less, "
        f"{f'tenant {c.detail}' if c.detail else 'those tenants'} to give back as many, "
        f"or the quota to be {number(c.requested)}."
    ),
    Code.RESERVATION: lambda c, d: f"{_first(listed(_BRACKETS.sub('', c.detail)))} would have to start.",
    Code.DEPENDENCY: lambda c, d: f"{_first(listed(c.detail))} would have to end.",
    Code.ACCOUNT: lambda c, d: (
        "Cancel it, or let an admin give its user that account: `rota user rm NAME`, "
        "`rota user add NAME --account ACCOUNT`."
    ),
    Code.OFFERED: lambda c, d: "Take the later deadline with `rota accept JOB`, or let it lapse.",
    Code.LOCALITY: lambda c, d: "Running jobs would have to leave devices that are close together.",
    Code.BEGIN: lambda c, d: "Let it begin earlier with `rota update JOB --begin none`.",
    Code.ARRAY: lambda c, d: "Another job of the array would have to end.",
    Code.PREEMPTED: lambda c, d: (
        "" if c.detail in ("", "nobody yet") else f"{_first(listed(c.detail))} would have to end."
    ),
    Code.DEADLINE: lambda c, d: "Give it a later deadline, more priority, or less to do.",
    Code.SHRUNK: _more,
    Code.PACKED: lambda c, d: "" if not c.detail else f"{_first(listed(c.detail))} would have to end.",
}


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]
