"""The call at the end of each step: 1-2 µs without a directive; otherwise all ranks obey it at the same step.

The gate counts steps, reports at most every half second, saves when a checkpoint is due, and stops the
program: it blocks with the memory where it is (pause), with device state in host memory (suspend), or saves
and ends the program with code 85 (leave). The state itself is handled by the state holder
(`rota.training.loop.Job`).
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from rota.training import protocol
from rota.training.agreement import Alone, Naps, StopVerdict, choose, stopping
from rota.training.checkpoint import refuse, say
from rota.training.leaving import leave_now
from rota.training.page import Page
from rota.training.protocol import Directive, RankState

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.training.environment import Environment

NEVER = float("inf")
COLLECTIVE_MARGIN = 0.8
"""A pause that may end by leaving ends after this part of the collectives' time-out."""
SAVED_WITHIN_S = 600.0
"""Seconds that ranks other than 0 wait for rank 0's last checkpoint."""


class StateHolder(Protocol):
    """The object that holds the program's state."""

    def save(self, together: bool) -> None:
        """Publish a checkpoint of this step; `together` if all ranks call it now. Raises only Voided."""

    def to_host(self) -> tuple[float, float]:
        """Move device state to host memory; (bytes moved, bytes still on the device)."""

    def to_device(self) -> float:
        """Move device state back; returns bytes moved. RuntimeError without room, when `save` still works."""

    def settle(self) -> None:
        """Wait until the device has finished all its work."""

    def change_batch_size(self, samples: int) -> None:
        """Set the samples of a step over all workers from now on."""

    def ends_epoch(self, ahead: int) -> bool:
        """Whether the `ahead`-th step from now is the last of an epoch, where stops and saves are avoided."""

    def tell(self, status: RankState) -> None:
        """Add the holder's values to a report."""


