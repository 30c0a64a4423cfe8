"""SJF: worked examples of every variant."""

from __future__ import annotations

import pytest

from play import finishes, play
from rota.knowledge.needs import Knowledge
from rota.systems.sjf.system import Size, SjfParameters, sjf


@pytest.mark.parametrize(
    ("policy", "jobs", "expected", "why"),
    [
        ("sjf", "A 4x9 B 4x2 C 4x5", {"A": 16, "B": 2, "C": 7}, "shortest first"),
        ("sjf", "A 4x9 B 4x2@1", {"A": 9, "B": 11}, "nobody is preempted"),
        ("sjf", "A 2x9 B 4x2@1 C 2x5@2", {"A": 9, "B": 11, "C": 16}, "B is next and blocks C"),
        ("sjf:skip=yes", "A 2x9 B 4x2@1 C 2x5@2", {"A": 9, "B": 11, "C": 7}, "C passes B by"),
        ("sjf", "A 4x5 B 4x5 C 4x5", {"A": 5, "B": 10, "C": 15}, "equal jobs in order of submission"),
        ("sjf:preemptive=yes", "A 4x9 B 4x2@1", {"A": 11, "B": 3}, "B takes over"),
        ("sjf:preemptive=yes", "A 4x9 B 4x6@5", {"A": 15, "B": 11}, "A has 4 s left, but 9 s is its size"),
        (
            "sjf:preemptive=yes",
            "A 4x9 B 2x3@1 C 4x2@1",
            {"A": 14, "B": 6, "C": 3},
            "A waits for C, then for B",
        ),
        ("sjf:by=gpus", "A 4x1 B 2x9 C 1x5", {"A": 10, "B": 9, "C": 5}, "fewest GPUs first"),
        ("sjf:by=gpus,preemptive=yes", "A 4x9 B 1x20@1", {"A": 29, "B": 21}, "one GPU displaces four"),
    ],
)
def test_worked_examples(policy: str, jobs: str, expected: dict[str, float], why: str) -> None:
    assert finishes(play(policy, jobs)) == expected, why


def test_by_gpus_needs_no_durations() -> None:
    """The order by GPUs runs where nobody knows durations."""
    assert sjf().needs == {Knowledge.DURATION}
    assert sjf(SjfParameters(by=Size.GPUS)).needs == set()
