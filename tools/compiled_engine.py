"""Runs the engine that `make setup` compiled in place of its sources, while none of them has changed.

An editable install imports the sources as they are, so that what is edited is what runs.  The hot modules
among them have a compiled twin in `build/fast`; this finder gives that to whoever imports one, unless a
source is newer than the build: then all come from the sources, since compiled modules know one another from
the inside.  `ROTA_ENGINE=interpreted` keeps it out; the tests do so.

`python tools/compiled_engine.py` puts it into the environment of that Python: a copy, and the `.pth` file
that starts it.  Every Python there runs this, so it loads next to nothing.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:  # as if it were that of typing
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import ModuleType

STAMP = ".built"
"""The file in the folder of the build that is as old as the moment at which the build began."""


class CompiledEngine:
    """Finds modules below `sources` that have a compiled twin below `built`, a file that ends in `suffix`."""

    def __init__(self, sources: str, built: str, suffix: str = EXTENSION_SUFFIXES[0]) -> None:
        self.sources, self.built, self.suffix = sources, built, suffix
        self._serves: bool | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The compiled twin; None leaves the module to those who look after this one."""
        # What compiled modules have in common lies beside the packages, and is of use to no other build's.
        if not (self._is_of_the_sources(name, path) or (self._serves and name.endswith("__mypyc"))):
            return None
        file = os.path.join(self.built, *name.split(".")) + self.suffix
        if not os.path.exists(file) or not self._is_to_serve():
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, file)

    def _is_of_the_sources(self, name: str, path: Sequence[str] | None) -> bool:
        """Not of another copy of the project, which comes first on somebody's path."""
        folder = os.path.join(self.sources, *name.split(".")[:-1])
        return name.startswith("rota.") and path is not None and folder in path

    def _is_to_serve(self) -> bool:
        """Asked once in a process: half an engine of each kind would not fit together."""
        if self._serves is None:
            asked = os.environ.get("ROTA_ENGINE") != "interpreted"
            self._serves = asked and is_newest(os.path.join(self.built, STAMP), self.sources)
        return self._serves


def is_newest(stamp: str, sources: str) -> bool:
    """Whether no module below `sources` has changed since `stamp`; False if there is none."""
    try:
        since = os.stat(stamp).st_mtime_ns
        return all(changed < since for changed in _changes(sources))  # of the same moment, nobody knows
    except OSError:  # no build, or one that somebody is replacing
        return False


def _changes(folder: str) -> Iterator[int]:
    """When each module below a folder was changed, in nanoseconds."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _changes(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.stat().st_mtime_ns


def begin(root: str) -> None:
    """Find the compiled modules of the clone at `root` before Python looks for them as sources."""
    sys.meta_path.insert(0, CompiledEngine(os.path.join(root, "src"), os.path.join(root, "build", "fast")))


def install(root: Path, packages: Path) -> None:
    """Let every Python that looks for packages in `packages` begin with the compiled engine of `root`."""
    from shutil import copy

    copy(__file__, packages / "rota_compiled_engine.py")
    start = f"import rota_compiled_engine; rota_compiled_engine.begin({str(root)!r})\n"
    (packages / "rota_compiled_engine.pth").write_text(start, encoding="utf-8")


if __name__ == "__main__":
    import sysconfig
    from pathlib import Path

    install(Path(__file__).resolve().parents[1], Path(sysconfig.get_paths()["purelib"]))
