"""Before a policy decides, it decides once on trial."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers_play import site

from rota.errors import InputError
from rota.knowledge.registry import Where, kinds
from rota.scheduler.policy import parse_policy, systems
from rota.server.answers.policy import try_policy
from rota.server.policy.messages import import_policies

import_policies()
ABLE = [
    name
    for name in sorted(systems())
    if parse_policy(name).make().needs <= kinds(Where.LIVE) and name != "partition"
]


def test_every_policy_that_can_run_here_is_accepted(tmp_path: Path) -> None:
    """With jobs that run, wait and are held; and on a cluster without any."""
    empty, full = site(tmp_path / "empty"), site(tmp_path / "full")
    for s in (empty, full):
        s.turn()
    row = full.submit(500.0, gpus=2)
    full.submit(5.0, gpus=1, time_s=100)
    full.submit(5.0, gpus=1, hold=True)
    full.until(row, "RUNNING")
    assert len(ABLE) > 5
    for name in ABLE:
        for s in (empty, full):
            try_policy(s.scheduler, s.estimator, name)


def test_one_that_fails_is_refused_with_its_sentence(tmp_path: Path) -> None:
    s = site(tmp_path)
    s.turn()
    with pytest.raises(InputError, match=r"^policy 'partition' fails at the present moment: .*vc"):
        try_policy(s.scheduler, s.estimator, "partition")


def test_without_a_moment_nothing_is_tried(tmp_path: Path) -> None:
    """The policy in force may be what is wrong, and another one the way out."""
    s = site(tmp_path)
    assert s.scheduler.loop is None
    try_policy(s.scheduler, s.estimator, "partition")
