"""Data-parallel ranks stop at one step, on one node and on several, and no directive deadlocks them."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import random
import sys
import threading
import time
from pathlib import Path

import pytest

from rota.training import protocol, torch_state
from tiers import first
from training_kit import EXAMPLES, Gang, needs_torch, until

pytestmark = needs_torch
ENDLESS = ["--epochs", "100000", "--samples", "53", "--batch-size", "8", "--step-s", "0.002"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("size", "nodes", "way"),
    first(1, [(2, 2, "store"), (2, 1, "rank 0"), (4, 2, "store")]),
)
def test_twenty_pauses_at_random_moments(size: int, nodes: int, way: str, tmp_path: Path) -> None:
    """Always the same step; in between they train on; at the end all leave with 85 at one step."""
    draw = random.Random(size + nodes)
    command = [EXAMPLES / "ddp_elastic.py", *ENDLESS, "--statistics"]
    with Gang(tmp_path, command, size, nodes, checkpoints=tmp_path / "own") as gang:
        gang.wait_states("running", step=1)
        last = 0
        for _ in range(20):
            time.sleep(draw.uniform(0.0, 0.03))
            do = draw.choice(["pause", "suspend"])
            number = gang.tell(do)
            states = gang.wait_states("paused" if do == "pause" else "suspended", sequence=number)
            (step,) = {state.at_step for state in states}
            assert step > last
            last = step
            number = gang.tell("run")
            gang.wait_states("running", sequence=number)
        assert {state.capability["agreement"] for state in gang.states()} == {way}
        number = gang.tell("batch_size", batch_size=12)
        gang.wait_states("running", sequence=number)
        assert {state.batch_size for state in gang.states()} == {12}
        gang.tell("leave")
        assert gang.wait() == [protocol.LEAVE_CODE] * size, gang.log()
        (step,) = {state.step for state in gang.states()}
        assert gang.states()[0].checkpoint_step == step
        assert any(state.gradient_noise is not None for state in gang.states())


@pytest.mark.soak
@pytest.mark.parametrize("nodes", [1, 2])
def test_random_directives_to_a_gang(nodes: int, tmp_path: Path) -> None:
    """Many are replaced before anyone has seen them, nodes hear them apart: the last one holds."""
    draw = random.Random(nodes)
    with Gang(tmp_path, [EXAMPLES / "ddp_elastic.py", *ENDLESS], 2, nodes, tmp_path / "own") as gang:
        gang.wait_states("running", step=1)
        for _ in range(60):
            do = draw.choice(["pause", "suspend", "run", "checkpoint", "resume"])
            for folder in gang.folders:
                protocol.command(folder, protocol.Directive(do))
                time.sleep(draw.choice([0.0, 0.002, 0.01]))
        number = gang.tell("pause")
        states = gang.wait_states("paused", "suspended", sequence=number)
        assert len({state.at_step for state in states}) == 1
        gang.tell("leave")
        assert gang.wait() == [85, 85], gang.log()


@pytest.mark.soak
def test_nodes_told_at_different_moments(tmp_path: Path) -> None:
    """One node hears a directive half a second later than the other: nobody overruns the stop."""
    command = [EXAMPLES / "ddp_elastic.py", *ENDLESS]
    with Gang(tmp_path, command, 2, 2, checkpoints=tmp_path / "own") as gang:
        gang.wait_states("running", step=1)
        for first in (0, 1):
            protocol.command(gang.folders[first], protocol.Directive("pause"))
            time.sleep(0.3)
            assert {state.state for state in gang.states()} == {"running"}
            protocol.command(gang.folders[1 - first], protocol.Directive("pause"))
            states = gang.wait_states("paused")
            assert len({state.at_step for state in states}) == 1
            number = gang.tell("run")
            gang.wait_states("running", sequence=number)


@pytest.mark.soak
def test_nodes_that_share_no_folder(tmp_path: Path) -> None:
    """Only the node of rank 0 has the checkpoint: the other is sent it, and both continue at one step."""
    finite = ["--epochs", "2", "--samples", "40", "--batch-size", "4"]
    command, folder = [EXAMPLES / "ddp_elastic.py", *finite], tmp_path / "own-{node}"
    with Gang(tmp_path / "1", [*command, "--step-s", "0.5"], 2, 2, folder) as gang:
        gang.wait_states("running", step=1)
        gang.tell("leave")
        assert gang.wait() == [85, 85], gang.log()
        left = gang.states()[0].checkpoint_step
    assert left is not None
    assert not (tmp_path / "own-1").exists()
    with Gang(tmp_path / "2", command, 2, 2, folder) as gang:
        assert gang.wait() == [0, 0], gang.log()
        assert {(state.step, state.checkpoint_step) for state in gang.states()} == {(20, left)}


@pytest.mark.soak
def test_a_suspension_leaves_before_collectives_time_out(tmp_path: Path) -> None:
    """With a deadline far away and a time-out of 30 s: all ranks leave together after 24 s."""
    program = tmp_path / "short.py"
    program.write_text(
        "import functools, runpy, sys, rota.training as r\n"
        "r.ddp = functools.partial(r.ddp, timeout_s=30)\n"
        "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    command = [program, EXAMPLES / "ddp_elastic.py", *ENDLESS]
    with Gang(tmp_path, command, 2, checkpoints=tmp_path / "own") as gang:
        gang.wait_states("running", step=1)
        gang.tell("suspend", deadline_s=time.time() + 3600)
        gang.wait_states("suspended")
        assert gang.wait() == [85, 85], gang.log()
        assert gang.states()[0].checkpoint_step == gang.states()[1].step


LAST_WORD = """
import torch, rota.training as rota
model = rota.ddp(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.randn(3, 4)).sum().backward()
optimizer.step()
"""


@pytest.mark.soak
@pytest.mark.parametrize("gangs", first(1, [1], deep=[18]))
def test_a_program_may_end_right_after_its_last_collective(gangs: int, tmp_path: Path) -> None:
    """Three gangs at once on low priority: nobody is aborted by threads that torch leaves behind.

    One alone runs as ever: beside other tests low priority is next to nothing of a core.
    """
    program = tmp_path / "last_word.py"
    program.write_text(LAST_WORD)
    late = ("nice", "-n", "10", sys.executable) if gangs > 1 else (sys.executable,)
    for begin in range(0, gangs, 3):
        with contextlib.ExitStack() as stack:
            numbers = range(begin, min(begin + 3, gangs))
            started = [
                stack.enter_context(Gang(tmp_path / str(number), [program], 2, python=late))
                for number in numbers
            ]
            for gang in started:
                assert gang.wait() == [0, 0], gang.log()


def test_other_threads_are_seen_at_work() -> None:
    """A thread that computes without the interpreter's lock is at work; one that waits is not."""
    until(torch_state._others_sleep, lambda: "the other threads to sleep")
    work = threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"rota", b"salt", 3_000_000))
    work.start()
    seen = set()
    while work.is_alive():
        seen.add(torch_state._others_sleep())
        time.sleep(0.001)
    assert False in seen
    until(torch_state._others_sleep, lambda: "the other threads to sleep")


