"""The tables, the same for SQLite and PostgreSQL; `migrations` builds them, a test compares the two."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

from rota.model.grants import LIMITS
from rota.model.job_columns import CODED, SUBMITTED, JobColumn

metadata = MetaData()
whole = BigInteger().with_variant(Integer(), "sqlite")  # only INTEGER numbers rows by itself in SQLite


def _int(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _maybe_int(name: str) -> Column[int]:
    return Column(name, BigInteger)


def _float(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _maybe_float(name: str) -> Column[float]:
    return Column(name, Double)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _maybe_text(name: str) -> Column[str]:
    return Column(name, Text)


def _bool(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False)


def _bytes(name: str) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=False)


def _key(name: str) -> Column[str]:
    return Column(name, Text, primary_key=True)


def _number(name: str = "seq") -> Column[int]:
    """A number the database gives, ascending."""
    return Column(name, whole, primary_key=True, autoincrement=True)


def _job() -> Column[int]:
    return Column("row", BigInteger, ForeignKey("jobs.row"), nullable=False)


def _asked(column: JobColumn) -> Column[Any]:
    """Names and lists as text, numbers as they are, null where a job need not have one."""
    if column.name in (*CODED, "gpu_types") or not column.dtype:
        return _text(column.name)
    if column.dtype == "float64":
        return _maybe_float(column.name) if column.is_maybe else _float(column.name)
    return _int(column.name)


facts = Table("facts", metadata, _key("key"), _text("value"))
users = Table(
    "users", metadata,
    _key("name"), _text("token_hash"), _text("salt"), _bool("admin"), _text("tenant"), _text("account"),
    _bool("viewer"),
)  # fmt: skip
tokens = Table("tokens", metadata, _key("hash"), _text("kind"), _text("node"), _float("at_s"))
nodes = Table(
    "nodes", metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    _text("info"), _text("state"), _int("first_device"), _float("joined_s"), _text("token"), _text("reason"),
    _text("drained_by"),
)  # fmt: skip
specs = Table(
    "specs", metadata,
    Column("number", whole, primary_key=True, autoincrement=False), _text("text"),
)  # fmt: skip
jobs = Table(
    "jobs", metadata,
    # who
    Column("row", whole, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),
    _text("user"), _float("submit_s"), _maybe_int("array_first"), _maybe_int("array_index"),
    _int("array_most"), _text("account"),
    # asked
    _text("name"), *map(_asked, SUBMITTED),
    # now
    _text("state"), _int("phase"), _text("reason"), _text("hold"), _maybe_float("first_start_s"),
    _float("since_s"), _float("run_s"), _float("service"), _float("service_rate"), _float("placed_s"),
    _float("adjusted_s"),
    _int("starts"), _int("moves"),
    _int("preemptions"), _int("failures"), _int("user_failures"), _float("progress_base"),
    _float("progress_rate"), _float("progress_since"), _maybe_float("finish_s"), _maybe_int("exit_code"),
    _maybe_int("signal"), _text("cause"), _int("attempt"), _maybe_text("capability"),
    _maybe_text("measured"),
    # Apart, since an array has one specification, and a long one is not to be written with each change.
    Column("spec", BigInteger, ForeignKey("specs.number"), nullable=False),
)  # fmt: skip
LIVE = "phase <= 3"
"""Phases up to RUNNING; its text equals that of the index, so that the index is used."""
Index("jobs_live", jobs.c.phase, sqlite_where=text(LIVE), postgresql_where=text(LIVE))
Index("jobs_user", jobs.c.user, jobs.c.row)
Index("jobs_array", jobs.c.array_first)
Index("jobs_finish", jobs.c.finish_s)
Index("jobs_spec", jobs.c.spec)
attempts = Table(
    "attempts", metadata,
    Column("row", BigInteger, ForeignKey("jobs.row"), primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    _text("state"), _maybe_text("grant"), _maybe_text("parts"), _text("wanted"), _float("wanted_s"),
    _maybe_float("start_s"), _maybe_float("end_s"), _text("how"), _maybe_text("exit"), _text("cause"),
    _maybe_text("notice"), _maybe_text("costs"), _maybe_text("progress"), _maybe_text("usage"),
    _text("mechanism"),
)  # fmt: skip
UNENDED = "end_s IS NULL"
Index("attempts_live", attempts.c.row, sqlite_where=text(UNENDED), postgresql_where=text(UNENDED))
intervals = Table(
    "intervals", metadata,
    _number(), _job(), _int("attempt"), _float("start_s"), _float("end_s"), _text("devices"), _text("nodes"),
    _float("share"), _text("role"), _text("how"), _float("overhead_s"), _float("lost_work_s"),
    *map(_maybe_float, LIMITS),
)  # fmt: skip
Index("intervals_row", intervals.c.row)
decisions = Table(
    "decisions", metadata,
    _number(), _float("now_s"), _text("policy"), _float("took_s"), _int("grants"), _int("preempted"),
    _bool("is_cut"), _bool("is_late"), _text("note"),
)  # fmt: skip
policies = Table(
    "policies", metadata,
    _key("name"), _text("spec"), _float("since_s"), _text("by"), _bytes("memory"), _bytes("providers"),
    _maybe_text("wake"), _maybe_text("reservations"),
)  # fmt: skip
commands = Table(
    "commands", metadata,
    _number(), _float("at_s"), _text("user"), _text("kind"), _maybe_int("row"), _maybe_text("node"),
    _maybe_text("args"), _maybe_float("done_s"), _maybe_text("outcome"),
)  # fmt: skip
UNDONE = "done_s IS NULL"
Index("commands_open", commands.c.seq, sqlite_where=text(UNDONE), postgresql_where=text(UNDONE))
events = Table(
    "events", metadata, _number(), _float("at_s"), _text("who"), _text("kind"), _text("job"), _text("text")
)
Index("events_job", events.c.job, events.c.seq)
points = Table(
    "points", metadata,
    _number(), _job(), _int("attempt"), _float("at_s"), _float("until_s"), _float("spacing_s"),
    _text("curves"),
)  # fmt: skip
Index("points_row", points.c.row, points.c.spacing_s)
costs = Table(
    "costs", metadata,
    _number(), _text("workload"), _text("tenant"), _text("kind"), _float("seconds"), _float("bytes"),
    _float("at_s"),
)  # fmt: skip
shadow = Table("shadow", metadata, _number(), _float("at_s"), _text("text"))
submissions = Table(
    "submissions", metadata,
    _key("user"), _key("key"), _text("digest"), _int("first_row"), _int("count"),
)  # fmt: skip
Index("submissions_row", submissions.c.first_row)
