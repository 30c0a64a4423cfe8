"""What is written reads back as the same trace, and a file is replaced whole or not at all."""

from __future__ import annotations

import gzip
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError
from rota.model.job_columns import CODED, COLUMNS, WORDED, Deadline, JobColumn
from rota.model.jobs import JOB_COLUMNS, JobPart, JobTable, Outcome, RecordedRun, Truth
from rota.model.trace import OddRows, Trace
from rota.traces import formats, read, write
from rota.traces.writing import table_of
from tiers import examples, first

names = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
ids = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Z"), exclude_characters=";"), min_size=1, max_size=6
)
amounts = st.floats(0, 1e12)
moments = st.floats(-1e9, 1e12)


def maybe(values: Any) -> Any:
    """The values, or NaN for one that is not known."""
    return st.just(np.nan) | values


def without_circles(after: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    """Every job waits for earlier rows only."""
    earlier = {row: tuple(before for before in befores if before < row) for row, befores in after.items()}
    return {row: befores for row, befores in earlier.items() if befores}


@st.composite
def tables(draw: st.DrawFn) -> JobTable:
    """Any table of jobs that a trace can hold."""
    id_list = draw(st.lists(ids, min_size=1, max_size=6, unique=True))
    n = len(id_list)

    def column(values: Any) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    gpus = np.array(column(st.integers(0, 64)))
    coded: dict[str, Any] = {}
    for name, none in (("tenant", 0), ("group", -1), ("workload", -1), ("node_set", -1)):
        known = tuple(draw(st.lists(names, min_size=1, max_size=3, unique=True)))
        coded |= {f"{name}_names": known, name: column(st.integers(none, len(known) - 1))}
    types = tuple(
        draw(st.lists(names.filter(lambda n: "|" not in n and n == n.strip()), max_size=3, unique=True))
    )
    rows = st.integers(0, n - 1)
    parts = st.builds(JobPart, st.integers(1, 9), st.integers(0, 8), amounts, amounts, names)
    batch_min = np.array(column(maybe(amounts)))
    several = st.lists(st.tuples(moments, amounts), min_size=1, max_size=3, unique_by=lambda pair: pair[0])
    least, most = np.minimum(gpus, column(st.integers(0, 64))), gpus + column(st.integers(0, 8))
    values: dict[str, Any] = {
        "submit_s": np.sort(column(amounts)),
        "gpus": gpus,
        "gpus_min": least,
        "gpus_max": most,
        "gpu_share": np.where((gpus > 0) & (least == most), column(st.floats(0.01, 1)), 1.0),
        "gpu_types": column(st.integers(0, 2 ** len(types) - 1)),
        "priority": column(st.integers(-(10**6), 10**6)),
        "batch_min": batch_min,
        "batch_max": batch_min + column(amounts),
        "deadlines": draw(
            st.dictionaries(
                rows, several.map(lambda pairs: tuple(Deadline(*p) for p in sorted(pairs))), max_size=2
            )
        ),
        "after": without_circles(
            draw(st.dictionaries(rows, st.lists(rows, min_size=1, max_size=2).map(tuple), max_size=2))
        ),
        "parts": draw(st.dictionaries(rows, st.lists(parts, min_size=1, max_size=2).map(tuple), max_size=2)),
        **coded,
    }
    plain = {one.name: column(of_column(one)) for one in COLUMNS if one.name not in values}
    return JobTable.build(id_list, type_names=types, **values, **plain)


def of_column(column: JobColumn) -> Any:
    """Any value of a column that stands for itself, whichever columns there are."""
    if column.words:
        return st.sampled_from(list(column.words))
    if column.dtype == "bool":
        return st.booleans()
    if column.dtype == "int64":
        return st.integers(int(column.least), 64)
    values = moments if column.least < 0 else amounts
    return maybe(values) if column.is_maybe else values


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Any trace: with or without observations, failures, oddities and facts."""
    jobs = draw(tables())
    n = len(jobs)

    def column(values: Any) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    runs = st.lists(amounts, min_size=1, max_size=3).map(tuple)
    signatures = st.lists(st.sampled_from(["GPU ECC error", "no signature"]), min_size=1, max_size=3).map(
        tuple
    )
    truth = Truth.build(
        column(maybe(amounts)),
        iterations=column(maybe(amounts)),
        outcome=column(st.sampled_from(list(Outcome))),
        held_s=column(maybe(amounts)),
        failures=draw(st.dictionaries(st.integers(0, n - 1), runs, max_size=2)),
        signatures=draw(st.dictionaries(st.integers(0, n - 1), signatures, max_size=2)),
    )
    seen = RecordedRun(np.array(column(maybe(moments))), np.array(column(maybe(moments))))
    odd = st.builds(OddRows, names, names, st.integers(1, 99), st.lists(names, max_size=2).map(tuple))
    facts = st.dictionaries(
        names, names | st.integers(-9, 9) | st.dictionaries(names, amounts, max_size=2), max_size=2
    )
    return Trace(
        jobs=jobs,
        truth=truth,
        source="made up",
        format="plain",
        observed=seen if draw(st.booleans()) else None,
        odd=tuple(draw(st.lists(odd, max_size=2))),
        facts=draw(facts),
    )


def assert_equal(one: Any, other: Any) -> None:
    """Equality of two records field by field, NaN being equal to NaN."""
    assert type(one) is type(other)
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=field.name)
            assert a.dtype == b.dtype, field.name
        elif isinstance(a, JobTable | Truth | RecordedRun):
            assert_equal(a, b)
        elif field.name == "ids":
            assert list(a) == list(b)
        elif field.name != "source":
            assert a == b, field.name


@pytest.mark.slow
@pytest.mark.parametrize("suffix", first(2, [".csv", ".parquet.gz", ".parquet", ".csv.gz"]))
@given(trace=traces())
@examples(40)
def test_what_is_written_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, trace: Trace
) -> None:
    file = tmp_path_factory.mktemp("trace") / f"t{suffix}"
    write(trace, file)
    assert_equal(read(file), trace)


@pytest.mark.parametrize("format", formats(), ids=lambda format: format.name)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_every_format_survives_and_its_origin_is_kept(
    tmp_path: Path, read_text: Any, format: Any, suffix: str
) -> None:
    trace = read_text(format.example)
    write(trace, tmp_path / f"t{suffix}")
    again = read(tmp_path / f"t{suffix}")
    origin = {} if format.name == "plain" else {"origin": f"{format.name} {trace.source}"}
    assert_equal(again, replace(trace, format="plain", facts={**trace.facts, **origin}))
    assert again.source == str(tmp_path / f"t{suffix}")


def small() -> Trace:
    jobs = JobTable.build(["a", "b"], submit_s=[0.0, 1.5], gpus=[1, 8])
    return Trace(jobs=jobs, truth=Truth.build([60.0, np.nan]), source="s", format="plain")


def test_a_csv_shows_what_is_known_and_no_more(tmp_path: Path) -> None:
    write(small(), tmp_path / "t.csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert lines == ["job_id,submit_s,gpus,duration_s", "a,0.0,1,60.0", "b,1.5,8,"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t.csv", "t.csv.rota.json"]


def test_others_read_a_csv_as_it_is(tmp_path: Path) -> None:
    write(replace(small(), facts={"seed": 7}), tmp_path / "t.csv")
    assert pl.read_csv(tmp_path / "t.csv")["gpus"].to_list() == [1, 8]


# what happens to the two files, and what is read then
@pytest.mark.parametrize(
    ("change", "facts", "odd"),
    [
        (lambda file: None, {"seed": 7}, []),
        (lambda file: (file.parent / "t.csv.rota.json").unlink(), {}, []),
        (
            lambda file: file.write_text(file.read_text().replace("a,0.0,1", "a,0.0,2")),
            {},
            ["t.csv.rota.json beside it describes other rows"],
        ),
    ],
)
def test_what_stands_beside_belongs_to_these_rows(
    tmp_path: Path, change: Any, facts: dict[str, int], odd: list[str]
) -> None:
    file = tmp_path / "t.csv"
    write(replace(small(), facts={"seed": 7}), file)
    change(file)
    trace = read(file)
    assert trace.facts == facts
    assert [rows.what for rows in trace.odd] == odd


def test_the_first_line_of_older_files_is_still_read(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('#rota {"facts": {"seed": 7}, "odd": []}\nsubmit_s,gpus,duration_s\n0,1,60\n')
    assert read(file).facts == {"seed": 7}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"of": 1', '{"of": "x", "facts": 7', "\udc80"])
def test_a_damaged_file_beside_is_named(tmp_path: Path, text: str) -> None:
    write(small(), tmp_path / "t.csv")
    (tmp_path / "t.csv.rota.json").write_text(text, errors="surrogateescape")
    with pytest.raises(
        InputError, match=r"t\.csv\.rota\.json: is not as Rota writes it; expected what describes"
    ):
        read(tmp_path / "t.csv")


def test_every_column_has_a_place() -> None:
    """A column that differs from its default is written, whichever it is."""
    jobs = JobTable.build(["a"], submit_s=[0.0], gpus=[1])
    for name in JOB_COLUMNS:
        values = np.array(getattr(jobs, name))
        values[:] = False if name == "gang" else 1 if name in (*CODED, *WORDED) else 2
        known = {f"{name}_names": ("x", "y", "z")} if f"{name}_names" in JobTable.__dataclass_fields__ else {}
        changed = replace(jobs, **{name: values}, **known)
        assert name in table_of(replace(small().take(np.array([0])), jobs=changed)).columns


def test_equal_traces_make_equal_files(tmp_path: Path) -> None:
    for name in ("one.csv.gz", "two.csv.gz"):
        write(small(), tmp_path / name)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.csv.gz").read_bytes()).startswith(b"job_id,")


def test_a_csv_stays_as_it_was_if_what_belongs_beside_it_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("what was there\n")
    (tmp_path / "t.csv.rota.json").mkdir()
    with pytest.raises(InputError, match=r"t\.csv\.rota\.json: cannot be written \(Is a directory\)"):
        write(small(), file)
    assert file.read_text() == "what was there\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.csv.rota.json"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("t.json", "'t.json' does not say what to write; expected a name ending in .csv, .parquet"),
        ("t.gz", "'t.gz' does not say what to write"),
        ("t", "'t' does not say what to write"),
        ("/dev/null/t.csv", "/dev/null/t.csv: cannot be written (File exists)"),
    ],
)
def test_says_why_it_cannot_write(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        write(small(), tmp_path / name)
    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("id", ["x;y", "x\ny"])
def test_ids_that_csv_cannot_hold_are_refused(tmp_path: Path, id: str) -> None:
    jobs = JobTable.build([id, "b"], submit_s=[0.0, 1.0], gpus=[1, 1], after={1: (0,)})
    with pytest.raises(InputError, match="job 'x"):
        write(replace(small(), jobs=jobs), tmp_path / "t.csv")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.csv"
    file.write_text("old")

    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
        write(small(), file)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]  # and nothing half-written
    assert file.read_text() == "old"


def test_a_hand_written_parquet_needs_no_metadata(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    pl.DataFrame({"submit_s": [0, 5], "gpus": [1, 2], "duration_s": [9.5, None]}).write_parquet(file)
    trace = read(file)
    assert list(trace.jobs.ids) == ["0", "1"]
    assert np.isnan(trace.truth.duration_s).tolist() == [False, True]
