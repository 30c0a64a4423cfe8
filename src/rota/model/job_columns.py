"""The columns of a job, each declared once: what it is called, what it holds, how people write it.

`rota.model.jobs`, the table that grows, stored moments, the store, the `plain` trace format, the options of
`rota submit`, job files and the tables of docs/jobs.md and docs/traces.md follow from this list.  Where a
type checker has to see an attribute (`JobTable`, `PlainJob`, `JobSpec`, `JobAsked`, `SnapshotJobs`) it is
written down there too, and a test holds it to the list.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Literal, NamedTuple

LEAST_SHARE = 0.001
"""Smallest part of a device that a new live job may ask for; one on record may have less."""


class JobKind(IntEnum):
    """What sort of work a job is."""

    TRAIN = 0
    OPPORTUNISTIC = 1  # runs on what others leave, may be stopped at any time
    SERVICE = 2  # runs until it is stopped


class AllowedCounts(IntEnum):
    """GPU counts between `gpus_min` and `gpus_max` that an elastic job can use."""

    ANY = 0
    POWERS_OF_TWO = 1


class GroupRule(IntEnum):
    """What the end of another job of its group means for a job."""

    ALL = 0  # nothing: each runs to its own end
    FIRST = 1  # once one with the same rule has completed, the others are cancelled


class Deadline(NamedTuple):
    """The value of finishing by a moment, and not by an earlier one that is worth more."""

    at_s: float
    value: float


Form = Literal[
    "text", "whole", "number", "moment", "duration", "memory", "choice",
    "gpus", "gpus range", "batch range", "types", "deadlines", "nodes",
]  # fmt: skip
"""The way in which a value is written; `rota.client.fields` reads each."""

DEVICES, WHEN, NAMES = "Devices and memory", "When", "Names and environment"
"""Panels of `rota submit --help`."""


@dataclass(frozen=True)
class Option:
    """How users give it: `--name` of `rota submit`, `name` in a job file."""

    name: str
    form: Form
    metavar: str
    help: str
    """One line of `rota submit --help`."""
    panel: str
    example: str
    meaning: str
    """The text in docs/jobs.md."""
    default: str
    """The default in words."""


@dataclass(frozen=True)
class JobColumn:
    """One attribute that a job may ask for."""

    name: str
    dtype: str
    """NumPy's name for it; empty for a ragged column, which holds a tuple for the rows that have one."""
    default: Any
    """Value of a job that does not set it; None if every job has to, or the name of the column it follows."""
    meaning: str
    absent: str = ""
    """The meaning of leaving it out, in words."""
    unit: str = ""
    words: type[IntEnum] | None = None
    """The members behind the numbers, if the column holds such."""
    least: float = 0.0
    """Smallest number it may hold."""
    option: Option | None = None
    """How users set it; None if only traces have it."""
    field: str = ""
    """The field of `JobSpec` that holds it, if that has another name."""

    @property
    def spec_field(self) -> str:
        return self.field or self.name

    @property
    def is_maybe(self) -> bool:
        """True if a job may have no value at all: NaN in the table."""
        return isinstance(self.default, float) and math.isnan(self.default)


_GPUS_RANGE = Option(
    "gpus_range", "gpus range", "MIN:MAX", "Run on fewer or more, as the program can.", DEVICES,
    "1:4", "fewest and most, for a program that can run on either", "as `gpus`",
)  # fmt: skip
_BATCH_RANGE = Option(
    "batch_range", "batch range", "MIN:MAX", "Fewest and most samples of a step.", NAMES,
    "128:4096", "fewest and most samples of a step, for a program whose batch may be changed", "as it is",
)  # fmt: skip
_NONE, _ANY_MOMENT = math.nan, -math.inf

