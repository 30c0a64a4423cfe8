"""What to do now so that what is here becomes what is wanted: a pure function, and the heart of an engine.

`reconcile` looks at orders, at what lives here and at the machine, and returns actions.  It may be asked as
often as one likes: what is under way is not ordered again.  Rules, in this order:

0. Another job's number     what was begun for a job of the same row that was submitted at another moment is
                            void: killed, and then forgotten; no order is about it.
1. Nobody wants it          a live part that the controller's whole list does not name is void: killed.
2. Fencing                  while a higher attempt of a row is known, every lower one is void: killed.
3. Silence                  a part that fences itself is stopped before the controller gives its job away.
4. Releasing                kill, stop, leave, suspend: whatever gives devices back, at once.
5. Acquiring                resume, start: only when all devices are free of others, no lower attempt of
                            the row runs, and nobody on the way out still has the host memory that it states;
                            until then the part waits, and `NodePlan.waiting` says for what.

Actions that release stand before those that acquire, and an acquisition counts only on what is free already:
devices and memory that a release of the same plan will free come into play once they are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rota.engines.shared.ledger import Claim, Key, Ledger
from rota.engines.shared.memory import HostMemory
from rota.wire.sync import Part, Wanted, are_two


class PartPhase(StrEnum):
    """What a part that was begun is doing."""

    STARTING = "starting"  # it has its devices, and cannot be suspended yet
    RUNNING = "running"
    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    LEAVING = "leaving"  # told to checkpoint and exit
    STOPPING = "stopping"  # notice given, signals on their way
    DYING = "dying"  # SIGKILL sent
    GONE = "gone"  # over, or never begun and on record as such


NOTHING = Claim()
GOING = frozenset({PartPhase.STOPPING, PartPhase.DYING, PartPhase.GONE})
ON_THE_WAY_OUT = frozenset({PartPhase.LEAVING, PartPhase.STOPPING, PartPhase.DYING})
"""Live, and SIGKILL comes at the end of the grace, whatever the program does."""
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
    """How long ago the controller was heard, measured by what that allows."""

    HEARD = "heard"
    FENCING = "fencing"  # parts that fence themselves are stopped, and nothing new begins
    FENCED = "fenced"  # their time is over: killed


class Do(StrEnum):
    """What can be done to a part."""

    KILL = "kill"
    FENCE = "fence"  # stop, within the time that is left before the controller gives the node up
    STOP = "stop"
    LEAVE = "leave"
    SUSPEND = "suspend"
    FORGET = "forget"
    CLEAR = "clear"  # forget it, and keep the order of its key, which is another job's
    REFUSE = "refuse"  # it cannot be begun: lost, for the reason given
    WITHDRAW = "withdraw"  # it never was begun, and shall not be
    TUNE = "tune"  # change its batch size
    RESUME = "resume"
    START = "start"


SENT_AWAY = frozenset({Do.KILL, Do.FENCE, Do.STOP, Do.LEAVE})


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do; `part` is the order behind it, if there is one."""

    do: Do
    key: Key
    part: Part | None = None
    why: str = ""
    void: bool = False
    """The attempt must not publish anything any more."""


@dataclass(frozen=True, slots=True)
class Here:
    """A part that was begun on this machine, or was refused or withdrawn and is not forgotten yet."""

    key: Key
    job: str
    phase: PartPhase
    claim: Claim = NOTHING
    """What it holds, or held last."""
    submit_s: float = 0.0
    """Unix time of its job's submission; 0.0 if that was not said."""
    batch_size: float | None = None
    """What the program uses, if that can be changed."""
    version: int = 0
    """Version of the order that was last carried out on it."""
    self_fence: bool = False
    parked: bool = False
    """It was suspended when it was told to go: it has given its devices back already."""
    memory_gib: float = 0.0
    """Host memory that it holds while it is live: what it states, or what it was seen to hold if more."""

    @property
    def live(self) -> bool:
        """It has processes."""
        return self.phase is not PartPhase.GONE

    @property
    def holds(self) -> bool:
        """It occupies its devices."""
        return self.phase not in {PartPhase.SUSPENDED, PartPhase.GONE} and not self.parked


@dataclass(frozen=True, slots=True)
class Machine:
    """What orders can count on."""

    devices: Mapping[int, str]
    """Local index -> why it cannot be used; empty if it can."""
    whole: bool = True
    """Orders are the controller's whole list: what it does not name, nobody wants."""
    silence: Silence = Silence.HEARD
    movable: bool = True
    """A suspended part can go on on other devices (CPU slots); otherwise only on those it had."""
    name: str = "device"
    """What a device is called in sentences."""
    memory_gib: float = 0.0
    """Host memory; 0.0 if unknown: then nobody waits for it."""


