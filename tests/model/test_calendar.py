"""Dates of a trace."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rota.model.calendar import epoch_of, moment_of, stamp_of

EPOCH = datetime(2017, 10, 9, 1, 2, 3, tzinfo=UTC)


def test_what_is_written_is_read() -> None:
    assert epoch_of({"epoch": stamp_of(EPOCH), "time_zone": "UTC"}) == EPOCH
    assert epoch_of({}) is None


@pytest.mark.parametrize("epoch", ["yesterday", "", 7, ["2017-10-09 01:02:03"]])
def test_what_is_no_moment(epoch: object) -> None:
    with pytest.raises(ValueError, match=r"epoch|time data"):
        epoch_of({"epoch": epoch})


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(60.0, "2017-10-09 01:03:03"), (1e12, "9999-01-01 00:00:00"), (1e300, "9999-01-01 00:00:00"),
     (-1e12, "0002-01-01 00:00:00"), (-1e300, "0002-01-01 00:00:00")],
)  # fmt: skip
def test_the_calendar_has_ends(seconds: float, told: str) -> None:
    assert moment_of(EPOCH, seconds).isoformat(" ").removesuffix("+00:00") == told