COLUMNS: tuple[JobColumn, ...] = (
    JobColumn("submit_s", "float64", None, "moment of submission", unit="s"),
    JobColumn(
        "gpus", "int64", None, "GPUs requested; 0 is a CPU job",
        option=Option(
            "gpus", "gpus", "N", "Devices; 1 if not given, 0 for none.", DEVICES,
            "2", "devices; 0 is a job without any; a file may write a range, `1:4`", "1",
        ),
    ),
    JobColumn(
        "gpus_min", "int64", "gpus", "fewest GPUs an elastic job can use", "`gpus`", option=_GPUS_RANGE,
    ),
    JobColumn(
        "gpus_max", "int64", "gpus", "most GPUs an elastic job can use", "`gpus`", option=_GPUS_RANGE,
    ),
    JobColumn(
        "counts", "int8", 0, "which sizes between the two it can use", "`ANY`", words=AllowedCounts,
        option=Option(
            "counts", "choice", "WHICH", "Sizes in the range: any, or 'powers of two'.", DEVICES,
            "powers of two", "which sizes in the range it can use", "`any`",
        ),
    ),
    JobColumn(
        "gpus_step", "int64", 1, "step between its sizes, from the fewest on", "1", least=1,
        option=Option(
            "gpus_step", "whole", "N", "Sizes in the range: the fewest, and N more each time.", DEVICES,
            "4", "step between its sizes: 4 is 8, 12, 16 of `8:16`", "1",
        ),
    ),
    JobColumn(
        "gpu_share", "float64", 1.0, "share claimed of each GPU", "1",
        option=Option(
            "share", "number", "PART", "Part of each device, such as 0.5.", DEVICES,
            "0.5", "part of each device: `gpus: 4` with `share: 0.5` is half of each of four", "1",
        ),
    ),
    JobColumn(
        "gpu_memory_gib", "float64", 0.0, "device memory needed on each GPU, at most", "0: unknown", "GiB",
        option=Option(
            "gpu_memory", "memory", "SIZE", "Needed on each device: 16GiB.", DEVICES,
            "16GiB", "needed on each device", "unknown",
        ),
    ),
    JobColumn(
        "gpu_persistent_gib", "float64", 0.0, "what of it is kept between two steps", "0: all of it", "GiB",
        option=Option(
            "gpu_persistent", "memory", "SIZE", "What of it is kept between two steps: 2GiB.", DEVICES,
            "2GiB", "what of it is kept between two steps; of jobs that take turns in a device's memory (no "
            "policy here has them do so yet) only one needs the rest",
            "all of it",
        ),
    ),
    JobColumn(
        "gpu_types", "int64", 0, "GPU types that will do: `A100|V100`, in the table a bit mask", "any",
        option=Option(
            "gpu_type", "types", "TYPE,...", "Types that will do: A100,H100.", DEVICES,
            "A100,H100", "types that will do", "any",
        ),
    ),
    JobColumn(
        "cpus", "float64", 0.0, "CPU cores needed in all", "0: unknown",
        option=Option("cpus", "number", "N", "Cores in all.", DEVICES, "8", "cores in all", "none said"),
    ),
    JobColumn(
        "memory_gib", "float64", 0.0, "host memory needed in all", "0: unknown", "GiB",
        option=Option(
            "mem", "memory", "SIZE", "Host memory in all: 8GiB.", DEVICES,
            "64GiB", "host memory in all", "unknown",
        ),
    ),
    JobColumn("gang", "bool", True, "whether all GPUs must be held at once", "`true`"),
    JobColumn(
        "kind", "int8", 0, "what sort of work it is", "`TRAIN`", words=JobKind,
        option=Option(
            "kind", "choice", "KIND", "train (default), opportunistic or service.", NAMES, "opportunistic",
            "`train`; `opportunistic` runs on what others leave; `service` does not end by itself", "`train`",
        ),
    ),
    JobColumn(
        "priority", "int64", 0, "higher wins", "0", least=-(2.0**53),
        option=Option(
            "priority", "whole", "N", "Higher wins; 0 if not given.", WHEN,
            "10", "higher wins, under policies that look at it (`rota systems NAME`)", "0",
        ),
    ),
    JobColumn(
        "weight", "float64", 1.0, "share relative to other jobs, under policies that give shares", "1",
        option=Option(
            "weight", "number", "W", "Its share relative to other jobs; 1 if not given.", WHEN,
            "2", "share relative to other jobs, under policies that give shares", "1",
        ),
    ),
    JobColumn(
        "deadline_s", "float64", _NONE, "moment by which it should have finished", "none", "s",
        least=_ANY_MOMENT,
        option=Option(
            "deadline", "moment", "MOMENT", "To be done by: +2h, 2026-11-22T10:00.", WHEN,
            "+6h", "when it should be done", "the first of `deadlines`, or none",
        ),
    ),
    JobColumn(
        "deadlines", "", (), "moments and what it is worth to have finished by each: `3600=10;7200=4`",
        "none", "s",
        option=Option(
            "deadlines", "deadlines", "MOMENT=VALUE,...", "What it is worth by then: +2h=10,+4h=5.", WHEN,
            "+2h=10,+4h=5", "what it is worth to be done by each moment, the earliest first", "none",
        ),
    ),
    JobColumn(
        "limit_s", "float64", _NONE, "run time that was stated at submission", "none", "s", field="time_s",
        option=Option(
            "time", "duration", "DURATION", "Run time limit: 3h, 1h30m, 1-12:00:00.", WHEN,
            "3h", "run time limit; what `user` knowledge takes for the duration", "none",
        ),
    ),
    JobColumn(
        "batch_size", "float64", _NONE, "samples of a step, over all GPUs", "unknown",
        option=Option(
            "batch_size", "number", "N", "Samples of a step, over all ranks.", NAMES,
            "256", "samples of a step, over all ranks", "unknown",
        ),
    ),
    JobColumn(
        "batch_min", "float64", _NONE, "fewest samples of a step it can use", "as it is", option=_BATCH_RANGE,
    ),
    JobColumn(
        "batch_max", "float64", _NONE, "most samples of a step it can use", "as it is", option=_BATCH_RANGE,
    ),
    JobColumn(
        "tenant", "int32", 0, "path of the tenant, such as `vision/alice`", "`default`",
        option=Option(
            "tenant", "text", "PATH", "Who it counts for: vision/alice.", NAMES,
            "vision/alice", "who it counts for", "the user's own",
        ),
    ),
    JobColumn(
        "group", "int32", -1, "recurring series or app it belongs to", "none",
        option=Option(
            "group", "text", "NAME", "The recurring series it belongs to.", NAMES,
            "nightly", "recurring series or app it belongs to", "user and name",
        ),
    ),
    JobColumn(
        "group_rule", "int8", 0, "`FIRST`: cancelled once another of its group has completed", "`ALL`",
        words=GroupRule,
        option=Option(
            "group_rule", "choice", "all|first", "first: the first of its group to complete ends it.", NAMES,
            "first", "`first`: cancelled once another of its group that says so has completed", "`all`",
        ),
    ),
    JobColumn(
        "workload", "int32", -1, "program it runs, a name that profiles know", "none",
        option=Option(
            "workload", "text", "NAME", "The program, as profiles know it.", NAMES,
            "resnet50", "the program, as profiles know it", "the group",
        ),
    ),
    JobColumn(
        "node_set", "int32", -1,
        "nodes that will do, by their name or label: `gpu|n7`; `!n3` is not to be used", "any",
        option=Option(
            "node", "nodes", "NAMES", "Only on these nodes: n1,n2 or a label; !n3 is none of them.", DEVICES,
            "n1,n2", "only on these nodes, by name or label; `!n3` is none of them", "any",
        ),
    ),
    JobColumn("after", "", (), "jobs it starts after, ids joined by `;`", "none"),
    JobColumn(
        "parts", "", (), "JSON list of `{tasks, gpus, cpus, memory_gib, role}` for uneven jobs", "even",
    ),
)  # fmt: skip
"""All columns, in the order of `JobTable`."""

COLUMN = {column.name: column for column in COLUMNS}
EVEN = tuple(column for column in COLUMNS if column.dtype)
"""The columns with one value in every row."""
CODED = ("tenant", "group", "workload", "node_set")
"""The columns of codes, with a tuple of names beside each."""
SUBMITTED = tuple(column for column in COLUMNS if column.option)
"""Columns that a user may set, and the store keeps."""
STORED_NAMES = tuple(name for name in CODED if COLUMN[name].option)
"""The columns of codes that a user may set."""
WORDED = {column.name: column.words for column in COLUMNS if column.words}


def deadlines_text(deadlines: Iterable[Deadline]) -> str:
    """`3600.0=10.0;7200.0=4.0`, as traces write it."""
    return ";".join(f"{float(at_s)!r}={float(value)!r}" for at_s, value in deadlines)


def word(member: IntEnum) -> str:
    """The member as it is written: `powers of two`."""
    return member.name.lower().replace("_", " ")


def words_of(kind: type[IntEnum]) -> dict[str, IntEnum]:
    """Every member by its written word."""
    return {word(member): member for member in kind}
