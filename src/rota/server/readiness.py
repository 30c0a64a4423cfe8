"""Whether the scheduler's loop includes all changes; threads of the API wait for that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rota.server.refusals import Busy
from rota.server.turn import TurnChanges
from rota.worlds.live.inbox import Inbox

BUILDING_S = 1.0
"""How long a question waits for a loop that is being built."""


class LoopStanding:
    """Whether the scheduler's loop includes all changes; callers that ask or have changed it wait.

    Some commands show only once the loop is built again.  Their caller may ask about it next, so it is
    answered then and not when it is on record; a call while the loop is being built waits for it,
    instead of getting an incomplete or old answer.  The scheduler's thread says when it falls and stands.
    """

    def __init__(self, inbox: Inbox, told: Callable[[TurnChanges], None], trouble: Callable[[], str]) -> None:
        """`told` is called after turns; no call waits during a `trouble`, which may last."""
        self._inbox, self._told, self._trouble = inbox, told, trouble
        self._untold: list[TurnChanges] = []
        """Commands that are on record as done and do not show yet."""
        self._turned = threading.Condition()
        self._upon: int | None = None
        """Changes that the inbox had received when the store was read; None without a loop."""
        self._rising: int | None = None
        """The number for a loop that has not taken a turn yet."""

    # -- the scheduler's thread ------------------------------------------------------------------

    def announce(self, turn: TurnChanges, *, shows: bool) -> None:
        """Report a step on record; its commands once the loop is built, unless their effect `shows`."""
        if not shows and turn.done:
            self._untold.append(TurnChanges(done=turn.done))
            turn = replace(turn, done=())
        self._told(turn)

    def falls(self) -> None:
        """There is no loop."""
        with self._turned:
            self._upon = self._rising = None

    def rises(self) -> None:
        """A loop is to be built on the store as it is from now on."""
        self._rising = self._inbox.changes

    def stands(self) -> None:
        """The loop has taken a turn: the policy's process, which begins with it, can be asked."""
        if self._rising is None:
            return
        with self._turned:
            self._upon, self._rising = self._rising, None
            self._turned.notify_all()
        self.tell()

    def tell(self) -> None:
        """Answer the callers of commands that had to wait: they are done, even if the loop has failed."""
        untold, self._untold = self._untold, []
        for turn in untold:
            self._told(turn)

    # -- any other thread ------------------------------------------------------------------------

    def wait(self, most_s: float = BUILDING_S) -> bool:
        """True once the loop includes all changes that the inbox has received by now.

        Later changes are waited for by later calls: machines may join by the hundred.
        """
        told = self._inbox.changes
        with self._turned:
            return self._turned.wait_for(partial(self._stands_on, told), 0.0 if self._trouble() else most_s)

    def check(self) -> None:
        """Raises Busy if the loop is not built within moments."""
        if not self.wait():
            raise Busy("the scheduler is starting; ask again in a moment")

    def _stands_on(self, told: int) -> bool:
        return self._upon is not None and self._upon >= told
