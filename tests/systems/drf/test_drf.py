"""DRF: the worked examples of its card, task by task, and what naive versions get wrong."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, starts, trace_of
from rota.errors import InputError
from rota.model.cluster import Cluster, NodeShape
from rota.model.jobs import JobTable, Truth
from rota.model.tenants import Tenant, Tenants
from rota.model.trace import Trace
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Policy, parse_policy
from rota.scheduler.snapshot import Snapshot
from rota.worlds.simulated.run import Setting, prepare

Need = tuple[int, float, float]  # GPUs, CPUs, GiB


class _Watched:
    """A policy whose decisions are kept."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.needs = policy.needs
        self.decisions: list[Decision] = []

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        self.decisions.append(self.policy.decide(snapshot, memory))
        return self.decisions[-1]


def first_starts(policy: str, needs: dict[str, Need], first: str, cluster: Cluster, jobs: int = 12) -> str:
    """Tenants in the order in which their jobs start when all come at once; ties go to those of `first`."""
    names = [*first, *sorted(set(needs) - set(first))]
    rows = [name for name in names for _ in range(jobs)]
    columns = np.array([needs[name] for name in rows])
    table = JobTable.build(
        [f"j{i}" for i in range(len(rows))],
        submit_s=0.0,
        gpus=columns[:, 0],
        cpus=columns[:, 1],
        memory_gib=columns[:, 2],
        tenant=[names.index(name) for name in rows],
        tenant_names=tuple(names),
    )
    trace = Trace(table, Truth.build(np.full(len(rows), 10.0)), source="card", format="test")
    watched = _Watched(parse_policy(policy).make())
    loop, _ = prepare(watched, trace, cluster, Setting())
    loop.step()
    return "".join(rows[grant.job] for grant in watched.decisions[0].grants)


PAPER = NodeShape(1, 0, cpus=9.0, memory_gib=18.0)
PAPER_NEEDS = {"A": (0, 1.0, 4.0), "B": (0, 3.0, 1.0)}
GPU_NODE = NodeShape(1, 16, cpus=128.0, memory_gib=1024.0)
GPU_NEEDS = {"A": (1, 4.0, 96.0), "B": (1, 12.0, 16.0)}
WEIGHTS = Tenants.of(Tenant("A", weight=2.0))


@pytest.mark.parametrize(
    ("first", "sequence", "why"),
    [
        ("B", "BAABA", "a1: B 1/3, A 2/9, A 4/9, B 2/3, A 2/3"),
        ("A", "ABABA", "a1, ties to A: the same in the end"),
    ],
)
def test_example_of_the_paper(first: str, sequence: str, why: str) -> None:
    """9 CPUs and 18 GB: A runs 3 tasks, B 2, and both hold two thirds of what they need most."""
    assert first_starts("drf", PAPER_NEEDS, first, Cluster.build([PAPER])) == sequence, why


def test_weighted() -> None:
    """a2: A with weight 2 runs 4 tasks, B one; then nothing fits."""
    cluster = Cluster.build([PAPER], WEIGHTS)
    assert first_starts("drf", PAPER_NEEDS, "A", cluster) == "ABAAA"
    assert first_starts("drf:weighted=no", PAPER_NEEDS, "A", cluster) == "ABABA"


def test_shares_are_fractions_of_the_cluster() -> None:
    """a4: 8 tasks each; absolute amounts would give A 2 and B 10."""
    found = Counter(first_starts("drf", GPU_NEEDS, "A", Cluster.build([GPU_NODE])))
    assert found == {"A": 8, "B": 8}


@pytest.mark.parametrize("cpus", [0.0, 99.0], ids=["counting", "placing"])
def test_who_does_not_fit_is_skipped(cpus: float) -> None:
    """a7: A 3 GPUs, B 1 GPU; after A, B, B, B the next of A does not fit, and B goes on."""
    needs = {"A": (3, 1.0, 0.0), "B": (1, 1.0, 0.0)}
    assert first_starts("drf", needs, "A", Cluster.build([NodeShape(1, 8, cpus=cpus)])) == "ABBBBB"


@pytest.mark.parametrize(
    ("share", "sequence"), [("dominant", "ABABABABAB"), ("assets", "ABBABBABBA"), ("gpus", "A" * 10)]
)
def test_what_tenants_are_compared_by(share: str, sequence: str) -> None:
    """10 CPUs each; A needs 10 GiB besides, which only the sum of shares counts; neither needs a GPU."""
    cluster = Cluster.build([NodeShape(1, 1, cpus=100.0, memory_gib=100.0)])
    needs = {"A": (0, 10.0, 10.0), "B": (0, 10.0, 0.0)}
    assert first_starts(f"drf:share={share}", needs, "A", cluster) == sequence


