"""Policies in whose runs nothing is drawn run once, whatever the number of seeds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rota

JOBS = "job_id,submit_s,duration_s,gpus\n1,0,100,2\n2,10,50,4\n3,20,30,8\n4,25,300,1\n"


@pytest.mark.parametrize(
    ("policies", "options", "runs"),
    [
        ("fifo,srtf", {}, {"fifo": 1, "srtf": 1}),
        ("fifo,pollux", {}, {"fifo": 1, "pollux": 3}),
        ("fifo,srtf", {"faults": "mtbf=100s,repair=20s"}, {"fifo": 3, "srtf": 3}),
        ("fifo,srtf", {"knowledge": "duration=noisy"}, {"fifo": 1, "srtf": 3}),
        ("fifo", {"observation_noise": 0.1}, {"fifo": 3}),
        ("fifo", {"costs": "start=20s,scatter=0.8/1.7"}, {"fifo": 3}),
        ("prerun:policy=pollux", {}, {"prerun:policy=pollux": 3}),
    ],
)
def test_runs(policies: str, options: dict[str, Any], runs: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS)
    result = rota.simulate(
        tmp_path / "jobs.csv", cluster="1x8", policies=policies, seeds=3, seed=5, **options
    )
    assert Counter(record.policy for record in result.records) == runs
    for policy, count in runs.items():
        seeds = [one.provenance["seed"] for one in result.records if one.policy == policy]
        assert seeds == list(range(5, 5 + count))
    assert ("±" in result.table()) == any(count > 1 for count in runs.values())


def test_a_policy_of_ones_own_that_draws_is_noticed(tmp_path: Path) -> None:
    """It need not say that it does: it asks the moment for its seed."""
    (tmp_path / "jobs.csv").write_text(JOBS)

    class Draws:
        needs: frozenset[Any] = frozenset()

        def decide(self, snapshot: Any, memory: Any) -> Any:
            from rota.scheduler.decision import Decision

            memory["seed"] = snapshot.seed
            return Decision(memory)

    result = rota.simulate(tmp_path / "jobs.csv", cluster="1x8", policies=[Draws()], seeds=2)
    assert len(result.records) == 2
