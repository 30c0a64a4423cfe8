"""For every test that draws examples, alone or with all the others; and what `--quick` leaves out.

Examples are derived from the test's own name (`derandomize`), so that a failure repeats by itself, and none
has to come within some milliseconds.  `make deep` draws more of them (`--hypothesis-profile=soak`).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import tiers
from browser import chromium

__all__ = ["chromium"]

settings.register_profile("soak", derandomize=True, deadline=None, database=None)
settings.register_profile("rota", settings.get_profile("soak"), max_examples=20)
settings.load_profile("rota")

TESTS = Path(__file__).parent
ABOUT_PROCESSES = {"engines", "live", "server", "training"}
"""Folders of tests that are about processes and the time they take."""
PROCESS_EVENTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"}
within = {"a quick test": False}
BEGUN_S = time.monotonic()
os.environ["ROTA_ENGINE"] = (
    "interpreted"  # what is tested are the sources; `test_compiled.py` compiles them itself
)

for name in list(os.environ):
    if name.lower().endswith("_proxy") or name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        del os.environ[
            name
        ]  # what somebody's shell says is not what is tested, nor is anything asked of a network

for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:  # tests in the background of a script, or under nohup
        signal.signal(number, lambda *_: None)  # as deaf as before, and yet what they start will hear it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only tests that start no process and never sleep")
    parser.addoption(
        "--minutes", type=float, help="begin no test later than this; each function has its turn"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("quick"):
        config.option.markexpr = "not slow and not soak"
        sys.addaudithook(refuse_processes)
    if "deep" not in config.option.markexpr:
        tiers.LEFT_OUT.add("deep")
    if "not soak" in config.option.markexpr:
        tiers.LEFT_OUT.add("soak")


def pytest_collection() -> None:
    """Ten thousand tests are made and none is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What was made lives as long as the tests do: nobody need look through it again."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--quick`, those folders are not even imported."""
    apart = collection_path.parent == TESTS and collection_path.name in ABOUT_PROCESSES
    return True if apart and config.getoption("quick") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long comes first, so that no worker ends up with it alone; what takes hours is asked for."""
    items.sort(key=turn)
    if "deep" not in config.option.markexpr:
        apart = [item for item in items if item.get_closest_marker("deep")]
        items[:] = [item for item in items if not item.get_closest_marker("deep")]
        config.hook.pytest_deselected(items=apart)
    if config.getoption("minutes"):
        items[:] = in_rounds(items)


def turn(item: pytest.Item) -> int:
    """0 for slow tests that stand by themselves, 1 for folders about processes, 2 for all others."""
    if ABOUT_PROCESSES.intersection(item.nodeid.split("/")[1:2]):  # tests/FOLDER/FILE::NAME
        return 1
    return 2 - 2 * bool(item.get_closest_marker("slow"))


def in_rounds(items: list[pytest.Item]) -> list[pytest.Item]:
    """The first item of each function, then the second of each: when time is up, all had some."""
    seen = Counter[str]()
    rounds = list[int]()
    for item in items:
        function = item.nodeid.partition("[")[0]
        rounds.append(seen[function])
        seen[function] += 1
    return [items[place] for place in sorted(range(len(items)), key=rounds.__getitem__)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = item.config.getoption("minutes")
    if minutes and time.monotonic() > BEGUN_S + 60.0 * minutes:
        pytest.skip(f"the {minutes:g} minutes of --minutes are over")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Whoever breaks what the option promises fails, and is told what to do about it."""
    if not item.config.getoption("quick"):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", refuse_sleep)
        within["a quick test"] = True
        try:
            return (yield)
        finally:
            within["a quick test"] = False


def refuse_processes(event: str, _: tuple[Any, ...]) -> None:
    if within["a quick test"] and event in PROCESS_EVENTS:
        pytest.fail(f"{event} in a quick test: mark it slow")


def refuse_sleep(seconds: float) -> None:
    pytest.fail(f"time.sleep({seconds:g}) in a quick test: mark it slow")
