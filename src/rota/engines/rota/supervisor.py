"""Starts every attempt on this machine at most once, watches it, stops it as planned, and records its end.

The state is in the attempts' folders: a `Supervisor` may be killed at any moment and another one continues,
including the countdown of a stop. All methods may be called from any thread. The owner of a home makes sure
that it has one supervisor at a time.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rota.crash import crash_point
from rota.engines.rota.cgroups import Cgroups, group_name
from rota.engines.rota.flushing import Flusher
from rota.engines.rota.folder import LAUNCH, NOTICE, PLACE, STOP, SUSPEND, AgentFolder
from rota.engines.rota.guarding import JobGuard
from rota.engines.rota.launching import (
    User,
    launch_form,
    make_folders,
    places,
    ranks_of,
    void_checkpoints,
    withdraw_unspawned,
)
from rota.engines.rota.live import Live
from rota.engines.rota.ownership import claim
from rota.engines.rota.processes import below, hold_ranks
from rota.engines.rota.script import put_script
from rota.engines.rota.stopping import StopPlan
from rota.engines.rota.watching import AGAIN_S, AttemptWatch
from rota.engines.shared.steady import unix_s
from rota.errors import RotaError, WorldError
from rota.wire.sync import Mechanism, Notice, Part, PartStatus

T = TypeVar("T")


class Supervisor:
    """Starts, watches and ends the attempts of one agent."""

    def __init__(
        self,
        home: Path,
        *,
        checkpoints: Path | None = None,
        clock: Callable[[], float] = unix_s,
        allow_root: bool = False,
    ) -> None:
        """`home` is ROTA_HOME/agent; the supervisor attaches to the attempts there (see `known`).

        `allow_root` lets parts that name the agent's own account run as root, if the agent is root.
        """
        home = home.absolute()
        self.home = AgentFolder(home, checkpoints.absolute() if checkpoints else home / "checkpoints")
        self._clock, self._allow_root = clock, allow_root
        self.cgroups = Cgroups.probe()
        self.guard = JobGuard()
        self._lock = threading.RLock()
        self._alarm = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._flusher = Flusher()
        self._woken = False
        self._watches: dict[tuple[int, int], AttemptWatch] = {}
        self._changed: dict[tuple[int, int], Live] = {}
        for row, attempt in self.home.launched():
            folder = self.home.of(row, attempt)
            withdraw = partial(withdraw_unspawned, folder)
            if self.guard.run((row, attempt), "withdraw an attempt that never began", withdraw, False):
                continue  # the controller's next order starts it
            watch = AttemptWatch.attach(folder, row, attempt, clock)
            self._watch(watch)
            self._safely(watch, watch.look, None)

    def known(self) -> list[Live]:
        """Every attempt that is not forgotten, by row and attempt; each call returns the same objects."""
        with self._lock:
            return [self._watches[key].live for key in sorted(self._watches)]

    def find(self, row: int, attempt: int) -> Live | None:
        """The attempt; None if it is unknown or forgotten."""
        with self._lock:
            watch = self._watches.get((row, attempt))
            return watch.live if watch else None

    def start(
        self, part: Part, *, cores: Sequence[int] = (), cuda: Sequence[str] = (), port: int | None = None
    ) -> Live:
        """Start an attempt, or return its state if it was started before: it never starts twice.

        `cores` and `cuda` go with `part.devices`, one for each: the core to pin a CPU slot to, or the name of
        the device in CUDA_VISIBLE_DEVICES (empty on CPU slots). `port` is MASTER_PORT. Returns at once, with
        status STARTING; a problem does not raise but gives status LOST with `why` and `end`.
        """
        with self._changing():
            known = self.find(part.row, part.attempt)
            if known is not None:
                return known
            folder = self.home.of(part.row, part.attempt)
            now_s = self._clock()
            live = Live(part, folder, PartStatus.STARTING, now_s, tuple(part.devices), tuple(cores), port)
            watch = AttemptWatch(live, self._clock)
            self._watch(watch)
            try:
                claim(self.home, part)
                if watch.recorded():  # it ran, ended and was forgotten: a folder is used only once
                    return live
                self._note(live)
                user = User.given(part.user, allow_root=self._allow_root)
                make_folders(folder, self.home, user)
                if part.script:
                    put_script(folder, part.script, None if user is None else (user.uid, user.gid))
                void_checkpoints(self.home, part)
                crash_point("folder made")
                live.cgroup = self.cgroups.make(group_name(folder.path))
                form = launch_form(
                    part, self.home, user, cores=cores, cuda=cuda, port=port, cgroup=live.cgroup
                )
                self._flusher.soon(folder.write_new(LAUNCH, form), folder.path)
                crash_point("launch written")
                watch.spawn(form)
                crash_point("shim spawned")
            except (OSError, RotaError) as error:
                watch.give_up(f"it could not be started on this machine: {error}")
            return live

    def stop(
        self, live: Live, notice: Notice, *, grace_s: float, notice_s: float = 0.0, signal: str = ""
    ) -> None:
        """Notice file and signal now, SIGTERM after `notice_s`, SIGKILL `grace_s` later: status LEAVING.

        `signal` is the name of the notice signal, which goes to the processes in `part.notice_to`; SIGTERM
        goes to the whole process group of the ranks. A second call can make the end earlier, never later.
        `notice.deadline_s` is filled in. An attempt that is gone is left as it is. The countdown continues in
        `wait`.
        """
        plan = StopPlan.of(time.monotonic(), grace_s=grace_s, notice_s=notice_s, signal=signal)
        self._plan(live, plan, notice)

    def kill(self, live: Live, reason: str = "") -> None:
        """Send SIGKILL to every process of the attempt now; its shim writes the record."""
        plan = StopPlan.of(time.monotonic(), grace_s=0.0)
        notice = Notice(reason=reason) if reason else None
        self._plan(live, replace(plan, terminated=True), notice)

    def suspend(self, live: Live, mechanism: Mechanism = Mechanism.SIGNAL) -> None:
        """Set the status SUSPENDED; by SIGNAL or CUDA every process of it is stopped when this returns.

        If the program has suspended itself, or the driver has emptied the GPUs, this only records it,
        durably. Raises WorldError if the attempt neither runs nor is suspended.
        """
        with self._changing():
            if live.status not in (PartStatus.RUNNING, PartStatus.SUSPENDED):
                raise WorldError(f"job {live.part.job} cannot be suspended: it is {live.status}")
            self._write(live, SUSPEND, {"mechanism": mechanism, "since_s": self._clock()})
            crash_point("suspend written")
            watch = self._watches[live.key]
            live.suspended = mechanism
            if live.asleep:
                watch.freeze()
            watch.become(PartStatus.SUSPENDED)

    def resume(self, live: Live, *, cores: Sequence[int] = (), devices: Sequence[int] | None = None) -> None:
        """Set the status RUNNING; devices and cores (as in `start`), if given, are new and threads move to
        them.

        Raises WorldError if it is not suspended, or if the machine lacks the cores.
        """
        with self._changing():
            if live.status is not PartStatus.SUSPENDED:
                raise WorldError(f"job {live.part.job} cannot be resumed: it is {live.status}")
            if devices is not None or cores:
                self._place(live, tuple(live.devices if devices is None else devices), tuple(cores))
            crash_point("place written")
            watch = self._watches[live.key]
            if live.asleep:
                watch.thaw()
            crash_point("thawed")
            (live.folder.path / SUSPEND).unlink(missing_ok=True)
            live.suspended = None
            watch.become(PartStatus.RUNNING)

    def rouse(self, live: Live) -> None:
        """Let all its processes run, whatever has stopped them; its status does not change."""
        with self._changing():
            self._watches[live.key].thaw()

    def sleeps(self, live: Live) -> bool:
        """Whether all its processes are stopped."""
        return live.shim is not None and all(stat.state == "T" for stat in below(live.shim.pid))

    def forget(self, live: Live) -> None:
        """Remove all but the logs and exit record of an attempt that is gone; it can never start again."""
        with self._lock:
            if not live.gone:
                raise WorldError(f"job {live.part.job} cannot be forgotten here: it is {live.status}")
            watch = self._watches.get(live.key)
            if watch is None:
                return
            try:
                watch.forget()
            except OSError as error:
                told = f"{live.folder.path}: {error.strerror}"
                raise WorldError(f"job {live.part.job} cannot be forgotten here: {told}") from None
            self._watches.pop(live.key)
            self._changed.pop(live.key, None)

    def unless_known(self, row: int, act: Callable[[], object]) -> bool:
        """Call `act` while no attempt can start; False, without a call, if an attempt of the job is known."""
        with self._lock:
            if any(known == row for known, _ in self._watches):
                return False
            act()
            return True

    def wait(self, timeout_s: float | None) -> list[Live]:
        """Attempts whose status or `why` has changed since the last call; [] after `timeout_s`.

        Sleeps until one of the processes causes an event; carries out stops that are due.
        """
        end_s = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        while True:
            with self._lock:
                waits = [self._safely(watch, watch.advance, AGAIN_S) for watch in self._watches.values()]
                next_s = min(waits, default=float("inf"))
                changed, self._changed = list(self._changed.values()), {}
                woken, self._woken = self._woken, False
                fds = {fd: watch for watch in self._watches.values() for fd in watch.fds()}
            left_s = end_s - time.monotonic()
            if changed or woken or left_s <= 0:
                return changed
            ready = self._sleep([self._alarm, *fds], min(left_s, next_s))
            with self._lock:
                for fd in ready:
                    if fd == self._alarm:
                        self._drain()
                    else:
                        self._safely(fds[fd], partial(fds[fd].event, fd), None)

    def settle(self) -> None:
        """Mark all changes until now as known: `wait` does not return for them."""
        with self._lock:
            self._changed = {}

    def wake(self) -> None:
        """Make a `wait` in another thread return now, or the next one if none is running."""
        self._woken = True
        os.eventfd_write(self._alarm, 1)

    def close(self) -> None:
        """Close all descriptors; the attempts run on."""
        self._flusher.close()
        with self._lock:
            for watch in self._watches.values():
                watch.close()
            os.close(self._alarm)

    def _safely(self, watch: AttemptWatch, act: Callable[[], T], otherwise: T) -> T:
        """Return the result of `act`; if it raises, this attempt is checked again later, the others go on."""
        try:
            return act()
        except Exception as error:
            self.guard.note(watch.live.key, "supervise it", error)
            watch.rest()
            self._note(watch.live)
            return otherwise

    def _watch(self, watch: AttemptWatch) -> None:
        watch.on_change = self._note
        self._watches[watch.live.key] = watch

    def _note(self, live: Live) -> None:
        self._changed[live.key] = live
        if live.gone:
            self._flusher.drop(live.folder.path)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock of the state, and let a `wait` elsewhere see new descriptors and changes."""
        with self._lock:
            try:
                yield
            finally:
                os.eventfd_write(self._alarm, 1)

    def _plan(self, live: Live, plan: StopPlan, notice: Notice | None) -> None:
        """Write a plan to disk and take its first steps."""
        with self._changing():
            if live.gone:
                return
            watch = self._watches[live.key]
            old = watch.plan
            new = plan if old is None else old.sooner(plan)
            if new == old:
                return
            if notice is not None and (old is None or new.kill_s < old.kill_s):
                deadline_s = self._clock() + new.kill_s - time.monotonic()
                said = notice.model_copy(update={"deadline_s": deadline_s})
                watch.keep(NOTICE, said.model_dump(mode="json"), mode=0o644)
                crash_point("notice written")
            watch.keep(STOP, new.form())
            crash_point("stop written")
            watch.take(new)
            watch.advance()

    def _write(self, live: Live, name: str, value: dict[str, Any]) -> None:
        """Write what must be durable before it is carried out."""
        try:
            live.folder.write(name, value)
        except OSError as error:
            raise WorldError(f"{name} of job {live.part.job} cannot be written: {error}") from None

    def _place(self, live: Live, devices: tuple[int, ...], cores: tuple[int, ...]) -> None:
        """Give a suspended attempt other devices: first on disk, then for its threads."""
        part = live.part
        if cores:
            slots = {rank.rank: [cores[i] for i in places(part, rank)] for rank in ranks_of(part)}
            pids = {rank: one.pid for rank, one in live.ranks.items()}
            if live.shim is not None and all(slots.values()):
                try:
                    hold_ranks(live.shim.pid, pids, slots)
                except OSError as error:
                    raise WorldError(f"job {part.job} cannot move to cores {list(cores)}: {error}") from None
        self._write(live, PLACE, {"devices": list(devices), "cores": list(cores)})
        live.devices, live.cores = devices, cores

    def _sleep(self, fds: list[int], timeout_s: float) -> list[int]:
        """Descriptors with events, after at most `timeout_s`."""
        poll = select.poll()
        for fd in fds:
            poll.register(fd, select.POLLIN)
        return [fd for fd, _ in poll.poll(None if timeout_s == float("inf") else 1000 * timeout_s + 1)]

    def _drain(self) -> None:
        try:
            os.eventfd_read(self._alarm)
        except BlockingIOError:  # another `wait` was faster
            return
