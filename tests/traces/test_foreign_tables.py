"""Tables of pandas, polars and databases, as people have them: each is told what was expected."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rota.errors import InputError
from rota.traces import read

PLAIN = "job_id,submit_s,gpus,duration_s,gpu_type,tenant,deadline_s\nA,0,1,10,,,\n"
ONLY_TABLES = "is JSON, of which only the logs of Philly and PBS are read; expected a CSV or Parquet with the"
SECONDS = "is not a number; expected a number of at least 0: seconds"
RESULT = "is a table that `rota simulate --out` wrote, with the"

TEXTS = {
    "JSON of records": ('[{"JobID": "a", "GPUs": 2}]', ONLY_TABLES),
    "JSON over lines": ('[\n  {"id": "a",\n   "gpus": 2}\n]', ONLY_TABLES),
    "JSON by lines": ('{"JobID":"a","GPUs":2}\n{"JobID":"b","GPUs":1}\n', ONLY_TABLES),
    "a summary": ('{\n "policy": "srtf"}', ONLY_TABLES),
    "seven names joined by tabs": (
        PLAIN.replace(",", "\t"),
        "row 1: the cells are joined by tabs; expected as",
    ),
    "hours": ("submit_s,gpus,Hours\n0,1,2\n", "did you mean 'duration_s', in seconds?"),
    "hours by their unit": ("submit_s,gpus,duration_h\n0,1,2\n", "did you mean 'duration_s', in seconds?"),
    "an unknown name": ("submit_s,gpus,colour\n0,1,2\n", "or deadline_s ('duration_s' missing)"),
    "index without a name": (
        ",submit_s,gpus,duration_s\n0,0,1,9\n",
        "names '', as pandas calls the index of its rows; expected the table without it (index=False)",
    ),
    "index with one": (
        "Unnamed: 0,submit_s,gpus,duration_s\n0,0,1,9\n",
        "names 'Unnamed: 0', as pandas calls",
    ),
    "a date": (
        PLAIN.replace(",0,", ",2026-03-29T04:07:00+01:00,"),
        f"column 'submit_s': '2026-03-29T04:07:00+01:00' {SECONDS} from any origin, such as Unix time",
    ),
    "a date of elsewhere": (PLAIN.replace(",0,", ",29.3.2026 04:07,"), f"{SECONDS} from any origin, such as"),
    "a clock time": (PLAIN.replace(",10,", ",01:30:00,"), f"column 'duration_s': '01:30:00' {SECONDS}"),
    "jobs of a result": (
        "job,job_id,submit_s,gpus,duration_s,waiting_s,service_gpu_s\n0,a,0,1,9,0,9\n",
        f"{RESULT} jobs of a simulation; expected the trace that was replayed",
    ),
    "intervals of a result": (
        "job,job_id,start_s,end_s,gpus,share,role,nodes,devices\n0,a,0,9,1,1.0,alone,0,0\n",
        f"{RESULT} intervals of a simulation; expected the trace that was replayed",
    ),
}


@pytest.mark.parametrize(("text", "says"), TEXTS.values(), ids=TEXTS)
def test_a_table_of_other_origin_is_told_what_was_expected(read_text: Any, text: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        read_text(text)
    assert says in str(caught.value)


JOBS = {"submit_s": [0, 60], "gpus": [1, 2], "duration_s": [9.0, 9.0]}
COLUMNS = {
    "times": ("submit_s", [datetime(2026, 3, 29, tzinfo=UTC)] * 2, f"00:00.000000+00:00' {SECONDS} from any"),
    "spans": ("duration_s", [timedelta(hours=1)] * 2, "it holds values of type duration("),
    "lists": ("gpu_types", [["A100"], ["V100", "A100"]], "column 'gpu_types': it holds values of type list("),
}


@pytest.mark.parametrize(("name", "cells", "says"), COLUMNS.values(), ids=COLUMNS)
def test_a_column_of_parquet_is_numbers_or_texts(tmp_path: Path, name: str, cells: Any, says: str) -> None:
    data = io.BytesIO()
    pl.DataFrame({**JOBS, name: cells}).write_parquet(data)
    (tmp_path / "jobs.parquet").write_bytes(data.getvalue())
    with pytest.raises(InputError) as caught:
        read(tmp_path / "jobs.parquet")
    assert says in str(caught.value)


@pytest.mark.parametrize(("unit", "odd"), [(1, 0), (1_000, 1)], ids=["seconds", "milliseconds"])
def test_moments_in_milliseconds_are_told(read_text: Any, unit: int, odd: int) -> None:
    """They are numbers like others, and would make a year of a day without a word."""
    trace = read_text(f"submit_s,gpus,duration_s\n{1_774_724_580 * unit},1,600\n")
    assert [rows.what for rows in trace.odd] == ["submitted after the year 5000, if by Unix time"] * odd
