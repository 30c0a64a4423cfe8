"""How fast the live world is: each figure on a fresh cluster of CPU slots in a temporary folder.

python benchmarks/live.py [start] [beside] [burst] [queue] [suspend] [spent] [idle] [reads]

Without names, all of them.

    start    submit -> first line of the program, on an idle device; through the API and with `rota submit`
    beside   the same and 300 short programs, with HyperQueue and task-spooler in the same run
    burst    1,000 submissions one after the other, and what other calls meanwhile wait
    queue    decisions with 10,000 jobs waiting, under fifo and tiresias
    suspend  a torch job with 100 MB of state: suspend -> device free, resume -> next step
    spent    CPU time of a short program in controller, policy, agent and what the agent waits for
    idle     controller, policy and agent with 100 sleeping programs
    reads    lists of 1,000 jobs, and what else people look at
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from beside import beside
from live_common import (
    ROTA,
    Cluster,
    Spread,
    cluster,
    costs,
    cpu_s,
    leave_on_sigterm,
    load,
    ms,
    stamp,
    stamping,
    until,
)

PROGRAM = """
import sys, torch, rota.training as rota
torch.set_num_threads(1)
wide = max(8, int((float(sys.argv[1]) * 1e6 / 4 / 3) ** 0.5))  # weights and two moments of Adam, 4 bytes each
model = torch.nn.Linear(wide, wide, bias=False)
optimizer = torch.optim.AdamW(model.parameters(), fused=False)
job = rota.attach(model=model, optimizer=optimizer, checkpoint_every_s=None)
batch = torch.randn(4, wide)
with open(sys.argv[2], "w") as file:
    for step in job.steps(10**9):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        job.step()
        file.seek(0)
        file.write(f"{step:12d}")
        file.flush()
