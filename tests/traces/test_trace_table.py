"""Cells as checked numbers, and errors that name row and column."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from rota.errors import InputError
from rota.traces.source import TraceSource
from rota.traces.table import TextTable, encode, read_table


def table(text: str, **options: object) -> TextTable:
    return read_table(TraceSource("t.csv", text.encode()), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("quote", ["", '"'], ids=["plain", "quoted"])
def test_rows_are_lines_of_the_file(quote: str) -> None:
    """Blank lines are passed over and still counted, whether or not the file has quotes."""
    cells = table(f"\na,b\n{quote}1{quote},2\n\n\n3,4\n\n")
    assert cells.row.tolist() == [3, 6]
    assert cells.floats("a").tolist() == [1.0, 3.0]


def test_a_quoted_cell_may_hold_separators_quotes_and_line_ends() -> None:
    cells = table('a,b\n"x, ""y""\nz",1\nw,2\n')
    assert cells.text("a").to_list() == ['x, "y"\nz', "w"]
    assert cells.row.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("cell", "value"),
    [("8", 8.0), (" 8 ", 8.0), ("8.0", 8.0), ("1e3", 1000.0), (".5", 0.5), ("-0", 0.0)],
)
def test_numbers(cell: str, value: float) -> None:
    assert table(f"a,b\n{cell},x\n").floats("a").tolist() == [value]


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("eight", "t.csv, row 3, column 'a': 'eight' is not a number; expected a number of at least 0"),
        ("1,5", "t.csv, row 3: the line has 3 fields; expected 2, as many as the header"),
        ("-1", "t.csv, row 3, column 'a': '-1' is less than 0; expected a number of at least 0"),
        ("", "t.csv, row 3, column 'a': the cell is empty; expected a number of at least 0"),
        ("inf", "t.csv, row 3, column 'a': 'inf' is not a number; expected a number of at least 0"),
        ("0.5", "t.csv, row 3, column 'a': '0.5' is not a whole number; expected a whole number"),
    ],
)
@pytest.mark.parametrize("quote", ["", '"'], ids=["plain", "quoted"])
def test_bad_numbers_are_named(cell: str, says: str, quote: str) -> None:
    with pytest.raises(InputError) as caught:
        table(f"a,b\n1,{quote}x{quote}\n{cell},y\n").whole("a")
    assert str(caught.value) == says


@pytest.mark.parametrize("word", ["", "None", "nan", "NA", "Unknown"])
def test_words_for_nothing_become_the_blank(word: str) -> None:
    assert table(f"a,b\n{word},x\n").floats("a", blank=7.0).tolist() == [7.0]
    assert np.isnan(table(f"a,b\n{word},x\n").stamps("a", blank=True)).all()


def test_stamps_are_seconds_whatever_joins_date_and_time() -> None:
    stamps = table("a,b\n2017-10-01 08:00:00,x\n2017-10-01T08:00:01,y\n").stamps("a")
    assert np.diff(stamps).tolist() == [1.0]


@pytest.mark.parametrize("cell", ["2017-13-01 08:00:00", "yesterday", "", "2017-10-01"])
def test_bad_stamps_are_named(cell: str) -> None:
    with pytest.raises(InputError, match=r"row 2, column 'a': .* expected YYYY-MM-DD HH:MM:SS"):
        table(f"a,b\n{cell},x\n").stamps("a")


def test_words_outside_a_list_are_named() -> None:
    cells = table("a,b\nPass,1\nOdd,2\n")
    with pytest.raises(
        InputError, match="row 3, column 'a': 'Odd' is not known here; expected one of Pass, Fail"
    ):
        cells.one_of("a", {"Pass": 0, "Fail": 1})


def test_a_missing_column_is_named_with_those_that_are_there() -> None:
    with pytest.raises(InputError, match=r"^t.csv: the header has no column 'c'; expected"):
        table("a,b\n1,2\n").require("a", "c")


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match=r"t\.csv, row 1: two columns are called 'a'"):
        table("a,b,a\n1,2,3\n")


@pytest.mark.parametrize("text", ["a,b\n", 'a,"b"\n'])
def test_a_header_alone_is_no_trace(text: str) -> None:
    with pytest.raises(InputError, match="there is no job in it"):
        table(text)


@pytest.mark.parametrize("tail", ["3,4\n", "3,4\n" * 50000], ids=["short", "long"])
def test_a_quote_left_open_is_named(tail: str) -> None:
    """It swallows all that follows; the row named is the one in which it opens."""
    with pytest.raises(InputError, match=r"t\.csv, row 2"):
        table('a,b\n"1,2\n' + tail)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('a,b\n1,"x\n2,y\n3,z\n', 'row 2: a quote is not closed; expected a second "'),
        (
            'a,b\n0,w\n1,"x\n2,y\n3,"z\n',
            "row 3: a quote is closed before the cell ends; expected ',' behind it",
        ),
        ('a,b\n1,"x"y\n', "row 2: a quote is closed before the cell ends"),
    ],
    ids=["to the end", "up to another", "in the cell"],
)
def test_a_quote_never_swallows_rows(text: str, says: str) -> None:
    """In the last column the line that it makes of all that follows has as many cells as any."""
    with pytest.raises(InputError) as caught:
        table(text)
    assert says in str(caught.value)


def test_a_quote_inside_a_cell_is_part_of_it() -> None:
    assert table('a,b\n1,5" disk\n').text("b").to_list() == ['5" disk']


def test_names_are_without_the_blanks_around_them() -> None:
    codes, names = table("a, b\n1, vgg16\n2,vgg16 \n3, \n").codes("b")
    assert (codes.tolist(), names) == ([0, 0, -1], ("vgg16",))


def test_a_word_for_nothing_where_a_number_has_to_be_is_shown() -> None:
    with pytest.raises(InputError, match="row 2, column 'a': 'nan' is no number; expected a number"):
        table("a,b\nnan,1\n").floats("a")


def test_of_a_long_cell_the_message_shows_the_beginning() -> None:
    with pytest.raises(InputError, match=r"column 'a': 'xxx.*x\.\.\. is not a number") as caught:
        table("a,b\n" + "x" * 5000 + ",1\n").floats("a")
    assert len(str(caught.value)) < 250


def test_codes_follow_first_appearance_after_the_known_names() -> None:
    codes, names = encode(pl.Series(["b", "", "a", "b"]), known=["a"])
    assert (codes.tolist(), names) == ([1, -1, 0, 1], ("a", "b"))
