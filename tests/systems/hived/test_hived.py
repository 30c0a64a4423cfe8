"""HiveD: tenants get what a private cluster of their cells would give them, and idle GPUs besides."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from play import finishes, play, starts, trace_of
from rota.errors import InputError
from rota.forecast.altered import with_tenants
from rota.model.cells import CellKind
from rota.model.cluster import Cluster, NodeShape
from rota.model.job_columns import JobKind
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.scheduler.moments.frozen import freeze
from rota.systems.hived.cells import Gang, physical_cell
from rota.systems.hived.clusters import CellPromise, VirtualClusters
from rota.systems.hived.layout import Layout
from rota.systems.hived.system import Hived
from rota.testing import check_policy
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.run import Setting
from tiers import examples, first

A = Tenant("A", cells=(CellQuota("node", 1),))
B = Tenant("B", cells=(CellQuota("pair", 1), CellQuota("device", 2)))


def where(*tenants, nodes=2, **shape):
    shape = {"gpus": 4, "device_levels": {"pair": 2}, **shape}
    return Cluster.build([NodeShape(count=nodes, **shape)], Tenants.of(*tenants))


def jobs(text, tenants, **columns):
    names = tuple(dict.fromkeys(tenants.split()))
    return trace_of(text, tenant=[names.index(one) for one in tenants.split()], tenant_names=names, **columns)


def devices(record):
    """GPUs of each job at first."""
    frame = record.intervals.sort("start_s").group_by("job_id", maintain_order=True).first()
    return dict(zip(frame["job_id"], frame["devices"].to_list(), strict=True))


def test_the_cards_cluster():
    """B's pair and GPUs share a node, so that A's four GPUs are there when it comes."""
    trace = jobs("P 2x10 Q 1x10@1 R 1x10@2 S 4x10@3", "B B B A")
    got = devices(play("hived", trace, where(A, B)))
    assert got == {"P": [0, 1], "Q": [2], "R": [3], "S": [4, 5, 6, 7]}


def test_idle_gpus_are_lent_and_given_back():
    """C owns nothing: it runs on all that is idle, and leaves when A wants its node."""
    trace = jobs("X 4x20 Y 4x20@1 S 4x5@10", "C C A")
    record = play("hived", trace, where(A))
    assert starts(record) == {"X": 0.0, "Y": 1.0, "S": 10.0}
    stopped = record.intervals.filter(pl.col("end") == "preempted")["job_id"].to_list()
    assert len(stopped) == 1


def test_an_opportunist_that_is_stopped_moves_where_there_is_room():
    """It has one GPU of the node that A wants; the other node is idle."""
    trace = jobs("X 1x20 S 4x5@10 T 4x5@11", "C A A", node_set_names=("n0",), node_set=[-1, 0, -1])
    tenants = Tenant("A", cells=(CellQuota("node", 1, at="n0"),))
    record = play("hived", trace, where(tenants))
    assert starts(record)["S"] == 10.0
    assert devices(record)["S"] == [0, 1, 2, 3]
    assert finishes(record)["X"] == 20.0


def test_cells_that_are_moved_under_running_jobs():
    """P runs on without a guarantee until Q, whose tenant has its cells now, wants them; then it waits.

    Its tenant could not hold it any more, and it is not refused for that: it has run.
    """

    def owners(a, b):
        return Tenants.of(
            Tenant("A", cells=(CellQuota("device", a),)), Tenant("B", cells=(CellQuota("device", b),))
        )

    moments = []

    class Watched(Hived):
        def decide(self, snapshot, memory):
            moments.append(freeze(snapshot, memory, "hived"))
            return super().decide(snapshot, memory)

    cluster = Cluster.build([NodeShape(count=1, gpus=4)], owners(2, 2))
    play(Watched(), jobs("P 2x50 R 2x50 Q 2x5@10", "A B B"), cluster)
    moment = next(moment for moment in moments if moment.packed["state"]["now"] == 10.0)
    kept = with_tenants(moment, owners(2, 2)).decide()
    assert (list(kept.preempt), kept.guaranteed) == ([], {0, 1})
    moved = with_tenants(moment, owners(1, 3)).decide()
    assert (list(moved.preempt), moved.reject, moved.guaranteed) == ([], {}, {1})
    all_of_it = with_tenants(moment, Tenants.of(Tenant("B", cells=(CellQuota("device", 4),)))).decide()
    assert (list(all_of_it.preempt), all_of_it.reject, all_of_it.guaranteed) == ([0], {}, {1, 2})


def test_priorities_within_a_tenant():
    """A's job of priority 1 stops that of priority 0; if that is lazy, it goes on while there is room."""
    trace = jobs("L 4x20 H 4x5@10", "A A", priority=[0, 1])
    cluster = where(A, nodes=1)
    assert finishes(play("hived", trace, cluster)) == {"L": 25.0, "H": 15.0}
    assert finishes(play("hived:lazy=yes", trace, where(A))) == {"L": 20.0, "H": 15.0}


