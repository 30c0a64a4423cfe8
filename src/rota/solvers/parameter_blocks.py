"""Blocks of parameters dealt to servers: as many bytes and as many requests for each, and few cuts.

Source    Peng et al., "Optimus", EuroSys 2018, section 4.3, and the code of its authors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SMALL = 0.01
"""Blocks of up to this part of what a server is to hold go to whoever has the fewest."""


@dataclass
class Server:
    """What one parameter server holds."""

    parts: list[tuple[int, float]] = field(default_factory=list)
    """Block and how much of it."""

    @property
    def load(self) -> float:
        return sum(size for _, size in self.parts)

    @property
    def requests(self) -> int:
        return len(self.parts)


def deal(sizes: Sequence[float], servers: int) -> list[Server]:
    """The parts of each of so many servers, of blocks of these sizes; the largest blocks first."""
    mean = sum(sizes) / servers
    held = [Server() for _ in range(servers)]
    for block in sorted(range(len(sizes)), key=lambda block: (-sizes[block], block)):
        size = sizes[block]
        if size <= SMALL * mean:
            _fewest(held).parts.append((block, size))
            continue
        while size > mean:
            server = min(held, key=lambda server: server.load)
            part = min(size, mean - server.load)
            if part <= 0.0:
                break
            server.parts.append((block, part))
            size -= part
        if size > 0.0:
            _best_fit(held, size, mean).parts.append((block, size))
    return held


def _fewest(held: Sequence[Server]) -> Server:
    return min(held, key=lambda server: server.requests)


def _best_fit(held: Sequence[Server], size: float, mean: float) -> Server:
    """The server with the least room that is enough; failing that the one that holds least."""
    rooms = [server for server in held if mean - server.load >= size - 1e-9 * mean]
    return min(rooms or held, key=lambda server: (mean - server.load) if rooms else server.load)


def transfer(servers: Sequence[int], workers: Sequence[int], size: float = 1.0) -> float:
    """What the busiest machine moves in a step, one way, if each has so many servers and workers.

    Every worker sends each server its part of `size`; what stays on a machine costs nothing.
    """
    p, w = sum(servers), sum(workers)
    return max(
        max(own_w * (p - own_p), own_p * (w - own_w)) * size / p
        for own_p, own_w in zip(servers, workers, strict=True)
    )