"""


def start(rounds: int = 40) -> None:
    """On an idle device: what a user waits before the program begins."""
    with cluster() as rota, tempfile.TemporaryDirectory() as folder:
        accepted, begun, told = [], [], []
        for turn in range(rounds + 3):
            mark, asked = Path(folder) / f"api-{turn}", time.time()
            id = rota.submit(stamping(mark))
            answered = time.time()
            rota.wait(id)
            seen, at = time.time(), stamp(mark)
            if turn >= 3:  # the first ones warm up
                accepted.append(answered - asked)
                begun.append(at - asked)
                told.append(seen - at)
            time.sleep(0.05)
        print("accepted by the API        ", Spread(tuple(accepted)))
        print("API: submit -> start       ", Spread(tuple(begun)))
        print("start -> end is known      ", Spread(tuple(told)))
        print("`rota submit` -> start     ", Spread(tuple(by_command(rota, Path(folder), 10))))


def by_command(rota: Cluster, folder: Path, rounds: int) -> list[float]:
    """From the start of the command `rota submit` to the start of the program."""
    found = []
    for turn in range(rounds):
        mark, asked = folder / f"cli-{turn}", time.time()
        command = [*ROTA, "submit", "--", *stamping(mark)]
        subprocess.run(command, env=rota.environment, check=True, stdout=subprocess.DEVNULL)
        found.append(stamp(mark) - asked)
        until(lambda: rota.status()["running"] == 0)
    return found


def burst(jobs: int = 1000) -> None:
    """One caller submits as fast as it can while another one looks around."""
    with cluster() as rota:
        looks: list[float] = []
        over = threading.Event()

        def look() -> None:
            calls = ("/v1/status", "/v1/jobs?limit=20", "/v1/nodes")
            while not over.is_set():
                began = time.perf_counter()
                rota.client.call("GET", calls[len(looks) % len(calls)])
                looks.append(time.perf_counter() - began)
                over.wait(0.02)

        watcher = threading.Thread(target=look)
        watcher.start()
        began, took = time.perf_counter(), []
        for _ in range(jobs):
            asked = time.perf_counter()
            rota.submit(["/bin/sleep", "600"])
            took.append(time.perf_counter() - asked)
        whole_s = time.perf_counter() - began
        over.set()
        watcher.join()
        print(f"{jobs} submissions accepted in {ms(whole_s)}; each", Spread(tuple(took)))
        print("other calls meanwhile:", Spread(tuple(looks)))
        until(lambda: rota.decisions()["decisions"] > 0)
        print(f"decisions meanwhile: {rota.decisions()['decisions']}")


def queue(jobs: int = 10_000) -> None:
    """Jobs arrive, end and are cancelled while 10,000 wait."""
    for policy in ("fifo", "tiresias"):
        with cluster(2, policy) as rota, tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            first = rota.submit(["/bin/sleep", "600"], array=f"1-{jobs}")
            taken_s = time.perf_counter() - began
            until(lambda: rota.status()["running"] == 2)
            settled_s = time.perf_counter() - began
            print(f"{policy}: array of {jobs} accepted in {ms(taken_s)}, two run after {ms(settled_s)}")
            still = costs(rota.processes(), 5.0)
            for name, cores in still.cores.items():
                print(f"{policy}: {name} at rest: {cores:.2%} of a core, {still.memory_mb[name]:.0f} MB")
            decided, freed = [], []
            number = first.partition("_")[0]
            for turn in range(15):
                before = rota.decisions()["decisions"]
                mark = Path(folder) / f"{turn}"
                rota.submit(stamping(mark), priority=turn)
                _until_decided(rota, before)
                decided.append((rota.decisions()["last_ms"] or 0.0) / 1e3)
                before, asked = rota.decisions()["decisions"], time.time()
                rota.act("cancel", f"{number}_{turn + 1}")
                _until_decided(rota, before)
                decided.append((rota.decisions()["last_ms"] or 0.0) / 1e3)
                freed.append(time.time() - asked)
            print(f"{policy}: a decision with {jobs} waiting:", Spread(tuple(decided)))
            print(f"{policy}: a running job cancelled -> the next decision on record:", Spread(tuple(freed)))


def _until_decided(rota: Cluster, before: int) -> float:
    return until(lambda: rota.decisions()["decisions"] > before)


def suspend(rounds: int = 10, state_mb: float = 100.0) -> None:
    """Through the cluster: `rota suspend` -> the agent says suspended, `rota resume` -> the next step."""
    with cluster() as rota, tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "step"
        id = rota.submit([sys.executable, "-c", PROGRAM, str(state_mb), str(mark)], grace_s=60)
        until(lambda: mark.exists() and mark.read_text().strip())
        suspended, resumed, commands = [], [], []
        for turn in range(rounds):
            time.sleep(0.2 + 0.037 * turn)
            asked = time.time()
            rota.act("suspend", id)
            commands.append(time.time() - asked)
            suspended.append(until(lambda: _is_suspended(rota, id)) - asked)
            step = mark.read_text()
            asked = time.time()
            rota.act("resume", id)
            resumed.append(_until_changed(mark, step) - asked)
            until(lambda: rota.job(id)["state"] == "RUNNING")
        print("suspend asked -> on record      ", Spread(tuple(commands)))
        print("suspend asked -> device free    ", Spread(tuple(suspended)))
        print("resume asked -> next step       ", Spread(tuple(resumed)))


def _until_changed(mark: Path, text: str) -> float:
    return until(lambda: mark.read_text() != text)


def _is_suspended(rota: Cluster, id: str) -> bool:
    attempts = rota.client.call("GET", f"/v1/jobs/{id}")["attempts"]
    return bool(attempts[-1]["state"] == "suspended")


def spent(jobs: int = 500) -> None:
    """CPU time, which other work on the machine stretches far less than the clock on the wall.

    Of a shim only the part that the agent waits for; not what the program and its shim use afterwards.
    """
    with cluster() as rota, tempfile.TemporaryDirectory() as folder:
        for _ in range(25):
            rota.wait(rota.submit(["true"]))
        for way, times in (("one array", 1), ("singly", jobs)):
            mark = Path(folder) / way.replace(" ", "-")
            program = ["/bin/sh", "-c", f"echo >> {mark}"]
            asked: dict[str, object] = {} if way == "singly" else {"array": f"1-{jobs}"}
            before, began = _spent_s(rota), time.time()
            for _ in range(times):
                rota.submit(program, **asked)
            until(partial(_has_lines, mark, jobs), 600, 0.02)
            took_s = mark.stat().st_mtime - began
            each = {who: (now - before[who]) / jobs for who, now in _spent_s(rota).items()}
            parts = ", ".join(f"{who} {ms(one)}" for who, one in each.items())
            whole = f"{ms(sum(each.values()))} of CPU each ({parts})"
            print(f"{jobs} programs, {way}: {whole}; {jobs / took_s:.0f} programs/s")


def _has_lines(mark: Path, jobs: int) -> bool:
    return mark.exists() and mark.stat().st_size >= jobs


def _spent_s(rota: Cluster) -> dict[str, float]:
    processes = rota.processes()
    children = processes["agent"].cpu_times()
    found = {who: cpu_s(process) for who, process in processes.items()}
    return {**found, "waited for": children.children_user + children.children_system}


def idle(jobs: int = 100, span_s: float = 60.0) -> None:
    """Nothing happens: what do the processes cost all the same?"""
    with cluster(jobs) as rota:
        nothing = costs(rota.processes(), span_s / 3)
        rota.submit(["/bin/sleep", "3600"], array=f"1-{jobs}")
        took_s = -time.time() + until(lambda: rota.status()["running"] == jobs and _all_begun(rota, jobs))
        time.sleep(5.0)
        busy = costs(rota.processes(), span_s)
        print(f"{jobs} sleeping programs started in {ms(took_s)}")
        for name, cores in busy.cores.items():
            print(
                f"{name:12s} {cores:7.2%} of a core, {busy.memory_mb[name]:6.0f} MB with {jobs} running;"
                f" {nothing.cores[name]:7.2%}, {nothing.memory_mb[name]:6.0f} MB with none"
            )


def _all_begun(rota: Cluster, jobs: int) -> bool:
    attempts = rota.home / "agent" / "attempts"
    return len(list(attempts.glob("*/1/ranks.json"))) == jobs


def reads(jobs: int = 1000, rounds: int = 20) -> None:
    """What people look at while 1,000 jobs wait."""
    with cluster() as rota:
        rota.submit(["/bin/sleep", "600"], array=f"1-{jobs}")
        until(lambda: rota.status()["running"] == 2)
        paths = {
            "rota ls (1,000 jobs)": "/v1/jobs?limit=1000",
            "rota show": "/v1/jobs/1_1",
            "rota status": "/v1/status",
            "rota nodes": "/v1/nodes",
            "rota why": "/v1/jobs/1_900/why",
            "metrics": "/metrics",
        }
        for name, path in paths.items():
            took = []
            for _ in range(rounds):
                began = time.perf_counter()
                rota.client.text(path)
                took.append(time.perf_counter() - began)
            print(f"{name:22s}", Spread(tuple(took)))
        began = time.perf_counter()
        before = rota.decisions()["decisions"]
        rota.client.call("PUT", "/v1/policy", {"policy": "tiresias"})
        _until_decided(rota, before)
        print(f"{'rota policy set':22s} {ms(time.perf_counter() - began)} until it has decided")


FIGURES: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (start, beside, burst, queue, suspend, spent, idle, reads)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=", ".join(FIGURES))
    leave_on_sigterm()
    for name in parser.parse_args().figures or FIGURES:
        if name not in FIGURES:
            parser.error(f"there is no figure {name!r}; expected {', '.join(FIGURES)}")
        print(f"-- {name}: {load()}", flush=True)
        FIGURES[name]()
        print(flush=True)


if __name__ == "__main__":
    main()
