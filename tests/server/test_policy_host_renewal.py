"""A host that is renewed decides about another table, with another policy, in the same process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from policy_bench import Bench, gone_or_zombie, kill

from rota.scheduler.policy import parse_policy
from rota.server.policy.host import PolicyHost

FIRST = "A 4x300 B 2x40@5 C 2x400@6"
SECOND = "A 1x50 B 3x40@5 C 2x100@6 D 4x30@20"


@pytest.fixture
def host() -> Iterator[PolicyHost]:
    """One that has decided about the first table under fifo."""
    bench = Bench(FIRST)
    host = bench.remote("fifo")
    bench.loop(host).run()
    yield host
    host.close()


def renewed(host: PolicyHost, policy: str) -> Bench:
    """The second table, with its decisions under `policy`."""
    bench = Bench(SECOND)
    host.renew(bench.state, bench.table, policy, None, 0)
    bench.loop(host).run()
    return bench


def pid_of(host: PolicyHost) -> int:
    process = host.real._child
    assert process is not None
    return process.pid


@pytest.mark.parametrize("policy", ["fifo", "tiresias:limits=100/400,promote=2", "srtf"])
def test_decides_as_a_new_one_would(host: PolicyHost, policy: str) -> None:
    alone = Bench(SECOND)
    alone.loop(parse_policy(policy).make()).run()
    before, old = pid_of(host), host.real
    assert renewed(host, policy).decisions == alone.decisions
    assert pid_of(host) == before
    assert host.real.tally.starts == 0
    assert host.name == policy
    assert not old._feed.followers, "the old table has nobody to tell"


def test_a_dead_process_is_replaced(host: PolicyHost) -> None:
    before = pid_of(host)
    assert not host.is_away
    kill(before)
    assert host.is_away
    assert renewed(host, "srtf").decisions
    assert not host.is_away
    assert pid_of(host) != before
    assert host.real.tally.failures == 0


def test_shadows_are_gone(host: PolicyHost) -> None:
    host.set_shadow("srtf")
    renewed(host, "fifo")
    assert host.shadow is None


def test_a_policy_that_cannot_be_made_leaves_no_process(host: PolicyHost) -> None:
    bench, before = Bench(SECOND), pid_of(host)
    with pytest.raises(Exception, match="no-such"):
        host.renew(bench.state, bench.table, "no-such", None, 0)
    gone_or_zombie(before)
