"""Why a job waits: small scenes with all binding constraints, dominant first, in numbers and in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from play import play, trace_of
from rota.knowledge.needs import Knowledge, Known, Provenance
from rota.model.cluster import Cluster, NodeShape, parse_cluster
from rota.model.grants import Code, Constraint, Grant, Reservation, Role
from rota.model.tenants import Tenant, Tenants
from rota.scheduler.decision import Decision, Event, Memory, Wake
from rota.scheduler.policy import parse_policy
from rota.scheduler.reasons.waiting import explain
from rota.scheduler.snapshot import Snapshot
from rota.table.state import State
from rota.worlds.simulated.run import Setting
from scripted import state_of

TEAM = Tenants.of(Tenant("vision", quota_gpus=4, hard=True))
QUOTA = Cluster.build([NodeShape(count=2, gpus=4)], TEAM)
HOSTS = Cluster.build([NodeShape(count=2, gpus=4, cpus=8, memory_gib=64, gpu_memory_gib=16)])


class Scene(NamedTuple):
    """Asks about the last job; the others are rows 0, 1, ... of which some run."""

    why: str
    jobs: str
    expected: list[tuple[Code, float, float, str]]
    """Code, requested, provided and sentence of each constraint."""
    cluster: Any = "2x4"
    running: tuple[Grant, ...] = ()
    policy: str = "fifo"
    columns: dict[str, Any] = {}  # noqa: RUF012 - never written
    also: dict[str, Any] = {}  # noqa: RUF012 - never written


def alone(row: int, *devices: int) -> Grant:
    return Grant(row, devices)


NAN = float("nan")
SCENES = [
    Scene(
        "nothing free", "A 8x9 B 2x9",
        [(Code.RESOURCES, 2, 0, "needs 2 GPUs; 0 are free")],
        running=(alone(0, *range(8)),),
    ),
    Scene(
        "too few free and two in front", "A 6x9 B 8x9 C 4x9 D 4x9",
        [
            (Code.RESOURCES, 4, 2, "needs 4 GPUs; 2 are free"),
            (Code.EARLIER, NAN, 2, "stands behind 2 jobs submitted earlier (B and C)"),
        ],
        running=(alone(0, *range(6)),),
    ),
    Scene(
        "free, but strict order", "A 6x9 B 8x9 C 2x9",
        [(Code.EARLIER, NAN, 1, "stands behind 1 job submitted earlier (B)")],
        running=(alone(0, *range(6)),),
    ),
    Scene(
        "scattered", "A 3x9 B 3x9 C 2x9",
        [(Code.FRAGMENTATION, 2, 1, "needs 2 GPUs in one node; the most free in one is 1")],
        running=(alone(0, 0, 1, 2), alone(1, 4, 5, 6)), policy="fifo:placement=one_node",
    ),
    Scene(
        "larger than the nodes that are left", "A 8x9",
        [
            (Code.NODE, NAN, NAN, "would fit if node n1 took new jobs"),
            (Code.GANG_TOO_LARGE, 8, 4, "needs 8 GPUs at once; the cluster has 4 it could use"),
        ],
        also={"lost": [1]},
    ),
    Scene(
        "a node is lost and the others are busy", "A 4x9 B 2x9",
        [
            (Code.RESOURCES, 2, 0, "needs 2 GPUs; 0 are free"),
            (Code.NODE, NAN, NAN, "would fit if node n1 took new jobs"),
        ],
        running=(alone(0, 0, 1, 2, 3),), also={"lost": [1]},
    ),
    Scene(
        "a node is lost and what is left of the others is scattered", "A 3x9 B 3x9 C 2x9",
        [
            (Code.FRAGMENTATION, 2, 1, "needs 2 GPUs in one node; the most free in one is 1"),
            (Code.NODE, NAN, NAN, "would fit if node n2 took new jobs"),
        ],
        cluster="3x4", running=(alone(0, 0, 1, 2), alone(1, 4, 5, 6)), policy="fifo:placement=one_node",
        also={"lost": [2]},
    ),
    Scene(
        "nodes are lost, and it may use one of them only", "A 4x9 B 2x9",
        [
            (Code.NODE, NAN, NAN, "would fit if node n2 took new jobs"),
            (Code.GANG_TOO_LARGE, 2, 0, "needs 2 GPUs at once; the cluster has 0 it could use"),
        ],
        cluster="3x4", running=(alone(0, 0, 1, 2, 3),), also={"lost": [1, 2]},
        columns={"node_set_names": ("n2",), "node_set": [-1, 0]},
    ),
    Scene(
        "nodes are lost, and one of them has the type that it asks for", "A 4x9 B 2x9",
        [
            (Code.NODE, NAN, NAN, "would fit if node n2 took new jobs"),
            (Code.GANG_TOO_LARGE, 2, 0, "needs 2 GPUs at once; the cluster has 0 it could use"),
        ],
        cluster="2x4:K80,1x4:V100", running=(alone(0, 0, 1, 2, 3),), also={"lost": [1, 2]},
        columns={"type_names": ("V100",), "gpu_types": [0, 1]},
    ),
    Scene(
        "a node that will never be back", "A 4x9 B 2x9",
        [(Code.RESOURCES, 2, 0, "needs 2 GPUs; 0 are free")],
        cluster=replace(parse_cluster("2x4"), gone=(1,)), running=(alone(0, 0, 1, 2, 3),), also={"lost": [1]},
    ),
    Scene(
        "only the lost node has the memory on its devices", "A 1x9",
        [
            (Code.NODE, NAN, NAN, "would fit if node n1 took new jobs"),
            (Code.MEMORY, 20, 16, "needs 20 GiB of device memory; the most free on one device is 16 GiB"),
        ],
        cluster=Cluster.build([NodeShape(1, 4, gpu_memory_gib=16), NodeShape(1, 4, gpu_memory_gib=40)]),
        columns={"gpu_memory_gib": 20.0}, also={"lost": [1]},
    ),
    Scene(
        "the other type is free", "A 4x9 B 2x9",
        [(Code.GPU_TYPE, 2, 0, "needs 2 GPUs of type K80; 0 of that type are free")],
        cluster="1x4:K80,1x4:V100", running=(alone(0, *range(4)),),
        columns={"type_names": ("K80", "V100"), "gpu_types": [0, 1]},
    ),
    Scene(
        "one type has not enough, both would", "A 2x9 B 2x9 C 4x9",
        [(Code.GPU_TYPE, 4, 2, "needs 4 GPUs of type K80 or V100; 2 of that type are free")],
        cluster="1x4:K80,1x4:V100", running=(alone(0, 0, 1), alone(1, 4, 5)),
    ),
    Scene(
        "quota", "A 3x9 B 2x9",
        [(Code.QUOTA, 5, 4, "tenant vision would use 5 GPUs; its quota is 4")],
        cluster=QUOTA, running=(alone(0, 0, 1, 2),), columns={"tenant_names": ("vision/ann",)},
    ),
    Scene(
        "quota and no room", "A 3x9 B 2x9 C 4x9",
        [
            (Code.QUOTA, 7, 4, "tenant vision would use 7 GPUs; its quota is 4"),
            (Code.RESOURCES, 4, 3, "needs 4 GPUs; 3 are free"),
        ],
        cluster=QUOTA, running=(alone(0, 0, 1, 2), alone(1, 4, 5)),
        columns={"tenant_names": ("vision/ann", "speech"), "tenant": [0, 1, 0]},
    ),
    Scene(
        "part of a GPU", "A 1x9 B 1x9 C 1x9",
        [(Code.RESOURCES, 0.5, 0.25, "needs 0.5 GPUs; 0.25 are free")],
        cluster="1x2", running=(Grant(0, (0,), 0.75, Role.PACKED), alone(1, 1)),
        columns={"gpu_share": [0.75, 1.0, 0.5]},
    ),
    Scene(
        "parts of several GPUs", "A 1x9 B 1x9 C 3x9",
        [(Code.RESOURCES, 3, 2, "needs 3 GPUs; 2 are free")],
        cluster="1x3", running=(Grant(0, (0,), 0.5, Role.PACKED), alone(1, 1)),
        columns={"gpu_share": [0.5, 1.0, 0.5]},
    ),
    Scene(
        "device memory beside the other", "A 1x9 B 1x9 C 1x9 D 1x9 E 1x9",
        [(Code.MEMORY, 10, 6, "needs 10 GiB of device memory; the most free on one device is 6 GiB")],
        cluster=Cluster.build([NodeShape(count=1, gpus=4, gpu_memory_gib=16)]),
        running=(*(Grant(row, (row,), 0.5, Role.PACKED) for row in range(4)),),
        columns={"gpu_share": 0.5, "gpu_memory_gib": 10.0},
    ),
    Scene(
        "CPU cores", "A 1x9 B 1x9 C 1x9",
        [(Code.HOST, 4, 2, "needs 4 CPU cores on one node; the most free on one is 2")],
        cluster=HOSTS, running=(alone(0, 0), alone(1, 4)), columns={"cpus": [6.0, 6.0, 4.0]},
    ),
    Scene(
        "more CPU cores than any node has, for a gang, and no room", "A 8x9 B 2x9",
        [
            (Code.HOST_TOO_LARGE, 64, 8, "needs 64 CPU cores on one node; the largest node has 8"),
            (Code.RESOURCES, 2, 0, "needs 2 GPUs; 0 are free"),
        ],
        cluster=HOSTS, running=(alone(0, *range(8)),), columns={"cpus": [0.0, 64.0]},
    ),
    Scene(
        "more memory than any node has, and part of the devices free", "A 3x9 B 4x9 C 2x9",
        [
            (
                Code.HOST_TOO_LARGE, 200, 64,
                "needs 200 GiB of host memory on one node; the largest node has 64",
            ),
            (Code.RESOURCES, 2, 1, "needs 2 GPUs; 1 is free"),
        ],
        cluster=HOSTS, running=(alone(0, 0, 1, 2), alone(1, 4, 5, 6, 7)),
        columns={"memory_gib": [0.0, 0.0, 200.0]},
    ),
    Scene(
        "more memory than any node has, of which the part for the one free device would be there",
        "A 3x9 B 4x9 C 8x9 D 4x9",
        [
            (
                Code.HOST_TOO_LARGE, 160, 64,
                "needs 160 GiB of host memory on one node; the largest node has 64",
            ),
            (Code.RESOURCES, 4, 1, "needs 4 GPUs; 1 is free"),
            (Code.EARLIER, NAN, 1, "stands behind 1 job submitted earlier (C)"),
        ],
        cluster=HOSTS, running=(alone(0, 0, 1, 2), alone(1, 4, 5, 6, 7)),
        columns={"memory_gib": [0.0, 0.0, 0.0, 160.0]},
    ),
    Scene(
        "memory that only a closed node has is no lack for ever", "A 4x9 B 1x9",
        [
            (Code.NODE, NAN, NAN, "would fit if node n1 took new jobs"),
            (Code.HOST, 200, 64, "needs 200 GiB of host memory on one node; the most free on one is 64"),
            (Code.RESOURCES, 1, 0, "needs 1 GPU; 0 are free"),
        ],
        cluster=Cluster.build([NodeShape(1, 4, memory_gib=64), NodeShape(1, 4, memory_gib=256)]),
        running=(alone(0, 0, 1, 2, 3),), columns={"memory_gib": [0.0, 200.0]}, also={"lost": [1]},
    ),
    Scene(
        "memory for a gang of which each half would find some", "A 1x9 B 4x9",
        [(Code.HOST, 96, 64, "needs 96 GiB of host memory on one node; the most free on one is 64")],
        cluster=HOSTS, running=(alone(0, 0),), columns={"memory_gib": [40.0, 96.0]},
    ),
    Scene(
        "a CPU job wants memory", "A 0x9 B 0x9 C 0x9",
        [(Code.HOST, 40, 24, "needs 40 GiB of host memory on one node; the most free on one is 24")],
        cluster=HOSTS, running=(Grant(0, (), node=0), Grant(1, (), node=1)), columns={"memory_gib": 40.0},
    ),
    Scene(
        "kept for another", "A 4x9 B 8x9 C 2x9",
        [
            (
                Code.RESERVATION, 2, 0,
                "needs 2 GPUs; 0 are free, the rest is reserved for job B (for another 9s)",
            ),
            (Code.EARLIER, NAN, 1, "stands behind 1 job submitted earlier (B)"),
        ],
        running=(alone(0, 0, 1, 2, 3),), also={"reservations": [Reservation(1, tuple(range(8)), 9.0)]},
    ),
    Scene(
        "a reservation that leaves room is no reason", "A 4x9 B 8x9 C 2x9",
        [(Code.EARLIER, NAN, 1, "stands behind 1 job submitted earlier (B)")],
        running=(alone(0, 0, 1, 2, 3),), also={"reservations": [Reservation(1, (0, 1, 4, 5), 9.0)]},
    ),
    Scene(
        "dependency", "A 1x9 B 1x9 C 1x9",
        [(Code.DEPENDENCY, NAN, NAN, "waits for jobs A and B to end")],
        running=(alone(0, 0),), columns={"after": {2: (0, 1)}},
    ),
    Scene(
        "preempted for a shorter one", "B 2x9 A 8x90",
        [
            (Code.PREEMPTED, 8, NAN, "gave up 8 GPUs to job B"),
            (Code.RESOURCES, 8, 6, "needs 8 GPUs; 6 are free"),
        ],
        running=(alone(1, *range(8)),), policy="srtf",
    ),
    Scene(
        "shorter jobs in front, not earlier ones", "A 8x1 B 8x50 C 8x5 D 8x9",
        [
            (Code.RESOURCES, 8, 0, "needs 8 GPUs; 0 are free"),
            (Code.EARLIER, NAN, 1, "stands behind 1 job submitted earlier (C)"),
        ],
        running=(alone(0, *range(8)),), policy="srtf",
    ),
    Scene(
        "the policy has a reason of its own", "A 8x9 B 2x9",
        [
            (Code.LOCALITY, 2, 3, "waits for 2 GPUs closer together; 3 are free in all (rack)"),
            (Code.RESOURCES, 2, 0, "needs 2 GPUs; 0 are free"),
        ],
        running=(alone(0, *range(8)),), also={"reasons": {1: Constraint(Code.LOCALITY, 2, 3, "rack")}},
    ),
    Scene(
        "refused a moment ago", "A 8x9 B 2x9",
        [
            (Code.REFUSED, NAN, NAN, "was to start, but was refused: node n0 does not answer"),
            (Code.RESOURCES, 2, 0, "needs 2 GPUs; 0 are free"),
        ],
        running=(alone(0, *range(8)),), also={"refused": {1: "node n0 does not answer"}},
    ),
    Scene(
        "room for it, and the policy comes back later", "A 2x9",
        [(Code.ROUND, NAN, 60, "waits for the round that begins in 1m")],
        policy="", also={"wake": Wake(at_s=60.0)},
    ),
    Scene(
        "room for it, and no reason", "A 2x9",
        [(Code.POLICY, NAN, NAN, "could start, and the policy gives no reason why it does not")],
        policy="",
    ),
]  # fmt: skip


def asked(scene: Scene) -> tuple[Snapshot, Decision, int]:
    """The scene's snapshot, the decision of its policy with what the scene adds, and the last row."""
    state: State = state_of(scene.jobs, scene.cluster, scene.running, **scene.columns)
    state.refused = scene.also.get("refused", {})
    for node in scene.also.get("lost", ()):
        state.occupancy.lose(node)
    durations = np.array([float(word.split("x")[1]) for word in scene.jobs.split()[1::2]])
    known = {Knowledge.DURATION: Known(durations, Provenance.ORACLE)}
    snapshot = Snapshot(state, known=known, needs=frozenset({Knowledge.DURATION}))
    policy = parse_policy(scene.policy).make() if scene.policy else None
    decision = policy.decide(snapshot, {}) if policy else Decision({})
    for name in {"reasons", "reservations", "wake"} & set(scene.also):
        setattr(decision, name, scene.also[name])
    return snapshot, decision, len(durations) - 1


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.why)
def test_why_a_job_waits(scene: Scene) -> None:
    found = explain(*asked(scene))
    assert [one.code for one in found] == [row[0] for row in scene.expected]
    for one, (_, requested, provided, sentence) in zip(found, scene.expected, strict=True):
        np.testing.assert_equal((one.requested, one.provided), (requested, provided))
        assert one.sentence() == sentence


