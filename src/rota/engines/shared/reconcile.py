"""Decides the next actions that bring a node to the wanted state: a pure function, the core of an engine.

`reconcile` reads the orders, the parts that are here and the machine, and returns actions.  It may be called
at any time: what is already under way is not ordered again.  Its rules, in this order:

0. Another job's number     a part of another job with the same row (submitted at another moment) is void:
                            killed, and then forgotten; no order is about it.
1. Not wanted               a live part that is not in the controller's whole list is void: killed.
2. Fencing                  when a higher attempt of a row is known, every lower one is void: killed.
3. Silence                  a part that fences itself is stopped before the controller gives its job away.
4. Releasing                kill, stop, leave, suspend: actions that give back devices, at once.
5. Acquiring                resume, start: only when other parts have freed all devices, no lower attempt of
                            the row runs, and no ending part still has the host memory that it states;
                            until then the part waits, and `NodePlan.waiting` says for what.

Actions that release come before those that acquire.  An acquisition uses only what is free already: devices
and memory that a release of the same plan will free count once they are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rota.engines.shared.ledger import Claim, Key, Ledger
from rota.engines.shared.memory import HostMemory
from rota.wire.sync import Part, Wanted, are_two


class PartPhase(StrEnum):
    """What a part that has started is doing."""

    STARTING = "starting"  # it has its devices, and cannot be suspended yet
    RUNNING = "running"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    LEAVING = "leaving"  # ordered to write a checkpoint and exit
    STOPPING = "stopping"  # notice given; signals follow
    DYING = "dying"  # SIGKILL sent
    GONE = "gone"  # ended, or recorded as never started


NOTHING = Claim()
GOING = frozenset({PartPhase.STOPPING, PartPhase.DYING, PartPhase.GONE})
ON_THE_WAY_OUT = frozenset({PartPhase.LEAVING, PartPhase.STOPPING, PartPhase.DYING})
"""Phases of live parts that SIGKILL ends after the grace, whatever the program does."""
ACTIVE = frozenset(
    {
        PartPhase.STARTING,
        PartPhase.RUNNING,
        PartPhase.SUSPENDING,
        PartPhase.RESUMING,
        PartPhase.SUSPENDED,
        PartPhase.LEAVING,
    }
)


class Silence(StrEnum):
    """How long the controller has been silent, relative to its limits."""

    HEARD = "heard"
    FENCING = "fencing"  # parts that fence themselves are stopped, and no new ones start
    FENCED = "fenced"  # their time is over: they are killed


class Do(StrEnum):
    """Actions on a part."""

    KILL = "kill"
    FENCE = "fence"  # stop within the time that is left before the controller gives the node up
    STOP = "stop"
    LEAVE = "leave"
    SUSPEND = "suspend"
    FORGET = "forget"
    CLEAR = "clear"  # forget it, but keep the order of its key, which is for another job
    REFUSE = "refuse"  # it cannot start: lost, for the reason given
    WITHDRAW = "withdraw"  # it has not started and will not
    TUNE = "tune"  # change its batch size
    RESUME = "resume"
    START = "start"


SENT_AWAY = frozenset({Do.KILL, Do.FENCE, Do.STOP, Do.LEAVE})


@dataclass(frozen=True, slots=True)
class Action:
    """One action; `part` is the order that caused it, if there is one."""

    do: Do
    key: Key
    part: Part | None = None
    why: str = ""
    void: bool = False
    """The attempt must not publish checkpoints any more."""


@dataclass(frozen=True, slots=True)
class Here:
    """A part that was started on this machine, or was refused or withdrawn, and is not yet forgotten."""

    key: Key
    job: str
    phase: PartPhase
    claim: Claim = NOTHING
    """The devices that it holds, or held last."""
    submit_s: float = 0.0
    """Unix time of its job's submission; 0.0 if unknown."""
    batch_size: float | None = None
    """Batch size of the program, if it can be changed."""
    version: int = 0
    """Version of the last order that was carried out on it."""
    self_fence: bool = False
    parked: bool = False
    """It was suspended when it was ordered to leave: its devices are already free."""
    memory_gib: float = 0.0
    """Host memory that it holds while live: what it states, or what was measured if that is more."""

    @property
    def live(self) -> bool:
        """Whether it has processes."""
        return self.phase is not PartPhase.GONE

    @property
    def holds(self) -> bool:
        """Whether it occupies its devices."""
        return self.phase not in {PartPhase.SUSPENDED, PartPhase.GONE} and not self.parked


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine's resources for orders."""

    devices: Mapping[int, str]
    """Local index -> why the device cannot be used; empty if it can."""
    whole: bool = True
    """Orders are the controller's whole list: parts that are not in it are not wanted."""
    silence: Silence = Silence.HEARD
    movable: bool = True
    """A suspended part can resume on other devices (CPU slots); otherwise only on those it had."""
    name: str = "device"
    """Word for a device in sentences."""
    memory_gib: float = 0.0
    """Host memory; 0.0 if unknown: then no part waits for memory."""


