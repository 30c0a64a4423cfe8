"""What the guard counts on the nodes a decision touches is what a recount of the whole cluster gives."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from play import trace_of
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant, Role
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.decision import Decision
from rota.scheduler.guard.claims import check_claims
from rota.stages.fit import has_room, quota_left
from rota.table.occupancy import EPSILON, Occupancy
from rota.table.state import State
from scripted import state_of
from tiers import examples

CLUSTER = Cluster.build(
    [
        NodeShape(count=2, gpus=2, gpu_type=kind, cpus=8, memory_gib=32, gpu_memory_gib=16)
        for kind in ("A", "B")
    ],
    Tenants.of(
        Tenant("team", quota_gpus=4, hard=True, quota_by_type={"B": 2}),
        Tenant("team/ann", quota_gpus=2.5, hard=True),
        Tenant("soft", quota_gpus=1),
    ),
)
GPUS = [1, 1, 2, 3, 0, 1, 1, 2]
TRACE = trace_of(
    " ".join(f"J{row} {gpus}x9" for row, gpus in enumerate(GPUS)),
    tenant_names=("team/ann", "team/bob", "soft"),
    tenant=[0, 1, 2, 0, 1, 2, 0, 1],
    cpus=[2, 0, 8, 6, 4, 4.5, 1, 6],
    memory_gib=[8.5, 0, 16, 30, 20, 0, 2, 24],
    gpu_memory_gib=[4, 0, 12, 0, 0, 6, 10, 5],
    gpu_persistent_gib=[1, 0, 2.5, 0, 0, 3, 0, 5],
)
ROLES = [(Role.ALONE, 1.0), (Role.PACKED, 0.25), (Role.PACKED, 0.75), (Role.TURNS, 0.5), (Role.TURNS, 0.0),
         (Role.OPPORTUNISTIC, 1.0), (Role.OPPORTUNISTIC, 0.3)]  # fmt: skip
AS_ASKED = (math.nan, math.nan, math.nan)
LIMITS = [AS_ASKED, AS_ASKED, (6.0, math.nan, math.nan), (math.nan, 28.0, 9.0), (0.5, 0.0, 2.0)]


@st.composite
def grants(draw: st.DrawFn, row: int) -> Grant:
    cpus, gib, gpu_gib = draw(st.sampled_from(LIMITS))
    if not GPUS[row]:
        return Grant(row, (), node=draw(st.integers(0, 3)), cpus=cpus, memory_gib=gib)
    devices = draw(st.permutations(range(8)))[: GPUS[row]]
    role, share = draw(st.sampled_from(ROLES))
    limits = {"cpus": cpus, "memory_gib": gib, "gpu_memory_gib": gpu_gib}
    return Grant(row, tuple(sorted(devices)), share, role, **limits)


def counted(grant: Grant) -> float:
    return 0.0 if grant.role is Role.OPPORTUNISTIC else grant.share


def fits(held: list[Grant], new: Grant) -> bool:
    """Counted from scratch: devices and their memory by hand, hosts and quotas by the code that places."""
    for device in new.devices:
        beside = [grant for grant in held if device in grant.devices]
        if counted(new) + sum(map(counted, beside)) > 1.0 + EPSILON:
            return False
        if beside and any(grant.role is Role.ALONE for grant in (new, *beside)):
            return False
        if any(peak_and_kept(new)) and in_use([*beside, new]) > 16.0 + EPSILON:
            return False
    whole = Occupancy(CLUSTER, TRACE.jobs)
    for grant in held:
        whole.hold(grant)
    return feeds(whole, new) and is_within_quota(whole, new)


def feeds(whole: Occupancy, new: Grant) -> bool:
    return all(has_room(whole, *need) for need in whole.needs(new))


def peak_and_kept(grant: Grant) -> tuple[float, float]:
    """GiB of each device, at most and between two turns."""
    asked, kept = TRACE.jobs.gpu_memory_gib.item(grant.job), TRACE.jobs.gpu_persistent_gib.item(grant.job)
    peak = asked if math.isnan(grant.gpu_memory_gib) else grant.gpu_memory_gib
    return peak, (kept if grant.role is Role.TURNS and 0.0 < kept < peak else peak)


def in_use(beside: list[Grant]) -> float:
    """The most that those on a device use at once, whoever of those that take turns has its turn."""
    needs = [peak_and_kept(grant) for grant in beside]
    at_rest = sum(kept for _, kept in needs)
    return max(at_rest - kept + peak for peak, kept in needs)


def is_within_quota(whole: Occupancy, new: Grant) -> bool:
    """The fitter never mixes types, the guard judges who does: after entering it, nothing is below 0."""
    if new.role is Role.OPPORTUNISTIC:
        return True
    whole.hold(new)
    return all(
        quota_left(whole, tenant, kind, CLUSTER.type_names[kind]) >= -EPSILON
        for tenant in CLUSTER.tenants.lineage(TRACE.jobs.name_of("tenant", new.job))
        for kind in {CLUSTER.device_type.item(device) for device in new.devices}
        if tenant.hard
    )


def refused(held: list[Grant], new: list[Grant]) -> list[int]:
    """Jobs of `new` that find no room, entered one by one; who finds none is not entered."""
    rows, held = [], held.copy()
    for grant in new:
        if fits(held, grant):
            held.append(grant)
        else:
            rows.append(grant.job)
    return rows


@st.composite
def moments(draw: st.DrawFn) -> tuple[State, Decision]:
    """A sound state, and a decision that starts, moves and preempts, sound or not."""
    state = state_of(TRACE, CLUSTER)
    for row in draw(st.permutations(range(len(GPUS)))):
        grant = draw(grants(row))
        if draw(st.booleans()) and fits(list(state.grants.values()), grant):
            state.start(grant)
    rows = draw(st.lists(st.sampled_from(range(len(GPUS))), unique=True))
    preempt = [row for row in rows if row in state.grants and draw(st.booleans())]
    return state, Decision({}, [draw(grants(row)) for row in rows if row not in preempt], preempt)


@given(moments())
@examples(300)
def test_counting_what_is_touched_equals_counting_everything(moment: tuple[State, Decision]) -> None:
    state, decision = moment
    gone = {*decision.preempt, *(grant.job for grant in decision.grants)}
    staying = [grant for grant in state.grants.values() if grant.job not in gone]
    broken = list(dict.fromkeys(breach.job for breach in check_claims(state, decision)))
    assert broken == refused(staying, list(decision.grants))
