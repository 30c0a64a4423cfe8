"""The folder tree is the architecture: imports point one way, and the core loads nothing heavy unasked."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota

SOURCE = Path(rota.__file__).parent
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "model": {"errors"},
    "solvers": {"errors", "model"},
    "crash": set(),
    "table": {"errors", "model"},
    "knowledge": {"errors", "model", "table"},
    "scheduler": {"errors", "model", "solvers", "table", "knowledge"},
    "policies": {"errors", "model", "solvers", "table", "knowledge", "scheduler"},
    "traces": {"errors", "model"},
    "reports": {"errors", "model"},
    "bounds": {"errors", "model", "solvers", "table", "scheduler"},
    "wire": {"errors", "model"},
    "training": set(),
    "client": {"errors", "model", "wire"},
    "agent": {"errors", "crash", "model", "wire", "client", "training"},
    "worlds": {"errors", "model", "table", "scheduler", "knowledge", "wire"},
    "forecast": {"errors", "model", "table", "scheduler", "knowledge", "worlds"},
    "testing": {"errors", "model", "table", "scheduler", "knowledge", "worlds"},
}
"""Layer -> layers it may import.  `api` stands on all of them, `server` on `api`, `cli` on both; nothing
imports `cli`."""
EXTRAS = {
    "server": {"alembic", "anyio", "fastapi", "prometheus_client", "psutil", "psycopg", "pydantic_core"}
    | {"sqlalchemy", "starlette", "uvicorn"},
    "agent": {"psutil", "pynvml"},
}
"""Layer -> what it may import besides the core, because nobody loads it unasked."""
OPTIONAL = {"numba", "pytest", "hypothesis", "torch", "ray", "cvxpy", "sklearn", "pandas", "matplotlib"}
CORE = {
    "numpy",
    "scipy",
    "highspy",
    "polars",
    "pydantic",
    "typer",
    "rich",
    "yaml",
    "jinja2",
    "markupsafe",
} | {"mypy_extensions"}


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Every absolute import of a file, with the statement that makes it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module, node
        elif isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    own, tree = layer(path), tree_of(path)
    targets = {module.split(".")[1] for module, _ in imports(tree) if module.startswith("rota.")}
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))
    if own in BELOW:
        assert targets - {own} <= BELOW[own]
    if own != "cli":
        assert "cli" not in targets


def test_every_layer_is_named() -> None:
    """A new folder has to say where it stands."""
    assert {layer(path) for path in files()} <= {*BELOW, "__init__", "api", "server", "cli"}


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_core_imports_core_only(path: Path) -> None:
    """Third-party modules are those of the core; optional ones stand inside a `try` or a function."""
    tree = tree_of(path)
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try | ast.FunctionDef)
        for inner in ast.walk(node)
    }
    for module, node in imports(tree):
        top = module.split(".")[0]
        if top in OPTIONAL:
            assert id(node) in guarded, f"{top} is optional: import it inside a try"
        else:
            allowed = {"rota", *CORE, *EXTRAS.get(layer(path), set())}
            assert top in allowed or top in sys.stdlib_module_names, f"{top} is not in the core"


BEHIND_SNAPSHOTS = {"snapshot.py", "job_columns.py", "loop.py"}
"""Modules of the scheduler, besides those in `moments`, that know the table behind a snapshot."""


def deciding() -> list[Path]:
    """Modules that see a snapshot and decide, place or explain by it."""
    rooms = [path for path in files() if layer(path) in ("policies", "scheduler", "knowledge", "bounds")]
    return [path for path in rooms if path.name not in BEHIND_SNAPSHOTS and path.parent.name != "moments"]


@pytest.mark.parametrize("path", deciding(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_policy_reaches_the_table_behind_its_snapshot(path: Path) -> None:
    """The loop's table can be written; whoever decides reads what `Snapshot` and `Jobs` show of it."""
    tree = tree_of(path)
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "table_of" not in named
    private = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert private.isdisjoint({"_state", "whole"})
