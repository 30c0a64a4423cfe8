"""One served controller for all tests of a module that does not change its settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving_toys import Stage, served


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A running API; tests of a module share it, so each makes the jobs it needs."""
    with served(tmp_path_factory.mktemp("api")) as stage:
        yield stage
