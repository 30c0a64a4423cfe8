"""What is typed for a job is what the store keeps, the table holds, a policy sees, and a trace of it says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from site_play import AllMayRun
from store_place import SPEC

from rota.client.fields import make_spec, merge, read_fields
from rota.client.saying import asked
from rota.model.job_columns import COLUMN, SUBMITTED, Deadline, Option, words_of
from rota.model.jobs import JobTable, PlainJob
from rota.model.tenants import Tenants
from rota.scheduler.moments.packing import pack_jobs, unpack_jobs
from rota.scheduler.snapshot import Snapshot
from rota.server.api.forms import Submission
from rota.server.export import history_csv
from rota.server.recovery import asked_job, rebuild
from rota.server.store.past_columns import HistoryWindow
from rota.server.store.rows import JobState, NewJob, Step
from rota.server.store.store import Store
from rota.table.state import Phase
from rota.traces import read
from rota.wire.job import JobSpec
from tiers import examples

SUBMIT_S = 50.0
SIZES = ("gpus", "gpus_min", "gpus_max")
Typed = dict[str, tuple[str, dict[str, Any]]]
"""By option: what is typed, and the values of the columns that it sets."""


def one_of(column: str) -> Any:
    """Any word but that of the default."""
    words = words_of(COLUMN[column].words)  # type: ignore[arg-type]
    return st.sampled_from([(word, {column: member}) for word, member in words.items() if member])


@st.composite
def typed(draw: st.DrawFn, epoch_s: int = 0) -> Typed:
    """Every option, none with its default; moments are typed as Unix time, and count from `epoch_s`."""
    number = st.integers(2, 9)
    low, more, last = draw(number), draw(number), draw(number)
    moments = sorted(draw(st.sets(st.integers(100, 10**6), min_size=2, max_size=3)))
    several = tuple(Deadline(float(at_s), float(draw(number))) for at_s in moments)
    names = st.text("abcxyz/", min_size=1, max_size=5).filter(lambda s: "//" not in s and s.strip("/") == s)
    plain: Typed = {
        "gpus_step": (f"{low}", {"gpus_step": low}),
        "gpu_memory": (f"{low + more}GiB", {"gpu_memory_gib": low + more}),
        "gpu_persistent": (f"{low}GiB", {"gpu_persistent_gib": low}),
        "gpu_type": ("A100,H100", {"gpu_types": ("A100", "H100")}),
        "node": ("n1, !n2", {"node_set": "n1|!n2"}),
        "cpus": (f"{more}.5", {"cpus": more + 0.5}),
        "mem": (f"{last}GiB", {"memory_gib": last}),
        "priority": (f"-{more}", {"priority": -more}),
        "weight": (f"{last}.5", {"weight": last + 0.5}),
        "deadline": (f"{epoch_s + moments[-1]}", {"deadline_s": moments[-1]}),
        "deadlines": (
            ",".join(f"{epoch_s + at_s:.0f}={value:g}" for at_s, value in several), {"deadlines": several},
        ),
        "time": (f"{more}m", {"limit_s": more * 60}),
        "batch_size": (f"{low + 1}", {"batch_size": low + 1}),
        "batch_range": (f"{low}:{low + more}", {"batch_min": low, "batch_max": low + more}),
        **{name: (text, {name: text}) for name in ("tenant", "group", "workload") if (text := draw(names))},
        **{name: draw(one_of(name)) for name in ("counts", "kind", "group_rule")},
    }  # fmt: skip
    sizes: Typed = {
        "gpus": (f"{low + 1}", {"gpus": low + 1}),
        "gpus_range": (f"{low}:{low + more}", {"gpus_min": low, "gpus_max": low + more}),
    }
    part: Typed = {"share": ("0.5", {"gpu_share": 0.5})}
    return plain | (sizes if draw(st.booleans()) else part)


def spec_of(said: Typed) -> JobSpec:
    """The specification as the API takes it in."""
    fields = [read_fields(name, text, name) for name, (text, _) in said.items()]
    spec = make_spec({"command": ["x"], **merge(*sorted(fields, key=lambda one: "gpus_min" in one))})
    sent = Submission(spec=spec).model_dump_json(exclude_unset=True)
    return Submission.model_validate_json(sent).spec


def flat(values: Mapping[str, Any], types: Iterable[str], since_s: float = 0.0) -> dict[str, Any]:
    """The columns of a request as single values that can be compared, moments from `since_s` on."""
    several = values["deadlines"]
    return (
        {name: value for name, value in values.items() if name != "deadlines"}
        | {"gpu_types": "|".join(sorted(types)), "deadline_s": values["deadline_s"] - since_s}
        | {f"deadline {i}": one.at_s - since_s for i, one in enumerate(several)}
        | {f"value {i}": one.value for i, one in enumerate(several)}
    )


def of_job(job: PlainJob, types: Iterable[str], since_s: float = 0.0) -> dict[str, Any]:
    return flat({column.name: getattr(job, column.name) for column in SUBMITTED}, types, since_s)


def of_table(table: JobTable, since_s: float = 0.0) -> dict[str, Any]:
    return of_job(table.job(0), table.types_in(table.gpu_types.item(0)), since_s)


@examples(8)
@given(st.data())
def test_what_is_typed_travels_whole(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as home, closing(Store.open(None, Path(home))) as store:
        said = data.draw(typed(int(store.epoch_s)))
        options = {column.option.name for column in SUBMITTED if column.option}
        assert options - {"share", "gpus", "gpus_range"} == said.keys() - {"share", "gpus", "gpus_range"}
        values = {column.name: column.default for column in SUBMITTED} | dict.fromkeys(SIZES, 1)
        for _, columns in said.values():
            values |= columns
        given = flat(values, values["gpu_types"], store.epoch_s - int(store.epoch_s))
        expected = pytest.approx(given, abs=2e-3)
        spec = spec_of(said)
        (row,) = store.add_jobs("ann", "own", [NewJob(spec)], SUBMIT_S)
        assert of_job(asked_job(row, spec), row.asked.gpu_types) == expected, "asked"

        store.commit(Step(jobs={0: JobState(phase=int(Phase.PENDING))}))
        built = rebuild(store.load(), Tenants.none(), AllMayRun(), SUBMIT_S)
        assert of_table(built.table.jobs) == expected, "stored"
        assert of_table(unpack_jobs(pack_jobs(built.table.jobs, 1))) == expected, "frozen"
        assert of_table(Snapshot(built.state).jobs.table) == expected, "seen"

        ended = replace(row, now=JobState(state="COMPLETED", finish_s=SUBMIT_S + 9, run_s=9.0))
        file = Path(home, "history.csv")
        file.write_text(history_csv(HistoryWindow([ended], [], {0: spec}), store.epoch_s, SUBMIT_S + 9))
        assert of_table(read(file).jobs, -SUBMIT_S) == expected, "in a trace of the past"


@pytest.mark.parametrize(
    "column", [c for c in SUBMITTED if c.name != "tenant"], ids=lambda column: column.name
)
def test_rota_show_says_it(column: Any) -> None:
    """A job that asks for it is shown otherwise than another (its tenant stands in the first line)."""
    option: Option = column.option
    fields = read_fields(option.name, option.example, option.name)
    if option.name in ("counts", "gpus_step"):
        fields |= {"gpus": 4, "gpus_min": 4, "gpus_max": 16}
        usual = make_spec({"command": ["x"], "gpus": 4, "gpus_min": 4, "gpus_max": 16})
    else:
        usual = make_spec({"command": ["x"]})
    spec = make_spec({"command": ["x"], **fields})
    assert list(asked(spec, str(spec.gpus), str)) != list(asked(usual, str(usual.gpus), str))


def test_only_the_first_deadline_is_needed() -> None:
    """Reports count by `deadline`; without it the first of several is that."""
    from rota.server.store.new_jobs import asked

    spec = make_spec({"command": ["x"], **read_fields("deadlines", "1795341600=5,1795342600=1", "deadlines")})
    wants = asked(spec, "ann", "own", 1795340700.0)
    assert (wants.deadline_s, wants.deadlines) == (900.0, (Deadline(900.0, 5.0), Deadline(1900.0, 1.0)))
    assert asked(SPEC, "ann", "own", 0.0).deadline_s is None
