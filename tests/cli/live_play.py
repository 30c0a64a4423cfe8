"""A controller that says what a test tells it to, on a real socket; and one small cluster to tell it."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel

from rota.wire.curves import CurvesView, CurveView
from rota.wire.job import JobSpec
from rota.wire.keeping import Disk
from rota.wire.sync import Capability, DeviceInfo, Mechanism, Piece, ProgressReport, Usage
from rota.wire.tenants import CellView, TenantLoss, TenantsMoved, TenantsView, TenantView
from rota.wire.views import (
    AttemptView,
    ClusterStatus,
    DeviceView,
    EventView,
    ForecastRow,
    JobDetail,
    JobView,
    NodeView,
    PolicyView,
    ReasonView,
    SizeView,
    WhatIf,
    Why,
)

NOW_S = 1_795_341_600.0  # 2026-11-22T10:00:00Z


CURVES = CurvesView(
    job="15",
    spacing_s=2.0,
    at_s=[NOW_S - 60.0 + 4.0 * i for i in range(15)],
    until_s=[NOW_S - 58.0 + 4.0 * i for i in range(15)],
    attempt=[1] * 15,
    curves={
        "loss": CurveView(
            mean=[4.0 / (1 + i) for i in range(15)], low=[3.5 / (1 + i) for i in range(15)], high=[5.0] * 15
        ),
        "utilisation": CurveView(
            unit="part",
            mean=[None] * 7 + [0.25, 0.9] * 4,
            low=[None] * 7 + [0.2] * 8,
            high=[None] * 7 + [0.95] * 8,
        ),
    },
)


@dataclass(frozen=True)
class Asked:
    """One call that came."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    token: str


@dataclass(frozen=True)
class Answer:
    """What to say, with another status than 200 or as something else than JSON."""

    status: int
    body: Any
    content: str = "application/json"


Reply = BaseModel | Answer | list[Any] | dict[str, Any]