@dataclass
class NodePlan:
    """Actions, releases first, and for each part that cannot start or resume yet what it waits for."""

    actions: list[Action] = field(default_factory=list)
    waiting: dict[Key, str] = field(default_factory=dict)


def ledger_of(here: Iterable[Here]) -> Ledger:
    """Ledger of the parts that occupy devices."""
    return Ledger({one.key: one.claim for one in here if one.holds})


def memory_of(here: Iterable[Here], plan: NodePlan, machine: Machine) -> HostMemory:
    """Memory of the live parts, with those that are ending or that `plan` ends."""
    live = [one for one in here if one.live]
    sent = {action.key for action in plan.actions if action.do in SENT_AWAY}
    return HostMemory(
        machine.memory_gib,
        {one.key: one.memory_gib for one in live},
        {one.key for one in live if one.phase in ON_THE_WAY_OUT or one.key in sent},
    )


def reconcile(orders: Mapping[Key, Part], here: Iterable[Here], machine: Machine) -> NodePlan:
    """Actions that change `here` towards `orders`."""
    known = {one.key: one for one in here}
    plan = NodePlan()
    owners = {order.row: order.submit_s for order in orders.values() if order.submit_s}
    strangers = {key for key, one in known.items() if are_two(one.submit_s, owners.get(key[0], 0.0))}
    ours = [key for key, order in orders.items() if order.submit_s or order.row not in owners]
    newest = _newest([*ours, *(known.keys() - strangers)])
    for key in sorted(known):
        if key in strangers:
            action = _rid(known[key], orders.get(key))
        else:
            action = _release(known[key], orders.get(key), newest.get(key[0], 0), machine)
        if action is not None:
            plan.actions.append(action)
    for key in sorted(orders):
        if key not in known:
            _unbegun(orders[key], newest.get(key[0], 0), machine, plan)
    _acquire(orders, known, strangers, machine, plan)
    return plan


def _rid(one: Here, order: Part | None) -> Action | None:
    """The action on a part whose row now belongs to another job."""
    if not one.live:
        is_forgotten = order is not None and order.wanted is Wanted.FORGET
        return Action(Do.FORGET if is_forgotten else Do.CLEAR, one.key)
    if one.phase is PartPhase.DYING:
        return None
    return Action(Do.KILL, one.key, why=f"the number of job {one.job} is another job's by now", void=True)


def _newest(heard: Iterable[Key]) -> dict[int, int]:
    """Row -> highest attempt that this machine knows."""
    newest: dict[int, int] = {}
    for row, attempt in heard:
        newest[row] = max(attempt, newest.get(row, 0))
    return newest


