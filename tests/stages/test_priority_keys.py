"""Keys of a `@priority` policy: numbers, or a sentence that says what was expected; never a silent order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from play import finishes, play
from rota.errors import PolicyError
from rota.scheduler import policy as registry
from rota.scheduler.snapshot import Snapshot
from rota.stages.priority import Drift
from rota.stages.priority_policy import Rows, priority
from rota.testing import ContractError, check_policy

JOBS = "A 1x10 B 1x5 C 1x3 D 1x4"
"""On one GPU: three of them wait at a time."""


@pytest.fixture
def of_key(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes the policy of a key, and forgets it afterwards."""
    monkeypatch.setattr(registry, "_SYSTEMS", dict(registry._SYSTEMS))

    def made(key: Callable[[Snapshot, Rows], Any], **options: Any) -> Any:
        return priority("mine", "Mine", **options)(key)

    return made


WRONG = {
    # what a key gives                             what is said of it
    "nothing: no return": (lambda _, rows: None, "gives None for job"),
    "a word": (lambda _, rows: "first", "gives 'first' for job"),
    "a list": (lambda _, rows: [1, 2], r"gives \[1, 2\] for job"),
    "no number": (lambda _, rows: float("nan"), "gives nan for job"),
    "those of all jobs": (lambda s, rows: s.jobs.gpus, r"gives array\(\[1, 1, 1, 1\]\) for job"),
    "texts": (lambda s, rows: np.array(["x"] * np.size(rows)), r"gives array\(\['x'\].* for job"),
}


@pytest.mark.parametrize(("key", "says"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("preemptive", [False, True])
def test_what_is_no_number_is_no_order(of_key: Any, key: Any, says: str, preemptive: bool) -> None:
    with pytest.raises(PolicyError, match=f"policy 'mine': its key {says} [ABCD]; expected a number"):
        play(of_key(key, preemptive=preemptive)(), JOBS, "1x1")


def test_an_array_of_jobs_has_a_key_for_each(of_key: Any) -> None:
    """One number for all of them would be no order of those that run."""
    mine = of_key(lambda s, rows: 1.0, preemptive=True, drifts=Drift.RUNNING)
    with pytest.raises(PolicyError, match=r"gives 1\.0 for an array of 2 jobs; expected an array with"):
        play(mine(), "A 1x9 B 1x9 C 1x9@1", "1x2")


def test_the_contract_finds_a_key_that_gives_nothing(of_key: Any) -> None:
    with pytest.raises(ContractError, match="its key gives None"):
        check_policy(of_key(lambda _, rows: None), seeds=[0])


@pytest.mark.parametrize("type", [int, float, np.int32, np.float32, np.float64, np.array, np.bool_])
def test_numbers_of_all_kinds_will_do(of_key: Any, type: Any) -> None:
    mine = of_key(lambda s, row: type(-s.jobs.table.submit_s[row]))
    order = sorted(finishes(play(mine(), "A 1x10 B 1x5@1 C 1x3@2", "1x1")).items(), key=lambda job: job[1])
    assert [name for name, _ in order] == (["A", "B", "C"] if type is np.bool_ else ["A", "C", "B"])
