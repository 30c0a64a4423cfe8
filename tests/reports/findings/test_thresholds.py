"""Thresholds as people type them."""

from __future__ import annotations

import pytest

from rota.errors import InputError
from rota.reports.findings.thresholds import Thresholds


def test_what_is_not_named_stays() -> None:
    assert Thresholds.parse(None) == Thresholds()
    said = Thresholds.parse("idle_utilisation=0.1, array_tasks=8")
    assert (said.idle_utilisation, said.array_tasks, said.idle_gpu_hours) == (0.1, 8.0, 8.0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("idle_utilization=1", "'idle_utilization' is no threshold; expected did you mean idle_utilisation?"),
        ("idle_utilisation", "'idle_utilisation' sets no number; expected such as idle_utilisation=0.05"),
        ("array_tasks=many", "'array_tasks=many' sets no number; expected such as array_tasks=5"),
        ("", "sets no threshold; expected such as idle_utilisation=0.05"),
        (" , ", "sets no threshold; expected such as idle_utilisation=0.05"),
        ("array_tasks=-1", "'array_tasks=-1' sets no number; expected such as array_tasks=5"),
    ],
)
def test_wrong(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match="--threshold: ") as caught:
        Thresholds.parse(text)
    assert sentence in str(caught.value)
