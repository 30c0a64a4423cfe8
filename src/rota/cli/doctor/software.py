"""The installation: engine, shim, optional packages, and whether Rota can run on the kernel."""

from __future__ import annotations

import os
import platform
import select
from collections.abc import Iterator
from importlib.util import find_spec

from rota.cli.doctor.finding import FindingState, MachineFinding, MachinePlaces, first_line

EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "server": (
        ("alembic", "fastapi", "prometheus_client", "psutil", "sqlalchemy", "uvicorn", "h11"),
        "a controller on this machine",
    ),
    "nvidia": (("pynvml",), "NVIDIA GPUs"),
    "postgres": (("psycopg",), "a controller whose state is in PostgreSQL"),
    "torch": (("torch",), "training programs that use PyTorch, in this environment"),
    "figures": (("vl_convert",), "figures as PNG and PDF files"),
    "browser": (("playwright",), "reports as PNG files"),
}
"""Extra of the package -> its modules, and its purpose."""


def kernel(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Linux, with the calls and files that identify processes."""
    name = f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() != "Linux":
        yield MachineFinding(
            "kernel",
            FindingState.BROKEN,
            f"{name}, and jobs run on Linux only",
            "simulate here, run jobs elsewhere",
        )
        return
    missing = [
        str(path)
        for path in (
            machine.proc / "self/stat",
            machine.proc / "self/mounts",
            machine.proc / "sys/kernel/random/boot_id",
        )
        if not first_line(path)
    ]
    if missing:
        yield MachineFinding(
            "kernel",
            FindingState.BROKEN,
            f"{name} without {', '.join(missing)}",
            "mount /proc, whole, at its place",
        )
        return
    lacking = _calls_that_fail()
    if lacking:
        advice = "agents need Linux 5.3 or newer, and no sandbox that forbids these calls"
        yield MachineFinding("kernel", FindingState.BROKEN, f"{name} without {', '.join(lacking)}", advice)
        return
    yield MachineFinding("kernel", FindingState.OK, name)


def _calls_that_fail() -> list[str]:
    """System calls without which an agent cannot keep track of its processes."""
    failed = []
    try:
        pidfd = os.pidfd_open(os.getpid())
        select.select([pidfd], [], [], 0)
        os.close(pidfd)
    except (OSError, AttributeError):
        failed.append("pidfd_open")
    try:
        os.close(os.memfd_create("rota-doctor"))
    except (OSError, AttributeError):
        failed.append("memfd_create")
    return failed


def engine(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Compiled or interpreted: the hot modules, and the process that keeps an attempt."""
    from rota.engines.rota.native import program
    from rota.table.compiled import is_compiled

    again = "install it with a C compiler at hand"
    if is_compiled():
        yield MachineFinding("engine", FindingState.OK, "compiled", facts={"compiled": True})
    else:
        yield MachineFinding(
            "engine",
            FindingState.ADVICE,
            "interpreted: simulations take about twice as long",
            f"{again}; in a clone `make setup` compiles it, and again when sources have changed since",
            {"compiled": False},
        )
    if program() is not None:
        yield MachineFinding("shim", FindingState.OK, "compiled", facts={"compiled": True})
    else:
        yield MachineFinding(
            "shim",
            FindingState.ADVICE,
            "a Python process for each attempt, which takes longer to start",
            again,
            {"compiled": False},
        )
    yield _solvers(again)


def _solvers(advice: str) -> MachineFinding:
    """The inner loops of some policies, which are written in C."""
    from rota.native import functions, library
    from rota.published.artifacts.elasticflow.climb import SOURCE as CLIMB
    from rota.solvers.breeding import SOURCE as BREEDING
    from rota.solvers.future import SOURCE as FUTURE
    from rota.solvers.inner_walk import SOURCE as WALK

    built = {
        "elasticflow": library(CLIMB) and functions(FUTURE),
        "gavel": library(WALK),
        "pollux": library(BREEDING),
    }
    slow = [policy for policy, is_built in built.items() if not is_built]
    if not slow:
        return MachineFinding("solvers", FindingState.OK, "compiled", facts={"slow": []})
    return MachineFinding(
        "solvers",
        FindingState.ADVICE,
        f"slower for want of inner loops in C, not built or of other sources: {', '.join(slow)}",
        f"{advice}; in a checkout, run `make setup` again",
        {"slow": [*slow]},
    )


def packages(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Extras that are installed, and the use of those that are not."""
    lacking = {
        extra: [name for name in modules if find_spec(name) is None] for extra, (modules, _) in EXTRAS.items()
    }
    there = [extra for extra, missing in lacking.items() if not missing]
    yield MachineFinding("extras", FindingState.OK, ", ".join(there) or "none", facts={"installed": there})
    for extra, missing in lacking.items():
        if missing:
            yield _lacking(extra, missing)


def _lacking(extra: str, missing: list[str]) -> MachineFinding:
    """Advice for an extra that is missing: only `server` matters here, all others are a choice."""
    get = "pip install torch" if extra == "torch" else f"pip install '.[{extra}]'"
    if extra == "server":
        says = f"no controller can run here: {', '.join(missing)} missing"
        return MachineFinding(extra, FindingState.ADVICE, says, get)
    return MachineFinding(extra, FindingState.OK, "not installed", f"for {EXTRAS[extra][1]}: {get}")
