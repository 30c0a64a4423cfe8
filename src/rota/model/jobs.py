"""Jobs as columns: what was asked for, and what only the world knows.

`JobTable` holds one NumPy column per attribute and one row per job, in order of submission.
`Truth` holds what a policy must not see (how long a job really runs, how it will fail);
`RecordedRun` what a trace recorded of the real run.  `JobTable.job(row)` gives a row as an object
for messages and displays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from rota.model.columns import Array, Bools, Floats, Ints, read_only
from rota.model.job_columns import CODED, EVEN, Deadline


class Outcome(IntEnum):
    """How a job ends if it is left to run (part of `Truth`)."""

    COMPLETED = 0
    FAILED = 1
    CANCELLED = 2
    PREEMPTED = 3  # the site took its GPUs for other jobs, and it did not come back


class Interruption(NamedTuple):
    """An attempt on record that the site ended though it did not fail; the job was tried again."""

    run_s: float
    why: str
    """`preempted` if the job had to give way, `requeued` if it was put back for another reason."""


PREEMPTED, REQUEUED = "preempted", "requeued"


@dataclass(frozen=True)
class JobPart:
    """One row of an uneven job: a number of tasks of one shape (a gang of 7 + 5, a parameter server)."""

    tasks: int
    gpus: int
    cpus: float = 0.0
    memory_gib: float = 0.0
    role: str = "worker"


@dataclass(frozen=True)
class JobTable:
    """What was asked for: one read-only column per attribute, rows sorted by submission.

    `rota.model.job_columns` says what each column holds.  Codes (`tenant`, `group`, `workload`, `node_set`)
    index the tuples of names beside them; -1 means none.
    """

    ids: Sequence[str]
    """Name of each job, unique."""
    submit_s: Floats
    gpus: Ints
    gpus_min: Ints
    gpus_max: Ints
    counts: Array
    gpus_step: Ints
    gpu_share: Floats
    gpu_memory_gib: Floats
    gpu_persistent_gib: Floats
    gpu_types: Ints
    cpus: Floats
    memory_gib: Floats
    gang: Bools
    kind: Array
    priority: Ints
    weight: Floats
    deadline_s: Floats
    limit_s: Floats
    batch_size: Floats
    batch_min: Floats
    batch_max: Floats
    tenant: Array
    group: Array
    group_rule: Array
    workload: Array
    node_set: Array
    tenant_names: Sequence[str] = ("default",)
    group_names: Sequence[str] = ()
    workload_names: Sequence[str] = ()
    node_set_names: Sequence[str] = ()
    type_names: Sequence[str] = ()
    deadlines: Mapping[int, tuple[Deadline, ...]] = field(default_factory=dict)
    """Deadlines of the rows that have several, or one with a value; the earliest first."""
    after: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Rows a job may start after."""
    parts: Mapping[int, tuple[JobPart, ...]] = field(default_factory=dict)
    """Rows whose tasks differ; most jobs have none."""

    @classmethod
    def build(
        cls,
        ids: Sequence[str],
        *,
        submit_s: Any,
        gpus: Any,
        tenant_names: Sequence[str] = ("default",),
        group_names: Sequence[str] = (),
        workload_names: Sequence[str] = (),
        node_set_names: Sequence[str] = (),
        type_names: Sequence[str] = (),
        deadlines: Mapping[int, tuple[Deadline, ...]] | None = None,
        after: Mapping[int, tuple[int, ...]] | None = None,
        parts: Mapping[int, tuple[JobPart, ...]] | None = None,
        **columns: Any,
    ) -> JobTable:
        """A table from the columns that are known; scalars are spread, the rest gets defaults."""
        given: dict[str, Any] = {"submit_s": submit_s, "gpus": gpus, **columns}
        unknown = set(given) - set(JOB_COLUMNS)
        if unknown:
            raise TypeError(f"JobTable has no column {sorted(unknown)[0]!r}")
        filled: dict[str, Any] = filled_columns(len(ids), given)
        return cls(
            ids=ids,
            tenant_names=tenant_names,
            group_names=group_names,
            workload_names=workload_names,
            node_set_names=node_set_names,
            type_names=type_names,
            deadlines=deadlines or {},
            after=after or {},
            parts=parts or {},
            **filled,
        )

    def __len__(self) -> int:
        return len(self.submit_s)

    def take(self, rows: Ints) -> JobTable:
        """The table of `rows` in that order; dependencies on jobs left out are dropped."""
        where = _new_rows(rows) if self.after or self.parts or self.deadlines else {}
        columns: dict[str, Any] = {name: read_only(getattr(self, name)[rows]) for name in JOB_COLUMNS}
        return replace(
            self,
            ids=[self.ids[row] for row in rows.tolist()],
            after={
                where[row]: tuple(where[before] for before in befores if before in where)
                for row, befores in self.after.items()
                if row in where
            },
            parts={where[row]: parts for row, parts in self.parts.items() if row in where},
            deadlines={where[row]: moments for row, moments in self.deadlines.items() if row in where},
            **columns,
        )

    def name_of(self, column: str, row: int) -> str:
        """Name behind the code in `tenant`, `group`, `workload` or `node_set` at `row`; empty if none."""
        code = int(getattr(self, column)[row])
        names: Sequence[str] = getattr(self, f"{column}_names")
        return names[code] if 0 <= code < len(names) else ""

    def types_in(self, mask: int) -> set[str]:
        """Names of the GPU types whose bits are set in `mask`, as in `gpu_types`; empty if any will do."""
        return {name for bit, name in enumerate(self.type_names) if mask >> bit & 1}

    def job(self, row: int) -> PlainJob:
        """Row `row` as an object, for messages and displays."""
        values = {name: getattr(self, name)[row].item() for name in JOB_COLUMNS}
        for column in CODED:
            values[column] = self.name_of(column, row)
        return PlainJob(id=self.ids[row], row=row, deadlines=self.deadlines.get(row, ()), **values)


