"""The file tables in the READMEs of `src/rota`: each file with its first sentence."""

from __future__ import annotations

import ast
from pathlib import Path

from rota.errors import InputError

BEGIN, END = "<!-- files: printed by `make docs` -->", "<!-- end of files -->"


def rooms(source: Path) -> list[Path]:
    """Folders that have a README: the folders in `source`, and each world in `worlds`."""
    folders = sorted(path.parent for path in source.glob("*/__init__.py"))
    return [room for folder in folders for room in (folder, *_with_readme(folder))]


def _with_readme(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/README.md"))


def printed(text: str) -> bool:
    """True if the README with `text` has a place for the list; others have a map drawn by hand."""
    return BEGIN in text


def with_files(text: str, room: Path) -> str:
    """`text` with a fresh list of the files in `room` between the markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InputError(
            f"{room}/README.md has no place for its files; expected {BEGIN} and {END}, once each"
        )
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{files_table(room)}\n{END}{rest.partition(END)[2]}"


def files_table(room: Path) -> str:
    """A table of the files and folders of `room`, each with its first sentence."""
    rows = ["| file | what is in it |", "|---|---|"]
    for path in sorted(room.iterdir()):
        if path.suffix == ".py" and path.name != "__init__.py":
            rows.append(f"| `{path.name}` | {_first_sentence(path)} |")
        elif (path / "__init__.py").exists():
            name = (
                f"[`{path.name}/`]({path.name}/README.md)"
                if (path / "README.md").exists()
                else f"`{path.name}/`"
            )
            rows.append(f"| {name} | {_first_sentence(path / '__init__.py')} |")
    return "\n".join(rows)


def _first_sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split()).replace("|", "\\|")


def write(source: Path) -> None:
    """Print every list again."""
    for room in rooms(source):
        page = room / "README.md"
        text = page.read_text(encoding="utf-8")
        if printed(text):
            page.write_text(with_files(text, room), encoding="utf-8")
