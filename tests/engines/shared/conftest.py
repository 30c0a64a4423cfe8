"""The agents and the made-up machines that other tests use stand beside the contract here."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "agent"), str(TESTS / "server")]