def _new_rows(rows: Ints) -> dict[int, int]:
    """Old row -> new row of a selection."""
    return {old: new for new, old in enumerate(rows.tolist())}


JOB_COLUMNS: tuple[str, ...] = tuple(column.name for column in EVEN)
"""Names of the columns of a `JobTable` that have one value in every row, in their order."""


def filled_columns(n: int, given: Mapping[str, Any]) -> dict[str, Array]:
    """All columns of `n` jobs from those that are known: scalars are spread, the rest gets defaults."""
    filled: dict[str, Array] = {}
    for column in EVEN:
        default = filled[column.default] if isinstance(column.default, str) else column.default
        value = np.asarray(given.get(column.name, default), dtype=column.dtype)
        filled[column.name] = read_only(np.array(np.broadcast_to(value, (n,))))
    return filled


@dataclass(frozen=True)
class PlainJob:
    """One row of a `JobTable`, with names in place of codes."""

    id: str
    row: int
    submit_s: float
    gpus: int
    gpus_min: int
    gpus_max: int
    counts: int
    gpus_step: int
    gpu_share: float
    gpu_memory_gib: float
    gpu_persistent_gib: float
    gpu_types: int
    cpus: float
    memory_gib: float
    gang: bool
    kind: int
    priority: int
    weight: float
    deadline_s: float
    limit_s: float
    batch_size: float
    batch_min: float
    batch_max: float
    tenant: str
    group: str
    group_rule: int
    workload: str
    node_set: str = ""
    deadlines: tuple[Deadline, ...] = ()


