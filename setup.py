"""Compiles the hot modules with mypyc where there is a C compiler: the same sources, with the same answers.

A wheel, and so `pip install .`, has them compiled; where they cannot be, it goes without and says so.  An
editable install stays interpreted: what is edited is what runs.  ROTA_COMPILE=0 leaves everything
interpreted, ROTA_COMPILE=1 makes it an error if that cannot be helped.  docs/performance.md has the figures.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

HOT = [
    "src/rota/table/free.py",
    "src/rota/table/rows.py",
    "src/rota/table/progress.py",
    "src/rota/table/occupancy.py",
    "src/rota/table/state.py",
    "src/rota/scheduler/decision.py",
    "src/rota/scheduler/world.py",
    "src/rota/scheduler/snapshot.py",
    "src/rota/scheduler/guard/check.py",
    "src/rota/scheduler/guard/levers.py",
    "src/rota/scheduler/loop.py",
    "src/rota/scheduler/stages/order.py",
    "src/rota/scheduler/stages/fill.py",
    "src/rota/scheduler/stages/place.py",
    "src/rota/scheduler/stages/priority.py",
    "src/rota/scheduler/stages/levels.py",
    "src/rota/scheduler/stages/alarms.py",
    "src/rota/worlds/simulated/world.py",
]
"""What a run spends its time in, from the inside out; everything else stays interpreted."""

WISH = os.environ.get("ROTA_COMPILE", "")
"""0: do not compile.  1: compile or fail.  Else compile if that is possible."""


class BuildHot(build_ext):
    """Translates the hot modules only when they are to be built: setup.py is run for other reasons too."""

    def finalize_options(self) -> None:
        if not self.editable_mode and self.distribution.has_ext_modules():
            try:
                self.distribution.ext_modules = translated()
            except (Exception, SystemExit) as error:  # mypyc exits
                self._go_without(error)
        super().finalize_options()

    def run(self) -> None:
        try:
            super().run()
        except (Exception, SystemExit) as error:  # so does a compiler that does not work
            self._go_without(error)

    def _go_without(self, error: BaseException) -> None:
        if WISH == "1":
            raise error
        self.extensions = []
        print(f"rota: the engine stays interpreted, about half as fast, because of this: {error}")


def translated() -> list[Extension]:
    """The extension modules that mypyc makes of the hot modules."""
    from mypyc.build import mypycify

    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    return list(mypycify([*options, *HOT], opt_level="2", debug_level="0"))


class WithHot(Distribution):
    """Has extension modules if it is to be compiled, although which ones is found out later."""

    def has_ext_modules(self) -> bool:
        return WISH != "0" and (WISH == "1" or _has_compiler())


def _has_compiler() -> bool:
    """True if the compiler that Python was built with, or another called cc, is on the path."""
    if sys.platform == "win32":
        return False
    names: Iterable[str] = ((sysconfig.get_config_var("CC") or "cc").split()[0], "cc")
    return any(shutil.which(os.environ.get("CC", name)) for name in names)


setup(distclass=WithHot, cmdclass={"build_ext": BuildHot})
