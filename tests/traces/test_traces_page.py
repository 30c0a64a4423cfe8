"""docs/traces.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rota.model.job_columns import COLUMN
from rota.traces import TraceFormat, formats
from rota.traces.plain.reader import OTHERS

PAGE = (Path(__file__).parents[2] / "docs" / "traces.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("format", formats(), ids=lambda format: format.name)
def test_every_format_has_its_row(format: TraceFormat) -> None:
    recognised = format.recognised.replace("joined by |", r"joined by `\|`")
    assert f"| `{format.name}` | {format.description} | {recognised} |" in PAGE


@pytest.mark.parametrize("format", formats(), ids=lambda format: format.name)
def test_every_format_says_what_its_columns_become(format: TraceFormat) -> None:
    section = PAGE.split("## What each column becomes")[1].split("## Times")[0]
    assert f"| `{format.name}` |" in section


def test_every_column_of_the_plain_format_is_explained() -> None:
    section = PAGE.split("## The plain format")[1]
    assert {*COLUMN, *OTHERS, "duration_s"} <= set(re.findall(r"`(\w+)`", section))


def test_the_plain_example_reads(read_text: Any) -> None:
    (example,) = re.findall(r"```csv\n(.*?)```", PAGE, re.DOTALL)
    assert list(read_text(example).jobs.ids) == ["j1", "j2"]
