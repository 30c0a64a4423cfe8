"""Compiles the hot modules with mypyc where there is a C compiler: the same sources, with the same answers.

A wheel, and so `pip install .`, has them compiled; where that cannot be, it goes without and says why.  An
editable install is of the sources, so that what is edited is what runs, and `make setup` lays the compiled
modules beside them (`tools/compiled_engine.py`).  ROTA_COMPILE=0 leaves everything interpreted,
ROTA_COMPILE=1 compiles in place too and makes it an error if that fails.  docs/performance.md has the
figures.  What is written in C is always built: the process that keeps an attempt (`engines/rota/shim.c`),
the walk of the interior-point method (`solvers/inner_walk.c`), Pollux' breeding (`solvers/breeding.c`),
plans on curves of free GPUs (`solvers/future.c`) and the plans of ElasticFlow's artifact
(`published/artifacts/elasticflow/climb.c`).
"""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from shutil import rmtree
from subprocess import DEVNULL, CalledProcessError, check_output
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import LinkError

HOT = [
    "src/rota/model/whole.py",
    "src/rota/table/free.py",
    "src/rota/table/rows.py",
    "src/rota/table/progress.py",
    "src/rota/table/device_memory.py",
    "src/rota/table/occupancy.py",
    "src/rota/table/state.py",
    "src/rota/scheduler/decision.py",
    "src/rota/scheduler/world.py",
    "src/rota/scheduler/live_columns.py",
    "src/rota/scheduler/snapshot.py",
    "src/rota/scheduler/guard/shapes.py",
    "src/rota/scheduler/guard/claims.py",
    "src/rota/scheduler/guard/check.py",
    "src/rota/scheduler/guard/levers.py",
    "src/rota/scheduler/loop.py",
    "src/rota/scheduler/reasons/first.py",
    "src/rota/stages/order.py",
    "src/rota/stages/fill.py",
    "src/rota/stages/fit.py",
    "src/rota/stages/trial.py",
    "src/rota/stages/place.py",
    "src/rota/stages/priority.py",
    "src/rota/stages/levels.py",
    "src/rota/stages/alarms.py",
    "src/rota/stages/remaining.py",
    "src/rota/stages/sizes.py",
    "src/rota/stages/grounds.py",
    "src/rota/stages/round_places.py",
    "src/rota/stages/round_demand.py",
    "src/rota/stages/round_books.py",
    "src/rota/stages/round_queue.py",
    "src/rota/stages/rounds.py",
    "src/rota/stages/runners.py",
    "src/rota/systems/pai/recurrence.py",
    "src/rota/systems/pai/queues.py",
    "src/rota/systems/pai/machines.py",
    "src/rota/systems/elasticflow/asks.py",
    "src/rota/published/artifacts/elasticflow/backward.py",
    "src/rota/published/artifacts/elasticflow/events.py",
    "src/rota/published/artifacts/elasticflow/hand_out.py",
    "src/rota/published/artifacts/elasticflow/artifact.py",
    "src/rota/solvers/dominant_share.py",
    "src/rota/solvers/shared_caps.py",
    "src/rota/solvers/one_by_one.py",
    "src/rota/solvers/tournament.py",
    "src/rota/systems/drf/book.py",
    "src/rota/systems/drf/placing.py",
    "src/rota/systems/drf/filling.py",
    "src/rota/systems/fifo/parted.py",
    "src/rota/systems/fifo/queues.py",
    "src/rota/systems/fifo/backfill.py",
    "src/rota/systems/las/quanta.py",
    "src/rota/systems/tiresias/policy.py",
    "src/rota/systems/gandiva/servers.py",
    "src/rota/systems/gandiva/introspection.py",
    "src/rota/systems/gandiva/derived.py",
    "src/rota/systems/gandiva/turns.py",
    "src/rota/systems/gandiva/changes.py",
    "src/rota/systems/gandiva/policy.py",
    "src/rota/published/artifacts/gandiva/node_sets.py",
    "src/rota/published/artifacts/gandiva/set_grants.py",
    "src/rota/published/artifacts/gandiva/set_turns.py",
    "src/rota/systems/philly/locality.py",
    "src/rota/systems/philly/gang.py",
    "src/rota/systems/philly/queues.py",
    "src/rota/systems/philly/quota.py",
    "src/rota/systems/philly/delays.py",
    "src/rota/systems/philly/attempt.py",
    "src/rota/systems/philly/policy.py",
    "src/rota/systems/philly/run.py",
    "src/rota/systems/philly/moving.py",
    "src/rota/worlds/simulated/world.py",
    "src/rota/worlds/simulated/attempt_targets.py",
    "src/rota/worlds/simulated/holds.py",
    "src/rota/worlds/simulated/strikes.py",
    "src/rota/worlds/simulated/recorder.py",
    "src/rota/worlds/simulated/rounds.py",
    "src/rota/worlds/simulated/slots.py",
    "src/rota/worlds/simulated/planned.py",
]
"""What a run spends its time in, from the inside out; everything else stays interpreted."""


