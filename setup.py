"""Builds the hot modules with mypyc if ROTA_COMPILE=1: the same sources, compiled, with the same answers.

pip install "rota[fast]" builds nothing by itself; see docs/performance.md for the one command.
"""

from __future__ import annotations

import os

from setuptools import setup

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
    "src/rota/policies/gandiva/server_index.py",
    "src/rota/policies/gandiva/server_groups.py",
    "src/rota/policies/gandiva/migration.py",
    "src/rota/policies/gandiva/standing.py",
    "src/rota/policies/gandiva/turns.py",
    "src/rota/policies/gandiva/swaps.py",
    "src/rota/policies/gandiva/decision.py",
    "src/rota/worlds/simulated/world.py",
]
"""What a run spends its time in, from the inside out; everything else stays interpreted."""


def compiled() -> list[object]:
    """Extension modules of the hot modules, or none."""
    if os.environ.get("ROTA_COMPILE") != "1":
        return []
    from mypyc.build import mypycify

    options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
    return list(mypycify([*options, *HOT], opt_level="3"))


setup(ext_modules=compiled())