def test_the_dominant_resource_may_be_the_cpu() -> None:
    """By GPUs alone B, which asks for 2, has a turn for two of A's; its CPUs are its larger share."""
    needs = {"A": (1, 1.0, 0.0), "B": (2, 12.0, 0.0)}
    cluster = Cluster.build([NodeShape(1, 16, cpus=40.0)])
    assert first_starts("drf:share=gpus", needs, "A", cluster)[:7] == "ABAABAA"
    assert first_starts("drf", needs, "A", cluster)[:7] == "ABAAAAB", "5/16 of the GPUs exceed 12/40"


def test_among_equal_shares_who_has_received_less_is_served() -> None:
    """When B comes, A has received much and both hold nothing: B, though A came first."""
    trace = trace_of("A1 4x100 A2 4x10@50 B1 4x10@60", tenant=(0, 0, 1), tenant_names=("a", "b"))
    assert starts(play("drf", trace)) == {"A1": 0, "B1": 100, "A2": 110}


def test_a_share_is_what_is_held_whatever_was_received() -> None:
    """A has received much and holds nothing, B holds a GPU: A is served."""
    jobs = "A1 4x100 B1 1x100@1 B2 3x10@2 A2 3x10@3"
    trace = trace_of(jobs, tenant=(0, 1, 1, 0), tenant_names=("a", "b"))
    assert starts(play("drf", trace)) == {"A1": 0, "B1": 100, "A2": 100, "B2": 110}


TENANTS_OF_TWO = ("a", "b")