@dataclass
class NodePlan:
    """Actions, releases first, and what every part that cannot begin or go on yet waits for."""

    actions: list[Action] = field(default_factory=list)
    waiting: dict[Key, str] = field(default_factory=dict)


def ledger_of(here: Iterable[Here]) -> Ledger:
    """Who occupies what."""
    return Ledger({one.key: one.claim for one in here if one.holds})


def memory_of(here: Iterable[Here], plan: NodePlan, machine: Machine) -> HostMemory:
    """Who is in host memory, and who of them is on the way out or is sent there by `plan`."""
    live = [one for one in here if one.live]
    sent = {action.key for action in plan.actions if action.do in SENT_AWAY}
    return HostMemory(
        machine.memory_gib,
        {one.key: one.memory_gib for one in live},
        {one.key for one in live if one.phase in ON_THE_WAY_OUT or one.key in sent},
    )


def reconcile(orders: Mapping[Key, Part], here: Iterable[Here], machine: Machine) -> NodePlan:
    """Actions that bring `here` nearer to `orders`."""
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
    """What is done about a part of a job whose row is another job's by now."""
    if not one.live:
        is_forgotten = order is not None and order.wanted is Wanted.FORGET
        return Action(Do.FORGET if is_forgotten else Do.CLEAR, one.key)
    if one.phase is PartPhase.DYING:
        return None
    return Action(Do.KILL, one.key, why=f"the number of job {one.job} is another job's by now", void=True)


def _newest(heard: Iterable[Key]) -> dict[int, int]:
    """Row -> highest attempt of those that this machine has heard of."""
    newest: dict[int, int] = {}
    for row, attempt in heard:
        newest[row] = max(attempt, newest.get(row, 0))
    return newest


def _release(one: Here, order: Part | None, newest: int, machine: Machine) -> Action | None:
    """What has to be done to a part that is here, acquisitions aside."""
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
    """Why nobody wants a live part any more; empty if somebody does."""
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
    """The release that an order asks of a live part, unless it is under way."""
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
    """A part that shall run elsewhere on this machine gives back what it has first.

    The controller orders the suspension first; the agent sees only the last order if both came at once.
    """
    if tuple(order.devices) == one.claim.devices:
        return Action(Do.TUNE, one.key, order) if _other_batch(one, order) else None
    if machine.movable and one.phase is PartPhase.RUNNING:
        return Action(Do.SUSPEND, one.key, order, "it moves to other devices")
    if not machine.movable and one.phase in {PartPhase.STARTING, PartPhase.RUNNING, PartPhase.SUSPENDED}:
        return Action(Do.LEAVE, one.key, order, "a process cannot change its devices")
    return None


def _other_batch(one: Here, order: Part) -> bool:
    """The program shall, and can, use another batch size."""
    known = one.batch_size is not None and order.batch_size is not None
    return known and one.phase is PartPhase.RUNNING and one.batch_size != order.batch_size


def _unbegun(order: Part, newest: int, machine: Machine, plan: NodePlan) -> None:
    """Orders about a part that is not here: refuse or withdraw it; starts come later."""
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
        case Wanted.SUSPEND:  # it holds nothing, which is all that was asked
            plan.waiting[key] = "it had not begun when it was suspended"


def _impossible(order: Part, newest: int, machine: Machine) -> str:
    """Why a part can never be begun here; empty if it may."""
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
    """Resume and start what fits now, oldest order first; the rest waits."""
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
    """What an order wants to hold."""
    return Claim(tuple(order.devices), order.share, order.opportunistic)


def _must_wait(order: Part, known: Mapping[Key, Here], ledger: Ledger, machine: Machine) -> str:
    """What a part waits for before it can begin or go on, host memory aside; empty if for nothing."""
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
    """Whom a part waits for because both do not fit in host memory; empty if for nobody."""
    obstacles = memory.obstacles((order.row, order.attempt), order.memory_gib)
    if not obstacles:
        return ""
    jobs = ", ".join(_job(key, known) for key in obstacles)
    used, total, need = (f"{gib:.1f}" for gib in (memory.used_gib, memory.total_gib, order.memory_gib))
    who = f"job {jobs} is" if len(obstacles) == 1 else f"jobs {jobs} are"
    return f"{who} leaving host memory: {used} of {total} GiB are in use, and {need} GiB are needed"


def _job(key: Key, known: Mapping[Key, Here]) -> str:
    return known[key].job if key in known else str(key[0] + 1)
