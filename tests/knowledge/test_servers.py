"""Jobs with parameter servers: Optimus' worked example 2 found again in a file, and servers of a grant."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from play import play, trace_of
from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.knowledge.servers import Served, Unit, served_of, server_table
from rota.knowledge.servers_file import read_servers
from rota.knowledge.step_speed import StepSpeed, Training
from rota.model.cluster import Cluster, NodeShape
from rota.model.grants import Grant
from rota.worlds.simulated.pace import At
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.slowdowns import Efficiency, Slowdowns

SYNC = StepSpeed(Training.SYNCHRONOUS, (1 / 64, 0.1, 0.2, 0.01, 0.01), 64.0)
ASYNC = StepSpeed(Training.ASYNCHRONOUS, (1.0, 0.2, 0.02, 0.02))
VGG = Served(SYNC, server=Unit(3.0, 9.0), worker=Unit(2.0, 8.0))
MEASURED = [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 3), (4, 4)]
HEAD = "workload,servers,workers,steps_per_s,training,batch,server_cpus,server_gib,worker_cpus,worker_gib\n"


def rows(name: str, speed: StepSpeed, end: str, measured: list[tuple[int, int]] = MEASURED) -> str:
    return "".join(f"{name},{p},{w},{speed.at(w, p)},{end}\n" for p, w in measured)


def test_a_file_of_measurements_gives_the_speeds_back(tmp_path: Path) -> None:
    """Worked example 2: what was measured on few pairs says f of all others."""
    path = tmp_path / "servers.csv"
    ends = ("synchronous,64,3,9,2,8", "asynchronous,,,,,")
    path.write_text(HEAD + rows("vgg", SYNC, ends[0]) + rows("lm", ASYNC, ends[1]))
    found = read_servers(path)
    assert (found["vgg"].server, found["vgg"].worker) == (Unit(3.0, 9.0), Unit(2.0, 8.0))
    assert (found["lm"].server, found["lm"].worker) == (Unit(), Unit())
    assert [found["vgg"].at(p, w) for p, w in ((1, 1), (2, 3), (8, 2))] == pytest.approx(
        [0.7576, 1.2766, SYNC.at(2, 8)], abs=1e-4
    )
    assert [found["lm"].at(p, p) for p in (1, 4, 8)] == pytest.approx([0.8065, 2.9412, 5.2632], abs=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload,servers\n", "row 1: has other columns"),
        (HEAD, "there is no speed in it"),
        (HEAD + "vgg,1,0,1,,,,,,\n", r"row 2, column 'workers': has '0'; expected a whole number above 0"),
        (HEAD + "vgg,1.5,1,1,,,,,,\n", r"row 2, column 'servers': has '1.5'"),
        (HEAD + "vgg,1,1,fast,,,,,,\n", r"row 2, column 'steps_per_s': has 'fast'; expected a number"),
        (HEAD + "vgg,1,1,1,,,3,-1,,\n", r"row 2, column 'server_gib': has '-1'; expected 0 or more"),
        (HEAD + "vgg,1,1,1,,,0,,,\n", r"row 2, column 'server_cpus': has '0'; expected a number above 0"),
        (HEAD + "vgg,1,1,1,all-reduce,,,,,\n", "'all-reduce' is no way to train with servers"),
        (HEAD + "vgg,1,1,1,,64,,,,\nvgg,1,2,1,,32,,,,\n", "row 3: 'vgg' has other units"),
        (HEAD + rows("vgg", SYNC, ",,,,,", MEASURED[:4]), "'vgg' was measured on too few .*; expected 5"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "servers.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_servers(path)


NAN = math.nan
TRACE = trace_of("A 2x10", cpus=10.0, workload=0, workload_names=("vgg",))
GREEDY = trace_of("A 2x10", workload=0, workload_names=("vgg",))


@pytest.mark.parametrize(
    ("trace", "gpus", "cpus", "servers", "why"),
    [
        (TRACE, 2, NAN, 2, "10 CPUs asked for: 4 for two workers, 6 for two servers"),
        (TRACE, 4, NAN, 4, "in proportion to its GPUs"),
        (TRACE, 1, NAN, 1, "the same"),
        (TRACE, 2, 14.0, 3, "what is granted goes before what was asked for; one CPU is left over"),
        (TRACE, 2, 5.0, 1, "too few for one: it has one all the same"),
        (GREEDY, 3, NAN, 3, "who asks for no CPUs has as many servers as workers"),
    ],
)
def test_the_servers_of_a_grant(trace: object, gpus: int, cpus: float, servers: int, why: str) -> None:
    jobs = trace.jobs  # type: ignore[attr-defined]
    assert VGG.granted(jobs, Grant(0, tuple(range(gpus)), cpus=cpus)) == servers, why


def test_a_table_is_read_back() -> None:
    lm = Served(ASYNC)
    table = server_table({"vgg": VGG, "lm": lm, "none": lm}, ("lm", "other", "vgg"), np.array([0, 1, 2, -1]))
    assert table.by_row["class"].tolist() == [0, -1, 1, -1]
    assert served_of(table) == [lm, VGG]
    assert served_of(server_table({}, ("lm",), np.array([0]))) == []


NODE = Cluster.build([NodeShape(count=1, gpus=8, cpus=64)])


@pytest.mark.parametrize("cpus", [NAN, 13.0, 40.0])
def test_the_world_is_as_fast_as_the_model_says(cpus: float) -> None:
    """A of two workers and two servers, on four workers: the rate is f there over f as asked for."""
    efficiency = Efficiency(TRACE.jobs, NODE, Slowdowns(servers={"vgg": VGG}))
    assert set(efficiency.knowledge) == {Knowledge.SERVERS}
    grant = Grant(0, (0, 1, 2, 3), cpus=cpus)
    servers = VGG.granted(TRACE.jobs, grant)
    rate = 4 / 2 * efficiency.of(0, grant, (), At(0.0, 0.0, 0.0)).rate
    assert rate == pytest.approx(SYNC.at(4, servers) / SYNC.at(2, 2))
    assert efficiency.of(0, Grant(0, (0, 1)), (), At(0.0, 0.0, 0.0)).rate == pytest.approx(1.0)


def test_a_user_tells_of_a_workload(tmp_path: Path) -> None:
    """`--knowledge servers=user:FILE`, for jobs as they are submitted."""
    path = tmp_path / "servers.csv"
    path.write_text(HEAD + rows("vgg", SYNC, "synchronous,64,3,9,2,8"))
    trace = trace_of("A 1x10 B 1x10@5", cpus=5.0, workload=[0, 1], workload_names=("vgg", "other"))
    record = play("optimus", trace, NODE, Setting(knowledge={"servers": f"user:{path}"}))
    assert record.provenance["knowledge"]["servers"] == "user"
    assert set(play("optimus", trace, NODE).provenance["knowledge"].values()) >= {"assumed"}