@dataclass
class Canned:
    """Answers by `METHOD /path`, and the calls that came."""

    replies: dict[str, Reply | Callable[[Asked], Reply]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    now_s: float | None = None
    """What it says that its clock shows."""

    def answer(self, call: Asked) -> Answer:
        """What a controller of this mind says."""
        self.asked.append(call)
        found = self.replies.get(f"{call.method} {call.path}")
        if found is None:
            return Answer(404, {"error": f"nothing canned for {call.method} {call.path}"})
        if callable(found):
            found = found(call)
        return found if isinstance(found, Answer) else Answer(200, _plain(found))

    def bodies(self, method: str, path: str) -> list[Any]:
        """What was sent there."""
        return [call.body for call in self.asked if (call.method, call.path) == (method, path)]


def refusal(status: int, sentence: str) -> Answer:
    """A refusal as the controller words it."""
    return Answer(status, {"error": sentence})


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(item) for item in value] if isinstance(value, list) else value


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def controller(path: Path, canned: Canned) -> Iterator[None]:
    """Answer on the socket at `path` as long as the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            url = urlsplit(self.path)
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            body = json.loads(sent) if sent else None
            call = Asked(self.command, unquote(url.path), dict(parse_qsl(url.query)), body, token)
            answer = canned.answer(call)
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content)
            self.send_header("Content-Length", str(len(text.encode())))
            if canned.now_s is not None:
                self.send_header("Rota-Now", str(canned.now_s))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = _Server(str(path), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        path.unlink()


def job(id: str, state: str = "PENDING", **fields: Any) -> JobView:
    """A job of a small cluster."""
    usual: dict[str, Any] = {
        "name": "train",
        "user": "alice",
        "tenant": "vision",
        "gpus": 1,
        "submit_s": NOW_S - 600,
    }
    return JobView(id=id, row=int(id.partition("_")[0]) - 1, state=state, **{**usual, **fields})


JOBS = [
    job(
        "15",
        "RUNNING",
        name="resnet-with-a-name-that-is-too-long-for-any-table-of-a-hundred-columns",
        gpus=4,
        gpus_now=2,
        nodes=["gpu-1"],
        devices=["gpu-1:0", "gpu-1:1"],
        start_s=NOW_S - 500,
        since_s=NOW_S - 400,
        run_s=480.0,
        waiting_s=120.0,
        time_s=7200.0,
        attempt=2,
    ),
    job("16", "SUSPENDED", reason="Priority", run_s=65.4, waiting_s=535.0, share=0.5, tenant="vision/alice"),
    job("17", gpus=8, reason="Resources", user="bob", tenant="speech", waiting_s=600.0, name="big"),
    job("18_3", gpus=0, reason="BeginTime", waiting_s=3.25, name=""),
]
ENDED = [
    job(
        "12",
        "COMPLETED",
        start_s=NOW_S - 7000,
        end_s=NOW_S - 5000,
        run_s=2000.0,
        waiting_s=200.0,
        submit_s=NOW_S - 7200,
        exit_code=0,
    ),
    job(
        "13",
        "FAILED",
        name="broken",
        end_s=NOW_S - 4000,
        run_s=3.5,
        waiting_s=1.0,
        exit_code=1,
        cause="rank 0 exited with code 1: error in the program",
    ),
    job("14", "OUT_OF_MEMORY", gpus=2, end_s=NOW_S - 3000, run_s=90000.0, waiting_s=50.0, signal=9),
]
DETAIL = JobDetail(
    job=JOBS[0],
    spec=JobSpec(
        command=["python", "train.py", "--name", "a b"],
        name="resnet",
        gpus=4,
        gpus_min=1,
        gpus_max=8,
        gpu_types=["A100", "H100"],
        time_s=7200.0,
        priority=5,
        workdir="/home/alice",
        after=[{"job": "12", "when": "any"}],
    ),
    attempts=[
        AttemptView(
            number=1,
            state="ENDED",
            nodes=["gpu-1", "gpu-2"],
            devices=["gpu-1:0", "gpu-1:1", "gpu-2:0", "gpu-2:1"],
            wanted_s=NOW_S - 501,
            start_s=NOW_S - 500,
            end_s=NOW_S - 420,
            end="preempted",
            exit_code=85,
            cause="preempted for job 14",
        ),
        AttemptView(
            number=2,
            state="RUNNING",
            nodes=["gpu-1"],
            devices=["gpu-1:0", "gpu-1:1"],
            wanted_s=NOW_S - 401,
            start_s=NOW_S - 400,
            progress=ProgressReport(steps=1200, total_steps=5000),
            usage=Usage(at_s=NOW_S, cpu_cores=3.5, gpu_utilisation=0.931),
        ),
    ],
    capability=Capability(training="1", suspend=Mechanism.COOPERATIVE, checkpoint=True, to_host=True),
    events=[
        EventView(seq=41, at_s=NOW_S - 600, who="alice", kind="submitted", job="15", text="4 GPUs"),
        EventView(seq=44, at_s=NOW_S - 420, who="tiresias", kind="preempted", job="15", text="for job 14"),
    ],
    sizes=[
        SizeView(
            gpu_type="A100",
            nodes=nodes,
            gpus=gpus,
            batch_size=batch,
            speed=speed,
            goodput=worth,
            provenance=by,
        )
        for nodes, gpus, batch, speed, worth, by in (
            (1, 1, 64, 359.55, 359.55, "predicted"),
            (1, 2, 64, 690.2, 690.2, "measured"),
            (1, 4, 176, 1634.1, 1210.4, "measured"),
            (2, 8, 448, 2139.2, None, "predicted"),
        )
    ],
)
WHY = Why(
    job="17",
    state="PENDING",
    policy="tiresias",
    reasons=[
        ReasonView(
            code="Resources",
            sentence="needs 8 GPUs in one node; the most free in one node is 6",
            requested=8,
            provided=6,
            remedy="ask for 6 GPUs or fewer, or wait until job 15 has ended",
        ),
        ReasonView(code="Priority", sentence="level 2 behind 3 jobs", detail="jobs 12, 13 and 14"),
    ],
    start_s=NOW_S + 754,
    start_from_s=NOW_S + 600,
    start_to_s=NOW_S + 1800,
    basis="by the time limits of users",
)
NODES = [
    NodeView(
        name="gpu-1",
        state="up",
        kind="nvidia",
        gpus=2,
        gpus_used=1.5,
        cpus=64,
        memory_gib=503.5,
        suspended_gib=12.25,
        seen_s=NOW_S - 0.2,
        disk=Disk(
            total_bytes=100 * 2**30, free_bytes=40 * 2**30, files_bytes=2**29, checkpoints_bytes=12 * 2**30
        ),
        devices=[
            DeviceView(
                device="gpu-1:0",
                info=DeviceInfo(index=0, type="A100", memory_gib=40.0),
                jobs=["15"],
                granted=1.0,
                utilisation=0.931,
                memory_used_gib=30.1,
            ),
            DeviceView(
                device="gpu-1:1",
                info=DeviceInfo(index=1, type="A100", memory_gib=40.0, healthy=False, why="Xid 79"),
                jobs=["15", "14"],
                granted=0.5,
                suspended=["16"],
            ),
        ],
        capabilities={"cuda checkpoint": "driver 535: needs 550"},
    ),
    NodeView(
        name="laptop",
        state="drained",
        reason="new power supply",
        kind="cpu",
        gpus=4,
        cpus=4,
        memory_gib=7.8,
        seen_s=NOW_S - 75,
        devices=[DeviceView(device="laptop:0", info=DeviceInfo(index=0, type="cpu"))],
    ),
]
STATUS = ClusterStatus(
    name="demo",
    version="0.1.0",
    started_s=NOW_S - 90061,
    policy="tiresias",
    nodes=2,
    gpus=6,
    gpus_used=1.5,
    pending=2,
    running=1,
    suspended=1,
    finished=12,
    store="sqlite",
    troubles=["node gpu-9 is lost: nothing heard for 2m"],
    drained=["laptop (by ann: new power supply)"],
)
POLICY = PolicyView(
    policy="tiresias",
    since_s=NOW_S - 3600,
    by="alice",
    knowledge={"duration": "user", "speed": "measured"},
    decisions=128,
    last_ms=3.25,
    late=1,
    trouble="policy tiresias did not decide within 10 s; everything keeps what it has",
    shadow="srtf",
    shadow_would=["start job 17 on gpu-1", "preempt job 15"],
)
TENANTS = TenantsView(
    tenants=[
        TenantView(
            path="speech",
            cells=[
                CellView(level="node", count=2, gpu_type="V100", gpus=16),
                CellView(level="node", count=1, gpu_type="V100", at="gpu-7", gpus=8),
            ],
            entitled=24,
            own=16,
            held=20,
            held_by_type={"V100": 20},
            running=3,
            gpu_hours=1234.5,
        ),
        TenantView(path="students", configured=False, waiting=12, waiting_gpus=14.5),
        TenantView(
            path="vision",
            quota=32,
            hard=True,
            weight=2,
            quota_by_type={"A100": 4},
            entitled=32,
            own=8,
            held=8,
            running=1,
            waiting=1,
            waiting_gpus=1,
            gpu_hours=56.78,
        ),
    ],
    policy="hived",
    since_s=NOW_S - 3600,
    by="alice",
    notes=["guarantees are at risk while gpu-7 is gone: a cell of tenant speech is at gpu-7"],
)
MOVED = TenantsMoved(
    applied=False,
    changes=["speech: cells 2 nodes of V100 to 1 node of V100"],
    losses=[
        TenantLoss(job="17", tenant="speech", what="preempted", sentence="would be preempted by hived"),
    ],
    notes=["vision: those below it have quotas of 40 in all, and it has 32 GPUs"],
)
WHATIF = WhatIf(
    rows=[
        ForecastRow(job="15", policy="tiresias", start_s=NOW_S - 500, finish_s=NOW_S + 6720),
        ForecastRow(job="15", policy="srtf", start_s=NOW_S - 500, finish_s=NOW_S + 9000),
        ForecastRow(job="17", policy="tiresias", start_s=NOW_S + 6720, finish_s=NOW_S + 10320),
        ForecastRow(
            job="17",
            policy="srtf",
            start_s=NOW_S + 60,
            finish_s=NOW_S + 3660,
            finish_low_s=NOW_S + 1860,
            finish_high_s=NOW_S + 9000,
        ),
        ForecastRow(job="18_3", policy="tiresias", start_s=None, finish_s=None),
    ],
    summary=[
        {"policy": "tiresias", "mean_wait_s": 3360.0, "mean_jct_s": 8520.0, "preemptions": 0},
        {"policy": "srtf", "mean_wait_s": 30.0, "mean_jct_s": 6330.0, "preemptions": 1},
    ],
    basis={"user": 2, "predicted": 0, "history": 1},
    took_s=0.42,
)
EVENTS = [*DETAIL.events, EventView(seq=45, at_s=NOW_S, who="alice", kind="policy", text="fifo -> tiresias")]


def log_of(texts: dict[tuple[int, int], str]) -> Callable[[Asked], Piece | Answer]:
    """A log for each (attempt, rank), read by the piece as an agent gives it out."""

    def reply(call: Asked) -> Piece | Answer:
        newest = max(attempt for attempt, _ in texts)
        key = int(call.query.get("attempt", newest)), int(call.query["rank"])
        if key not in texts:
            why = f"there is no log of rank {key[1]} of attempt {key[0]} on this machine"
            return Piece(id="x", offset=0, text="", size=0, error=why)
        data, offset = texts[key].encode(), int(call.query["offset"])
        offset = max(0, len(data) + offset) if offset < 0 else offset
        limit = int(call.query["limit"])
        return Piece(id="x", offset=offset, text=data[offset : offset + limit].decode(), size=len(data))

    return reply