WISH = os.environ.get("ROTA_COMPILE", "")


CALLS_AND_FLOATS = [
    "-fno-semantic-interposition",
    "-fno-plt",
    "-fvisibility=hidden",
    "-ffp-contract=off",
]
"""Calls within the library and into the interpreter take no detour, and floats are rounded as in Python."""


def translated() -> list[Extension]:
    """The extension modules that mypyc makes of the hot modules."""
    from mypyc.build import mypycify

    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    extensions = list(mypycify([*options, *HOT], opt_level="2", debug_level="0", multi_file=True))
    gc.freeze()  # mypy leaves millions of objects, which an exit would look through for most of a minute
    if os.name == "posix":
        for extension in extensions:
            # A list of its own: mypyc gives all of them the same one.
            extension.extra_compile_args = [*extension.extra_compile_args, *CALLS_AND_FLOATS]
    return extensions


SHIM = Extension(
    "rota.engines.rota.rota-shim",
    ["src/rota/engines/rota/shim.c"],
    depends=["src/rota/engines/rota/pump.h", "src/rota/engines/rota/terminal.h"],
    optional=True,
)
"""No module but a program; without it agents use `shim.py`."""


REVISION = Path("src/rota/revision.txt")
SHARED = Path("src/rota/native.h")


def library(name: str, source: str, optimised: str = "-O2") -> Extension:
    """No module but a library; what calls it does without by Python or NumPy.  No contractions, so that all
    machines round alike.  `native.py` compares what it was built of, and for."""
    path = Path("src/rota", source)
    digest = sha256(path.read_bytes() + SHARED.read_bytes()).hexdigest()[:16]
    return Extension(
        f"rota.{name}",
        [str(path)],
        depends=[str(SHARED)],
        define_macros=[("BUILT_OF", f'"{digest}"'), ("BUILT_FOR", f'"{EXTENSION_SUFFIXES[0]}"')],
        libraries=["m"],
        extra_compile_args=["-std=gnu11", optimised, "-ffp-contract=off"],
        optional=True,
    )


WALK = library("solvers.libinner_walk", "solvers/inner_walk.c", "-O3")
BREEDING = library("solvers.libbreeding", "solvers/breeding.c", "-O3")
FUTURE = library("solvers.libfuture", "solvers/future.c")
CLIMB = library("published.artifacts.elasticflow.libclimb", "published/artifacts/elasticflow/climb.c")
IN_C = [SHIM, WALK, BREEDING, FUTURE, CLIMB]


