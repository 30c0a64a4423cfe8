"""One batch while it is built: the events of this moment, by row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rota.scheduler.decision import Event
from rota.scheduler.world import Batch, Ended, How
from rota.table.state import Phase


@dataclass
class BatchBuilder:
    """Collects the events of a `Batch`; a row may have one change at a time."""

    now: float
    cause: Event = Event.NONE
    arrived: list[int] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)
    settled: list[tuple[int, Phase]] = field(default_factory=list)
    held: list[tuple[int, str]] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    back: list[int] = field(default_factory=list)
    drained: list[int] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)
    """Rows with a change of place in the table at this moment."""
    notable: bool = False
    """True if something has to be recorded, though no policy need know."""

    def end(self, row: int, how: How, phase: Phase, at_s: float | None = None) -> None:
        """The running job `row` holds nothing any more, and has been of no use to it since `at_s`."""
        self.ended.append(Ended(row, how, phase, at_s))
        self.touched.add(row)
        self.cause |= Event.FAILURE if phase is Phase.PENDING else Event.END

    def settle(self, row: int, phase: Phase) -> None:
        """The waiting or held job `row` is over."""
        if phase is Phase.CANCELLED:
            self.withdrawn.append(row)
        else:
            self.settled.append((row, phase))
        self.touched.add(row)
        self.cause |= Event.END

    def hold(self, row: int, why: str) -> None:
        """`row` is hidden from the policy."""
        if row in self.touched:
            self.held = [(other, text) for other, text in self.held if other != row]
        self.held.append((row, why))
        self.touched.add(row)
        self.notable = True

    def release(self, row: int) -> None:
        """The held job `row` waits for devices."""
        self.released.append(row)
        self.touched.add(row)
        self.cause |= Event.ARRIVAL

    def drain(self, node: int) -> None:
        """`node` takes no new jobs, whatever was said of it before in this moment."""
        _move(node, self.back, self.drained)

    def lose(self, node: int) -> None:
        """`node` is gone."""
        _move(node, self.back, self.lost)

    def regain(self, node: int, sick: Iterable[int] = ()) -> None:
        """`node` takes jobs again, except on its `sick` devices."""
        _move(node, self.drained, self.back)
        for device in sick:
            self.close(device)

    def close(self, device: int) -> None:
        """`device` takes no new jobs."""
        _move(device, self.opened, self.closed)

    def open(self, device: int) -> None:
        """`device` is healthy again."""
        _move(device, self.closed, self.opened)

    @property
    def is_empty(self) -> bool:
        return not (self.cause or self.touched or self.notable)

    def batch(self) -> Batch:
        """The batch for the loop."""
        return Batch(
            self.now,
            int(self.cause),
            arrived=self.arrived,
            ended=self.ended,
            lost=self.lost,
            back=self.back,
            withdrawn=self.withdrawn,
            settled=self.settled,
            held=self.held,
            released=self.released,
            drained=self.drained,
            closed=self.closed,
            opened=self.opened,
        )


def _move(thing: int, old: list[int], new: list[int]) -> None:
    """Keep the last event about each row, so that the loop gets one."""
    if thing in old:
        old.remove(thing)
    if thing not in new:
        new.append(thing)
