"""Locality: how close together the GPUs of a gang must be, as levels that are given up one by one.

A domain is a unit of one level of the cluster (a rack: nodes joined by RDMA); without that level the whole
cluster is one domain.  Sets of nodes are bit masks, as in `free`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from rota.model.cluster import Cluster
from rota.table.free import Free, mask_of, nodes_in


class Locality(IntEnum):
    """Degrees of closeness, the strictest first."""

    FEWEST_NODES = 0  # as few nodes as an empty domain would need, all in one domain
    ONE_DOMAIN = 1  # any nodes of one domain
    ANYWHERE = 2


class Domains:
    """Where a gang can be gathered at each level of locality.

    Domains with most free GPUs come first; in a domain the emptiest nodes, but for a gang of less than
    half a node the fullest one on which it fits, so that whole nodes stay free.  Ties go to the lowest id.
    """

    def __init__(self, cluster: Cluster, level: str = "rack") -> None:
        gpus: list[int] = cluster.node_gpus.tolist()
        self.full = Free.of(cluster)
        """A cluster with no free GPU."""
        self.full.remove_all(tuple(range(cluster.gpus)))
        self._of_size = {
            size: mask_of([node for node, n in enumerate(gpus) if n == size]) for size in sorted(set(gpus))
        }
        self._each = 0 if len(self._of_size) > 1 else max(gpus, default=0)
        """GPUs of each node; 0 if they differ."""
        self.nodes = (1 << cluster.nodes) - 1
        """Mask of all nodes."""
        self.masks: list[int] = [self.nodes]
        """Nodes of each domain."""
        if level in cluster.levels:
            codes = cluster.levels[level].tolist()
            self.masks = [
                mask_of([node for node, code in enumerate(codes) if code == unit])
                for unit in range(len(cluster.level_names[level]))
            ]

    def candidates(self, free: Free, gpus: int, level: Locality, within: int = -1) -> int:
        """The nodes of `within` on which to gather `gpus` GPUs: where they are free now, if anywhere.

        0 if the level cannot be met even when all these nodes are empty.
        """
        if level is Locality.ANYWHERE:
            nodes = within & ((1 << len(free.size)) - 1)
            return nodes if self.size(nodes) >= gpus else 0
        best = 0
        for domain in self._by_room(free, within):
            if self.size(domain) < gpus:
                continue
            if level is Locality.ONE_DOMAIN:
                return domain  # no other that is large enough has more room
            nodes = self._fewest(free, gpus, domain)
            if room_on(free, nodes) >= gpus:
                return nodes
            best = best or nodes
        return best

    def _fewest(self, free: Free, gpus: int, domain: int) -> int:
        """The nodes of `domain`, which is large enough, to use if they may be no more than needed."""
        if self._each:
            return _fewest_alike(free, gpus, domain, self._each)
        return fewest_nodes(free, gpus, domain)

    def first_level(self, free: Free, gpus: int, within: int = -1) -> Locality:
        """The strictest level that an empty cluster could meet."""
        if self._each:  # where nodes are alike, a domain that is large enough offers the fewest
            fits = any(self.size(mask & within) >= gpus for mask in self.masks)
            return Locality.FEWEST_NODES if fits else Locality.ANYWHERE
        return next((v for v in Locality if self.candidates(free, gpus, v, within)), Locality.ANYWHERE)

    def level_in_part(self, fed: Mapping[int, int], gpus: int, within: int) -> Locality:
        """The strictest level where each node can feed only `fed` GPUs, fewer than it has."""
        fits = any(
            sum(min(fed[node], self.full.size[node]) for node in nodes_in(mask & within)) >= gpus
            for mask in self.masks
        )
        return Locality.ONE_DOMAIN if fits else Locality.ANYWHERE

    def size(self, nodes: int) -> int:
        """GPUs of the nodes of a mask."""
        return sum(size * (mask & nodes).bit_count() for size, mask in self._of_size.items())

    def _by_room(self, free: Free, within: int) -> list[int]:
        """Domains, cut to `within`, with most free GPUs first."""
        domains = [mask & within for mask in self.masks]
        if len(domains) == 1:
            return domains
        room = {domain: room_on(free, domain) for domain in domains}
        return sorted(domains, key=lambda domain: -room[domain])


def fewest_nodes(free: Free, gpus: int, domain: int) -> int:
    """The nodes of `domain` to use if they may be no more than an empty domain would need; 0 if too small."""
    sizes = sorted((free.size[node] for node in nodes_in(domain)), reverse=True)
    if not sizes or not sizes[0]:
        return 0
    if 2 * gpus < sizes[0]:
        node = free.best_fit(gpus, domain)
        if node >= 0:
            return 1 << node
    chosen, count, rest = 0, -(-gpus // sizes[0]), gpus
    while domain and count:
        node = free.emptiest(domain)
        if node < 0:  # all are full: the lowest
            node = (domain & -domain).bit_length() - 1
        domain ^= 1 << node
        sizes.remove(free.size[node])
        if rest - free.size[node] > sum(sizes[: count - 1]):
            sizes = sorted([*sizes, free.size[node]], reverse=True)
            continue  # with this node the rest would need more nodes than that
        chosen |= 1 << node
        rest, count = rest - free.size[node], count - 1
    return chosen if count == 0 else 0


def _fewest_alike(free: Free, gpus: int, domain: int, each: int) -> int:
    """As `fewest_nodes`, where all nodes have `each` GPUs and the domain is large enough."""
    if 2 * gpus < each:
        node = free.best_fit(gpus, domain)
        if node >= 0:
            return 1 << node
    chosen = 0
    for _ in range(-(-gpus // each)):
        node = free.emptiest(domain)
        bit = domain & -domain if node < 0 else 1 << node
        domain ^= bit
        chosen |= bit
    return chosen


def gather(free: Free, gpus: int, nodes: int, most: Mapping[int, int] | None = None) -> tuple[int, ...]:
    """Take up to `gpus` free GPUs of `nodes`, emptiest node first; of each no more than `most` says."""
    taken: tuple[int, ...] = ()
    while len(taken) < gpus:
        node = free.emptiest(nodes)
        if node < 0:
            break
        count = min(gpus - len(taken), free.count[node])
        if most is not None:
            count, nodes = min(count, most.get(node, 0)), nodes & ~(1 << node)
        if count > 0:
            taken += free.take(node, count)
    return tuple(sorted(taken))


def room_on(free: Free, nodes: int) -> int:
    """Free GPUs of the nodes of a mask."""
    return free.within(nodes)
