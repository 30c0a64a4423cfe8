"""What a policy can be told in a random scene, beyond the durations that every simulation knows."""

from __future__ import annotations

from collections.abc import Iterable

from rota.scheduler.needs import Knowledge, Provider
from rota.testing.scenes import Scene


def scene_providers(scene: Scene, needs: frozenset[Knowledge]) -> Iterable[Provider]:
    """Providers of `needs`; kinds left out are those a simulation provides by itself."""
    return ()
