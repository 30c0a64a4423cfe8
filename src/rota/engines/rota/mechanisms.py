"""Suspends, resumes and stops parts, by the mechanisms that program, driver and machine offer.

    cooperative      every rank speaks `rota.training`: it stops at a step boundary, its state in host memory
    signal           CPU slots only: SIGSTOP; the memory stays where it is
    cuda checkpoint  the driver moves the device memory of all processes to the host, then SIGSTOP: a process
                     without a GPU so far cannot take one, and one that needs none is stopped as well
    restart          no way to suspend: leave by checkpoint if the program can, otherwise notice and signals

Suspended parts stay in host memory, so that all but `restart` need room in the budget for suspended parts.  A
mechanism that fails or takes longer than the job's grace falls back to the next that gives the devices back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rota.engines.rota.cuda_checkpoint import CudaCheckpoint
from rota.engines.rota.live import Live
from rota.engines.rota.operations import Done, Operation, Transition
from rota.engines.rota.relay import Relay
from rota.engines.rota.supervisor import Supervisor
from rota.engines.shared.ledger import Key
from rota.errors import WorldError
from rota.training import protocol
from rota.wire.sync import Capability, Mechanism, Notice, Part, PartStatus

SIGNALS_S = 10.0
"""Seconds from SIGTERM to SIGKILL for a program that did not leave by checkpoint; at most 1/4 of its time."""
LEAST_PATIENCE_S = 10.0
RESUME_S = 120.0
"""Seconds that a resumed program has to report; after that the agent stops waiting for its report."""


class Mechanisms:
    """Carries out suspensions, resumptions and stops of parts; a single thread calls it."""

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        on_slots: bool,
        driver: CudaCheckpoint,
        budget_gib: float,
        memory_gib: Callable[[Live], float],
        device_gib: Callable[[Live], float] = lambda _: 0.0,
        wake: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_slots`: devices are CPU slots. `budget_gib`: host memory that suspended parts may hold.

        `memory_gib` measures the host memory of a part, `device_gib` the device memory that it would bring to
        the host; `wake` schedules a call of `poll` soon, from any thread.
        """
        self.operations: dict[Key, Operation] = {}
        self.suspended_gib: dict[Key, float] = {}
        """Host memory of each suspended part, as measured when it was suspended."""
        self._supervisor, self._on_slots, self._driver = supervisor, on_slots, driver
        self._wake = wake
        self._budget_gib, self._now = budget_gib, now
        self._memory_gib, self._device_gib = memory_gib, device_gib
        self._relays: dict[Key, Relay] = {}
        self._done: list[Done] = []

    def relay(self, live: Live) -> Relay:
        """The training folder of a part."""
        if live.key not in self._relays:
            self._relays[live.key] = Relay(
                live.folder.training, tuple(sorted(one.rank for one in live.part.ranks))
            )
        return self._relays[live.key]

    def attach(self, live: Live) -> None:
        """Continue what another agent had begun, as the directive in the folder or the driver says."""
        if live.status is PartStatus.SUSPENDED:
            self.suspended_gib[live.key] = self._memory_gib(live)
        directive = self.relay(live).open_directive()
        if directive is None:
            self._make_sure(live)
        if live.status is not PartStatus.RUNNING or directive is None:
            return
        now = self._now()
        operation = Operation(
            live, live.part, Transition.SUSPEND, Mechanism.COOPERATIVE, now, now, directive.sequence
        )
        if directive.do == protocol.SUSPEND:
            self.operations[live.key] = replace(operation, until_s=now + self._patience_s(live.part))
        elif directive.do == protocol.LEAVE:
            left_s = max(0.0, (directive.deadline_s or 0.0) - time.time())
            left_s = min(left_s, live.part.notice_s + live.part.grace_s)  # the clock may have been set
            self.operations[live.key] = replace(operation, kind=Transition.LEAVE, until_s=now + left_s)

    def _make_sure(self, live: Live) -> None:
        """Repeat a driver call whose agent may have died before recording it, to match processes and
        record."""
        if live.suspended is Mechanism.CUDA and not self._supervisor.sleeps(live):
            kind = Transition.SUSPEND
        elif live.status is PartStatus.RUNNING and self.choice(live) is Mechanism.CUDA:
            kind = Transition.RESUME
        else:
            return
        now = self._now()
        self._ask_driver(Operation(live, live.part, kind, Mechanism.CUDA, now, now, again=True))

    def forget(self, key: Key) -> None:
        """Forget a part that is gone."""
        self.operations.pop(key, None)
        self.suspended_gib.pop(key, None)
        self._relays.pop(key, None)

    def capability(self, live: Live) -> Capability:
        """What the program can do, and how it would be suspended now."""
        return self.relay(live).capability().model_copy(update={"suspend": self.choice(live)})

    def choice(self, live: Live) -> Mechanism:
        """The mechanism that a suspension would use now, if there is enough memory."""
        said = self.relay(live).capability()
        if said.training and (said.to_host or self._on_slots):
            return Mechanism.COOPERATIVE
        if self._on_slots and live.part.checkpoint != "own":
            return Mechanism.SIGNAL
        if not self._on_slots and self._driver.available and live.part.checkpoint != "own":
            return Mechanism.CUDA
        return Mechanism.RESTART

    def suspend(self, live: Live, part: Part) -> None:
        """Make `live` give back its devices; `operations` shows it until it is done."""
        mechanism = self.choice(live)
        if mechanism is not Mechanism.RESTART and not self._has_room(live):
            mechanism = Mechanism.RESTART
        reason = _text(part.notice) or "suspended"
        now = self._now()
        operation = Operation(live, part, Transition.SUSPEND, mechanism, now, now + self._patience_s(part))
        match mechanism:
            case Mechanism.COOPERATIVE:
                self._ask_program(operation, reason)
            case Mechanism.SIGNAL:
                self._freeze(operation)
            case Mechanism.CUDA:
                self._ask_driver(operation)
            case Mechanism.RESTART:
                self.leave(live, part)

    def _ask_program(self, operation: Operation, reason: str) -> None:
        """Ask a program to suspend at a step; use another mechanism if it cannot be asked."""
        try:
            operation.sequence = self.relay(operation.live).direct(protocol.SUSPEND, reason)
        except OSError as error:
            self._fall_back(operation, f"its program cannot be told to stop at a step: {error}")
            return
        self.operations[operation.live.key] = operation

    def freeze(self, live: Live, part: Part) -> None:
        """Stop a part for the moment in which it moves to other slots."""
        now = self._now()
        self._freeze(Operation(live, part, Transition.SUSPEND, Mechanism.SIGNAL, now, now))

    def resume(self, live: Live, part: Part, cores: list[int]) -> None:
        """Resume a part on the devices of `part`. Raises WorldError if the machine cannot."""
        now = self._now()
        mechanism = live.suspended or Mechanism.SIGNAL
        operation = Operation(
            live, part, Transition.RESUME, mechanism, now, now + RESUME_S, cores=tuple(cores)
        )
        if mechanism is Mechanism.CUDA:
            self._ask_driver(operation)
            return
        relay = self.relay(live)
        self._running(operation)
        directive = relay.open_directive()
        if directive is not None and directive.do in {protocol.SUSPEND, protocol.PAUSE}:
            operation.sequence = relay.direct(protocol.RESUME, "its devices are back")
            self.operations[live.key] = operation
        else:
            self._finish(operation)

    def leave(self, live: Live, part: Part) -> None:
        """Make a part checkpoint and exit; a program that cannot is stopped."""
        relay = self.relay(live)
        if live.asleep or not relay.capability().checkpoint:
            self.stop(live, part)
            return
        now, unix_s = self._now(), time.time()
        end_s = part.notice.deadline_s if part.notice is not None and part.notice.deadline_s > unix_s else 0.0
        left_s = max(0.0, (end_s or unix_s + part.grace_s) - unix_s)
        left_s = min(left_s, part.notice_s + part.grace_s)  # however the clocks of the two machines differ
        signals_s = left_s - min(SIGNALS_S, left_s / 4)
        sequence = relay.direct(protocol.LEAVE, _text(part.notice), unix_s + signals_s)
        self.operations[live.key] = Operation(
            live,
            part,
            Transition.LEAVE,
            Mechanism.COOPERATIVE,
            now,
            now + signals_s,
            sequence,
            parked=live.status is PartStatus.SUSPENDED,
        )

    def stop(self, live: Live, part: Part, grace_s: float | None = None, reason: str = "") -> None:
        """Stop a part by notice, signals and SIGKILL; `grace_s` overrides the job's own."""
        self.operations.pop(live.key, None)
        notice = (
            part.notice if part.notice is not None and not reason else Notice(reason=reason or "preempted")
        )
        notice_s = part.notice_s if grace_s is None else 0.0
        grace_s = part.grace_s if grace_s is None else grace_s
        self._supervisor.stop(live, notice, grace_s=grace_s, notice_s=notice_s, signal=part.notice_signal)

    def kill(self, live: Live, reason: str) -> None:
        """Send SIGKILL now."""
        self.operations.pop(live.key, None)
        self._supervisor.kill(live, reason)

    def next_s(self) -> float:
        """Seconds until `poll` is due; infinite if nothing is under way.

        A new directive is checked often; answers of the driver wake the supervisor.
        """
        now = self._now()
        waits = [
            min(0.25, 0.005 + (now - one.began_s) / 20)
            for one in self.operations.values()
            if one.mechanism is Mechanism.COOPERATIVE
        ]
        return min(waits, default=float("inf"))

    def poll(self) -> None:
        """Check all operations under way."""
        for operation in list(self.operations.values()):
            key, doing, guard = operation.live.key, f"look after its {operation.kind}", self._supervisor.guard
            was_looked_after = guard.run(key, doing, partial(self._look_after, operation), False)
            if not was_looked_after and self._now() >= operation.until_s:
                self.operations.pop(key, None)
                guard.run(key, f"end its {operation.kind}", partial(self._too_late, operation), None)

    def _look_after(self, operation: Operation) -> bool:
        if operation.live.gone:
            self.operations.pop(operation.live.key, None)
            if operation.kind is Transition.LEAVE:
                self._finish(operation)
        elif operation.mechanism is Mechanism.CUDA:
            self._look_at_driver(operation)
        else:
            self._look_at_program(operation)
        return True

    def done(self) -> list[Done]:
        """Operations completed since the last call."""
        done, self._done = self._done, []
        return done

    def _look_at_program(self, operation: Operation) -> None:
        relay, live = self.relay(operation.live), operation.live
        relay.look()
        if live.status in {PartStatus.LEAVING, PartStatus.STARTING}:
            self.operations.pop(live.key, None)
            return
        target = {
            Transition.SUSPEND: protocol.SUSPENDED,
            Transition.RESUME: protocol.RUNNING,
            Transition.LEAVE: protocol.LEAVING,
        }[operation.kind]
        if operation.kind is not Transition.LEAVE and relay.reached(target, operation.sequence):
            self.operations.pop(live.key, None)
            if operation.kind is Transition.SUSPEND:
                self._suspended(operation)
            else:
                self._finish(operation)
        elif self._now() >= operation.until_s:
            self.operations.pop(live.key, None)
            self._too_late(operation)
        elif operation.kind is not Transition.RESUME:
            relay.settle()

    def _too_late(self, operation: Operation) -> None:
        live, part = operation.live, operation.part
        took_s = self._now() - operation.began_s
        if operation.kind is Transition.LEAVE:
            self.stop(live, part, grace_s=min(SIGNALS_S, part.grace_s / 4))
        elif operation.kind is Transition.SUSPEND:
            self._fall_back(operation, f"the program did not stop at a step within {took_s:.0f} s")

    def _fall_back(self, operation: Operation, problem: str) -> None:
        """Make a program that has not suspended itself give back its devices by another mechanism."""
        if self._on_slots:
            self._freeze(operation, problem)
        else:
            self.stop(operation.live, operation.part)
            self._finish(operation, problem)

    def _look_at_driver(self, operation: Operation) -> None:
        if not operation.answer:
            return
        live, problem = operation.live, operation.answer[0]
        self.operations.pop(live.key, None)
        if operation.kind is Transition.SUSPEND and not problem:
            self._suspended(operation)
            return
        if operation.kind is Transition.SUSPEND:
            self.stop(live, operation.part)
        elif live.suspended is None:  # it runs, as before another agent died
            pass
        elif problem:
            self.kill(live, "suspended")
        else:
            self._running(operation)
        self._finish(operation, problem)

    def _ask_driver(self, operation: Operation) -> None:
        """Call the driver in a thread, since it may take seconds; a stopped process would not answer it."""
        live = operation.live
        assert live.shim is not None, "it has begun"
        call = self._driver.suspend if operation.kind is Transition.SUSPEND else self._driver.resume
        root = live.shim.pid
        self.operations[live.key] = operation
        self._supervisor.rouse(live)

        def work() -> None:
            operation.answer.append(call(root))
            self._wake()

        threading.Thread(target=work, name=f"rota-driver-{live.row}", daemon=True).start()

    def _freeze(self, operation: Operation, problem: str = "") -> None:
        self._suspended(replace(operation, mechanism=Mechanism.SIGNAL), problem)

    def _suspended(self, operation: Operation, problem: str = "") -> None:
        """Complete a suspension: its devices are free from now on."""
        live = operation.live
        try:
            self._supervisor.suspend(live, operation.mechanism)
        except WorldError:  # it has just ended, or is being stopped, which frees the devices as well
            return
        self.suspended_gib[live.key] = self._memory_gib(live)
        self._finish(operation, problem)

    def _running(self, operation: Operation) -> None:
        live = operation.live
        self._supervisor.resume(live, cores=operation.cores, devices=operation.part.devices)
        self.suspended_gib.pop(live.key, None)

    def _finish(self, operation: Operation, problem: str = "") -> None:
        if operation.again and not problem:
            return
        moved = self.relay(operation.live).moved_bytes(operation.kind)
        if not moved and operation.kind is Transition.SUSPEND:
            moved = self.suspended_gib.get(operation.live.key, 0.0) * 2**30
        took_s = self._now() - operation.began_s
        self._done.append(
            Done(operation.live.key, operation.kind, operation.mechanism, took_s, moved, problem)
        )

    def _has_room(self, live: Live) -> bool:
        held_gib = sum(gib for key, gib in self.suspended_gib.items() if key != live.key)
        return held_gib + self._memory_gib(live) + self._device_gib(live) <= self._budget_gib

    def _patience_s(self, part: Part) -> float:
        return max(LEAST_PATIENCE_S, part.grace_s)


def _text(notice: Notice | None) -> str:
    """Text of a notice for the program: `preempted: for job 12`."""
    if notice is None:
        return ""
    return f"{notice.reason}: {notice.text}" if notice.text else notice.reason