def test_opportunistic_jobs_of_a_tenant_with_cells():
    """They hold no cells: the other tenant's guaranteed job stops them."""
    trace = jobs("O 8x20 S 4x5@10", "A B", kind=[int(JobKind.OPPORTUNISTIC), int(JobKind.TRAIN)])
    record = play("hived", trace, where(A, Tenant("B", cells=(CellQuota("node", 1),))))
    assert starts(record) == {"O": 0.0, "S": 10.0}


def test_idle_gpus_are_shared_by_weight():
    """Of six opportunists of one GPU each on four, the tenant of weight 3 runs three."""
    trace = jobs("a 1x9 b 1x9 c 1x9 d 1x9 e 1x9 f 1x9", "C C C D D D")
    cluster = where(A, Tenant("C", weight=1.0), Tenant("D", weight=3.0), nodes=1)
    record = play("hived", trace, cluster)
    assert {job for job, start in starts(record).items() if start == 0.0} == {"a", "d", "e", "f"}


def test_a_lost_node_is_gone_around():
    """A owns one of two nodes: with the first one lost it runs on the second."""
    record = play("hived", jobs("S 4x5@10", "A"), where(A), Setting(faults=[Fault(0, 1.0, 1e6)]))
    assert devices(record)["S"] == [4, 5, 6, 7]


def test_a_job_that_its_tenants_cells_could_never_hold_is_refused():
    """B owns a pair and two GPUs: five are too many; A's four are one node."""
    record = play("hived", jobs("S 5x5 T 4x5", "B A"), where(A, B))
    assert record.jobs["state"].to_list() == ["REJECTED", "COMPLETED"]


@pytest.mark.parametrize("policy", ["gandiva", "pollux"])
def test_policies_that_share_or_resize_are_refused(policy):
    with pytest.raises(InputError, match="cells are given to one job each"):
        play(f"hived:policy={policy}", "S 1x5", where(A))


def test_cells_that_cannot_be_had_yet_are_no_guarantee():
    """A live cluster whose second node has not joined: both tenants run on what is there, and are told."""
    two = (Tenant("A", cells=(CellQuota("node", 1),)), Tenant("B", cells=(CellQuota("node", 1),)))
    record = play("hived", jobs("X 4x5 Y 4x5@1", "A B"), where(*two, nodes=1))
    assert starts(record) == {"X": 0.0, "Y": 5.0}
    assert Layout(where(*two, nodes=1)).problem.startswith("tenants are promised 2 node cells")


# -- the property that all is for ----------------------------------------------------------------------

FOUR = CellKind("E", "GPU", ("device", "pair", "node", "rack"), (0, 2, 2, 2), 3)


def clusters(promises, racks=2):
    tops = [physical_cell(FOUR, 4, [2 * n, 2 * n + 1], range(8 * n, 8 * n + 8), n) for n in range(racks)]
    return VirtualClusters({FOUR: tops}, promises)


@st.composite
def quotas(draw):
    """Cells of three tenants that two racks can hold: drawn cell by cell, what does not fit is left out."""
    promises, left = [], 16
    for _ in range(draw(st.integers(2, 8))):
        level, vc = draw(st.integers(1, 4)), draw(st.sampled_from("ABC"))
        if FOUR.gpus(level) <= left:
            left -= FOUR.gpus(level)
            promises.append(CellPromise(vc, "E", level, 1))
    return promises


