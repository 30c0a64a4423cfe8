"""Slurm's lists of nodes."""

from __future__ import annotations

import contextlib
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.traces.node_list import nodes_in

# list  names
LISTS = [
    ("", []),
    ("None assigned", []),
    ("(null)", []),
    ("n1", ["n1"]),
    ("n1,n2", ["n1", "n2"]),
    ("gpu[01-04,07]-ib,login1", ["gpu01-ib", "gpu02-ib", "gpu03-ib", "gpu04-ib", "gpu07-ib", "login1"]),
    ("old[1-2]", ["old1", "old2"]),
    ("n[8-11]", ["n8", "n9", "n10", "n11"]),
    ("n[098-101]", ["n098", "n099", "n100", "n101"]),
    ("r[1-2]n[0-1]", ["r1n0", "r1n1", "r2n0", "r2n1"]),
    ("a-b.c_d[3]", ["a-b.c_d3"]),
]


@pytest.mark.parametrize(("text", "names"), LISTS)
def test_names(text: str, names: list[str]) -> None:
    assert list(nodes_in(text)) == names


# list  what is said
BAD = [
    ("n[1-2", "has brackets that do not match"),
    ("n1-2]", "has brackets that do not match"),
    ("n[[1]]", "has brackets that do not match"),
    ("n1,,n2", "has an empty name"),
    ("n[]", "has '' in brackets, which is no range"),
    ("n[1-x]", "has '1-x' in brackets, which is no range"),
    ("n[4-2]", "has the range '4-2', which does not rise"),
    ("n[1-9999999]", "has the range '1-9999999', which is too long"),
    ("a[0-999]b[0-999]", "lists more than 100,000 nodes"),
]


@pytest.mark.parametrize(("text", "says"), BAD)
def test_what_is_no_list(text: str, says: str) -> None:
    with pytest.raises(ValueError, match="^" + says.replace("[", r"\[")):
        nodes_in(text)


stems = st.text(string.ascii_lowercase + "-", min_size=1, max_size=5)


@given(
    groups=st.lists(
        st.tuples(stems, st.integers(1, 4), st.lists(st.integers(0, 999), min_size=1, max_size=9), stems),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_folded_unfolds(groups: list[tuple[str, int, list[int], str]]) -> None:
    """Any names, written number by number or as ranges of neighbours, come back in their order."""
    names, texts = [], []
    for stem, width, numbers, tail in groups:
        parts = []
        for number in numbers:
            last = number + number % 3
            first_text = str(number).zfill(width)
            parts.append(first_text if last == number else f"{first_text}-{last}")
            names += [f"{stem}{str(n).zfill(len(first_text))}{tail}" for n in range(number, last + 1)]
        texts.append(f"{stem}[{','.join(parts)}]{tail}")
    if any(text.strip().lower() in ("none", "unknown") for text in texts):
        return
    assert list(nodes_in(",".join(texts))) == names


@given(st.text("n[]-,01 a", max_size=20))
def test_any_text_is_names_or_said_to_be_none(text: str) -> None:
    names: tuple[str, ...] = ()
    with contextlib.suppress(ValueError):
        names = nodes_in(text)
    assert all(names) or not text.strip()
