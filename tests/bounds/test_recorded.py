"""What a trace recorded, as a record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from play import finishes, starts, trace_of
from rota import bounds
from rota.errors import InputError
from rota.model.cluster import parse_cluster
from rota.model.jobs import Outcome, RecordedRun, Truth
from rota.model.record import INTERVALS_SCHEMA, JOBS_SCHEMA, Record
from rota.model.trace import Trace
from rota.reports.summary import summarise

NAN = np.nan


def history(jobs: str, start_s: list[float], end_s: list[float], **columns: object) -> Trace:
    seen = RecordedRun(np.array(start_s), np.array(end_s))
    return replace(trace_of(jobs, **columns), observed=seen)


def devices(record: Record) -> dict[str, list[int]]:
    return dict(zip(record.intervals["job_id"], record.intervals["devices"].to_list(), strict=True))


def test_replays_starts_and_ends() -> None:
    """Times are the recorded ones, waits and service follow from them."""
    record = bounds.observed(history("A 2x10 B 4x5@1", [3, 13], [13, 18]), parse_cluster("1x4"))
    assert record.observed
    assert record.policy == "observed"
    assert record.jobs.schema == JOBS_SCHEMA
    assert record.intervals.schema == INTERVALS_SCHEMA
    assert starts(record) == {"A": 3, "B": 13}
    assert finishes(record) == {"A": 13, "B": 18}
    assert record.jobs["waiting_s"].to_list() == [3, 12]
    assert record.jobs["service_gpu_s"].to_list() == [20, 20]
    assert record.counts == {"oversubscribed": 0}
    metrics = summarise(record)
    assert (metrics["mean_jct_s"], metrics["mean_delay_s"]) == (15, 7.5)


def test_devices_by_best_fit() -> None:
    """C goes where it leaves the least room; D takes what A gave back at that very moment."""
    trace = history("A 3x10 B 2x20 C 1x20 D 3x5@5", [0, 0, 0, 10], [10, 20, 20, 15])
    record = bounds.observed(trace, parse_cluster("2x4"))
    held = devices(record)
    assert {name: len(ids) for name, ids in held.items()} == {"A": 3, "B": 2, "C": 1, "D": 3}
    assert held["C"] == [3]
    assert set(held["D"]) == {0, 1, 2}
    assert record.intervals.filter(pl.col("job_id") == "B")["nodes"].to_list() == [[1, 1]]


def test_oversubscription_is_counted() -> None:
    """B did run, but this cluster cannot have held it beside A."""
    record = bounds.observed(history("A 3x10 B 2x10", [0, 5], [10, 15]), parse_cluster("1x4"))
    assert record.counts == {"oversubscribed": 1}
    assert devices(record) == {"A": [0, 1, 2], "B": []}
    assert record.jobs["service_gpu_s"].to_list() == [30, 20]


def test_fractions_share_a_device() -> None:
    trace = history("A 1x10 B 1x10 C 1x10", [0, 0, 0], [10, 10, 10], gpu_share=(0.5, 0.5, 0.25))
    held = devices(bounds.observed(trace, parse_cluster("1x2")))
    assert held == {"A": [0], "B": [0], "C": [1]}


def test_types_are_respected() -> None:
    trace = history("A 1x10 B 2x10", [0, 0], [10, 10], gpu_types=2, type_names=("K80", "V100"))
    record = bounds.observed(trace, parse_cluster("1x4:K80,1x2:V100"))
    assert devices(record) == {"A": [4], "B": []}
    assert record.counts == {"oversubscribed": 1}


def test_gaps_in_what_was_recorded() -> None:
    """A never started, B was cancelled while it waited, C still runs, D waits at the end."""
    trace = history("A 1x10 B 1x10 C 1x99 D 1x10@2", [0, NAN, 1, NAN], [10, 4, NAN, NAN])
    outcome = [Outcome.COMPLETED, Outcome.CANCELLED, Outcome.COMPLETED, Outcome.COMPLETED]
    trace = replace(trace, truth=Truth.build((10.0, NAN, NAN, NAN), outcome=outcome))
    record = bounds.observed(trace, parse_cluster("1x4"))
    assert record.jobs["state"].to_list() == ["COMPLETED", "CANCELLED", "RUNNING", "PENDING"]
    assert record.jobs["starts"].to_list() == [1, 0, 1, 0]
    assert record.jobs["run_s"].to_list() == [10, 0, 9, 0], "C until the last thing recorded, at 10"
    assert record.jobs["waiting_s"].to_list() == [0, 4, 1, 8]
    assert record.intervals["end"].to_list() == ["finished", "running"]


def test_pauses_between_attempts_hold_nothing() -> None:
    """A was there for 30 s but ran for 10: its devices are free after 10."""
    record = bounds.observed(history("A 4x10 B 4x10", [0, 10], [30, 20]), parse_cluster("1x4"))
    assert record.counts == {"oversubscribed": 0}
    assert record.jobs["run_s"].to_list() == [10, 10]
    assert finishes(record)["A"] == 30


@pytest.mark.parametrize("observed", [None, RecordedRun(np.array([NAN]), np.array([5.0]))])
def test_nothing_recorded(observed: RecordedRun | None) -> None:
    trace = replace(trace_of("A 1x1"), observed=observed, source="x.csv")
    assert not bounds.has_observed(trace)
    with pytest.raises(InputError, match=r"x\.csv records no starts"):
        bounds.observed(trace, parse_cluster("1x1"))
