"""The store: the controller's durable state, from which all of its memory can be rebuilt.

There are two writers: the API (submissions, commands, users, nodes that join), durable before each answer,
and the scheduler, one `Step` for each turn of its loop.  Writes go through one connection, one after the
other; reads have connections of their own and never wait for a writer.  A write that fails raises
`StoreError` and has changed nothing (if the connection broke during the commit itself, all or nothing:
`StoreError.unsure`); the next call connects again.

store        this class            new_jobs      new jobs
database     connections, locks    steps         a turn of the scheduler
migrations   older databases       start_state   all at once, for the scheduler
tables       what there is         queries       lists, for the API
stored       rows ⇄ tables         people        users, tokens, nodes that join
                                   old_rows      what is too old
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

from sqlalchemy import select

from rota.model.columns import Floats
from rota.server.store import ended, new_jobs, old_rows, people, queries, start_state
from rota.server.store import tables as t
from rota.server.store.database import Database, Faults
from rota.server.store.ended import EndedQuery, EndedRow
from rota.server.store.failures import StoreError
from rota.server.store.forms import bounded, to_text
from rota.server.store.migrations import bring
from rota.server.store.past_columns import HistoryWindow, PastColumns, past_columns
from rota.server.store.queries import JobLine, lines
from rota.server.store.rows import (
    AttemptRow,
    CommandRow,
    CompletedJob,
    CostRow,
    DecisionRow,
    EventRow,
    Everything,
    HeldSpan,
    IntervalRow,
    JobQuery,
    JobRow,
    Json,
    NewJob,
    NodeRow,
    PastJob,
    PolicyRow,
    ShadowRow,
    Step,
    TokenRow,
    UserRow,
)
from rota.server.store.steps import Stepping
from rota.server.store.stored import (
    ATTEMPT,
    COMMAND,
    COST,
    DECISION,
    EVENT,
    INTERVAL,
    NODE,
    POINT,
    POLICY,
    SHADOW,
    TOKEN,
    USER,
    selected,
    upsert,
)
from rota.wire.job import JobSpec
from rota.wire.sync import NodeInfo
from rota.wire.text import clean
from rota.worlds.live.curves import Point


class Store:
    """One open store, made by `Store.open`.  All methods may be called from any thread."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._stepping = Stepping(database.dialect)
        self._set_fact = upsert(t.facts, database.dialect, ("key", "value"))
        self._announced_in_vain = False
        """Jobs that were announced have not been put on record, and the scheduler may not know."""
        self._loaded: int | None = None
        """The writing connection under which everything was loaded last; None before the first load."""
        with database.writing(is_long=True) as writing:  # an older store is rewritten
            database.check_not_lost(writing.connection)
            bring(writing.connection, database.where)
            facts = {row.key: row.value for row in writing.run("facts", select(t.facts))}
            if "epoch_s" not in facts:
                facts["epoch_s"] = to_text(time.time())
                writing.run("facts", t.facts.insert(), {"key": "epoch_s", "value": facts["epoch_s"]})
        self.epoch_s: float = json.loads(facts["epoch_s"])
        """Unix time from which the cluster counts, given when the store was made."""

    @classmethod
    def open(
        cls,
        url: str | None,
        home: Path,
        *,
        faults: Faults | None = None,
        busy_s: float = 5.0,
        lock_s: float = 0.0,
    ) -> Self:
        """The store at `url` (`sqlite:///…`, `postgresql+psycopg://…`; None: `home/rota.db`), migrated.

        A call waits `busy_s` for a database that another program keeps locked, twice as long for one that
        does not answer; `lock_s` is how long this call waits for a controller that is leaving.  StoreError if
        it cannot be reached or written, another controller uses it, or a newer rota has written it.
        """
        database = Database(url, home, faults, busy_s, lock_s)
        try:
            return cls(database)
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Give the database free for another controller; later calls raise StoreError."""
        self._db.close()

    def leave(self) -> None:
        """Say that this controller is about to end: its successor waits for it."""
        self._db.leave()

    @property
    def where(self) -> str:
        """The database in words, without a password."""
        return self._db.where

    @property
    def damage(self) -> str:
        """The damage of the database, as a sentence, once a call has found it; else empty."""
        return self._db.damage

    @property
    def may_be_silent(self) -> bool:
        """Whether a call may have to wait for another machine: an event loop does not make it itself."""
        return self._db.dialect != "sqlite"

    # -- facts ---------------------------------------------------------------------------------

    def facts(self) -> dict[str, Json]:
        """Everything noted with `set_fact`, and `epoch_s`."""
        with self._db.reading() as connection:
            return {key: json.loads(value) for key, value in connection.execute(select(t.facts))}

    def set_fact(self, key: str, value: Json) -> None:
        """Note something that belongs to the cluster as a whole."""
        with self._db.writing() as writing:
            writing.run("facts", self._set_fact, {"key": key, "value": to_text(value)})

    def last_moment(self) -> float:
        """The last moment on record: of a submission, a decision, an event; 0 if there is none."""
        with self._db.reading() as connection:
            return queries.last_moment(connection)

    # -- written by the API --------------------------------------------------------------------

    def add_jobs(
        self,
        user: str,
        tenant: str,
        jobs: Sequence[NewJob],
        submit_s: float,
        key: str | None = None,
        announce: Callable[[list[JobRow]], None] | None = None,
        withdraw: Callable[[], None] = lambda: None,
        account: str = "",
    ) -> list[JobRow]:
        """Rows for new jobs, PENDING and in phase ABSENT until the scheduler has seen them.

        `tenant` is for jobs that name none; all run as `account`.  If the same user repeats a `key`, it adds
        nothing and returns the rows of the first call; InputError if that call had other jobs.

        `announce` is given the rows while they are being put on record: the scheduler may decide about them
        meanwhile.  Its decision is put on record after them, and never if they fail: then `commit` raises
        StoreError until everything has been loaded again.  Then `withdraw` is called, before another thread
        writes or loads: a load must not be followed by news of them.
        """
        announced = False

        def undone() -> None:
            if announced:
                self._announced_in_vain = True
                withdraw()

        with self._db.writing(undone) as writing:
            rows = new_jobs.add_jobs(writing, self.epoch_s, user, tenant, jobs, submit_s, key, account)
            if announce is not None:
                announced = True
                announce(rows)
        return rows

    def add_command(
        self,
        at_s: float,
        user: str,
        kind: str,
        *,
        row: int | None = None,
        node: str | None = None,
        args: Json = None,
    ) -> int:
        """A command for the scheduler; its number."""
        params = COMMAND.params(CommandRow(0, at_s, user, kind, row, node, args))
        params.pop("seq")
        with self._db.writing() as writing:
            statement = t.commands.insert().returning(t.commands.c.seq)
            number: int = writing.run("commands", statement, params).scalar_one()
            return number

    def join(self, info: NodeInfo, token: TokenRow) -> NodeRow:
        """The row of a node that joins (again) at `token.at_s`, with `token` as the only one of its agent.

        A node that is known keeps its place, its devices' numbers and its state.  InputError if it comes with
        another number of devices.
        """
        with self._db.writing() as writing:
            return people.join(writing, self._db.dialect, info, token)

    # -- the scheduler -------------------------------------------------------------------------

    def load(self) -> Everything:
        """All that the scheduler needs to start, announced jobs too; StoreError if it cannot write."""
        with self._db.writing() as writing:
            writing.run("facts", self._set_fact, {"key": start_state.LOADED, "value": to_text(time.time())})
            self._announced_in_vain, self._loaded = False, self._db.lineage
        with self._db.reading(one_moment=True, is_long=True) as connection:
            return start_state.load(connection)

    def commit(self, step: Step) -> None:
        """Store one turn of the loop, in one transaction.

        LookupError (and nothing stored) if it changes a job, node or command that is not there; StoreError if
        the connection that writes is not that of the last `load`: another controller may have had the lock.
        """
        with self._db.writing() as writing:
            if self._announced_in_vain:
                raise StoreError("jobs that were announced could not be put on record")
            if self._loaded not in (None, self._db.lineage):
                raise StoreError(f"{self.where} was out of reach meanwhile; everything is read again")
            self._stepping.write(writing, step, self.epoch_s)

    # -- expired rows --------------------------------------------------------------------------

    def drop_old_jobs(self, before_s: float, keys_s: float) -> bool:
        """Take some jobs off the record that ended before `before_s`; False if there are none.

        Those submitted since `keys_s` stay, and those that a waiting job names.
        """
        with self._db.reading(one_moment=True) as connection:
            old = old_rows.old_jobs(connection, before_s, keys_s)
        if old.rows:
            with self._db.writing() as writing:
                old_rows.drop_jobs(writing, old)
        return bool(old.rows)

    def drop_old_lines(self, name: str, before_s: float) -> bool:
        """Drop some `events`, or `commands` that were done, before that moment; False if there are none."""
        with self._db.writing() as writing:
            return old_rows.drop_lines(writing, name, before_s) > 0

    def drop_old_keys(self, before_s: float) -> bool:
        """Forget some keys of submissions before that moment; False if there are none."""
        with self._db.writing() as writing:
            return old_rows.drop_keys(writing, before_s) > 0

    def count_points(self) -> int:
        """Of the curves of all jobs."""
        with self._db.reading() as connection:
            return old_rows.count_points(connection)

    def drop_old_points(self) -> int:
        """Drop some, of jobs that are over, the oldest first; how many."""
        with self._db.writing() as writing:
            return old_rows.drop_points(writing)

    def ended(
        self, rows: Sequence[int], submit_s: Mapping[int, float] | None = None, within_s: float = 0.001
    ) -> dict[int, float]:
        """Ends of these jobs, without live ones; minus infinity for jobs no longer on record.

        A job submitted at another moment than `submit_s` is another job, and left out.
        """
        with self._db.reading(one_moment=True) as connection:
            return old_rows.ended(connection, rows, submit_s or {}, within_s)

    def last_row(self) -> int:
        """Row of the newest job; -1 before the first."""
        with self._db.reading() as connection:
            return old_rows.last_row(connection)

    # -- reads ---------------------------------------------------------------------------------

    def job(self, row: int) -> JobRow | None:
        """The job with this row."""
        with self._db.reading() as connection:
            return queries.job_at(connection, row)

    def job_of_id(self, job_id: str) -> JobRow | None:
        """The job with the id that people see."""
        with self._db.reading() as connection:
            return queries.job_of_id(connection, job_id)

    def jobs(self, which: JobQuery | None = None) -> list[JobRow]:
        """Jobs by row; the newest ones if `which` has a limit."""
        with self._db.reading() as connection:
            return queries.jobs(connection, which or JobQuery())

    def lines(self, also: Collection[int] = ()) -> list[JobLine]:
        """All jobs that have not ended, and the rows `also`, by row, in few words."""
        with self._db.reading() as connection:
            return lines(connection, also)

    def count_jobs(self, which: JobQuery) -> int:
        """How many jobs `which` lists, whatever its limit."""
        with self._db.reading() as connection:
            return queries.count_jobs(connection, which)

    def has_submitted(self, user: str, key: str) -> bool:
        """Whether jobs of `user` are on record that were submitted with `key`."""
        with self._db.reading() as connection:
            return new_jobs.is_known(connection, user, key)

    def phases(self, name: str) -> Mapping[int, int]:
        """Number of jobs in each phase, among those that `name`, an id or an array's number, refers to."""
        with self._db.reading() as connection:
            return queries.phases(connection, name)

    def spec(self, row: int) -> JobSpec | None:
        """The user's request, with all changes since."""
        return self.specs([row]).get(row)

    def specs(self, rows: Sequence[int]) -> dict[int, JobSpec]:
        """Specifications by row; jobs of one array may share an object."""
        with self._db.reading() as connection:
            return queries.specs(connection, rows)

    def attempts(self, row: int) -> list[AttemptRow]:
        """Oldest first."""
        with self._db.reading() as connection:
            own = t.attempts.c.row == bounded(row)
            return queries.listed(connection, t.attempts, ATTEMPT, own, order="number")

    def intervals(self, row: int, limit: int = 10_000) -> list[IntervalRow]:
        """Oldest first, the newest `limit` of them."""
        with self._db.reading() as connection:
            return queries.newest(connection, t.intervals, INTERVAL, limit, t.intervals.c.row == bounded(row))

    def events(self, *, since_seq: int = 0, job: str | None = None, limit: int = 1000) -> list[EventRow]:
        """Events after number `since_seq`, the oldest `limit` of them."""
        with self._db.reading() as connection:
            statement = selected(t.events, EVENT).where(t.events.c.seq > bounded(since_seq))
            if job is not None:
                statement = statement.where(t.events.c.job == clean(job))
            rows = connection.execute(statement.order_by(t.events.c.seq).limit(bounded(limit)))
            return [EVENT.row(values) for values in rows]

    def events_of(self, job: str, limit: int) -> list[EventRow]:
        """Oldest first, the newest `limit` that are about this job."""
        with self._db.reading() as connection:
            return queries.newest(connection, t.events, EVENT, limit, t.events.c.job == clean(job))

    def history(self, since_s: float, until_s: float) -> HistoryWindow:
        """Jobs that were submitted before `until_s` and not over before `since_s`, for their export."""
        with self._db.reading(one_moment=True) as connection:
            return queries.history(connection, since_s, until_s)

    def ended_jobs(self, which: EndedQuery, limit: int, *, newest: bool = False) -> list[EndedRow]:
        """The first `limit` jobs that ended, by the moment of it; those that ended last if `newest`."""
        with self._db.reading() as connection:
            return ended.ended_jobs(connection, which, limit, newest=newest)

    def ended_job(self, job_id: str) -> EndedRow | None:
        """The job with the id that people see, if it is over."""
        with self._db.reading() as connection:
            return ended.ended_job(connection, job_id)

    def count_ended(self, which: EndedQuery) -> int:
        """How many there are, without a limit."""
        with self._db.reading() as connection:
            return ended.count_ended(connection, which)

    def past_columns(self, since_s: float, until_s: float) -> PastColumns:
        """The columns for counting usage, of the jobs that `history` lists and of their holdings."""
        with self._db.reading(one_moment=True) as connection:
            return past_columns(connection, since_s, until_s)

    def busy(self, since_s: float, until_s: float) -> dict[int, float]:
        """Mean busy part of their devices in that time, 0 to 1, of jobs with curves of it, by row."""
        with self._db.reading() as connection:
            return queries.busy(connection, since_s, until_s)

    def points(self, row: int, since_s: float = -math.inf) -> list[Point]:
        """Of a job's curves, oldest first: those with something said after `since_s`."""
        with self._db.reading() as connection:
            own = t.points.c.row == bounded(row), t.points.c.until_s > since_s
            return queries.listed(connection, t.points, POINT, *own)

    def past(self, limit: int = 100_000) -> dict[tuple[str, str], Floats]:
        """Seconds that completed jobs ran, by tenant and group, oldest first, of the newest `limit` jobs."""
        with self._db.reading() as connection:
            return queries.past(connection, limit)

    def past_jobs(self, limit: int) -> list[PastJob]:
        """What estimates are made from: the newest `limit` completed jobs, oldest first."""
        with self._db.reading() as connection:
            return queries.past_jobs(connection, limit)

    def costs(self, *, workload: str | None = None, limit: int = 20_000) -> list[CostRow]:
        """Measured costs, oldest first, the newest `limit` of them."""
        with self._db.reading() as connection:
            own = [] if workload is None else [t.costs.c.workload == clean(workload)]
            return queries.newest(connection, t.costs, COST, limit, *own)

    def decisions(self, limit: int = 100) -> list[DecisionRow]:
        """The newest ones, oldest first."""
        with self._db.reading() as connection:
            return queries.newest(connection, t.decisions, DECISION, limit)

    def shadow(self, limit: int = 100) -> list[ShadowRow]:
        """The newest lines, oldest first."""
        with self._db.reading() as connection:
            return queries.newest(connection, t.shadow, SHADOW, limit)

    def nodes(self) -> list[NodeRow]:
        """By position."""
        with self._db.reading() as connection:
            return queries.listed(connection, t.nodes, NODE, order="position")

    def node(self, name: str) -> NodeRow | None:
        """One of them."""
        with self._db.reading() as connection:
            nodes = queries.listed(connection, t.nodes, NODE, t.nodes.c.name == name, order="name")
            return nodes[0] if nodes else None

    def policies(self) -> dict[str, PolicyRow]:
        """The real one and, if there is one, the shadow."""
        with self._db.reading() as connection:
            return {row.name: row for row in queries.listed(connection, t.policies, POLICY, order="name")}

    def open_commands(self) -> list[CommandRow]:
        """Commands not done yet, oldest first."""
        with self._db.reading() as connection:
            return [COMMAND.row(values) for values in connection.execute(start_state.OPEN_COMMANDS)]

    def command(self, seq: int) -> CommandRow | None:
        """The command with this number."""
        with self._db.reading() as connection:
            commands = queries.listed(connection, t.commands, COMMAND, t.commands.c.seq == bounded(seq))
            return commands[0] if commands else None

    def totals(self) -> Mapping[str, int]:
        """Number of jobs by state."""
        with self._db.reading() as connection:
            return queries.totals(connection)

    def live_totals(self) -> Mapping[tuple[str, str], int]:
        """Number of jobs that are not over, by state and tenant."""
        with self._db.reading() as connection:
            return queries.live_totals(connection)

    def live_requests(self) -> Mapping[tuple[str, str], tuple[int, float]]:
        """Live jobs by tenant and user, with the GPUs that they ask for in all."""
        with self._db.reading() as connection:
            return queries.live_requests(connection)

    def held(self, since_s: float) -> list[HeldSpan]:
        """What jobs held since then, and hold no more, in the newest `reading.MOST_HELD` intervals."""
        with self._db.reading() as connection:
            return queries.held(connection, since_s)

    def completed(self, since_s: float, limit: int = 20_000) -> list[CompletedJob]:
        """The newest jobs that completed since then."""
        with self._db.reading() as connection:
            return queries.completed(connection, since_s, limit)

    # -- tokens --------------------------------------------------------------------------------

    def users(self) -> list[UserRow]:
        """By name."""
        with self._db.reading() as connection:
            return queries.listed(connection, t.users, USER, order="name")

    def user(self, name: str) -> UserRow | None:
        """The user of this name."""
        with self._db.reading() as connection:
            users = queries.listed(connection, t.users, USER, t.users.c.name == clean(name), order="name")
            return users[0] if users else None

    def set_user(self, user: UserRow) -> None:
        """Add a user, or replace the one of this name."""
        with self._db.writing() as writing:
            people.set_user(writing, self._db.dialect, user)

    def remove_user(self, name: str) -> bool:
        """False if there is no such user.  The jobs stay."""
        with self._db.writing() as writing:
            return people.remove_user(writing, name)

    def tokens(self) -> list[TokenRow]:
        """Of joins and of agents."""
        with self._db.reading() as connection:
            return queries.listed(connection, t.tokens, TOKEN, order="hash")

    def token(self, token_hash: str) -> TokenRow | None:
        """What this token is good for; None if for nothing."""
        with self._db.reading() as connection:
            own = t.tokens.c.hash == clean(token_hash)
            tokens = queries.listed(connection, t.tokens, TOKEN, own, order="hash")
            return tokens[0] if tokens else None

    def add_token(self, token: TokenRow) -> None:
        """Add a token of a user, an agent or a joining machine."""
        with self._db.writing() as writing:
            people.add_token(writing, token)

    def remove_token(self, token_hash: str) -> bool:
        """False if there is no such token."""
        with self._db.writing() as writing:
            return people.remove_token(writing, token_hash)
