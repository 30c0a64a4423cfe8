"""Memory in use on each device, where jobs state it: all that is kept there, and the largest need in turn."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final

from rota.model.grants import Grant, Role
from rota.model.jobs import JobTable

_TURNS: Final = int(Role.TURNS)


def memory_of(jobs: JobTable, grant: Grant) -> tuple[float, float]:
    """GiB that a grant takes of each of its devices: at all times, and in addition during its turn.

    Jobs that take turns on a device all keep there what they keep between two steps, and one at a time
    needs the rest (Salus): the device holds the sum of the first and the largest of the second.  A job that
    does not state what it keeps, or has another role, keeps all of it.
    """
    need = grant.gpu_memory_gib
    if need != need:  # NaN: as asked
        need = jobs.gpu_memory_gib.item(grant.job)
    if grant.role != _TURNS:
        return need, 0.0
    kept = min(jobs.gpu_persistent_gib.item(grant.job) or need, need)
    return kept, need - kept


class DeviceMemory:
    """What the grants in force take, by device."""

    __slots__ = ("in_turns", "used")

    def __init__(self) -> None:
        self.used: dict[int, float] = {}
        """GiB in use, whichever job has its turn."""
        self.in_turns: dict[int, list[float]] = {}
        """What jobs need only during their turn, ascending, for each device with such a job."""

    def copy(self) -> DeviceMemory:
        """An independent copy."""
        twin = DeviceMemory()
        twin.used = self.used.copy()
        twin.in_turns = {device: needs.copy() for device, needs in self.in_turns.items()}
        return twin

    def copy_device(self, truth: DeviceMemory, device: int) -> None:
        """Become equal to `truth` on `device`."""
        self.used.pop(device, None)
        self.in_turns.pop(device, None)
        if device in truth.used:
            self.used[device] = truth.used[device]
        if device in truth.in_turns:
            self.in_turns[device] = truth.in_turns[device].copy()

    def with_more(self, device: int, kept: float, turn: float = 0.0) -> float:
        """GiB that would be in use on `device` if a job came that takes `kept`, and `turn` in its turn."""
        largest = self.in_turns[device][-1] if device in self.in_turns else 0.0
        return self.used.get(device, 0.0) + kept + max(turn - largest, 0.0)

    def count(self, devices: Iterable[int], kept: float, turn: float, sign: float) -> None:
        """Count a job that comes (1.0) or leaves (-1.0): `kept` of each device, `turn` during its turn."""
        for device in devices:
            more = sign * kept
            if turn:
                more += self._count_turn(device, turn, sign)
            self.used[device] = self.used.get(device, 0.0) + more

    def _count_turn(self, device: int, turn: float, sign: float) -> float:
        """By how much the largest need in turn changes."""
        before = self.in_turns[device][-1] if device in self.in_turns else 0.0
        if sign > 0.0:
            self.enter_turn(device, turn)
        else:
            turns = self.in_turns[device]
            del turns[bisect_left(turns, turn)]
            if not turns:
                del self.in_turns[device]
        return (self.in_turns[device][-1] if device in self.in_turns else 0.0) - before

    def enter_turn(self, device: int, turn: float) -> None:
        """A counted job on `device` needs this much during its turn."""
        insort(self.in_turns.setdefault(device, []), turn)
