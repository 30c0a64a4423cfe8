"""One attempt as its folder, its lock and its processes show it: looking twice never does harm."""

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
"""Between two looks at something that is about to change and has no descriptor to wait for."""
BEGUN_S = 0.01
"""Ranks that have begun are looked at so late: of short ones the end is then seen in the same look."""
START_S = 5.0
"""A shim that has not taken its lock by then never will: an agent that died had just started it."""
AGAIN_S = 1.0
"""After a machine could not even look."""
HANG_S = 30.0
"""Our own shim that has not taken its lock by then (a file system that hangs) is killed."""
STUCK_S = 10.0
"""A process that SIGKILL has not ended by then is named in `why`."""
NEVER = float("inf")


class AttemptWatch:
    """Follows one attempt and carries out its plan; the supervisor's lock is held in every method."""

    def __init__(self, live: Live, clock: Callable[[], float]) -> None:
        self.live = live
        self.plan: StopPlan | None = None
        self.on_change: Callable[[Live], None] = lambda _: None
        self._clock = clock
        self._child: Child | None = None
        self._spawned_s = NEVER  # monotonic time
        self._pipe: int | None = None  # the shim's word that it has the lock, that the ranks run
        self._shim: int | None = None  # pidfd
        self._seized: int | None = None  # the attempt's lock, once it is ours because nobody runs it
        self._look_s = NEVER  # monotonic time of the next look without an event
        self._notice: NoticeRound | None = None  # on its way to the ranks
        self._kills = 0
        self._fault = ""  # what is wrong with the folder, if anything is
        self._signalled_s: float | None = None  # when it was first told to go, as far as we know

    @classmethod
    def attach(cls, folder: Folder, row: int, attempt: int, clock: Callable[[], float]) -> AttemptWatch:
        """An attempt that another agent launched; `look` says what became of it.

        One whose records cannot be used is killed: its devices, and how to suspend it, are not known.
        """
        known = find(folder, row, attempt, clock)
        watch = cls(known.live, clock)
        if known.plan is not None:
            watch.take(known.plan)  # its maker may have died after it was followed
            watch._signalled_s = watch._unix_s(known.plan.first_s)
        if known.fault:
            watch._give_up_on(known.fault)
        return watch

    def become(self, status: PartStatus, why: str = "") -> None:
        """Change the status, and have it noticed."""
        if (status, why) == (self.live.status, self.live.why):
            return
        if status is not self.live.status:
            self.live.since_s = self._clock()
        self.live.status, self.live.why = status, why
        self.on_change(self.live)

    def fds(self) -> list[int]:
        """What to sleep on."""
        return [fd for fd in (self._pipe, self._shim) if fd is not None]

    def event(self, fd: int) -> None:
        """One of them has something to say."""
        said = os.read(fd, 16) if fd == self._pipe else b""
        if said in (b"L", b"R", b"LR"):  # after the lock the ranks come, and it says so
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
        """Start the shim with what `launch.json` holds; raises OSError if this machine cannot."""
        self._child, self._pipe = spawn(self.live.part, self.live.folder.path, form)
        self._spawned_s = time.monotonic()
        self._look_again(HANG_S)

    def recorded(self) -> bool:
        """Take over the exit record, if there is one."""
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
        except (OSError, ValueError) as error:  # a disk that lies: one lost attempt, not a lost agent
            record = unreadable(self._clock(), folder, error)
            end = exit_of(record, folder, killed_s)
        self.live.end, is_lost = end, bool(record.get("lost"))
        self._gone(PartStatus.LOST if is_lost else PartStatus.ENDED, end.error if is_lost else "")
        return True

    def _unix_s(self, steady_s: float) -> float:
        """A moment of the monotonic clock as the wall clock tells it now."""
        return self._clock() + steady_s - time.monotonic()

    def _touched_s(self) -> float | None:
        """The moment from which its end may be our doing; None if nothing was done to it."""
        directive = protocol.read_directive(self.live.folder.training)
        is_told = directive is not None and directive.do in (protocol.LEAVE, protocol.SUSPEND, protocol.PAUSE)
        return 0.0 if is_told or self.live.suspended is not None else self._signalled_s

    def look(self) -> None:
        """Find out where the attempt stands."""
        self._look_s = NEVER
        try:
            if not self.live.gone:
                self._look()
        except OSError:  # no descriptor is left, or the disk cannot be written just now
            self._look_again(AGAIN_S)
        except ValueError as error:
            self._give_up_on(str(error))
            self._kill_all()

    def rest(self) -> None:
        """Something went wrong with it that nobody has foreseen: let go of it, and look again in a while."""
        for fd in self.fds():
            os.close(fd)
        self._pipe = self._shim = None
        self._look_again(AGAIN_S)

    def _give_up_on(self, fault: str) -> None:
        """Its records cannot be used: nothing of it may run on, since it could not be held to any order."""
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
        """Do what is due; returns the seconds until the next thing is, infinite if nothing is planned."""
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
        """Let them go on."""
        if self.live.shim is not None and self.live.shim.alive():
            continue_tree(self.live.shim.pid)

    def give_up(self, sentence: str) -> None:
        """It was never started, and with this record never will be."""
        self._settle(sentence)

    def forget(self) -> None:
        """Remove all that could start it again.  Raises OSError if something of that cannot be removed."""
        clear(self.live.folder, verdict(self.live.since_s, self.live.why))
        remove(self.live.cgroup)
        self.close()

    def close(self) -> None:
        """Let go of all descriptors."""
        for fd in (*self.fds(), self._seized):
            if fd is not None:
                os.close(fd)
        self._pipe = self._shim = self._seized = None
        if self._child is not None:
            self._child.poll()

    def _look_again(self, after_s: float = LOOK_S) -> None:
        self._look_s = time.monotonic() + after_s

    def _without_folder(self) -> None:
        """Somebody has removed the folder: what still runs could not be found by the next agent, and ends."""
        shim = self.live.shim
        if shim is not None and shim.alive():
            kill_tree(shim.pid)
            send([shim.pid], signal.SIGKILL)
            self._look_again()
        else:
            self._settle(f"its folder {self.live.folder.path} was removed")

    def _ends(self) -> bool:
        """Whether the record is there although the shim is: only the flush of it is still to come."""
        return os.path.exists(f"{self.live.folder.path}/{EXIT}") and self.recorded()

    def _look_at_shim(self) -> None:
        """Somebody has the lock: the shim, or a child of it that is about to become a rank or to die."""
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
            if self._pipe is None:  # else the shim will say it
                self._look_again()
            return
        if why := unrecorded(live.folder, live.ranks.values()):
            self._look_again(AGAIN_S)
        if self.plan is not None:
            self.become(PartStatus.LEAVING, why or live.why)
        else:
            self.become(PartStatus.SUSPENDED if live.suspended else PartStatus.RUNNING, why)

    def _read_ranks(self) -> bool:
        """Whether the ranks have begun."""
        live = self.live
        ranks = read_ranks(live.folder) if live.pgid is None else None
        if ranks is not None:
            with making_sense(live.folder.path / RANKS):
                live.started_s = began_s(ranks.form, ranks.by_rank)
            live.ranks, live.pgid = ranks.by_rank, ranks.pgid
            if live.suspended is Mechanism.SIGNAL:
                self.freeze()  # whoever noted it may have died before all were stopped
        return live.pgid is not None

    def _about_to_begin(self) -> bool:
        """Whether a shim may still come and take the lock."""
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
        """The lock is ours and there is no record: what is left of the attempt dies, then it is lost."""
        live = self.live
        with suppress(ValueError):  # what it says of its shim makes no sense: strays are found without it
            live.shim = read_shim(live.folder)
        if killed := sorted(set(self._kill_all())):
            left = f"its shim is gone; killing what it left: {killed}"
            self.become(PartStatus.LEAVING, self._fault or left)
            return
        code = self._child.poll() if self._child is not None else None
        self._settle(lost_because(live.shim, code, live.folder))

    def _kill_all(self) -> list[int]:
        """SIGKILL to all of it, found without the shim; returns those that were there."""
        self._look_again(0.05)
        return [*kill_members(self.live.cgroup), *kill_strays(self.live.folder.path, self.live.shim)]

    def _settle(self, sentence: str) -> None:
        """Write our own record, so that a shim that comes late finds it and goes."""
        folder, record = self.live.folder, verdict(self._clock(), self._fault or sentence)
        try:
            if self._seized is None:
                self._seized = seize(folder)
            folder.write(EXIT, record)
            crash_point("verdict written")
            self.recorded()
        except OSError as error:  # the lock stays ours as long as we live: that keeps a late shim out as well
            if str(error.strerror) not in record["error"] and folder.path.exists():
                record["error"] += f" (and this cannot be recorded: {error})"
            self.live.end = exit_of(record, folder, None)
            remove(self.live.cgroup)
            self.become(PartStatus.LOST, record["error"])

    def _gone(self, status: PartStatus, why: str) -> None:
        """Nothing of it runs any more."""
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
            return LOOK_S  # we shall hear of it; its numbers may be another's by now
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
        """It is about to get its first signal, if it has not had one."""
        if self._signalled_s is None:
            self._signalled_s = self._clock()

    def _done(self, plan: StopPlan) -> StopPlan:
        """Note a step that was taken."""
        crash_point("signalled")
        self.plan = plan
        self.keep(STOP, plan.form())
        return plan

    def keep(self, name: str, value: dict[str, Any], *, mode: int = 0o600) -> None:
        """Write a file of a stop; a full disk makes it forgettable, but does not prevent it."""
        try:
            self.live.folder.write(name, value, mode=mode)
        except OSError as error:
            self.become(self.live.status, f"{name} of job {self.live.part.job} cannot be written: {error}")

    def _rouse(self) -> None:
        """A stopped program gets the signals that wait for it before it runs a step on devices of others."""
        if self.live.asleep:
            self.thaw()
        self.live.suspended = None
        with suppress(OSError):  # whoever attaches finds a plan to stop it as well, and rouses it anew
            (self.live.folder.path / SUSPEND).unlink(missing_ok=True)

    def _kill(self, shim: int, late_s: float) -> float:
        """SIGKILL to all, again and again: what was born meanwhile goes too."""
        self._mark()
        kill_tree(shim)
        send([shim], signal.SIGCONT)  # somebody may have stopped it
        self._kills += 1
        if late_s > STUCK_S:
            stuck = ", ".join(f"{one.pid} ({one.state})" for one in below(shim)) or "its shim"
            why = unrecorded(self.live.folder, self.live.ranks.values())
            self.become(PartStatus.LEAVING, why or f"SIGKILL has not ended {stuck}; see the kernel's log")
        return min(1.0, 0.05 * float(2 ** min(self._kills, 5)))