@given(
    weights=st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 3])),
    sizes=st.lists(st.integers(5, 8), min_size=40, max_size=40),
    placing=st.booleans(),
)
def test_jobs_as_large_as_the_cluster_are_served_by_weight(
    weights: tuple[int, int], sizes: list[int], placing: bool
) -> None:
    """Two tenants, all of whose jobs exceed half the cluster, come at once: their service stays together.

    Whenever one is served, it has received no more over its weight than the other.
    """
    n = len(sizes)
    trace = trace_of(
        " ".join(f"J{i} {gpus}x10" for i, gpus in enumerate(sizes)),
        tenant=[2 * i // n for i in range(n)],
        tenant_names=TENANTS_OF_TWO,
        cpus=float(placing),
    )
    tenants = Tenants.of(*(Tenant(t, weight=w) for t, w in zip(TENANTS_OF_TWO, weights, strict=True)))
    cluster = Cluster.build([NodeShape(1, 8, cpus=64.0 * placing)], tenants)
    intervals = play("drf", trace, cluster).intervals.sort("start_s")
    served = [0.0, 0.0]
    left = [n // 2, n // 2]
    for job, gpus in intervals.select("job", "gpus").iter_rows():
        tenant = 2 * job // n
        other = 1 - tenant
        assert not left[other] or served[tenant] / weights[tenant] <= served[other] / weights[other] + 1e-9
        served[tenant] += 10.0 * gpus
        left[tenant] -= 1


def test_equal_tenants_alternate() -> None:
    """Fifty jobs of the whole cluster each: neither tenant waits for all jobs of the other."""
    trace = trace_of(
        " ".join(f"J{i} 8x10" for i in range(100)),
        tenant=[int(i >= 50) for i in range(100)],
        tenant_names=TENANTS_OF_TWO,
    )
    for policy in ("drf", "drf:preempt=yes", "drf:share=slots"):
        rows = play(policy, trace, "1x8").intervals.sort("start_s")["job"].to_list()
        assert [row // 50 for row in rows] == [0, 1] * 50, policy


@pytest.mark.parametrize(
    ("needs", "sequence", "why"),
    [
        ({"A": (1, 4.0, 0.0), "B": (1, 4.0, 0.0)}, "ABAB", "a slot each: one GPU, four cores"),
        ({"A": (1, 1.0, 0.0), "B": (1, 1.0, 0.0)}, "ABAB", "what a job leaves of its slot is nobody's"),
        ({"A": (1, 8.0, 0.0), "B": (1, 1.0, 0.0)}, "ABB", "A's cores take two of the four slots"),
        ({"A": (0, 5.0, 0.0), "B": (2, 1.0, 0.0)}, "AB", "a job without GPUs takes slots as well"),
    ],
)
def test_slots(needs: dict[str, Need], sequence: str, why: str) -> None:
    """The baseline of the paper: 4 GPUs and 16 cores are four slots, which tenants get in equal numbers."""
    cluster = Cluster.build([NodeShape(1, 4, cpus=16.0)])
    assert first_starts("drf:share=slots", needs, "A", cluster) == sequence, why


def test_slots_are_not_taken_back() -> None:
    with pytest.raises(InputError, match="expected preempt=no with share=slots"):
        parse_policy("drf:share=slots,preempt=yes")


def test_finite_demand() -> None:
    """A tenant with one job leaves the rest to the other."""
    trace = trace_of("B1 1x10 B2 1x10 B3 1x10 A 1x10", tenant=(1, 1, 1, 0), tenant_names=("a", "b"))
    assert starts(play("drf", trace, "1x3")) == {"B1": 0, "A": 0, "B2": 0, "B3": 10}


def test_who_has_less_is_served_first() -> None:
    """a runs on 3 GPUs when one is free: b, who has none, gets it though a's job waits longer."""
    jobs = "A1 3x99 A2 1x9 C 1x5 A3 1x10@1 B 1x10@2"
    trace = trace_of(jobs, tenant=(0, 0, 2, 0, 1), tenant_names=("a", "b", "c"))
    assert starts(play("drf", trace, "1x5")) == {"A1": 0, "A2": 0, "C": 0, "B": 5, "A3": 9}


def test_a_large_job_does_not_stop_its_tenant() -> None:
    """Departs: of a tenant's jobs the first that fits is next, so that small ones pass a large one."""
    trace = trace_of("A1 3x10 A2 4x10 A3 1x10", tenant=0, tenant_names=("a",))
    assert starts(play("drf", trace)) == {"A1": 0, "A2": 10, "A3": 0}


def test_weights_must_be_positive() -> None:
    cluster = Cluster.build([NodeShape(1, 4)], Tenants.of(Tenant("default", weight=0.0)))
    with pytest.raises(InputError, match="tenant default has weight 0"):
        play("drf", "A 1x1", cluster)


# -- preemption -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "jobs", "expected", "why"),
    [
        (
            "1x4",
            "A1 1x100 A2 1x100 A3 1x100 A4 1x100 B 1x10@5",
            {"B": 15, "A4": 110},
            "3/4 to 1/4",
        ),
        ("1x4", "A1 2x100 A2 2x100 B 2x10@5", {"B": 110, "A2": 100}, "a would have 2/4, no more than b"),
        ("1x4", "A1 4x100 B 4x10@5", {"A1": 100, "B": 110}, "a would have nothing left"),
        ("1x4", "A1 1x100 A2 3x100 B 1x10@5", {"B": 15, "A1": 110, "A2": 100}, "without A2 a has but 1/4"),
        ("1x4", "A1 1x100 A2 1x90 A3 2x100 A4 1x5@1", {"A4": 95}, "nobody gives way to its own tenant"),
        ("1x8", "A1 6x100 A2 1x100 A3 1x100 B 2x10@5", {"B": 15, "A2": 110, "A3": 110}, "two give way"),
        (
            "1x4",
            "A1 2x100 A2 1x100 A3 1x100 B 2x10@5",
            {"B": 110, "A3": 100},
            "two are too many",
        ),
    ],
)
def test_preemption(cluster: str, jobs: str, expected: dict[str, float], why: str) -> None:
    """A job gives way only if its tenant without it still has more than the preemptor will have."""
    tenants = [int(name.startswith("B")) for name in jobs.split()[::2]]
    trace = trace_of(jobs, tenant=tenants, tenant_names=("a", "b"))
    assert finishes(play("drf:preempt=yes", trace, cluster)).items() >= expected.items(), why
    assert play("drf", trace, cluster).jobs["preemptions"].sum() == 0


def test_weighted_preemption() -> None:
    """3/4 at weight 3 is as much as 1/4 at weight 1."""
    jobs = "A1 1x100 A2 1x100 A3 1x100 A4 1x100 B 1x10@5"
    trace = trace_of(jobs, tenant=(0, 0, 0, 0, 1), tenant_names=("a", "b"))
    cluster = Cluster.build([NodeShape(1, 4)], Tenants.of(Tenant("a", weight=3.0)))
    assert finishes(play("drf:preempt=yes", trace, cluster))["B"] == 110


def test_only_those_in_the_way_stop() -> None:
    """A4 and A3, on two nodes, are tried first; once A2 makes room for B they need not go."""
    jobs = "A1 3x100 A2 3x100 A3 1x100 A4 1x100 B 2x10@5"
    trace = trace_of(jobs, tenant=(0, 0, 0, 0, 1), tenant_names=("a", "b"))
    record = play("drf:preempt=yes,placement=one_node", trace, "2x4")
    assert finishes(record) == {"A1": 100, "A2": 110, "A3": 100, "A4": 100, "B": 15}