class BuildAll(build_ext):
    """Hot modules, translated only when they are to be built (setup.py is run for more), and what is in C."""

    def finalize_options(self) -> None:
        self.distribution.ext_modules = IN_C
        super().finalize_options()

    def run(self) -> None:
        """What is to be built is asked here: only now is it known whether an install is editable."""
        in_place = self.editable_mode or self.inplace
        try:
            if WISH == "1" or not (in_place or WISH == "0"):
                self.distribution.ext_modules = [*IN_C, *translated()]
                self.swig_opts = None  # the only option that is not made final a second time
                super().finalize_options()
            super().run()
        except (Exception, SystemExit) as error:
            self._go_without(error)
            super().run()

    def _go_without(self, error: BaseException) -> None:
        """Interpreted, the engine is slower; that is no reason to have none."""
        if WISH == "1":
            raise error
        self.distribution.ext_modules = self.extensions = IN_C
        print(f"rota: the engine stays interpreted, about half as fast, because of this: {error}", flush=True)

    def get_ext_filename(self, fullname: str) -> str:
        """Its path below the folder of packages, or its name alone where that is all that is given."""
        if fullname.endswith("rota-shim"):
            return str(Path(*fullname.split(".")))
        if fullname.rpartition(".")[2].startswith("lib"):
            return str(Path(*fullname.split("."))) + ".so"
        return str(super().get_ext_filename(fullname))

    def build_extension(self, ext: Any) -> None:
        """Static where the C library can be had so: it starts faster, and outlives upgrades."""
        if ext.name != SHIM.name:
            self._compile_side_by_side(ext)
            super().build_extension(ext)
            return
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        objects = self.compiler.compile(
            ext.sources, output_dir=self.build_temp, extra_preargs=["-std=gnu11", "-O2"]
        )
        linked = {"output_progname": target.name, "output_dir": str(target.parent), "libraries": ["m"]}
        try:
            self.compiler.link_executable(objects, extra_postargs=["-static", "-s"], **linked)
        except LinkError:
            self.compiler.link_executable(objects, extra_postargs=["-s"], **linked)

    def _compile_side_by_side(self, ext: Any) -> None:
        """What is translated is a hundred files, of which each core takes one at a time; linking is left."""
        if len(ext.sources) == 1:
            return
        options = {
            "output_dir": self.build_temp,
            "include_dirs": ext.include_dirs,
            "macros": ext.define_macros,
            "debug": self.debug,
            "extra_postargs": ext.extra_compile_args,
            "depends": ext.depends,
        }
        with ThreadPoolExecutor(os.cpu_count()) as cores:
            objects = cores.map(lambda source: self.compiler.compile([source], **options), ext.sources)
            ext.extra_objects = [*ext.extra_objects, *[path for some in objects for path in some]]
        ext.sources, ext.depends = [], [*ext.depends, *ext.sources]


def revision() -> str:
    """What `rota --version` says that this was built of; empty if nobody knows.

    That is ROTA_REVISION, else git's commit, else what an archive of the sources says.
    """
    if wished := os.environ.get("ROTA_REVISION", ""):
        return wished
    git = ["git", "-C", str(Path(__file__).resolve().parent)]
    try:
        commit = check_output([*git, "rev-parse", "--short=12", "HEAD"], text=True, stderr=DEVNULL).strip()
        changed = check_output([*git, "status", "--porcelain", "--untracked-files=no", "src"], text=True)
    except (OSError, CalledProcessError):
        return REVISION.read_text().strip() if REVISION.exists() else ""
    return commit + ".changed" * bool(changed)


class BuildAnew(build):
    """What an earlier build in these sources left is no part of this one.

    A module compiled of sources that have changed since would be installed, and imported in place of them,
    where this build has no compiler or is told to leave it; so would one that has been taken out.
    """

    def run(self) -> None:
        if Path(self.build_lib).exists():
            rmtree(self.build_lib)
        super().run()
        package = Path(self.build_lib, "rota")
        if package.is_dir() and (said := revision()):  # there is none of an editable install
            (package / REVISION.name).write_text(f"{said}\n")


class Archive(sdist):
    """An archive knows what it was made of, since it has no git any more."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """All that it holds."""
        super().make_release_tree(base_dir, files)
        if said := revision():
            Path(base_dir, REVISION).write_text(f"{said}\n")


setup(ext_modules=IN_C, cmdclass={"build": BuildAnew, "build_ext": BuildAll, "sdist": Archive})
