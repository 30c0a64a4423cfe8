"""Who has to be looked at in a round of Synergy, and when everybody has to."""

from __future__ import annotations

import numpy as np

from rota.model.grants import Grant
from rota.scheduler.decision import Decision
from rota.systems.synergy.room import Ask
from rota.systems.synergy.unmoved import Unmoved

SOMEWHERE, NOWHERE = np.ones(2, dtype=bool), np.zeros(2, dtype=bool)


def ask(*, share: float = 1.0, movable: bool = True) -> Ask:
    allowed = SOMEWHERE if movable else NOWHERE
    return Ask(1, 1, np.zeros(3), Grant(1, (0,), share=share), allowed, share=share)


def decides(*starts: int, preempt: tuple[int, ...] = (), cancel: tuple[int, ...] = ()) -> Decision:
    return Decision(
        {}, [Grant(row, (row,)) for row in starts], list(preempt), cancel=dict.fromkeys(cancel, "over")
    )


def test_who_starts_or_stops_is_named_and_looked_at_again() -> None:
    unmoved = Unmoved()
    assert not unmoved.knows(decides(), set())
    unmoved.settled([ask()], decides(1, preempt=(2,), cancel=(3,)), set())
    assert unmoved.named == {1, 2, 3}  # the world may have refused it
    unmoved.name([4])
    assert unmoved.knows(decides(5, preempt=(6,), cancel=(7,)), set())
    assert unmoved.named == {1, 2, 3, 4, 5, 6, 7}
    unmoved.settled([], decides(), set())
    assert unmoved.named == set()


def test_everybody_is_looked_at_once_devices_go_down_or_come_back() -> None:
    unmoved = Unmoved()
    unmoved.settled([ask()], decides(), {3})
    assert unmoved.knows(decides(), {3})
    assert not unmoved.knows(decides(), set())
    assert not unmoved.knows(decides(), {3, 4})


def test_everybody_is_looked_at_after_a_round_in_which_somebody_was_short_or_tied_to_his_place() -> None:
    unmoved = Unmoved()
    for asks in (None, [ask(), ask(share=0.5)], [ask(), ask(movable=False)]):
        unmoved.settled([ask()], decides(), set())
        unmoved.settled(asks, decides(), set())
        assert not unmoved.knows(decides(), set())
