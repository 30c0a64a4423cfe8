"""One turn of the scheduler, written in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Table, bindparam, func, select

from rota.server.store import tables as t
from rota.server.store.database import Writing
from rota.server.store.forms import Params, RowForm, to_text
from rota.server.store.new_jobs import asked
from rota.server.store.rows import NodeRow, Step
from rota.server.store.stored import (
    ASKED,
    ATTEMPT,
    COST,
    DECISION,
    EVENT,
    INSERT,
    INTERVAL,
    NODE,
    NOW,
    POINT,
    POLICY,
    SHADOW,
    selected,
    update,
    upsert,
)
from rota.worlds.live.curves import thinned

KEEP = {"decisions": 10_000, "costs": 50_000, "shadow": 10_000}
"""Newest rows that stay; older ones go, some hundreds at a time."""
_SLACK = 500

_JOBS = update(t.jobs, "row")
_NODES = update(t.nodes, "position")
_DONE = update(t.commands, "seq")
_OWNER = select(t.jobs.c.user, t.jobs.c.tenant).where(t.jobs.c.row == bindparam("r"))
_LAST_SPEC = select(func.coalesce(func.max(t.specs.c.number), -1))
_GONE = t.policies.delete().where(t.policies.c.name == bindparam("n"))
_OF_ROW = t.points.c.row == bindparam("r")
_POINTS = selected(t.points, POINT).where(_OF_ROW).order_by(t.points.c.seq)
_NO_POINTS = t.points.delete().where(_OF_ROW)
_OLD = {
    name: (table := t.metadata.tables[name]).delete().where(
        table.c.seq <= select(func.max(table.c.seq)).scalar_subquery() - keep
    )
    for name, keep in KEEP.items()
}  # fmt: skip


class Stepping:
    """Writes steps; counts what it adds to the tables that are trimmed."""

    def __init__(self, dialect: str) -> None:
        self._attempts = upsert(t.attempts, dialect, ATTEMPT.names)
        self._policies = upsert(t.policies, dialect, POLICY.names)
        self._facts = upsert(t.facts, dialect, ("key", "value"))
        self._added = dict.fromkeys(KEEP, _SLACK)

    def write(self, writing: Writing, step: Step, epoch_s: float) -> None:
        """See `Store.commit`."""
        if step.jobs:
            params = [NOW.params(now) | {"at": int(row)} for row, now in step.jobs.items()]
            _changed(writing, t.jobs, _JOBS, params)
        if step.specs:
            _write_specs(writing, step, epoch_s)
        if step.attempts:
            writing.run("attempts", self._attempts, [ATTEMPT.params(row) for row in step.attempts])
        self._insert(writing, t.intervals, INTERVAL, step.intervals)
        if step.decision is not None:
            self._insert(writing, t.decisions, DECISION, [step.decision])
        for name in step.without:
            writing.run("policies", _GONE, {"n": name})
        if step.policies:
            writing.run("policies", self._policies, [POLICY.params(row) for row in step.policies])
        if step.nodes:
            _changed(writing, t.nodes, _NODES, [_node(row) for row in step.nodes])
        if step.done:
            outcomes = [{"at": d.seq, "done_s": d.done_s, "outcome": to_text(d.outcome)} for d in step.done]
            _changed(writing, t.commands, _DONE, outcomes)
        self._insert(writing, t.events, EVENT, step.events)
        self._insert(writing, t.points, POINT, step.points)
        for row in step.thinned:
            self._thin(writing, row)
        self._insert(writing, t.costs, COST, step.costs)
        self._insert(writing, t.shadow, SHADOW, step.shadow)
        if step.facts:
            facts = [{"key": key, "value": to_text(value)} for key, value in step.facts.items()]
            writing.run("facts", self._facts, facts)

    def _insert(self, writing: Writing, table: Table, form: RowForm[Any], rows: Sequence[Any]) -> None:
        if not rows:
            return
        params = [form.params(row) for row in rows]
        for values in params:
            values.pop("seq", None)
        writing.run(table.name, INSERT[table.name], params)
        if table.name in KEEP:
            self._trim(writing, table.name, len(rows))

    def _thin(self, writing: Writing, row: int) -> None:
        """Neighbouring points of a job become one."""
        old = [POINT.row(values) for values in writing.run("points", _POINTS, {"r": row})]
        writing.run("points", _NO_POINTS, {"r": row})
        self._insert(writing, t.points, POINT, thinned(old))

    def _trim(self, writing: Writing, name: str, added: int) -> None:
        """Remove expired rows from time to time: a look at each step would cost as much as the step."""
        self._added[name] += added
        if self._added[name] >= _SLACK:
            writing.run(f"trim {name}", _OLD[name])
            self._added[name] = 0


def _changed(writing: Writing, table: Table, statement: Any, params: Sequence[Params]) -> None:
    """Update rows that are there; a row that is not is a mistake that must not pass for a success."""
    updated = writing.run(table.name, statement, params).rowcount
    if updated != len(params):
        wanted = ", ".join(str(values["at"]) for values in params[:5])
        raise LookupError(f"{len(params) - updated} of these {table.name} are not in the store: {wanted}")


def _node(row: NodeRow) -> Params:
    """The scheduler's columns of a node; its name, token and place were set when it joined."""
    said = NODE.params(row)
    return {name: said[name] for name in ("info", "state", "reason", "drained_by")} | {"at": row.position}


def _write_specs(writing: Writing, step: Step, epoch_s: float) -> None:
    number = writing.run("specs", _LAST_SPEC).scalar_one()
    for row, spec in step.specs.items():
        owner = writing.run("specs", _OWNER, {"r": int(row)}).first()
        if owner is None:
            raise LookupError(f"job {row} is not in the store")
        number += 1
        writing.run("specs", INSERT["specs"], [{"number": number, "text": spec.model_dump_json()}])
        wants = ASKED.params(asked(spec, owner.user, owner.tenant, epoch_s))
        writing.run("jobs", _JOBS, wants | {"spec": number, "at": int(row)})
