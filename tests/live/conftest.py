"""Fixtures of the tests with real processes: one cluster each, in a folder of its own, killed at the end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))  # the cluster that tests of the server use

import live_cluster
from postgres import postgres

live_cluster.PATIENCE_S = float(os.environ.get("ROTA_TEST_PATIENCE_S", live_cluster.PATIENCE_S))

__all__ = ["postgres"]
