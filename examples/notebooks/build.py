"""Runs the examples in this folder and writes each as a notebook with its outputs: `build.py [NAME...]`.

A source is plain Python with `# %%` before each code cell and `# %% [markdown]` before text in comments, as
editors understand it.  It can be read, checked and tested without Jupyter: change it, not the notebook.
"""

from __future__ import annotations

import ast
import io
import json
import linecache
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
NAMES = ("compare_policies", "write_a_policy", "live_whatif")


@dataclass
class Cell:
    """One cell: its text and its outputs."""

    text: str
    is_code: bool
    outputs: list[dict[str, Any]] = field(default_factory=list)


def cells_of(source: str) -> Iterator[Cell]:
    """The cells of a source."""
    for part in re.split(r"^# %%", source, flags=re.MULTILINE)[1:]:
        kind, _, body = part.partition("\n")
        if "[markdown]" in kind:
            yield Cell(re.sub(r"^# ?", "", body.strip(), flags=re.MULTILINE), False)
        else:
            yield Cell(body.strip(), True)


def run(name: str) -> list[Cell]:
    """Execute `name`, cell by cell in one namespace; each returned cell has its outputs."""
    cells = list(cells_of((HERE / f"{name}.py").read_text(encoding="utf-8")))
    module = ModuleType(f"example_{name}")
    sys.modules[module.__name__] = module
    for number, cell in enumerate(cells):
        if cell.is_code:
            cell.outputs = list(_executed(cell.text, f"<{name}, cell {number}>", module.__dict__))
    return cells


def _executed(text: str, file: str, names: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Outputs of one cell: what it printed, and the value of its last line if that is an expression."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # for inspect.getsource
    tree, value, said = ast.parse(text), None, io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(said):
        exec(compile(tree, file, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), file, "eval"), names)
    if said.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": _lines(said.getvalue())}
    if value is not None:
        data = {"text/plain": _lines(repr(value)[:2000])}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        yield {"output_type": "execute_result", "execution_count": None, "data": data, "metadata": {}}


def notebook(cells: list[Cell]) -> dict[str, Any]:
    """The cells in the format of notebooks, version 4.5."""
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "cells": [_plain(number, cell) for number, cell in enumerate(cells)],
    }


def _plain(number: int, cell: Cell) -> dict[str, Any]:
    common = {"id": f"cell-{number}", "metadata": {}, "source": _lines(cell.text)}
    if not cell.is_code:
        return {"cell_type": "markdown", **common}
    return {"cell_type": "code", **common, "execution_count": None, "outputs": cell.outputs}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(names: list[str]) -> None:
    """Run the named examples, or all of them, and write their notebooks."""
    for name in names or NAMES:
        text = json.dumps(notebook(run(name)), indent=1, ensure_ascii=False) + "\n"
        (HERE / f"{name}.ipynb").write_text(text, encoding="utf-8")
        print(f"{name}.ipynb: {len(text) / 1024:.0f} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