@dataclass(frozen=True)
class Truth:
    """The facts about each job that only a simulated world knows.

    `failures` maps a row to the run times (seconds of running) of the attempts that fail before the one that
    ends as `outcome` says; a job without an entry has one attempt.  `signatures` says the cause of each of
    these failures (`rota.model.failures`), and after them that of the last attempt if it failed too; empty
    where unknown.
    """

    duration_s: Floats
    """Seconds of uninterrupted running at the requested allocation."""
    iterations: Floats
    """Total iterations, for jobs whose speed comes from a table; NaN if unknown."""
    outcome: Array
    """`Outcome` of the last attempt."""
    held_s: Floats
    """Seconds from submission in which no scheduler could have started it: it waited for other jobs, for the
    moment its user had named, or was held.  NaN where that is not recorded."""
    failures: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    signatures: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        duration_s: Any,
        *,
        iterations: Any = np.nan,
        outcome: Any = Outcome.COMPLETED,
        held_s: Any = np.nan,
        failures: Mapping[int, tuple[float, ...]] | None = None,
        signatures: Mapping[int, tuple[str, ...]] | None = None,
    ) -> Truth:
        duration = read_only(np.array(duration_s, dtype=np.float64))
        n = len(duration)
        return cls(
            duration_s=duration,
            iterations=read_only(np.array(np.broadcast_to(np.asarray(iterations, np.float64), (n,)))),
            outcome=read_only(np.array(np.broadcast_to(np.asarray(outcome, np.int8), (n,)))),
            held_s=read_only(np.array(np.broadcast_to(np.asarray(held_s, np.float64), (n,)))),
            failures=failures or {},
            signatures=signatures or {},
        )

    def take(self, rows: Ints) -> Truth:
        where = _new_rows(rows) if self.failures or self.signatures else {}
        return Truth(
            duration_s=read_only(self.duration_s[rows]),
            iterations=read_only(self.iterations[rows]),
            outcome=read_only(self.outcome[rows]),
            held_s=read_only(self.held_s[rows]),
            failures={where[row]: runs for row, runs in self.failures.items() if row in where},
            signatures={where[row]: names for row, names in self.signatures.items() if row in where},
        )

    def signature(self, row: int, attempt: int) -> str:
        """The cause of failure of the failing attempt of `row`, counted from 0; empty if unknown."""
        names = self.signatures.get(row, ())
        return names[attempt] if attempt < len(names) else ""

    def run_s(self) -> Floats:
        """Seconds of running each job asks for in all: its failing attempts and the last one."""
        total = self.duration_s.copy()
        for row, runs in self.failures.items():
            total[row] += sum(runs)
        return total


@dataclass(frozen=True)
class RecordedRun:
    """The real run as a trace recorded it; NaN where it did not."""

    start_s: Floats
    end_s: Floats
    nodes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of the nodes it ran on, by row."""
    types: Mapping[int, str] = field(default_factory=dict)
    """Type of the GPUs it got, by row, if all were of one."""
    arrays: Mapping[int, str] = field(default_factory=dict)
    """The array it is a task of, by row."""
    exits: Mapping[int, str] = field(default_factory=dict)
    """How its last attempt ended, by row, if it failed: `exit 1`, `signal 9`."""
    qos: Mapping[int, str] = field(default_factory=dict)
    """Quality of service under which it was submitted, by row."""
    interruptions: Mapping[int, tuple[Interruption, ...]] = field(default_factory=dict)
    """The attempts that the site ended though they did not fail, by row."""

    def take(self, rows: Ints) -> RecordedRun:
        by_row = (self.nodes, self.types, self.arrays, self.exits, self.qos, self.interruptions)
        where = _new_rows(rows) if any(by_row) else {}
        nodes = {where[row]: names for row, names in self.nodes.items() if row in where}
        types, arrays, exits, qos = (
            {where[row]: name for row, name in named.items() if row in where}
            for named in (self.types, self.arrays, self.exits, self.qos)
        )
        cut_short = {where[row]: several for row, several in self.interruptions.items() if row in where}
        moments = read_only(self.start_s[rows]), read_only(self.end_s[rows])
        return RecordedRun(*moments, nodes, types, arrays, exits, qos, cut_short)

    def interrupted_s(self, why: str | None = None) -> Floats:
        """Seconds that each job ran in attempts that were interrupted, for the reason `why` if given."""
        total = np.zeros(len(self.start_s))
        for row, several in self.interruptions.items():
            total[row] = sum(one.run_s for one in several if why in (None, one.why))
        return total
