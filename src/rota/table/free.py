"""Wholly free devices, indexed so that best fit is a few integer operations.

Sets of nodes and of a node's devices are Python integers used as bit masks: the lowest set bit is the
lowest id, copying is copying a list, and no operation depends on how many devices are busy.
"""

from __future__ import annotations

from rota.model.cluster import Cluster


class Free:
    """The devices that no job holds, and the number of them on each node."""

    __slots__ = ("buckets", "count", "devices", "first", "node_of", "nonempty", "size", "total", "touched")

    def __init__(self, first: list[int], node_of: list[int], size: list[int], devices: list[int]) -> None:
        self.first = first
        """First device of each node, and one past the last."""
        self.node_of = node_of
        self.size = size
        """Devices of each node."""
        self.devices = devices
        """Per node, bit i is set if its i-th device is free."""
        self.count: list[int] = []
        """Free devices of each node."""
        self.buckets: list[int] = []
        """Per number of free devices, the nodes that have exactly that number."""
        self.nonempty = 0
        """Bit f is set if some node has exactly f free devices."""
        self.total = 0
        self.touched: set[int] | None = None
        """Nodes that have changed since the set was emptied; None if no caller needs to know."""

    @classmethod
    def of(cls, cluster: Cluster) -> Free:
        """The index of an empty cluster."""
        size: list[int] = cluster.node_gpus.tolist()
        free = cls(
            cluster.first_device.tolist(), cluster.device_node.tolist(), size, [(1 << n) - 1 for n in size]
        )
        free.count = list(size)
        free.buckets = [0] * (max(size) + 1)
        for node, n in enumerate(size):
            free.buckets[n] |= 1 << node
            free.nonempty |= 1 << n
        free.total = sum(size)
        return free

    def copy(self) -> Free:
        """An independent copy, for trying things out."""
        twin = Free(self.first, self.node_of, self.size, self.devices.copy())
        twin.count, twin.buckets = self.count.copy(), self.buckets.copy()
        twin.nonempty, twin.total = self.nonempty, self.total
        return twin

    def copy_node(self, other: Free, node: int) -> None:
        """Set the free devices of `node` to those in `other`."""
        if self.devices[node] != other.devices[node]:
            self.devices[node] = other.devices[node]
            self._recount(node, other.count[node])

    def best_fit(self, gpus: int, within: int = -1) -> int:
        """The node of the mask `within` with the fewest free devices, but at least `gpus`; -1 if none.

        Ties go to the lowest node.
        """
        counts = self.nonempty >> gpus
        while counts:
            low = counts & -counts
            nodes = self.buckets[gpus + low.bit_length() - 1] & within
            if nodes:
                return (nodes & -nodes).bit_length() - 1
            counts ^= low
        return -1

    def emptiest(self, within: int = -1) -> int:
        """The node of the mask with the most free devices, lowest id first; -1 if none has any."""
        counts = self.nonempty & ~1
        while counts:
            top = counts.bit_length() - 1
            nodes = self.buckets[top] & within
            if nodes:
                return (nodes & -nodes).bit_length() - 1
            counts ^= 1 << top
        return -1

    def within(self, nodes: int) -> int:
        """Free devices on the nodes of a mask."""
        total, counts = 0, self.nonempty & ~1
        while counts:
            low = counts & -counts
            gpus = low.bit_length() - 1
            total += gpus * (self.buckets[gpus] & nodes).bit_count()
            counts ^= low
        return total

    def take(self, node: int, gpus: int) -> tuple[int, ...]:
        """Take the `gpus` lowest free devices of `node`; it must have them."""
        bits = self.devices[node]
        base = self.first[node] - 1
        if gpus == 1:
            low = bits & -bits
            self.devices[node] = bits ^ low
            self._recount(node, self.count[node] - 1)
            return (base + low.bit_length(),)
        taken = []
        for _ in range(gpus):
            low = bits & -bits
            taken.append(base + low.bit_length())
            bits ^= low
        self.devices[node] = bits
        self._recount(node, self.count[node] - gpus)
        return tuple(taken)

    def lowest(self, node: int, gpus: int) -> tuple[int, ...]:
        """The `gpus` lowest free devices of `node`, which stay free; it must have them."""
        bits, base = self.devices[node], self.first[node] - 1
        if gpus == 1:
            return (base + (bits & -bits).bit_length(),)
        devices = []
        for _ in range(gpus):
            low = bits & -bits
            devices.append(base + low.bit_length())
            bits ^= low
        return tuple(devices)

    def is_free(self, device: int) -> bool:
        node = self.node_of[device]
        return bool(self.devices[node] >> (device - self.first[node]) & 1)

    def remove(self, device: int) -> None:
        """`device`, which is free, is free no longer."""
        node = self.node_of[device]
        self.devices[node] ^= 1 << (device - self.first[node])
        self._recount(node, self.count[node] - 1)

    def put(self, device: int) -> None:
        """`device`, which is not free, is free again."""
        node = self.node_of[device]
        self.devices[node] |= 1 << (device - self.first[node])
        self._recount(node, self.count[node] + 1)

    def remove_all(self, devices: tuple[int, ...]) -> None:
        """`devices`, which are free, are free no longer."""
        if len(devices) == 1:
            self.remove(devices[0])
            return
        for node, count in self._flip(devices):
            self._recount(node, self.count[node] - count)

    def put_all(self, devices: tuple[int, ...]) -> None:
        """`devices`, which are not free, are free again."""
        if len(devices) == 1:
            self.put(devices[0])
            return
        for node, count in self._flip(devices):
            self._recount(node, self.count[node] + count)

    def _flip(self, devices: tuple[int, ...]) -> list[tuple[int, int]]:
        """Flip the bits of `devices`; returns how many lie on each node, run by run."""
        node_of, first, masks = self.node_of, self.first, self.devices
        runs: list[tuple[int, int]] = []
        last, count = -1, 0
        for device in devices:
            node = node_of[device]
            if node != last:
                if count:
                    runs.append((last, count))
                last, count = node, 0
            masks[node] ^= 1 << (device - first[node])
            count += 1
        if count:
            runs.append((last, count))
        return runs

    def _recount(self, node: int, count: int) -> None:
        before = self.count[node]
        bit = 1 << node
        left = self.buckets[before] ^ bit
        self.buckets[before] = left
        if not left:
            self.nonempty ^= 1 << before
        self.buckets[count] |= bit
        self.nonempty |= 1 << count
        self.count[node] = count
        self.total += count - before
        if self.touched is not None:
            self.touched.add(node)


def mask_of(nodes: list[int]) -> int:
    """The bit mask of some node ids."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def nodes_in(mask: int) -> list[int]:
    """The node ids of a bit mask, ascending."""
    nodes = []
    while mask:
        low = mask & -mask
        nodes.append(low.bit_length() - 1)
        mask ^= low
    return nodes
