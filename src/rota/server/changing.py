"""Commands that change what the loop is built upon: its policy, its shadow, what a job asks for.

Each is one transaction after the step in which it was read; then the loop is built anew, which loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from rota.errors import RotaError
from rota.knowledge.registry import Where, kinds
from rota.model.units import format_duration
from rota.server.policy.messages import check_policy
from rota.server.store.rows import REAL, SHADOW, CommandDone, EventRow, JobState, PolicyRow, Step
from rota.table.state import Phase
from rota.wire.job import JobSpec
from rota.worlds.live.dependencies import begins
from rota.worlds.live.holds import BEGIN, Hold, dominant
from rota.worlds.live.inbox import CommandAsked
from rota.worlds.live.resizing import changed

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler


def carry_out(scheduler: Scheduler, asked: CommandAsked) -> bool:
    """Do what was asked and put its outcome on record; True if the loop has to be built anew."""
    try:
        step, again = _CHANGES[asked.kind](scheduler, asked)
    except RotaError as error:
        step, again = Step(), False
        outcome = {"error": str(error)}
    else:
        outcome = {}
    done = CommandDone(asked.seq, scheduler.clock(), outcome)
    scheduler.store.commit(replace(step, done=[*step.done, done]))
    scheduler.tell_done(asked.seq, outcome)
    return again


def _set_policy(scheduler: Scheduler, asked: CommandAsked) -> tuple[Step, bool]:
    """Another policy takes over with an empty memory; its first decision preempts nobody."""
    spec = check_policy(str(asked.args["policy"]), kinds(Where.LIVE))
    now = scheduler.clock()
    old = scheduler.policy.spec if scheduler.policy else ""
    row = PolicyRow(REAL, str(spec), now, asked.user)
    event = EventRow(now, asked.user, "policy", text=f"{spec} in place of {old}")
    return Step(policies=[row], events=[event]), True


def _set_shadow(scheduler: Scheduler, asked: CommandAsked) -> tuple[Step, bool]:
    """A policy that only says what it would do; none if the text is empty."""
    text, now = str(asked.args.get("policy") or ""), scheduler.clock()
    if not text:
        if scheduler.host is not None:
            scheduler.host.set_shadow(None)
        event = EventRow(now, asked.user, "shadow", text="ended")
        return Step(without=[SHADOW], events=[event]), False
    spec = check_policy(text, kinds(Where.LIVE))
    row = PolicyRow(SHADOW, str(spec), now, asked.user)
    return Step(policies=[row], events=[EventRow(now, asked.user, "shadow", text=str(spec))]), True


def _update(scheduler: Scheduler, asked: CommandAsked) -> tuple[Step, bool]:
    """What a job asks for is another thing from now on."""
    assert asked.row is not None
    old = scheduler.store.spec(asked.row)
    row = scheduler.store.job(asked.row)
    if old is None or row is None:
        raise RotaError("it is not on record")
    try:
        new = changed(old, asked.args)
    except ValidationError as error:
        first = error.errors()[0]
        raise RotaError(str(first["msg"]).removeprefix("Value error, ")) from None
    said = ", ".join(_in_words(name, value) for name, value in asked.args.items())
    event = EventRow(scheduler.clock(), asked.user, "update", row.id, said)
    jobs = {}
    if "begin_s" in asked.args and row.now.phase in (Phase.PENDING, Phase.HELD):
        jobs[asked.row] = _begin_anew(row.now, new, scheduler)
    return Step(specs={asked.row: new}, jobs=jobs, events=[event]), True


def _in_words(name: str, value: Any) -> str:
    """`priority 3`, `time 1h`, `begin 2026-11-22 14:05:10 UTC`, `deadline none`, for the record."""
    told = "none" if value is None else str(value)
    if name == "time_s" and value is not None:
        told = format_duration(value)
    elif name in ("begin_s", "deadline_s") and value is not None:
        told = datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{name.removesuffix('_s')} {told}"


def _begin_anew(now: JobState, spec: JobSpec, scheduler: Scheduler) -> JobState:
    """A waiting job that is to begin at another moment than before, with the holds that it has then."""
    holds = {plain["kind"]: Hold(**plain) for plain in now.hold if plain["kind"] != BEGIN}
    begin = begins(spec, scheduler.clock.epoch_unix_s, scheduler.clock())
    if begin is not None:
        holds[BEGIN] = begin
    reason = dominant(holds).constraint().code.value if holds else ""
    return replace(now, hold=[hold.plain() for hold in holds.values()], reason=reason)


_CHANGES: dict[str, Callable[[Scheduler, CommandAsked], tuple[Step, bool]]] = {
    "policy": _set_policy,
    "shadow": _set_shadow,
    "update": _update,
}
