"""What a test looks at where: some in `make test`, more in `make soak`, all that there is in `make deep`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

WHOLE = 100
"""Examples of a property that states no number, in `make deep`."""
LEAST = 10
LEFT_OUT = set[str]()
"""Tiers of which this run has nothing (`conftest.py` says which): their rows are not even collected, for each
worker collects all there is, and two thirds of it are for another tier."""
Row = type(pytest.param())


def examples(number: int) -> settings:
    """So many examples in `make deep`, and in `make test` the share of them that its profile has."""
    share = settings().max_examples / WHOLE
    return settings(max_examples=min(number, max(LEAST, round(number * share))))


def first(number: int, values: Iterable[Any] | Mapping[str, Any], *, deep: Iterable[Any] = ()) -> list[Any]:
    """Values for `parametrize`: the first so many as they are, those behind them in `make soak` only.

    Those of `deep` are for `make deep` alone.  A row of several values is a tuple; a mapping names its rows.
    """
    named = values.items() if isinstance(values, Mapping) else ((None, value) for value in values)
    shown = [
        value if name is None and place < number else _row(value, name, [pytest.mark.soak][place < number :])
        for place, (name, value) in enumerate(named)
    ]
    return _asked_for(shown + [_row(value, None, [pytest.mark.deep]) for value in deep])


def in_turns(number: int, ones: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """All pairs for `parametrize`; in `make test` each of `ones` meets `number` of `others` by turns."""
    pairs = [(place, one, turn, other) for place, one in enumerate(ones) for turn, other in enumerate(others)]
    count = len({turn for _, _, turn, _ in pairs})
    quick = [(one, other) for place, one, turn, other in pairs if (turn - place * number) % count < number]
    more = [(one, other) for place, one, turn, other in pairs if (turn - place * number) % count >= number]
    return first(len(quick), [*quick, *more])


def seed_ranges(quick: int, soaked: int, deep: int, *, at_once: int | None = None) -> list[Any]:
    """Ranges of seeds for `parametrize`: those below `quick` as they are, up to `soaked` in `make soak` too.

    The rest, below `deep`, is for `make deep` alone.  A range has `at_once` seeds at most.
    """
    parts = [(0, quick, ()), (quick, soaked, pytest.mark.soak), (soaked, deep, pytest.mark.deep)]
    rows = [
        pytest.param(range(low, min(low + (at_once or deep), end)), marks=marks)
        for begin, end, marks in parts
        for low in range(begin, end, at_once or deep)
    ]
    return _asked_for(rows)


def each_seed(
    quick: int, soaked: int, deep: int, *, at_once: int = 20
) -> Callable[[Callable[..., None]], Any]:
    """A test that takes a `seed`, with each seed of `seed_ranges`: `at_once` of them are one item.

    Ten thousand items of a millisecond take a minute to collect, in each worker.  A failure names its seed;
    each seed has its own `monkeypatch` and its own empty `tmp_path`.
    """

    def with_each(test: Callable[..., None]) -> Any:
        @wraps(test)
        def one_after_the_other(*, seeds: range, **fixtures: Any) -> None:
            for seed in seeds:
                try:
                    _with_own(test, fixtures, seed)
                except BaseException as error:
                    error.add_note(f"with seed={seed}")
                    raise

        asked = inspect.signature(test)
        named = [name if name != "seed" else "seeds" for name in asked.parameters]
        keyword = inspect.Parameter.KEYWORD_ONLY
        one_after_the_other.__signature__ = asked.replace(  # type: ignore[attr-defined]
            parameters=[inspect.Parameter(name, keyword) for name in named]
        )
        ranges = seed_ranges(quick, soaked, deep, at_once=at_once)
        return pytest.mark.parametrize("seeds", ranges, ids=str)(one_after_the_other)

    return with_each


def _with_own(test: Callable[..., None], fixtures: dict[str, Any], seed: int) -> None:
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = Path(own["tmp_path"]) / str(seed)
        own["tmp_path"].mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if "monkeypatch" in own:
            own["monkeypatch"] = patch
        test(**own, seed=seed)


def _row(value: Any, name: str | None, marks: list[pytest.MarkDecorator]) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), id=name, marks=marks)


def _asked_for(rows: list[Any]) -> list[Any]:
    """Rows of tiers that this run has; all of them if there are no others, which are deselected as one."""
    asked = [
        row for row in rows if not isinstance(row, Row) or LEFT_OUT.isdisjoint(m.name for m in row.marks)
    ]
    return asked or rows
