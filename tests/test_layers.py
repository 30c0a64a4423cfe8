"""The folder tree is the architecture: imports point one way, and the core loads nothing heavy unasked."""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import rota

SOURCE = Path(rota.__file__).parent
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "native": set(),
    "arguments": {"errors"},
    "model": {"errors"},
    "solvers": {"errors", "native", "model"},
    "crash": set(),
    "table": {"errors", "native", "model"},
    "knowledge": {"errors", "model", "table"},
    "scheduler": {"errors", "model", "solvers", "table", "knowledge", "scheduler/reasons"},
    "stages": {"errors", "model", "solvers", "table", "knowledge", "scheduler"},
    "scheduler/reasons": {"errors", "model", "table", "scheduler", "stages"},
    "systems": {"errors", "native", "model", "solvers", "table", "knowledge", "scheduler", "stages"},
    "published": {"errors", "native", "model", "solvers", "table", "knowledge", "scheduler", "stages"}
    | {"systems"},
    "traces": {"errors", "arguments", "model"},
    "reports": {"errors", "arguments", "model"},
    "reports/usage": {"errors", "model", "wire", "reports"},
    "reports/findings": {"errors", "model", "traces", "reports", "reports/usage"},
    "bounds": {"errors", "model", "solvers", "table", "scheduler", "stages"},
    "wire": {"errors", "model"},
    "training": set(),
    "client": {"errors", "model", "wire"},
    "engines/shared": {"errors", "wire", "client"},
    "engines/rota": {"errors", "crash", "model", "wire", "client", "engines/shared", "training"},
    "worlds": {"errors", "native", "model", "table", "scheduler", "knowledge", "wire"},
    "forecast": {"errors", "model", "table", "scheduler", "knowledge", "worlds"},
    "testing": {"errors", "model", "table", "scheduler", "knowledge", "worlds", "wire", "client"},
}
"""Layer -> layers it may import; a folder within a room is a layer of its own if it is named here.

Who may import a room may import the folders in it, but for the room itself.

`api` stands on all of them, `reports/advice` and `server` on `api`, `cli` on all; nothing imports `cli`."""
ABOVE = {"api", "reports/advice", "server", "cli"}
"""Layers that may import everything but `cli`."""
EXTRAS = {
    "server": {"alembic", "anyio", "fastapi", "prometheus_client", "psutil", "psycopg", "pydantic_core"}
    | {"h11", "sqlalchemy", "starlette", "uvicorn"},
    "engines/rota": {"psutil", "pynvml"},
}
"""Layer -> what it may import besides the core, because nobody loads it unasked."""
OPTIONAL = {"numba", "pytest", "hypothesis", "torch", "ray", "cvxpy", "sklearn", "pandas", "matplotlib"} | {
    "vl_convert"
}
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


def layer(name: str) -> str:
    """Of a file or a module below `rota`, with slashes: the two outermost folders if they are a layer."""
    first, *others = name.removesuffix(".py").split("/")
    within = "/".join([first, *others[:1]])
    return within if within in {*BELOW, *ABOVE} else first


@cache
def trees() -> dict[str, ast.Module]:
    """Every file below `src/rota`, read once, without the collector of garbage, which would take longer."""
    gc.disable()
    try:
        return {
            path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
            for path in sorted(SOURCE.rglob("*.py"))
        }
    finally:
        gc.freeze()
        gc.enable()


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def statements(body: Iterable[ast.stmt], *, within_functions: bool) -> Iterator[ast.stmt]:
    """All statements, those in blocks included; what they consist of is not looked at."""
    for node in body:
        yield node
        if within_functions or not isinstance(node, FUNCTIONS):
            parts = [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]
            blocks = [getattr(node, name, ()) for name in ("body", "orelse", "finalbody")]
            for block in [*blocks, *(part.body for part in parts)]:
                yield from statements(block, within_functions=within_functions)


@cache
def imports(tree: ast.Module, *, within_functions: bool = True) -> list[tuple[str, ast.stmt]]:
    """Every absolute import of a file, with the statement that makes it; each tree is walked once."""
    made: list[tuple[str, ast.stmt]] = []
    for node in statements(tree.body, within_functions=within_functions):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            made.append((node.module, node))
        elif isinstance(node, ast.Import):
            made += ((alias.name, node) for alias in node.names)
    return made


def may_import(own: str, target: str) -> bool:
    """Whether files of layer `own` may import layer `target`."""
    below = BELOW.get(own, {target})
    room, within = target.split("/")[0], own.split("/")[0]
    return target == own or (target != "cli" and (target in below or (room in below and room != within)))


def test_imports_point_one_way() -> None:
    offenders = [
        f"{name} imports {module}"
        for name, tree in trees().items()
        for module, _ in imports(tree)
        if module.startswith("rota.")
        and not may_import(layer(name), layer(module.removeprefix("rota.").replace(".", "/")))
    ]
    assert offenders == []


