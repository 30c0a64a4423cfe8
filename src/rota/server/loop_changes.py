"""Commands that change the inputs of the loop: its policy, its shadow, its tenants, the request of a job.

Each is one transaction after the step in which it was read; then the loop is rebuilt, which loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from rota.errors import RotaError
from rota.knowledge.registry import Where, kinds
from rota.model.cluster import Cluster
from rota.model.tenants import Tenants
from rota.model.units import format_duration
from rota.model.words import utc
from rota.server.clocks import Clock, changes_by_the_cluster
from rota.server.policy.messages import check_policy
from rota.server.store.rows import (
    REAL,
    SHADOW,
    CommandDone,
    EventRow,
    JobQuery,
    JobRow,
    JobState,
    PolicyRow,
    Step,
)
from rota.server.store.store import Store
from rota.server.tenants.in_force import TenantsInForce, moved, on_record
from rota.server.tenants.settings import parse_tenants
from rota.table.state import Phase
from rota.wire.job import JobSpec
from rota.worlds.live.dependencies import begins, impossible
from rota.worlds.live.holds import BEGIN, INFEASIBLE, OFFERED, Hold, dominant
from rota.worlds.live.inbox import OF_ITSELF, CommandAsked
from rota.worlds.live.resize import DEVICES, changed


@dataclass(frozen=True)
class CommandChange:
    """Effects of a command."""

    step: Step
    """To be stored; it says that the command is done."""
    outcome: Mapping[str, object] = field(default_factory=dict)
    """The answer to the command; `{"error": sentence}` if it could not be carried out."""
    rebuilds: bool = True
    """The loop has to be built again."""
    ends_shadow: bool = False


@dataclass(frozen=True)
class ChangeContext:
    """What such commands are about."""

    store: Store
    clock: Clock
    policy: str
    """The one that decides until now."""
    cluster: Cluster | None = None
    """With the tenants that count until now."""


def change_of(asked: CommandAsked, context: ChangeContext) -> CommandChange:
    """Changes to store and carry out for `asked`."""
    try:
        change = _CHANGES[asked.kind](context, asked)
    except RotaError as error:
        change = CommandChange(Step(), {"error": str(error)}, rebuilds=False)
    if asked.seq == OF_ITSELF:
        return change
    done = CommandDone(asked.seq, context.clock(), dict(change.outcome))
    return replace(change, step=replace(change.step, done=[*change.step.done, done]))


def _set_policy(context: ChangeContext, asked: CommandAsked) -> CommandChange:
    """Another policy takes over with an empty memory; its first decision preempts no job."""
    spec = check_policy(str(asked.args["policy"]), kinds(Where.LIVE))
    now = context.clock()
    row = PolicyRow(REAL, str(spec), now, asked.user)
    event = EventRow(now, asked.user, "policy", text=f"{spec} in place of {context.policy}")
    return CommandChange(Step(policies=[row], events=[event]))


def _set_shadow(context: ChangeContext, asked: CommandAsked) -> CommandChange:
    """A policy that only reports what it would do; none if the text is empty."""
    text, now = str(asked.args.get("policy") or ""), context.clock()
    if not text:
        event = EventRow(now, asked.user, "shadow", text="ended")
        return CommandChange(Step(without=[SHADOW], events=[event]), rebuilds=False, ends_shadow=True)
    spec = check_policy(text, kinds(Where.LIVE))
    row = PolicyRow(SHADOW, str(spec), now, asked.user)
    event = EventRow(now, asked.user, "shadow", text=str(spec))
    return CommandChange(Step(policies=[row], events=[event]))


def _update(context: ChangeContext, asked: CommandAsked) -> CommandChange:
    """A job has another request from now on."""
    assert asked.row is not None
    old = context.store.spec(asked.row)
    row = context.store.job(asked.row)
    if old is None or row is None:
        raise RotaError("it is not on record")
    try:
        new = changed(old, changes_by_the_cluster(asked.args, context.clock))
    except ValidationError as error:
        first = error.errors()[0]
        raise RotaError(str(first["msg"]).removeprefix("Value error, ")) from None
    said = ", ".join(_in_words(name, value) for name, value in asked.args.items())
    event = EventRow(context.clock(), asked.user, "update", row.id, said)
    jobs = {}
    if row.now.phase in (Phase.PENDING, Phase.HELD):
        anew = _held_anew(context, row, new, asked.args.keys())
        jobs = {} if anew is None else {asked.row: anew}
    return CommandChange(Step(specs={asked.row: new}, jobs=jobs, events=[event]))


def _accept(context: ChangeContext, asked: CommandAsked) -> CommandChange:
    """A job is to be done by the later moment that it was offered, and waits for its policy again."""
    assert asked.row is not None
    row, old = context.store.job(asked.row), context.store.spec(asked.row)
    if row is None or old is None:
        raise RotaError("it is not on record")
    offers = [Hold(**plain) for plain in row.now.hold if plain["kind"] == OFFERED]
    if not offers or offers[0].requested is None:
        raise RotaError("no later deadline is offered to it")
    deadline_s = context.store.epoch_s + offers[0].requested
    new = old.model_copy(update={"deadline_s": deadline_s, "deadlines": []})
    holds = {plain["kind"]: Hold(**plain) for plain in row.now.hold if plain["kind"] != OFFERED}
    event = EventRow(context.clock(), asked.user, "accept", row.id, f"deadline {utc(deadline_s)}")
    return CommandChange(
        Step(specs={asked.row: new}, jobs={asked.row: _held(row.now, holds)}, events=[event])
    )


def _move_tenants(context: ChangeContext, asked: CommandAsked) -> CommandChange:
    """Other quotas, weights and cells; a waiting job that could never run within them is held."""
    old = on_record(context.store.facts())
    configured = old.configured if old else Tenants.none()
    if old is None and context.cluster is not None:
        configured = context.cluster.tenants
    tenants, now = parse_tenants(asked.args["tenants"]), context.clock()
    step = moved(TenantsInForce(tenants, configured, now, asked.user), old, asked.user)
    return CommandChange(replace(step, jobs=_impossible_now(context, tenants)))


def _impossible_now(context: ChangeContext, tenants: Tenants) -> dict[int, JobState]:
    """Waiting jobs that no hard quota of `tenants` will ever let run, held for that."""
    if context.cluster is None:
        return {}
    cluster = replace(context.cluster, tenants=tenants)
    waiting = [
        row
        for row in context.store.jobs(JobQuery(states=("PENDING",)))
        if row.now.phase in (Phase.PENDING, Phase.HELD)
    ]
    specs, states = context.store.specs([row.row for row in waiting]), {}
    for row in waiting:
        holds = {plain["kind"]: Hold(**plain) for plain in row.now.hold}
        never = impossible(cluster, specs[row.row], row.asked.tenant) if row.row in specs else None
        if never is not None and INFEASIBLE not in holds:
            states[row.row] = _held(row.now, {**holds, INFEASIBLE: never})
    return states


def _in_words(name: str, value: Any) -> str:
    """`priority 3`, `time 1h`, `begin 2026-11-22 14:05:10 UTC`, `deadline none`, for the record."""
    told = "none" if value is None else str(value)
    if name == "time_s" and value is not None:
        told = format_duration(value)
    elif name in ("begin_s", "deadline_s") and value is not None:
        told = utc(value)
    elif name == "deadlines":
        told = ", ".join(f"{utc(due['at_s'])} = {due['value']:g}" for due in value) or "none"
    return f"{name.removesuffix('_s')} {told}"


def _held_anew(
    context: ChangeContext, row: JobRow, spec: JobSpec, changed: Collection[str]
) -> JobState | None:
    """A waiting job that asks for `spec` now, with the holds that it has then; None if they stay."""
    holds = {plain["kind"]: Hold(**plain) for plain in row.now.hold}
    before, clock = dict(holds), context.clock
    if "begin_s" in changed:
        _put(holds, BEGIN, begins(spec, clock.epoch_unix_s, clock()))
    if context.cluster is not None and DEVICES & set(changed):
        _put(holds, INFEASIBLE, impossible(context.cluster, spec, row.asked.tenant))
    return None if holds == before else _held(row.now, holds)


def _put(holds: dict[str, Hold], kind: str, hold: Hold | None) -> None:
    """The hold of that kind is this one now."""
    if hold is None:
        holds.pop(kind, None)
    else:
        holds[kind] = hold


def _held(now: JobState, holds: Mapping[str, Hold]) -> JobState:
    """A waiting job with these holds and no others."""
    reason = dominant(dict(holds)).constraint().code.value if holds else ""
    return replace(now, hold=[hold.plain() for hold in holds.values()], reason=reason)


_CHANGES: dict[str, Callable[[ChangeContext, CommandAsked], CommandChange]] = {
    "policy": _set_policy,
    "shadow": _set_shadow,
    "update": _update,
    "accept": _accept,
    "tenants": _move_tenants,
}