def _release(one: Here, order: Part | None, newest: int, machine: Machine) -> Action | None:
    """The action on a part that is here, other than to resume it."""
    if not one.live:
        forgotten = order.wanted is Wanted.FORGET if order is not None else machine.whole
        return Action(Do.FORGET, one.key, order) if forgotten else None
    void = _void(one, order, newest, machine)
    if void:
        return Action(Do.KILL, one.key, order, void, void=True) if one.phase is not PartPhase.DYING else None
    fence = _fence(one, machine.silence)
    if fence is not None or order is None:
        return fence
    return _ordered(one, order, machine)


def _void(one: Here, order: Part | None, newest: int, machine: Machine) -> str:
    """Why a live part is not wanted any more; empty if it is wanted."""
    if one.key[1] < newest:
        return f"attempt {newest} of job {one.job} has taken the place of attempt {one.key[1]}"
    if order is None:
        return f"the controller does not want attempt {one.key[1]} of job {one.job}" if machine.whole else ""
    if order.wanted is Wanted.FORGET:
        return f"the controller has the end of attempt {one.key[1]} of job {one.job} on record already"
    return ""


def _fence(one: Here, silence: Silence) -> Action | None:
    """Stop a part that fences itself while the controller is silent."""
    if not one.self_fence or one.phase is PartPhase.DYING:
        return None
    if silence is Silence.FENCED:
        return Action(Do.KILL, one.key, why="the controller has been silent for too long", void=True)
    if silence is Silence.FENCING and one.phase is not PartPhase.STOPPING:
        return Action(Do.FENCE, one.key, why="the controller is silent", void=False)
    return None


def _ordered(one: Here, order: Part, machine: Machine) -> Action | None:
    """The release that an order requires of a live part, unless it is under way."""
    match order.wanted:
        case Wanted.KILL if one.phase is not PartPhase.DYING and order.notice is None:
            return Action(Do.KILL, one.key, order, "the controller has given this attempt up", void=True)
        case Wanted.KILL if one.phase is not PartPhase.DYING:
            return Action(Do.KILL, one.key, order, "killed as ordered")
        case Wanted.STOP if one.phase not in GOING or (
            one.phase is PartPhase.STOPPING and order.version > one.version
        ):
            return Action(Do.STOP, one.key, order)
        case Wanted.LEAVE if one.phase in ACTIVE - {PartPhase.LEAVING}:
            return Action(Do.LEAVE, one.key, order)
        case Wanted.SUSPEND if one.phase is PartPhase.RUNNING:
            return Action(Do.SUSPEND, one.key, order)
        case Wanted.RUN:
            return _moved(one, order, machine)
    return None


def _moved(one: Here, order: Part, machine: Machine) -> Action | None:
    """A part that should run elsewhere on this machine first gives back its devices.

    The controller orders the suspension first; if both orders came at once, the agent sees only the last.
    """
    if tuple(order.devices) == one.claim.devices:
        return Action(Do.TUNE, one.key, order) if _other_batch(one, order) else None
    if machine.movable and one.phase is PartPhase.RUNNING:
        return Action(Do.SUSPEND, one.key, order, "it moves to other devices")
    if not machine.movable and one.phase in {PartPhase.STARTING, PartPhase.RUNNING, PartPhase.SUSPENDED}:
        return Action(Do.LEAVE, one.key, order, "a process cannot change its devices")
    return None


def _other_batch(one: Here, order: Part) -> bool:
    """Whether the program should, and can, use another batch size."""
    known = one.batch_size is not None and order.batch_size is not None
    return known and one.phase is PartPhase.RUNNING and one.batch_size != order.batch_size


def _unbegun(order: Part, newest: int, machine: Machine, plan: NodePlan) -> None:
    """Refuse or withdraw parts that are ordered but not here; starts come later."""
    key = (order.row, order.attempt)
    match order.wanted:
        case Wanted.RUN:
            why = _impossible(order, newest, machine)
            if why:
                plan.actions.append(Action(Do.REFUSE, key, order, why))
        case Wanted.LEAVE | Wanted.STOP | Wanted.KILL:
            plan.actions.append(Action(Do.WITHDRAW, key, order, "withdrawn before it began"))
        case Wanted.FORGET:
            plan.actions.append(Action(Do.FORGET, key, order))
        case Wanted.SUSPEND:  # it holds nothing, as ordered
            plan.waiting[key] = "it had not begun when it was suspended"