class StepGate:
    """The step boundary of one rank."""

    def __init__(
        self,
        environment: Environment,
        keeper: StateHolder,
        status: RankState,
        *,
        group: Callable[[], Any],
        save_every_s: float | None = None,
        save_every_steps: int | None = None,
    ) -> None:
        """`group` returns the process group as a `torch_state.Group`, None if there is none (called once)."""
        self.step_count = 0
        self.samples = 0.0
        self.status = status
        self._environment, self._keeper, self._find_group = environment, keeper, group
        self._page = _page(environment.training)
        self._agreement: Alone | None = None
        self._group: Any = None
        self._fence: Callable[[], None] | None = None
        self._words: Any = self._page.words if self._page is not None else [0]
        self._watch, self._known = 0, 0
        self._save_every_s = save_every_s or NEVER
        self._save_every_steps = save_every_steps or 0
        self._save_at = NEVER
        self._save_due = time.monotonic() + self._save_every_s
        self._report_due = 0.0 if self._page is not None else NEVER
        self._due = 0.0
        self._reported = (time.monotonic(), 0)
        self._paused_s = 0.0
        self._mute = False
        """True if the last report failed and that has been printed."""

    def start(self, step: int, samples: float) -> None:
        """Begin at `step` (a restored one, or 0) and report it."""
        self.step_count, self.samples = step, samples
        self._reported = (time.monotonic(), step)
        self.saved()
        self.report(protocol.RUNNING)
        if self._page is not None:
            # The first step is reported at once, because the program is ready from there on.
            self._report_due = 0.0

    def step(self, loss: Any = None, samples: float = 0.0) -> None:
        """Complete a step. May block; may end the program (SystemExit 85, or 86 if the attempt is void)."""
        self.step_count += 1
        self.samples += samples
        if self._fence is not None:
            self._fence()
        if (
            self._words[self._watch] != self._known
            or time.monotonic() >= self._due
            or self.step_count >= self._save_at
        ):
            self._attend(loss)

    def saved(self) -> None:
        """Note that this step has a checkpoint: the next one is due after the interval."""
        self._save_due = time.monotonic() + self._save_every_s
        if self._save_every_steps:
            every = self._save_every_steps
            self._save_at = (self.step_count // every + 1) * every
        self._due = 0.0

    def report(self, state: str, loss: Any = None, sequence: int | None = None) -> None:
        """Write this rank's file; does nothing outside Rota."""
        if self._page is None:
            return
        status, now = self.status, time.monotonic()
        since, steps = self._reported
        if self.step_count > steps:
            status.step_s = max(now - since - self._paused_s, 0.0) / (self.step_count - steps)
            self._reported, self._paused_s = (now, self.step_count), 0.0
        if status.state != state:
            status.at_step = self.step_count
        status.state, status.step, status.samples = state, self.step_count, self.samples
        if loss is not None:
            # Torch would warn about a tensor with gradient.
            status.loss = float(loss.detach() if hasattr(loss, "detach") else loss)
        if sequence is not None:
            status.sequence = sequence
        self._keeper.tell(status)
        self._report_due = now + protocol.REPORT_EVERY_S
        try:
            protocol.write_rank(self._environment.training, status)
        except OSError as error:
            if not self._mute:
                say(f"progress cannot be reported to {self._environment.training}: {error}; training goes on")
            self._mute = True
        else:
            self._mute = False

    def newest(self) -> Directive | None:
        """The newest directive, obeyed or not."""
        if self._page is None or not self._page.sequence:
            return None
        return protocol.read_directive(self._environment.training)

    def _attend(self, loss: Any) -> None:
        """Do what is due at this gate, such as a save or a stop."""
        if self._agreement is None and self._page is not None:
            self._set_up(self._page)
        if self._agreement is not None:
            self._listen(self._agreement)
        together = self.step_count >= self._save_at
        due = together or time.monotonic() >= self._save_due
        if due and not self._keeper.ends_epoch(0):
            self._keeper.save(together)
            self.saved()
        if time.monotonic() >= self._report_due:
            self.report(self.status.state, loss)
        self._due = min(self._report_due, self._save_due)
        if self._agreement is not None:
            self._watch, self._known = self._agreement.watch, self._agreement.known
            if self._agreement.open:
                self._due = 0.0

    def _set_up(self, page: Page) -> None:
        """Set up the agreement at the first gate, when the program has its process group, if it uses one."""
        if self._environment.started_s is not None:
            self.status.costs["ready"] = (max(time.time() - self._environment.started_s, 0.0), 0.0)
        self._group = self._find_group()
        self._agreement = choose(
            self._environment, page, self._group, self._announce, self._keeper.ends_epoch
        )
        self.status.capability["agreement"] = self._agreement.name
        if self._agreement.lag:
            self._fence = self._group.fence

    def _announce(self, sequence: int) -> None:
        self.status.announced = sequence
        self.report(protocol.ANNOUNCED)

    def _listen(self, agreement: Alone) -> None:
        """Find out whether to stop here; wait while an agreement forbids another step."""
        naps = Naps()
        while True:
            sequence = agreement.seek(self.step_count, self._to_obey(agreement))
            if sequence is not None:
                self._stop(agreement, sequence)
                return
            if not agreement.blocked:
                break
            naps.sleep()
        if self.status.state == protocol.ANNOUNCED and not agreement.open:
            self.report(protocol.RUNNING, sequence=agreement.known)

    def _to_obey(self, agreement: Alone) -> Directive | None:
        """The newest directive that requires a stop and has not been obeyed."""
        sequence = self._words[0]
        if agreement.watch or sequence <= agreement.known:
            return None
        directive = self.newest()
        if directive is None or directive.sequence < sequence:
            say(f"directive {sequence} cannot be read from {self._environment.training}: ignored")
            agreement.known = sequence
            return None
        if not stopping(directive):
            agreement.known = directive.sequence
            if self.status.state == protocol.RUNNING:
                self.report(protocol.RUNNING, sequence=directive.sequence)
            return None
        return directive

    def _stop(self, agreement: Alone, sequence: int) -> None:
        """Stop with all ranks, and obey directives until the leader ends the stop."""
        began, naps, read = time.monotonic(), Naps(), -1
        directive = Directive()
        self._keeper.settle()
        self.status.state = protocol.RUNNING
        while True:
            if self._words[0] != read:
                read, directive = self._words[0], self.newest() or directive
                self._wait_as(directive)
            verdict = self._verdict(agreement, sequence, directive, began)
            if verdict is not None:
                break
            naps.sleep()
        self._paused_s += time.monotonic() - began
        if verdict.do == protocol.GO_AWAY:
            self._leave(agreement, directive, verdict.seen)
        self._go_on(agreement, verdict)

    def _verdict(
        self, agreement: Alone, sequence: int, directive: Directive, began: float
    ) -> StopVerdict | None:
        """How this stop ends: decided by the leader, read by the others. None while undecided."""
        if not agreement.leads and not self._leader_has_finished(agreement):
            return agreement.verdict(sequence)
        do = protocol.GO_ON
        if directive.do in (protocol.PAUSE, protocol.SUSPEND):
            if not self._waited_too_long(directive, began):
                return None
            do = protocol.GO_AWAY
        elif directive.do == protocol.LEAVE:
            do = protocol.GO_AWAY
        elif directive.do == protocol.CHECKPOINT:
            do = protocol.SAVE
        verdict = StopVerdict(do, directive.sequence, int(directive.batch_size or 0))
        agreement.judge(sequence, verdict)
        return verdict

    def _leader_has_finished(self, agreement: Alone) -> bool:
        """Whether the leader has finished; without a process group ranks may finish at different steps."""
        if agreement.name != "agent":
            return False
        first = self._environment.rank - self._environment.local_rank
        leader = protocol.read_rank(self._environment.training, first)
        return leader is not None and leader.state == protocol.FINISHED

    def _waited_too_long(self, directive: Directive, began: float) -> bool:
        """Whether the stop should end by leaving: at its deadline, or well before collectives time out.

        Only a directive with a deadline may end so.
        """
        if directive.deadline_s is None:
            return False
        timeout_s = self._group.timeout_s if self._group is not None else NEVER
        return (
            time.time() >= directive.deadline_s or time.monotonic() - began >= COLLECTIVE_MARGIN * timeout_s
        )

    def _wait_as(self, directive: Directive) -> None:
        """Enter the state that the directive requires; a suspended rank stays suspended on a pause."""
        state = self.status.state
        if directive.do == protocol.SUSPEND and state != protocol.SUSPENDED:
            began = time.monotonic()
            moved, residual = self._keeper.to_host()
            self.status.costs["suspend"] = (time.monotonic() - began, moved)
            self.status.suspended_bytes, self.status.residual_bytes = moved, residual
            self.report(protocol.SUSPENDED, sequence=directive.sequence)
        elif directive.do == protocol.PAUSE and state != protocol.SUSPENDED:
            self.report(protocol.PAUSED, sequence=directive.sequence)

    def _go_on(self, agreement: Alone, verdict: StopVerdict) -> None:
        if self.status.state == protocol.SUSPENDED:
            began = time.monotonic()
            try:
                moved = self._keeper.to_device()
            except RuntimeError as error:  # torch raises it for a device without room
                say(f"device state cannot come back ({error}): leaving by checkpoint")
                self._keeper.save(together=False)
                self.report(protocol.LEAVING, sequence=verdict.seen)
                leave_now()
            self.status.costs["resume"] = (time.monotonic() - began, moved)
            self.status.suspended_bytes = self.status.residual_bytes = 0.0
        if verdict.do == protocol.SAVE:
            self._keeper.save(together=True)
            self.saved()
        if verdict.batch_size:
            self._keeper.change_batch_size(verdict.batch_size)
        agreement.close(verdict.seen)
        self.report(protocol.RUNNING, sequence=verdict.seen)

    def _leave(self, agreement: Alone, directive: Directive, seen: int) -> NoReturn:
        """Save, wait for rank 0's checkpoint, and end with code 85."""
        began = time.monotonic()
        self.report(protocol.LEAVING, sequence=seen)
        try:
            self._keeper.save(together=True)
        finally:
            if self._environment.rank == 0:
                agreement.tell_saved(self.step_count)
        naps = Naps()
        while not agreement.saved(self.step_count) and time.monotonic() - began < SAVED_WITHIN_S:
            if os.path.lexists(os.path.join(self._environment.checkpoint, protocol.VOID)):
                refuse(Path(self._environment.checkpoint))
            naps.sleep()
        self.status.costs["leave"] = (time.monotonic() - began, 0.0)
        self.report(protocol.LEAVING)
        say(f"leaving at step {self.step_count}: {directive.reason or directive.do}")
        leave_now()


def _page(folder: str) -> Page | None:
    """The command page; None outside Rota, or if the folder is unusable, which does not stop the training."""
    if not folder:
        return None
    try:
        return Page(folder)
    except OSError as error:
        say(f"ROTA_TRAINING_DIR={folder} cannot be used ({error}): training goes on, but hears no directive")
        return None