def test_imports_are_absolute() -> None:
    """So that the line itself says which layer it reaches for."""
    offenders = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        for node in statements(tree.body, within_functions=True)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert offenders == []


def test_every_layer_is_named() -> None:
    """A new folder has to say where it stands."""
    assert {layer(name) for name in trees()} <= {*BELOW, *ABOVE, "__init__", "engines"}


def test_contributing_says_who_imports_whom() -> None:
    """In brackets behind each room; `errors`, `arguments`, `crash` and `native` are no rooms."""
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = page.split("## How the tree is laid out")[1].split("```")[1].splitlines()[1:]
    said = {line.split()[0]: set(re.findall(r"[\w/]+", line.partition("  (")[2])) for line in tree}
    rooms = {room: below - {"errors", "arguments", "crash", "native"} for room, below in BELOW.items()}
    assert {room: said[room] for room in rooms if room in said} == {r: rooms[r] for r in rooms if r in said}


def test_core_imports_core_only() -> None:
    """Third-party modules are the core's; optional ones stand inside a `try` or a function."""
    offenders = [
        f"{name}: {offence}" for name, tree in trees().items() for offence in beyond_core(name, tree)
    ]
    assert offenders == []


def beyond_core(name: str, tree: ast.Module) -> Iterator[str]:
    """What a file imports that its layer may not, or not there."""
    allowed = {"rota", *CORE, *EXTRAS.get(layer(name), set()), *sys.stdlib_module_names}
    tops = [(module.split(".")[0], node) for module, node in imports(tree)]
    guarded: set[int] = set()
    if any(top in OPTIONAL for top, _ in tops):
        guarded = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.Try | ast.FunctionDef)
            for inner in ast.walk(node)
        }
    for top, node in tops:
        if top in OPTIONAL and id(node) not in guarded:
            yield f"{top} is optional: import it inside a try"
        elif top not in OPTIONAL and top not in allowed:
            yield f"{top} is not in the core"


BEHIND_SNAPSHOTS = {"snapshot.py", "snapshot_jobs.py", "loop.py"}
"""Modules of the scheduler, besides those in `moments`, that know the table behind a snapshot."""


DECIDING = {"systems", "published", "stages", "scheduler", "scheduler/reasons", "knowledge", "bounds"}


def decides(name: str) -> bool:
    """Whether a module sees a snapshot and decides, places or explains by it."""
    path = PurePosixPath(name)
    apart = path.name in BEHIND_SNAPSHOTS or path.parent.name == "moments"
    return (
        layer(name)
        in ("systems", "published", "stages", "scheduler", "scheduler/reasons", "knowledge", "bounds")
        and not apart
    )


def test_no_policy_reaches_the_table_behind_its_snapshot() -> None:
    """The loop's table can be written; whoever decides reads what `Snapshot` and `Jobs` show of it."""
    offenders = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        if decides(name)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id == "table_of")
        or (isinstance(node, ast.Attribute) and node.attr in ("_state", "whole"))
    ]
    assert offenders == []


def test_a_name_is_one_class() -> None:
    """Whoever reads the name of a public class anywhere knows which one is meant."""
    places: dict[str, list[str]] = {}
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    assert {own: where for own, where in places.items() if len(where) > 1} == {}


def test_results_say_what_they_are() -> None:
    """`found` says that somebody looked, not what there is."""
    vague = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id == "found" and isinstance(node.ctx, ast.Store))
        or (isinstance(node, ast.arg) and node.arg == "found")
    ]
    assert vague == []


def test_no_file_imports_itself_by_way_of_others() -> None:
    """No circle anywhere; imports for type checking only count, what a function imports does not."""
    modules = {module_of(name): name for name in trees() if not name.endswith("__init__.py")}
    needs = {own: outer_imports(trees()[name]) & modules.keys() - {own} for own, name in modules.items()}
    while leaves := {own for own, needed in needs.items() if not needed & needs.keys()}:
        needs = {own: needed for own, needed in needs.items() if own not in leaves}
    assert not needs, f"files in circles, and above them: {', '.join(sorted(needs))}"


def module_of(name: str) -> str:
    """`rota.model.jobs` from `model/jobs.py`."""
    return f"rota.{name.removesuffix('.py').replace('/', '.')}"


def outer_imports(tree: ast.Module) -> set[str]:
    """Everything that a file imports outside of functions, each name also as if it were a module."""
    named: set[str] = set()
    for module, node in imports(tree, within_functions=False):
        named.add(module)
        if isinstance(node, ast.ImportFrom):
            named |= {f"{module}.{alias.name}" for alias in node.names}
    return named