def legal(promises):
    """Largest cells first: any that sum to no more than there is can be cut out of powers of two."""
    return sorted(promises, key=lambda promise: -promise.level)


STEPS = st.lists(
    st.tuples(st.sampled_from("ABC"), st.integers(1, 8), st.integers(-1, 3), st.booleans()), max_size=40
)


@given(quotas(), STEPS)
@examples(150)
def test_what_fits_a_private_cluster_of_the_tenants_cells_fits_here(promises, steps):
    """Jobs of three tenants come and go; each tenant's own cells, alone, are asked the same."""
    promises = legal(promises)
    shared = clusters(promises)
    private = {vc: clusters([p for p in promises if p.vc == vc]) for vc in "ABC"}
    here, there = {}, {vc: {} for vc in "ABC"}
    for number, (vc, gpus, priority, leaves) in enumerate(steps):
        if vc not in shared.vcs:
            continue
        if leaves and here:
            name = sorted(here)[number % len(here)]
            shared.stop(here.pop(name))
            for own, running in there.items():
                if name in running:
                    private[own].stop(running.pop(name))
            continue
        name, pods = f"{number:02}", (4,) * (gpus // 4) + ((gpus % 4,) if gpus % 4 else ())
        plan = shared.plan(Gang(name, vc, priority, pods))
        if priority >= 0:
            alone = private[vc].plan(Gang(name, vc, priority, pods))
            assert isinstance(plan, str) == isinstance(alone, str)
            if isinstance(alone, str):
                continue
            assert [v.name for v in alone.victims] == [v.name for v in plan.victims if v.priority >= 0]
            for victim in alone.victims:
                del there[vc][victim.name]
            private[vc].start(alone)
            there[vc][name] = alone.gang
        if not isinstance(plan, str):
            for victim in plan.victims:
                del here[victim.name]
            shared.start(plan)
            here[name] = plan.gang


# -- another policy inside ---------------------------------------------------------------------------


def test_another_policy_says_who_runs_in_a_virtual_cluster():
    """On one node A's short job stops its long one under `srtf`, as if the node were A's alone."""
    trace = jobs("L 4x20 S 4x5@10 C 4x30@1", "A A C")
    record = play("hived:policy=srtf", trace, where(A))
    alone = play("srtf", jobs("L 4x20 S 4x5@10", "A A"), where(nodes=1))
    assert {job: finishes(record)[job] for job in "LS"} == finishes(alone)
    assert starts(record)["C"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("policy", first(1, ["srtf", "fifo", "tiresias"]))
def test_the_contract_with_another_policy_inside(policy):
    """One plain scene and one rich one; takeovers, empty caches and lost nodes among them."""
    check_policy(f"hived:policy={policy}", seeds=(0, 1))


INNER_JOBS = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from((1, 2, 4)), st.integers(1, 30), st.integers(0, 40)),
    min_size=1,
    max_size=10,
)


@given(INNER_JOBS, st.sampled_from(["fifo", "srtf", "las", "tiresias"]))
@examples(30)
def test_each_tenant_fares_as_on_a_cluster_of_its_own(asked, policy):
    """Two tenants with a node each, on three nodes: every job ends as on a private node."""
    asked.sort(key=lambda one: one[3])
    asked = [(vc, gpus, run_s, at_s + number / 64) for number, (vc, gpus, run_s, at_s) in enumerate(asked)]
    text = " ".join(f"J{i} {gpus}x{run_s}@{at_s}" for i, (_, gpus, run_s, at_s) in enumerate(asked))
    owners = " ".join(vc for vc, *_ in asked)
    cells = (CellQuota("node", 1),)
    record = play(
        f"hived:policy={policy}",
        jobs(text, owners),
        where(Tenant("A", cells=cells), Tenant("B", cells=cells)),
    )
    for vc in set(owners.split()):
        own = [(i, one) for i, one in enumerate(asked) if one[0] == vc]
        text = " ".join(f"J{i} {gpus}x{run_s}@{at_s}" for i, (_, gpus, run_s, at_s) in own)
        alone = finishes(play(policy, text, where(nodes=1)))
        assert {name: finishes(record)[name] for name in alone} == pytest.approx(alone)
