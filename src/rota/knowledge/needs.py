"""Knowledge of jobs beyond what they ask for, with its source.

All of it is arrays: a column over the rows of the job table, or a `Table` of columns and shared arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from rota.model.columns import Array, Cells, cells, read_only
from rota.model.grants import Grant
from rota.table.state import State


class Knowledge(StrEnum):
    """Kinds of knowledge; a policy lists in `needs` the kinds it reads.  `FORMS` has the form of each."""

    DURATION = "duration"
    SERVICE_HISTORY = "service history"
    THROUGHPUT = "throughput"
    SCALING = "scaling"
    GOODPUT = "goodput"
    CONVERGENCE = "convergence"
    PAIRS = "pairs"
    PLACEMENT = "placement"
    HOSTS = "hosts"
    SERVERS = "servers"
    REGIMES = "regimes"
    SKEW = "skew"
    UTILISATION = "utilisation"


SIZES = frozenset({Knowledge.SCALING, Knowledge.GOODPUT})
"""A policy that reads these may start a job on another number of GPUs than it asks for without a resize."""


FORMS: Mapping[Knowledge, str] = {
    Knowledge.DURATION: "column [job]: seconds of running at the requested allocation",
    Knowledge.SERVICE_HISTORY: "table: shared `gpu_s` [sample], GPU-seconds of past jobs, ascending",
    Knowledge.THROUGHPUT: "column [job, GPU type]: iterations per second at the GPUs asked for; 0 where it "
    "cannot run",
    Knowledge.SCALING: "table: by row `curve` (class) and `unit` (rate on the curve that counts as 1); "
    "shared `rates` [class, GPUs], work per second",
    Knowledge.GOODPUT: "table: by row `class`; shared `fits` [class, GPU type, 7] (seconds of a step), "
    "`limits` [class, 5] (batch sizes), `noise` [class, phase, 3] (progress at its end, squared norm, "
    "variance), of pipelines `stages` [class, GPU type] (GPUs of a replica, whose fits they are); "
    "`rota.knowledge.goodput.profiles_of` reads it",
    Knowledge.CONVERGENCE: "table: by row `left_s` (seconds at the requested allocation until the job has "
    "converged), `steps` (left after its present epoch, at least 1), NaN where unknown, and `points` "
    "(losses reported so far, infinite where the source needs none)",
    Knowledge.PAIRS: "table: by row `class`; shared `rates` [class, class beside it, GPU type], iterations "
    "per second on the same GPUs, NaN where not measured, and `alone` [class, GPU type]",
    Knowledge.PLACEMENT: "table: by row `class`; shared `rates` [class, level], rate of a job in more units "
    "of a level than it needs, the widest level first, NaN where unknown; "
    "`rota.knowledge.placement.Closeness` reads it",
    Knowledge.HOSTS: "table: by row `class`; shared `cpus` and `gib` [class, share] for each GPU, `speeds` "
    "[class, cpus, gib] relative to the share in proportion, `disk` of that shape (MB/s) and `wants` "
    "[class, 2], NaN where unknown; `rota.knowledge.hosts.speeds_of` reads it",
    Knowledge.SERVERS: "table: by row `class`, -1 for a job without parameter servers; shared `t` "
    "[class, 5], `batch` and `asynchronous` [class] (seconds of a step), `units` [class, 4] (CPUs and GiB "
    "of a server, and of a worker); `rota.knowledge.servers.served_of` reads it",
    Knowledge.REGIMES: "table: by row `class`, `epochs` (in all), `per_epoch` (work of one at the present "
    "batch size), `mode` (that size, as a place in `modes`) and `seen` [job, mode] (epochs in each so far); "
    "shared `modes` [class, mode] (batch sizes), `seconds` [class, mode] (of an epoch), `until` and `regime` "
    "[class, regime] (the schedule: after which epoch each regime ends, and its mode); "
    "`rota.knowledge.regimes.Regimes` reads it",
    Knowledge.SKEW: "column [job]: the largest tensor of its model over all of them, 0 to 1",
    Knowledge.UTILISATION: "column [job]: part of its GPUs that it keeps busy, alone on them, 0 to 1",
}
"""What `Snapshot.know` returns for each kind; rows are those of the job table."""


class Provenance(StrEnum):
    """Where knowledge comes from."""

    ORACLE = "oracle"  # the simulator's truth
    USER = "user"
    MEASURED = "measured"
    PREDICTED = "predicted"
    ASSUMED = "assumed"  # a default where no source knows better
    NOISY = "noisy"  # the truth times a random factor


@dataclass(frozen=True)
class Table:
    """Knowledge of jobs as columns by row, with arrays that rows point at or share."""

    by_row: Mapping[str, Array] = field(default_factory=dict)
    """Columns whose first axis is that of the rows of the job table."""
    shared: Mapping[str, Array] = field(default_factory=dict)
    """Read-only arrays over anything else: classes of jobs, numbers of GPUs, a sample.

    A changed array is a new object, so that a cache built on it can compare identities.
    """

    def __post_init__(self) -> None:
        for array in self.shared.values():
            array.flags.writeable = False

    def upto(self, rows: int) -> Table:
        """This table for the first `rows` jobs, read-only."""
        return Table({name: read_only(column[:rows]) for name, column in self.by_row.items()}, self.shared)


@dataclass(frozen=True)
class Known:
    """Knowledge handed to a policy: plain data, never a callback."""

    values: Array | Table
    """A column over the rows of the job table, or a table; the kind says which, and what it holds."""
    provenance: Provenance

    def __post_init__(self) -> None:
        if not isinstance(self.values, Table):
            object.__setattr__(self, "values", read_only(self.values))

    @cached_property
    def cells(self) -> Cells[float]:
        """The values of a column one by one."""
        if isinstance(self.values, Table):
            raise TypeError("a table has no cells")
        return cells(self.values)

    def upto(self, rows: int) -> Any:
        """What is known of the first `rows` jobs, read-only."""
        values = self.values
        return values.upto(rows) if isinstance(values, Table) else values[:rows]


class Observation(NamedTuple):
    """Measurements of a running job between two moments; NaN where unknown."""

    row: int
    grant: Grant
    since_s: float
    until_s: float
    work: float = math.nan
    """Work done in between, in the unit of its world."""
    step_s: float = math.nan
    """Seconds of a step."""
    batch_size: float = math.nan
    noise: float = math.nan
    """Scale of the noise of its gradient, in samples."""
    loss: float = math.nan
    busy: float = math.nan
    """Part of its devices that was in use."""
    device_gib: float = math.nan
    """Memory in use on each device."""
    watts: float = math.nan
    """Power drawn by all its devices."""
    passes: float = math.nan
    """Passes whose gradients were accumulated before the one that ended in the step; NaN counts as none."""
    gradient_s: float = math.nan
    """Seconds of one pass, forward and backward, without waiting for other GPUs."""
    local_most: float = math.nan
    """Most samples that fit on one GPU in one pass, as the program reports."""
    total: float = math.nan
    """All of its work, as the program reports: in the unit of `work`, or in steps without that."""


class Provider(Protocol):
    """Supplies one kind of knowledge; may learn as jobs run and end.  `Provides` is one that does not."""

    kind: Knowledge
    provenance: Provenance
    learns: bool
    """True if it receives submissions and endings, and is asked again before each decision."""
    listens: bool
    """True if it also receives observations of running jobs."""

    def attach(self, state: State) -> None:
        """A run begins on `state`."""
        ...

    def known(self) -> Array | Table:
        """The present knowledge: columns are as long as the job table, valid for submitted rows."""
        ...

    def submitted(self, row: int) -> None:
        """`row` was submitted."""
        ...

    def ended(self, row: int, ran_s: float) -> None:
        """`row` completed after running `ran_s` seconds in all."""
        ...

    def observed(self, seen: Sequence[Observation]) -> None:
        """Receive the observations of running jobs since the last decision."""
        ...
