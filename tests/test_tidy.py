"""Every registered system is complete, and the tree holds nothing that is nobody's."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from rota.cli.catalogue import HEAD, entries
from rota.cli.system_index import Entry

ROOT = Path(__file__).parents[1]
OWN = [one for one in entries() if one.module.startswith("rota.systems.")]


@pytest.fixture(params=OWN, ids=lambda one: one.name)
def system(request: pytest.FixtureRequest) -> Entry:
    entry: Entry = request.param
    return entry


def test_head(system: Entry) -> None:
    """The file opens with one line and the six keys in their order, each saying something."""
    assert tuple(system.head) == HEAD
    assert all(text.strip() for text in system.head.values())
    assert "CHECKED" not in system.head["Checked"], "say what was checked"


def test_summary(system: Entry) -> None:
    """One line, capitalised, without a full stop, short enough for a table."""
    assert re.fullmatch(r"[A-Z].{9,80}[^.]", system.summary), system.summary


def test_parameters_are_documented(system: Entry) -> None:
    assert [p.name for p in system.parameters if not p.meaning] == []


def test_has_tests(system: Entry) -> None:
    """`test_NAME.py` stands in `tests/systems`, or in the folder there that mirrors the policy's own."""
    folder = Path(*system.module.split(".")[2:-1])
    assert (ROOT / "tests" / "systems" / folder / f"test_{system.name}.py").is_file()


def tracked() -> list[Path]:
    """Files under version control (all but the ignored ones, if this is no checkout)."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\n")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def test_a_name_is_one_test_file() -> None:
    """Test files are modules without packages: two of one name cannot be collected in one run."""
    files = sorted(path for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py")
    names = Counter(path.name for path in files)
    assert [str(path.relative_to(ROOT)) for path in files if names[path.name] > 1] == []


@pytest.mark.slow
def test_nothing_left_over() -> None:
    """No leftover markers, no paths of the machine somebody wrote this on."""
    markers = "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "/wo" + "rk/", "breakpoint" + r"\("))
    texts = [p for p in tracked() if p.suffix in {".py", ".md", ".toml", ".yaml", ".html", ".css", ".js", ""}]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(rf"\b(?:{markers})", line) or "/wo" + "rk/" in line
    ]
    assert found == []


LONG = {
    "worlds/simulated/world.py": (
        647,
        "rates, their ends, what changes cost, one by one or at one stroke, where stretches begin: one heap",
    ),
    "server/store/rows.py": (452, "what is stored, one dataclass for each table, read side by side"),
    "table/state.py": (477, "the verbs of the loop, and what grows with time, on one table"),
    "scheduler/policy.py": (
        420,
        "what a policy is, the registry of all, and a policy by name with its parameters",
    ),
    "scheduler/loop.py": (541, "one pass of the loop, from what happened to what is recorded"),
    "server/scheduler.py": (
        414,
        "the life of one thread: built from the store, turn after turn, and what others ask of it",
    ),
    "server/store/store.py": (
        531,
        "every call of the store with what it promises; the work is done elsewhere",
    ),
    "engines/rota/watching.py": (407, "one attempt as its folder, its lock and its processes show it"),
    "engines/rota/shim.py": (
        770,
        "started alone, by an interpreter without paths: it can import nothing of ours",
    ),
}
"""Files of more than 400 lines below `src/rota`: how long each may be, and why it is one file."""


def test_long_files_have_a_reason() -> None:
    """A file that outgrows 400 lines is two files, or says why not; none grows further unseen."""
    sizes = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in (ROOT / "src").rglob("*.py")}
    names = {str(p.relative_to(ROOT / "src" / "rota")): n for p, n in sizes.items() if n > 400}
    assert {name: n for name, n in names.items() if n > LONG.get(name, (400, ""))[0]} == {}
    assert set(LONG) <= set(names), "shorter by now: take it off the list"
