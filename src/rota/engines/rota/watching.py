"""State of one attempt, as its folder, its lock and its processes show it; looking again is always safe."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rota.crash import crash_point
from rota.engines.rota.cgroups import kill_members, remove
from rota.engines.rota.ending import began_s, exit_of, lost_because, moved, unreadable, unrecorded, verdict
from rota.engines.rota.folder import EXIT, RANKS, SHIM, STOP, SUSPEND, Folder, seize
from rota.engines.rota.launching import Child, spawn
from rota.engines.rota.live import Live
from rota.engines.rota.noticing import NOTICE_S, NoticeRound
from rota.engines.rota.processes import (
    NUDGE_S,
    below,
    continue_tree,
    kill_tree,
    nudge,
    send,
    stop_tree,
    terminate,
)
from rota.engines.rota.records import clear, find, making_sense, read_ranks, read_shim
from rota.engines.rota.stopping import StopPlan
from rota.engines.rota.strays import kill_strays
from rota.training import protocol
from rota.wire.sync import Mechanism, PartStatus

LOOK_S = 0.02
"""Seconds between two looks at something that is about to change but has no descriptor to wait for."""
BEGUN_S = 0.01
"""Seconds before a look at ranks that have started: the end of a short rank is then seen in the same look."""
START_S = 5.0
"""Seconds to wait for the lock of a shim whose agent died while starting it; after that it never takes it."""
AGAIN_S = 1.0
"""Seconds to wait after the machine failed at a look."""
HANG_S = 30.0
"""Seconds after which our own shim is killed if it has not taken its lock (a file system that hangs)."""
STUCK_S = 10.0
"""Seconds after SIGKILL at which a process that still lives is named in `why`."""
NEVER = float("inf")


class AttemptWatch:
    """Follows one attempt and carries out its stop plan; the supervisor's lock is held in every method."""

    def __init__(self, live: Live, clock: Callable[[], float]) -> None:
        self.live = live
        self.plan: StopPlan | None = None
        self.on_change: Callable[[Live], None] = lambda _: None
        self._clock = clock
        self._child: Child | None = None
        self._spawned_s = NEVER  # monotonic time
        self._pipe: int | None = None  # the shim reports on it that it has the lock, and that the ranks run
        self._shim: int | None = None  # pidfd
        self._seized: int | None = None  # the attempt's lock, once we hold it because no shim runs
        self._look_s = NEVER  # monotonic time of the next look without an event
        self._notice: NoticeRound | None = None  # on its way to the ranks
        self._kills = 0
        self._fault = ""  # what is wrong with the folder, if anything
        self._signalled_s: float | None = None  # when it was first ordered to stop, as far as we know

    @classmethod
    def attach(cls, folder: Folder, row: int, attempt: int, clock: Callable[[], float]) -> AttemptWatch:
        """Attach to an attempt that another agent launched; `look` finds out its state.

        An attempt with unusable records is killed: its devices, and the way to suspend it, are unknown.
        """
        known = find(folder, row, attempt, clock)
        watch = cls(known.live, clock)
        if known.plan is not None:
            watch.take(known.plan)  # the agent that wrote it may have died after carrying it out
            watch._signalled_s = watch._unix_s(known.plan.first_s)
        if known.fault:
            watch._give_up_on(known.fault)
        return watch

    def become(self, status: PartStatus, why: str = "") -> None:
        """Change the status, so that `wait` returns the attempt."""
        if (status, why) == (self.live.status, self.live.why):
            return
        if status is not self.live.status:
            self.live.since_s = self._clock()
        self.live.status, self.live.why = status, why
        self.on_change(self.live)

    def fds(self) -> list[int]:
        """Descriptors to sleep on."""
        return [fd for fd in (self._pipe, self._shim) if fd is not None]

    def event(self, fd: int) -> None:
        """Handle an event on one of the descriptors."""
        said = os.read(fd, 16) if fd == self._pipe else b""
        if said in (b"L", b"R", b"LR"):  # after the lock the ranks follow, which the shim reports as well
            self._look_again(BEGUN_S if said.endswith(b"R") else LOOK_S)
            return
        if fd == self._pipe and not said:
            os.close(fd)
            self._pipe = None
        elif fd == self._shim:
            os.close(fd)
            self._shim = None
        self.look()

    def spawn(self, form: Mapping[str, Any]) -> None:
        """Start the shim with the contents of `launch.json`; raises OSError if this machine cannot."""
        self._child, self._pipe = spawn(self.live.part, self.live.folder.path, form)
        self._spawned_s = time.monotonic()
        self._look_again(HANG_S)

    def recorded(self) -> bool:
        """Read the exit record, if there is one; returns whether there is."""
        folder = self.live.folder
        due_s = NEVER if self.plan is None else self.plan.kill_s
        killed_s = self._unix_s(due_s) if due_s <= time.monotonic() else None
        try:
            record = folder.read(EXIT)
            self._read_ranks()
            if record is None:
                return False
            with making_sense(folder.path / EXIT):
                end = exit_of(moved(record, self.live.ranks), folder, killed_s, self._touched_s())
        except (OSError, ValueError) as error:  # a faulty disk should cost one attempt, not the agent
            record = unreadable(self._clock(), folder, error)
            end = exit_of(record, folder, killed_s)
        self.live.end, is_lost = end, bool(record.get("lost"))
        self._gone(PartStatus.LOST if is_lost else PartStatus.ENDED, end.error if is_lost else "")
        return True

    def _unix_s(self, steady_s: float) -> float:
        """Convert a monotonic time to the present wall clock."""
        return self._clock() + steady_s - time.monotonic()

    def _touched_s(self) -> float | None:
        """Moment from which its end may be caused by us; None if nothing was done to it."""
        directive = protocol.read_directive(self.live.folder.training)
        is_told = directive is not None and directive.do in (protocol.LEAVE, protocol.SUSPEND, protocol.PAUSE)
        return 0.0 if is_told or self.live.suspended is not None else self._signalled_s

    def look(self) -> None:
        """Find out the attempt's state."""
        self._look_s = NEVER
        try:
            if not self.live.gone:
                self._look()
        except OSError:  # no descriptor is free, or the disk cannot be written just now
            self._look_again(AGAIN_S)
        except ValueError as error:
            self._give_up_on(str(error))
            self._kill_all()

    def rest(self) -> None:
        """After an unforeseen error: close the descriptors, and look again in a while."""
        for fd in self.fds():
            os.close(fd)
        self._pipe = self._shim = None
        self._look_again(AGAIN_S)

    def _give_up_on(self, fault: str) -> None:
        """Kill an attempt with unusable records, since it could not follow any order."""
        self._fault = fault
        if self.plan is None or self.plan.kill_s > time.monotonic():
            self.take(replace(StopPlan.of(time.monotonic(), grace_s=0.0), terminated=True))
        self.become(self.live.status, fault)

    def _look(self) -> None:
        try:
            self._seized = seize(self.live.folder) if self._seized is None else self._seized
        except FileNotFoundError:
            self._without_folder()
            return
        if self._seized is None:
            if not self._ends():
                self._look_at_shim()
        elif not self.recorded():
            if self._about_to_begin():
                os.close(self._seized)
                self._seized = None
                self._look_again()
            else:
                self._lose()

    def take(self, plan: StopPlan) -> None:
        """Follow this plan from now on."""
        self.plan, self.live.deadline_s = plan, plan.kill_s
        self.become(PartStatus.LEAVING, self.live.why)

    def advance(self) -> float:
        """Take the steps that are due; returns the seconds until the next one, infinite if there is none."""
        if time.monotonic() >= self._look_s:
            self.look()
        if self._child is not None and self._child.poll() is not None and self.live.gone:
            self._child = None
        wait_s = self._look_s - time.monotonic()
        if self.plan is None or self.live.gone or self.live.shim is None or self._seized is not None:
            return max(0.0, wait_s)
        return max(0.0, min(wait_s, self._follow(self.plan)))

    def freeze(self) -> None:
        """Stop every process of the attempt."""
        if self.live.shim is not None and self.live.shim.alive():
            stop_tree(self.live.shim.pid)

    def thaw(self) -> None:
        """Let all its processes go on."""
        if self.live.shim is not None and self.live.shim.alive():
            continue_tree(self.live.shim.pid)

    def give_up(self, sentence: str) -> None:
        """Write a record that it was never started, so that it never will be."""
        self._settle(sentence)

    def forget(self) -> None:
        """Remove all files that could start it again. Raises OSError if one cannot be removed."""
        clear(self.live.folder, verdict(self.live.since_s, self.live.why))
        remove(self.live.cgroup)
        self.close()

    def close(self) -> None:
        """Close all descriptors."""
        for fd in (*self.fds(), self._seized):
            if fd is not None:
                os.close(fd)
        self._pipe = self._shim = self._seized = None
        if self._child is not None:
            self._child.poll()

    def _look_again(self, after_s: float = LOOK_S) -> None:
        self._look_s = time.monotonic() + after_s

    def _without_folder(self) -> None:
        """Handle a removed folder: kill what still runs, since the next agent could not find it."""
        shim = self.live.shim
        if shim is not None and shim.alive():
            kill_tree(shim.pid)
            send([shim.pid], signal.SIGKILL)
            self._look_again()
        else:
            self._settle(f"its folder {self.live.folder.path} was removed")

    def _ends(self) -> bool:
        """Whether the record exists although the shim still runs: only its flush is still to come."""
        return os.path.exists(f"{self.live.folder.path}/{EXIT}") and self.recorded()

    def _look_at_shim(self) -> None:
        """Handle a lock that is held by the shim, or by its child that is about to become a rank or exit."""
        live = self.live
        live.shim = read_shim(live.folder)
        if live.shim is None:
            self._look_again()
            return
        if self._shim is None:
            self._shim = live.shim.open()
            if self._shim is None:
                self._look_again()
                return
        if not self._read_ranks():
            if self._pipe is None:  # otherwise the shim will report it
                self._look_again()
            return
        if why := unrecorded(live.folder, live.ranks.values()):
            self._look_again(AGAIN_S)
        if self.plan is not None:
            self.become(PartStatus.LEAVING, why or live.why)
        else:
            self.become(PartStatus.SUSPENDED if live.suspended else PartStatus.RUNNING, why)

    def _read_ranks(self) -> bool:
        """Read the ranks' record; returns whether the ranks have started."""
        live = self.live
        ranks = read_ranks(live.folder) if live.pgid is None else None
        if ranks is not None:
            with making_sense(live.folder.path / RANKS):
                live.started_s = began_s(ranks.form, ranks.by_rank)
            live.ranks, live.pgid = ranks.by_rank, ranks.pgid
            if live.suspended is Mechanism.SIGNAL:
                self.freeze()  # the agent that recorded it may have died before all were stopped
        return live.pgid is not None

    def _about_to_begin(self) -> bool:
        """Whether a shim may still take the lock."""
        folder = self.live.folder
        if (folder.path / SHIM).exists():
            return False
        try:
            age_s = time.time() - folder.launch.stat().st_mtime
        except FileNotFoundError:
            return False
        if self._child is None:
            return 0 <= age_s < START_S
        if time.monotonic() - self._spawned_s >= HANG_S:
            self._child.kill()
        return self._child.poll() is None

    def _lose(self) -> None:
        """We hold the lock and there is no record: kill what is left of the attempt, then mark it lost."""
        live = self.live
        with suppress(ValueError):  # its record of the shim is invalid: strays are found without it
            live.shim = read_shim(live.folder)
        if killed := sorted(set(self._kill_all())):
            left = f"its shim is gone; killing what it left: {killed}"
            self.become(PartStatus.LEAVING, self._fault or left)
            return
        code = self._child.poll() if self._child is not None else None
        self._settle(lost_because(live.shim, code, live.folder))

    def _kill_all(self) -> list[int]:
        """Send SIGKILL to all its processes, found without the shim; returns those that still lived."""
        self._look_again(0.05)
        return [*kill_members(self.live.cgroup), *kill_strays(self.live.folder.path, self.live.shim)]

    def _settle(self, sentence: str) -> None:
        """Write our own record, so that a late shim finds it and exits."""
        folder, record = self.live.folder, verdict(self._clock(), self._fault or sentence)
        try:
            if self._seized is None:
                self._seized = seize(folder)
            folder.write(EXIT, record)
            crash_point("verdict written")
            self.recorded()
        except OSError as error:  # we keep the lock as long as we live, which keeps out a late shim as well
            if str(error.strerror) not in record["error"] and folder.path.exists():
                record["error"] += f" (and this cannot be recorded: {error})"
            self.live.end = exit_of(record, folder, None)
            remove(self.live.cgroup)
            self.become(PartStatus.LOST, record["error"])

    def _gone(self, status: PartStatus, why: str) -> None:
        """Set a final status: nothing of it runs any more."""
        live = self.live
        live.suspended = live.deadline_s = None
        self.plan, self._look_s = None, NEVER
        self.close()
        remove(live.cgroup)
        self.become(status, why)

    def _follow(self, plan: StopPlan) -> float:
        """Take the steps of the plan that are due; returns the seconds until the next one."""
        live, now_s = self.live, time.monotonic()
        assert live.shim is not None
        if not live.shim.alive():
            return LOOK_S  # its end will be reported, and its pids may be reused by now
        if now_s >= plan.kill_s:
            return self._kill(live.shim.pid, now_s - plan.kill_s)
        if live.pgid is None:
            return LOOK_S  # the ranks are being started
        if not plan.is_announced:
            self._mark()
            self._notice = self._notice or NoticeRound(live, plan.notice_signal)
            is_given = self._notice.give()
            self._rouse()
            plan = self._done(replace(plan, noticed=True)) if is_given else plan
        if now_s >= plan.terminate_s and not plan.terminated:
            self._mark()
            terminate(live.shim.pid, live.pgid, live.part.terminal)
            self._rouse()
            plan = self._done(replace(plan, terminated=True))
        elif plan.terminated and live.part.terminal:
            nudge(one.pid for one in live.ranks.values() if one.alive())
        often_s = NUDGE_S if plan.is_announced else NOTICE_S
        return max(0.0, min(often_s, plan.next_s - now_s))

    def _mark(self) -> None:
        """Note the time of its first signal."""
        if self._signalled_s is None:
            self._signalled_s = self._clock()

    def _done(self, plan: StopPlan) -> StopPlan:
        """Record a step that was taken."""
        crash_point("signalled")
        self.plan = plan
        self.keep(STOP, plan.form())
        return plan

    def keep(self, name: str, value: dict[str, Any], *, mode: int = 0o600) -> None:
        """Write a file of a stop; on a full disk the stop goes on but is not remembered."""
        try:
            self.live.folder.write(name, value, mode=mode)
        except OSError as error:
            self.become(self.live.status, f"{name} of job {self.live.part.job} cannot be written: {error}")

    def _rouse(self) -> None:
        """Resume a stopped program: it gets pending signals before it runs a step on devices of others."""
        if self.live.asleep:
            self.thaw()
        self.live.suspended = None
        with suppress(OSError):  # an agent that attaches finds the plan and resumes it again
            (self.live.folder.path / SUSPEND).unlink(missing_ok=True)

    def _kill(self, shim: int, late_s: float) -> float:
        """Send SIGKILL to all, repeatedly, since processes may be born meanwhile."""
        self._mark()
        kill_tree(shim)
        send([shim], signal.SIGCONT)  # it may have been stopped
        self._kills += 1
        if late_s > STUCK_S:
            stuck = ", ".join(f"{one.pid} ({one.state})" for one in below(shim)) or "its shim"
            why = unrecorded(self.live.folder, self.live.ranks.values())
            self.become(PartStatus.LEAVING, why or f"SIGKILL has not ended {stuck}; see the kernel's log")
        return min(1.0, 0.05 * float(2 ** min(self._kills, 5)))
