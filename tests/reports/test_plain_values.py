"""What a report says, as values for JSON and as tables in files."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rota.reports.plain import json_text, plain
from rota.reports.table import as_columns, as_csv, as_markdown


@dataclass(frozen=True)
class Toy:
    name: str
    values: tuple[float, ...]


def test_dataclasses_are_dicts_and_no_number_is_beyond_json() -> None:
    assert plain({1: Toy("a", (1.5, float("nan"), float("inf")))}) == {
        "1": {"name": "a", "values": [1.5, None, None]}
    }
    assert json.loads(json_text([Toy("ä", ())])) == [{"name": "ä", "values": []}]


def test_a_cell_of_csv_is_no_formula_and_unknown_is_empty() -> None:
    rows = [("=cmd", None, 1.5), ("-", "", -2), ("-1+2", "@x", 0)]
    assert as_csv(("a", "b", "c"), rows).splitlines() == ["a,b,c", "'=cmd,,1.5", "-,,-2", "'-1+2,'@x,0"]


def test_markdown_and_columns_of_letters() -> None:
    assert as_markdown(("case", "jobs"), [("x", "12")], numbers=[1]) == (
        "| case | jobs |\n|---|---:|\n| x | 12 |\n"
    )
    assert as_columns([("job", "ran"), ("1234", "5s")]) == "job   ran\n1234  5s\n"