def _impossible(order: Part, newest: int, machine: Machine) -> str:
    """Why a part can never start here; empty if it may."""
    if order.attempt < newest:
        return f"attempt {order.attempt} of job {order.job} is void: attempt {newest} is known here"
    for device in order.devices:
        trouble = machine.devices.get(device)
        if trouble is None:
            there = ", ".join(str(index) for index in sorted(machine.devices)) or "none"
            return f"there is no {machine.name} {device} on this machine; it has {there}"
        if trouble:
            return f"{machine.name} {device} cannot be used: {trouble}"
    return ""


def _acquire(
    orders: Mapping[Key, Part],
    known: Mapping[Key, Here],
    strangers: set[Key],
    machine: Machine,
    plan: NodePlan,
) -> None:
    """Resume and start what fits now, oldest order first; the others wait."""
    ledger, memory = ledger_of(known.values()), memory_of(known.values(), plan, machine)
    taken = {action.key for action in plan.actions}
    wanted = [order for order in orders.values() if order.wanted is Wanted.RUN]
    for order in sorted(wanted, key=lambda order: (order.version, order.row)):
        key = (order.row, order.attempt)
        one = known.get(key)
        if any(row == order.row for row, _ in strangers):
            plan.waiting[key] = "processes of an earlier job of this number are still here"
            continue
        if key in taken or (one is not None and one.phase is not PartPhase.SUSPENDED):
            continue
        why = _must_wait(order, known, ledger, machine) or _lacks_memory(order, known, memory)
        if why:
            plan.waiting[key] = why
            continue
        claim = claim_of(order)
        ledger.hold(key, claim)
        memory.hold(key, order.memory_gib)
        plan.actions.append(Action(Do.START if one is None else Do.RESUME, key, order))


def claim_of(order: Part) -> Claim:
    """The devices that an order needs."""
    return Claim(tuple(order.devices), order.share, order.opportunistic)


def _must_wait(order: Part, known: Mapping[Key, Here], ledger: Ledger, machine: Machine) -> str:
    """What a part waits for before it can start or resume, other than host memory; empty if nothing."""
    key = (order.row, order.attempt)
    if machine.silence is not Silence.HEARD:
        return "the controller is silent, and may have given this node up"
    for row, attempt in sorted(known):
        if row == order.row and attempt < order.attempt and known[row, attempt].live:
            return f"attempt {attempt} of the job is still here"
    if key not in known and order.port is None and order.node_rank > 0:
        return (
            f"the port of the first node, {order.nodes[0] if order.nodes else order.master}, is not known yet"
        )
    obstacles = ledger.obstacles(key, claim_of(order))
    if not obstacles:
        return ""
    device, holders = min(obstacles.items())
    jobs = ", ".join(_job(holder, known) for holder in holders)
    return (
        f"{machine.name} {device} is still held by job {jobs}" if jobs else f"{machine.name} {device} is full"
    )


def _lacks_memory(order: Part, known: Mapping[Key, Here], memory: HostMemory) -> str:
    """Why a part waits for host memory, with the jobs that are leaving it, as a clause; empty if it fits."""
    obstacles = memory.obstacles((order.row, order.attempt), order.memory_gib)
    if not obstacles:
        return ""
    jobs = ", ".join(_job(key, known) for key in obstacles)
    used, total, need = (f"{gib:.1f}" for gib in (memory.used_gib, memory.total_gib, order.memory_gib))
    who = f"job {jobs} is" if len(obstacles) == 1 else f"jobs {jobs} are"
    return f"{who} leaving host memory: {used} of {total} GiB are in use, and {need} GiB are needed"


def _job(key: Key, known: Mapping[Key, Here]) -> str:
    return known[key].job if key in known else str(key[0] + 1)
