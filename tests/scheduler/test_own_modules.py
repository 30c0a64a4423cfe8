"""A policy in a file of one's own: found by its name in every process, or told why not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from play import trace_of
from rota.errors import InputError, PolicyError, RotaError
from rota.knowledge.needs import Knowledge
from rota.model.cluster import parse_cluster
from rota.scheduler.decision import Decision
from rota.scheduler.own_modules import MODULES, import_policies
from rota.scheduler.policy import _SYSTEMS, parse_policy, register
from rota.worlds.simulated.run import run

MINE = """
from rota.stages.priority_policy import priority

@priority("wide_first", "Widest first")
def wide_first(snapshot, rows):
    return -snapshot.jobs.gpus[rows]
"""


@pytest.mark.slow
def test_a_file_of_ones_own_registers_a_policy_for_the_command_line(tmp_path: Path) -> None:
    """In the process itself, and in the workers that a larger comparison is run by."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "jobs.csv").write_text("submit_s,gpus,duration_s\n0,1,10\n0,2,10\n0,1,10\n")
    words = ["simulate", "jobs.csv", "--cluster", "1x2", "--policy", "fifo,wide_first", "--workers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "rota.cli.main", *words],
        cwd=tmp_path,
        env=os.environ | {MODULES: "./mine.py"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "wide_first" in done.stdout


WRONG = [
    ("missing.py", None, r"there is no file .*missing.py; expected one that registers policies"),
    (
        "no_such_module",
        None,
        r"module 'no_such_module' cannot be imported: ModuleNotFoundError: .*; expected",
    ),
    (
        "broken_policy.py",
        "1 / 0",
        r"module '.*broken_policy.py' cannot be imported: ZeroDivisionError: .* \(broken_policy.py, line 1\)",
    ),
    (
        "leaving_policy.py",
        "raise SystemExit(3)",
        r"leaving_policy.py' cannot be imported: SystemExit: 3",
    ),
    ("random.py", MINE, r"random.py has the name of another module, .*random.py; expected its own"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), WRONG, ids=[row[0] for row in WRONG])
def test_what_cannot_be_imported_is_named(
    name: str, text: str | None, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(MODULES, str(tmp_path / name) if name.endswith(".py") else name)
    with pytest.raises(InputError, match=rf"^{MODULES}: .*{sentence}"):
        import_policies()


# -- what a registration says ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Maybe:
    """Parameters of a type that no text is read as."""

    factor: float | None = None


REGISTERED: list[tuple[dict[str, Any], str]] = [
    ({"name": "fifo"}, "policy 'fifo' of .* is called as one of Rota's; expected its own"),
    ({"name": "my policy"}, "a policy is named 'my policy'; expected letters, digits, _ and -"),
    ({"parameters": dict}, "policy 'mine' has parameters=<class 'dict'>; expected a frozen dataclass"),
    (
        {"parameters": Maybe},
        r"its parameter 'factor' is of type float \| None; expected",
    ),
    ({"needs": Knowledge.DURATION}, "policy 'mine' is registered with needs=.*; expected a set of Knowledge"),
    ({"needs": ["duration"]}, r"registered with needs=\('duration',\); expected a set of Knowledge, such as"),
    ({"levers": {"fly": True}}, "registered with levers={'fly': True}; expected a set of Lever, such as"),
]


@pytest.mark.parametrize(("facts", "sentence"), REGISTERED, ids=[sentence[:40] for _, sentence in REGISTERED])
def test_what_nobody_could_use_is_not_registered(facts: dict[str, Any], sentence: str) -> None:
    """A name of Rota's would replace it, or not, by who is imported first; a type of text goes unread."""
    with pytest.raises(RotaError, match=sentence):
        register(**{"name": "mine", "summary": "", **facts})(Mine)
    assert "mine" not in _SYSTEMS


class Mine:
    """A policy that says something odd of itself."""

    needs: Any = frozenset()
    levers: Any = frozenset()

    def decide(self, snapshot: object, memory: Any) -> Decision:
        return Decision(memory)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("needs", None, "policy 'Mine' has needs=None; expected a set of Knowledge"),
        ("needs", {"duration"}, "policy 'Mine' has needs={'duration'}; expected a set of Knowledge"),
        ("levers", "preempt", "policy 'Mine' has levers='preempt'; expected a set of Lever"),
    ],
)
def test_so_is_an_instance(name: str, value: object, sentence: str) -> None:
    mine = Mine()
    setattr(mine, name, value)
    with pytest.raises(PolicyError, match=sentence):
        run(mine, trace_of("A 1x1"), parse_cluster("1x1"))


@dataclass(frozen=True)
class Checked:
    """Parameters that look at themselves."""

    factor: float = 1.0

    def __post_init__(self) -> None:
        if self.factor < 0.0:
            raise ValueError(f"factor is {self.factor:g}; expected 0 or more")


class Picky(Mine):
    """Does not like some values."""

    def __init__(self, parameters: Checked | None = None) -> None:
        self.parameters = parameters or Checked()
        assert 1.0 / self.parameters.factor


def test_what_a_constructor_raises_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.scheduler.policy._SYSTEMS", dict(_SYSTEMS))
    register("picky", "Particular", parameters=Checked)(Picky)
    with pytest.raises(InputError, match="policy 'picky': factor is -1; expected 0 or more"):
        parse_policy("picky:factor=-1")
    with pytest.raises(PolicyError, match=r"'picky:factor=0' cannot be made: ZeroDivisionError: .* \(test_o"):
        parse_policy("picky:factor=0").make()