def test_who_runs_does_not_wait() -> None:
    snapshot, decision, _ = asked(Scene("", "A 4x9 B 2x9", [], running=(alone(0, 0, 1, 2, 3),)))
    assert explain(snapshot, decision, 0) == ()
    assert explain(snapshot, decision, 1) == (), "it starts now"


class EveryTenSeconds:
    """Serves the first where there is room; it is asked at multiples of ten seconds only."""

    needs = frozenset()  # type: ignore[var-annotated]

    def __init__(self) -> None:
        self.inner = parse_policy("fifo:skip=yes").make()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        again = Wake(10.0 * (snapshot.now // 10.0 + 1.0), Event.NONE)
        return replace(self.inner.decide(snapshot, memory), wake=again)


def test_a_run_records_that_a_job_has_waited_for_a_round() -> None:
    """B starts with the first round after it came; C is seen waiting in it; D starts as it comes, with a
    round; E waits for B to end, and then for a round; F comes after the last one."""
    trace = trace_of("A 1x100 B 2x5@3 C 8x9@4 D 1x5@10 E 1x5@10 F 1x5@33", after={4: (1,)})
    record = play(EveryTenSeconds(), trace, "1x8", Setting(until_s=35.0))
    said = [(row["wait_code"], row["wait_requested"], row["wait_provided"]) for row in record.jobs.to_dicts()]
    round_ = Code.ROUND.value
    assert said == [
        ("", None, None),
        (round_, 10.0, 7.0),
        ("Resources", 8.0, 7.0),
        ("", None, None),
        (round_, 20.0, 10.0),
        (round_, 40.0, 7.0),
    ]
    assert record.jobs["why"].to_list()[-1] == "waits for the round that begins at 40 s"


def test_a_run_records_the_first_reason() -> None:
    """B waits for GPUs; D's two lie on two nodes, which consolidation would take: it is C in front."""
    record = play("fifo", "A 6x9 B 4x9@1 C 8x9@2 D 2x9@3", "2x4")
    codes = dict(zip(record.jobs["job_id"], record.jobs["wait_code"], strict=True))
    assert codes == {"A": "", "B": "Resources", "C": "Resources", "D": "Priority"}
    record = play("fifo:placement=one_node", "A 3x9 B 3x9 D 2x9@3", "2x4")
    assert record.jobs["wait_code"].to_list() == ["", "", "Fragmentation"]