def test_storages_leave_and_come_back() -> None:
    """CPU memory in place of the device: views, tied weights and the optimizer find their bytes again."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    model[1].weight = model[0].weight
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    view = model[0].weight[2:4]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tree = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    tensors = [*model.parameters(), *(one.grad for one in model.parameters())]
    tensors += [value for state in optimizer.state.values() for value in state.values()]
    suspension = torch_state.Suspension("cpu")
    suspension.release(tensors)
    weights = 8 * 8 + 8 + 8
    assert suspension.bytes == 4 * (4 * weights + 3)  # weights, gradients, two moments; a count for each of 3
    assert model[0].weight.untyped_storage().nbytes() == 0
    on_host = suspension.on_host(tree)
    for name, value in on_host["model"].items():
        assert torch.equal(value, before[name]), "a checkpoint can be written meanwhile"
    assert suspension.restore() == suspension.bytes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(view, before["0.weight"][2:4])
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()


def test_what_cannot_move_counts_as_residual() -> None:
    """Memory that torch does not own stays where it is."""
    import torch

    numpy = pytest.importorskip("numpy")
    alias = torch.from_numpy(numpy.ones(100, dtype=numpy.float32))
    suspension = torch_state.Suspension("cpu")
    suspension.release([alias])
    assert (suspension.bytes, suspension.residual_bytes) == (0, 400)
    assert suspension.restore() == 0
    assert float(alias.sum()) == 100


def test_device_tensors_are_found() -> None:
    """Everything Python holds, gradients too; nothing on a device that is not in use."""
    import torch

    mine = torch.nn.Parameter(torch.ones(3))
    mine.sum().backward()
    gc.collect()
    found = {id(one) for one in torch_state.device_tensors("cpu")}
    assert {id(mine), id(mine.grad)} <= found
    assert torch_state.device_tensors() == [] or torch.cuda.is_initialized()
