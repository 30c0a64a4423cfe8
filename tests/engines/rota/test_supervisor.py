"""Attempts under a supervisor, and under the next one: nothing starts twice, and every end is known."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attempts import PATIENCE_S, gone, lines, part, running, see, shell, until
from rota.engines.rota.folder import Folder, seize
from rota.engines.rota.identity import Stat
from rota.engines.rota.live import Live
from rota.engines.rota.processes import below, threads
from rota.engines.rota.strays import kill_strays, strays
from rota.engines.rota.supervisor import Supervisor
from rota.errors import WorldError
from rota.wire.sync import Mechanism, Notice, PartStatus

Make = Callable[[], Supervisor]
COUNT = "while :; do echo x >> $ROTA_ATTEMPT_DIR/count; sleep 0.01; done"
GATE = "mkfifo $ROTA_ATTEMPT_DIR/gate; read x < $ROTA_ATTEMPT_DIR/gate; exit 5"
STOPPED, ZOMBIE, IN_VFORK = "T", "Z", "D"
PREEMPTED = Notice(reason="preempted", text="makes room for job 7")


def stand_still(pid: int) -> bool:
    """True if all below `pid` are stopped.

    A child that had just ended waits for its stopped parent; and a shell whose child was stopped between
    `vfork` and `exec` sleeps there until that one goes on.
    """
    states = {stat.state for stat in below(pid)}
    return STOPPED in states and states <= {STOPPED, ZOMBIE, IN_VFORK}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Supervisors of one home, each in place of the one before; at the end nothing runs."""
    made: list[Supervisor] = []

    def another() -> Supervisor:
        if made:
            made.pop().close()
        made.append(Supervisor(tmp_path / "agent"))
        return made[0]

    yield another
    last = made[0] if made else another()
    for live in last.known():
        last.kill(live)
    for live in last.known():
        gone(last, live)
    last.close()


@pytest.fixture
def supervisor(make: Make) -> Supervisor:
    return make()


def test_an_end_is_known_though_no_descriptor_was_left_to_read_it(supervisor: Supervisor) -> None:
    """It is not taken for lost, which would run it again; who watches it does not end."""
    live = running(supervisor, supervisor.start(shell(0, GATE)))
    seen(live, "gate").write_text("go\n")
    see((live.folder.path / "exit.json").exists, "its record")
    hard_s = time.monotonic() + 1.5
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(most)]  # no number below is free
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(kept), before[1]))
    try:
        while time.monotonic() < hard_s:
            supervisor.wait(0.1)
            assert live.status is not PartStatus.LOST, live.why
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for fd in kept:
            os.close(fd)
    assert gone(supervisor, live).status is PartStatus.ENDED
    assert live.end is not None
    assert live.end.code == 5


def out(live: Live, name: str) -> Path:
    """A file in which a script leaves its traces, or waits for ours."""
    return live.folder.path / name


def seen(live: Live, name: str) -> Path:
    """Such a file, as soon as it is there."""
    path = out(live, name)
    see(path.exists, name)
    return path


def full_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def alive(pid: int) -> bool:
    stat = Stat.of(pid)
    return stat is not None and not stat.dead


def unix_s(steady_s: float) -> float:
    """A moment of the monotonic clock by the wall clock."""
    return time.time() + steady_s - time.monotonic()


def the_same(supervisor: Supervisor, live: Live) -> Live:
    """The attempt as another supervisor knows it."""
    found = supervisor.find(live.row, live.attempt)
    assert found is not None
    return found


class TestStart:
    def test_a_job_runs_and_ends(self, supervisor: Supervisor) -> None:
        """Starting, running, ended: with exit code and the end of its log."""
        live = supervisor.start(shell(0, f"echo hello; {GATE}"))
        assert live.status is PartStatus.STARTING
        assert supervisor.wait(0) == [live]
        running(supervisor, live)
        assert live.started_s == pytest.approx(time.time(), abs=10)
        assert [Stat.of(pid) is not None for pid in live.pids] == [True]
        seen(live, "gate").write_text("\n")
        gone(supervisor, live)
        assert live.status is PartStatus.ENDED
        assert live.end is not None
        assert (live.end.code, live.end.signal, live.end.rank, live.end.tail) == (5, None, 0, "hello\n")
        assert (live.end.infrastructure, live.end.oom, live.why) == (False, False, "")

    def test_the_first_that_failed_speaks(self, supervisor: Supervisor) -> None:
        """Code, rank and log are those of the rank that failed first, not of those it took along."""
        one = shell(0, "echo $RANK; [ $RANK = 1 ] && exit 9; sleep 60", ranks=3)
        end = gone(supervisor, supervisor.start(one)).end
        assert end is not None
        assert (end.rank, end.code, end.tail) == (1, 9, "1\n")

    def test_a_start_is_done_once(self, supervisor: Supervisor) -> None:
        """The same part again is the same attempt, whatever has become of it, forgotten ones included."""
        one = shell(0, "echo ran >> $ROTA_ATTEMPT_DIR/logs/runs")
        live = supervisor.start(one)
        assert supervisor.start(one) is live
        gone(supervisor, live)
        assert supervisor.start(one) is live
        supervisor.forget(live)
        again = supervisor.start(one)
        assert (again.status, again.end) == (PartStatus.ENDED, live.end)
        assert lines(out(live, "logs/runs")) == ["ran"]

    def test_many_at_once(self, supervisor: Supervisor) -> None:
        """Each ends by itself, with its own code."""
        lives = [supervisor.start(shell(row, f"exit {row}")) for row in range(20)]
        assert [gone(supervisor, live).status for live in lives] == [PartStatus.ENDED] * 20
        assert [live.end.code for live in lives if live.end] == list(range(20))
        assert supervisor.known() == lives

    def test_an_environment_that_is_no_text(
        self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Bytes of the agent's environment reach the job as they are."""
        monkeypatch.setenv("ODD", os.fsdecode(b"\xff\xfe"))
        live = gone(supervisor, supervisor.start(shell(0, 'printf %s "$ODD"')))
        assert live.folder.log(0).read_bytes() == b"\xff\xfe"

    def test_a_wrong_command_is_an_end(self, supervisor: Supervisor) -> None:
        """The user's error, not the machine's: ended with a code, and one sentence."""
        live = gone(supervisor, supervisor.start(part(0, "pyton")))
        assert live.status is PartStatus.ENDED
        assert live.end is not None
        assert (live.end.code, live.end.infrastructure) == (127, False)
        assert live.end.error.startswith("there is no command 'pyton' in PATH=")

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as others")
    def test_an_unknown_user_loses_the_attempt(self, make: Make) -> None:
        """Nothing is started, and the next supervisor says the same."""
        one = part(0, "true", user="nobody-knows")
        live = make().start(one)
        assert live.status is PartStatus.LOST
        assert "has no user 'nobody-knows'" in live.why
        assert live.end is not None
        assert live.end.infrastructure
        assert make().start(one).status is PartStatus.LOST

    def test_a_home_that_cannot_be_written_loses_the_attempt(self, tmp_path: Path) -> None:
        """The reason names the folder; nothing is raised."""
        (tmp_path / "agent").mkdir()
        (tmp_path / "agent" / "attempts").write_text("a file")
        supervisor = Supervisor(tmp_path / "agent")
        live = supervisor.start(part(0, "true"))
        assert live.status is PartStatus.LOST
        assert str(tmp_path / "agent" / "attempts") in live.why
        assert supervisor.wait(0) == [live]
        supervisor.close()


class TestAttach:
    def test_the_next_supervisor_goes_on(self, make: Make) -> None:
        """A running attempt runs on, and its end is seen by another supervisor."""
        first = make()
        live = running(first, first.start(shell(0, GATE), cores=[min(os.sched_getaffinity(0))], port=4321))
        second = make()
        found = the_same(second, live)
        assert (found.status, found.shim, found.ranks) == (PartStatus.RUNNING, live.shim, live.ranks)
        assert (found.devices, found.cores, found.port) == (live.devices, live.cores, 4321)
        assert second.wait(0) == [found]
        seen(found, "gate").write_text("\n")
        end = gone(second, found).end
        assert end is not None
        assert end.code == 5

    def test_an_end_that_nobody_saw(self, make: Make) -> None:
        """Its record waited."""
        first = make()
        live = running(first, first.start(shell(0, GATE)))
        seen(live, "gate").write_text("\n")
        seen(live, "exit.json")
        assert live.shim is not None
        see(lambda: not live.shim.alive(), "the end of the shim")  # type: ignore[union-attr]
        found = the_same(make(), live)
        assert found.status is PartStatus.ENDED
        assert found.end is not None
        assert found.end.code == 5
        assert found.started_s == live.started_s

    def test_a_broken_launch_file_is_one_lost_attempt(self, make: Make) -> None:
        """The others are attached to all the same."""
        first = make()
        live = running(first, first.start(shell(0, GATE)))
        bad = gone(first, first.start(part(3, "true")))
        out(bad, "launch.json").write_text("{")
        out(bad, "exit.json").unlink()
        second = make()
        found = the_same(second, bad)
        gone(second, found)
        assert found.status is PartStatus.LOST
        assert "launch.json cannot be read" in found.why
        assert the_same(second, live).status is PartStatus.RUNNING


class TestLost:
    def test_a_killed_shim_takes_all_along(self, make: Make) -> None:
        """Ranks and what hid in sessions of its own die; it is the machine's fault, for every supervisor."""
        first = make()
        script = f"setsid sleep 60 & echo $! > $ROTA_ATTEMPT_DIR/hidden; {GATE}"
        live = running(first, first.start(shell(0, script)))
        hidden = int(see(lambda: " ".join(lines(out(live, "hidden"))), "the hidden one"))
        assert live.shim is not None
        os.kill(live.shim.pid, signal.SIGKILL)
        gone(first, live)
        assert live.status is PartStatus.LOST
        assert live.why == "its shim was killed, and its processes with it"
        assert live.end is not None
        assert live.end.infrastructure
        assert not alive(hidden)
        assert not any(alive(pid) for pid in live.pids)
        found = the_same(make(), live)
        assert (found.status, found.why, found.end) == (live.status, live.why, live.end)

    def test_a_reboot_is_named(self, make: Make) -> None:
        """A pid of another boot is nobody's, also if a process has it now."""
        first = make()
        live = gone(first, first.start(part(0, "true")))
        out(live, "exit.json").unlink()
        form = {"pid": os.getpid(), "started": 1, "boot": "another"}
        out(live, "shim.json").write_text(json.dumps(form))
        second = make()
        found = gone(second, the_same(second, live))  # once the shim, which flushes its record, is gone too
        assert (found.status, found.why) == (PartStatus.LOST, "the machine was restarted while it ran")

    def test_a_verdict_that_cannot_be_written_keeps_the_lock(
        self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Lost all the same, and a shim that comes late stays out."""
        live = running(supervisor, supervisor.start(shell(0, GATE)))
        assert live.shim is not None
        monkeypatch.setattr(Folder, "write", full_disk)
        os.kill(live.shim.pid, signal.SIGKILL)
        gone(supervisor, live)
        assert live.status is PartStatus.LOST
        assert "cannot be recorded" in live.why
        assert seize(live.folder) is None

    def test_a_record_that_cannot_be_read(self, make: Make) -> None:
        """One lost attempt, not a lost agent."""
        first = make()
        live = gone(first, first.start(part(0, "true")))
        out(live, "exit.json").write_text("{")
        found = the_same(make(), live)
        assert found.status is PartStatus.LOST
        assert f"the records in {live.folder.path} cannot be read" in found.why

    def test_strays_are_those_of_one_attempt(self, supervisor: Supervisor) -> None:
        """Another attempt's processes are not touched."""
        one = running(supervisor, supervisor.start(part(0, "sleep", "60")))
        two = running(supervisor, supervisor.start(part(1, "sleep", "60")))
        assert two.shim is not None
        assert set(strays(one.folder.path, None)) >= set(one.pids)
        assert not set(strays(one.folder.path, one.shim)) & {two.shim.pid, *two.pids}
        kill_strays(one.folder.path, one.shim)
        gone(supervisor, one)
        assert all(alive(pid) for pid in two.pids)


def test_a_folder_that_somebody_removes_costs_its_attempt_and_no_more(make: Make) -> None:
    """The supervision goes on; the attempt is lost once nothing of it runs, and can be forgotten then."""
    supervisor = make()
    live = running(supervisor, supervisor.start(shell(0, "exec sleep 600")))
    other = running(supervisor, supervisor.start(shell(1, "exec sleep 600")))
    shutil.rmtree(live.folder.path)
    for pid in live.pids:
        os.kill(pid, signal.SIGKILL)
    until(supervisor, live, {PartStatus.LOST})
    assert live.why == f"its folder {live.folder.path} was removed"
    supervisor.forget(live)
    assert supervisor.known() == [other]


class TestSuspend:
    def test_everything_stops_and_goes_on(self, supervisor: Supervisor) -> None:
        """Grandchildren too, also in a session of their own."""
        live = running(supervisor, supervisor.start(shell(0, f"setsid sh -c '{COUNT}' & wait")))
        path = seen(live, "count")
        supervisor.suspend(live)
        assert live.status is PartStatus.SUSPENDED
        assert live.shim is not None
        shim = live.shim
        see(lambda: stand_still(shim.pid), "each stops as soon as it gets a core")
        before = path.stat().st_size
        assert supervisor.wait(0.1) == [live]
        assert path.stat().st_size == before
        supervisor.resume(live)
        assert (live.status, live.suspended) == (PartStatus.RUNNING, None)
        see(lambda: path.stat().st_size > before, "it counts again")

    @pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "noted only"])
    def test_it_stays_suspended_over_a_restart(self, make: Make, stopped: bool) -> None:
        """Also if the supervisor died between its note and the signal."""
        first = make()
        live = running(first, first.start(shell(0, COUNT)))
        first.suspend(live, Mechanism.SIGNAL if stopped else Mechanism.COOPERATIVE)
        if not stopped:
            live.folder.write("suspend.json", {"mechanism": Mechanism.SIGNAL, "since_s": 0.0})
        second = make()
        found = the_same(second, live)
        assert (found.status, found.suspended) == (PartStatus.SUSPENDED, Mechanism.SIGNAL)
        shim = found.shim
        assert shim is not None
        see(lambda: stand_still(shim.pid), "all of it stands still")

    def test_a_cooperative_program_is_only_noted(self, make: Make) -> None:
        """It blocks by itself; its processes are not touched."""
        first = make()
        live = running(first, first.start(shell(0, COUNT)))
        first.suspend(live, Mechanism.COOPERATIVE)
        found = the_same(make(), live)
        assert (found.status, found.suspended) == (PartStatus.SUSPENDED, Mechanism.COOPERATIVE)
        size = seen(live, "count").stat().st_size
        see(lambda: out(live, "count").stat().st_size > size, "it counts on")

    @pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only")
    def test_it_resumes_on_other_cores(self, make: Make) -> None:
        """Every thread of every process, each rank on its own core, orphans on any of them; durably."""
        first = make()
        low, high = sorted(os.sched_getaffinity(0))[:2]
        script = "sleep 60 & (setsid sleep 60 &); : > $ROTA_ATTEMPT_DIR/up-$RANK; wait"
        live = running(first, first.start(shell(0, script, ranks=2), cores=[low, high]))
        for rank in (0, 1):
            seen(live, f"up-{rank}")
        assert [os.sched_getaffinity(pid) for pid in live.pids] == [{low}, {high}]
        first.suspend(live)
        first.resume(live, cores=[high, low], devices=[1, 0])
        assert live.shim is not None
        for pid, core in zip(live.pids, (high, low), strict=True):
            for stat in (Stat.of(pid), *below(pid)):
                assert stat is not None
                assert [os.sched_getaffinity(thread) for thread in threads(stat.pid)] == [{core}]
        found = the_same(make(), live)
        assert (found.devices, found.cores) == ((1, 0), (high, low))

    def test_a_full_disk_leaves_it_running(
        self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What cannot be noted durably is not done."""
        live = running(supervisor, supervisor.start(part(0, "sleep", "60")))
        monkeypatch.setattr(Folder, "write", full_disk)
        with pytest.raises(WorldError, match=r"suspend\.json of job 1 cannot be written"):
            supervisor.suspend(live)
        assert live.status is PartStatus.RUNNING
        assert live.shim is not None
        assert "T" not in {stat.state for stat in below(live.shim.pid)}

    def test_what_does_not_run_is_not_suspended(self, supervisor: Supervisor) -> None:
        """Nor is resumed what is not suspended."""
        live = gone(supervisor, supervisor.start(part(0, "true")))
        with pytest.raises(WorldError, match="job 1 cannot be suspended: it is ended"):
            supervisor.suspend(live)
        with pytest.raises(WorldError, match="job 1 cannot be resumed: it is ended"):
            supervisor.resume(live)


class TestStop:
    def test_notice_then_sigterm(self, supervisor: Supervisor) -> None:
        """The program finds reason and deadline in its notice file when SIGTERM comes."""
        script = f"trap 'cat $ROTA_NOTICE_FILE; exit 85' TERM; : > $ROTA_ATTEMPT_DIR/up; {COUNT}"
        live = running(supervisor, supervisor.start(shell(0, script)))
        seen(live, "up")
        supervisor.stop(live, PREEMPTED, grace_s=30)
        assert live.status is PartStatus.LEAVING
        deadline_s = live.deadline_s
        gone(supervisor, live)
        assert live.end is not None
        assert live.end.code == 85
        told = Notice.model_validate_json(live.end.tail.splitlines()[-1])
        assert (told.reason, told.text) == ("preempted", "makes room for job 7")
        assert deadline_s is not None
        assert told.deadline_s == pytest.approx(unix_s(deadline_s), abs=5.0), "people have wall clocks"

    def test_what_ignores_sigterm_is_killed(self, supervisor: Supervisor) -> None:
        """After its grace, not before, and that is no lack of memory."""
        script = f"trap '' TERM; : > $ROTA_ATTEMPT_DIR/up; {COUNT}"
        live = running(supervisor, supervisor.start(shell(0, script)))
        seen(live, "up")
        supervisor.stop(live, PREEMPTED, grace_s=0.3)
        deadline_s = live.deadline_s
        assert deadline_s is not None
        gone(supervisor, live)
        assert live.end is not None
        assert (live.end.signal, live.end.oom) == (signal.SIGKILL, False)
        assert live.end.ended_s >= unix_s(deadline_s) - 0.05

    def test_the_notice_signal_goes_to_the_ranks_only(self, supervisor: Supervisor) -> None:
        """A helper without a handler would die of it."""
        script = "trap 'kill -0 $! && echo helped; exit 4' USR1; sleep 60 & : > $ROTA_ATTEMPT_DIR/up; wait"
        live = running(supervisor, supervisor.start(shell(0, script)))
        seen(live, "up")
        supervisor.stop(live, PREEMPTED, grace_s=30, notice_s=30, signal="USR1")
        gone(supervisor, live)
        assert live.end is not None
        assert (live.end.code, live.end.tail) == (4, "helped\n")

    def test_a_suspended_program_hears_it(self, supervisor: Supervisor) -> None:
        """It goes on with the signal waiting for it."""
        script = "trap 'exit 6' TERM; : > $ROTA_ATTEMPT_DIR/up; while :; do sleep 0.01; done"
        live = running(supervisor, supervisor.start(shell(0, script)))
        seen(live, "up")
        supervisor.suspend(live)
        supervisor.stop(live, PREEMPTED, grace_s=30)
        gone(supervisor, live)
        assert live.end is not None
        assert live.end.code == 6

    def test_the_countdown_outlives_the_supervisor(self, make: Make) -> None:
        """The next one kills at the same moment, and does not send SIGTERM again."""
        first = make()
        script = f"trap 'echo term >> $ROTA_ATTEMPT_DIR/terms' TERM; : > $ROTA_ATTEMPT_DIR/up; {COUNT}"
        live = running(first, first.start(shell(0, script)))
        seen(live, "up")
        first.stop(live, PREEMPTED, grace_s=0.6)
        deadline_s = live.deadline_s
        seen(live, "terms")
        second = make()
        found = the_same(second, live)
        assert (found.status, found.deadline_s) == (PartStatus.LEAVING, deadline_s)
        gone(second, found)
        assert found.end is not None
        assert deadline_s is not None
        assert found.end.signal == signal.SIGKILL
        assert found.end.ended_s >= unix_s(deadline_s) - 0.05
        assert lines(out(live, "terms")) == ["term"]

    def test_an_end_can_come_nearer_but_not_go_away(self, supervisor: Supervisor) -> None:
        """Two stops: the earlier of each time."""
        live = running(
            supervisor, supervisor.start(shell(0, f"trap '' TERM; : > $ROTA_ATTEMPT_DIR/up; {COUNT}"))
        )
        seen(live, "up")
        supervisor.stop(live, PREEMPTED, grace_s=100)
        near_s = live.deadline_s
        assert near_s is not None
        supervisor.stop(live, Notice(reason="drained"), grace_s=1000)
        assert live.deadline_s == near_s
        assert json.loads(live.folder.notice.read_text())["reason"] == "preempted"
        supervisor.stop(live, Notice(reason="cancelled"), grace_s=50)
        assert live.deadline_s < near_s
        assert json.loads(live.folder.notice.read_text())["reason"] == "cancelled"

    def test_kill_reaches_everything(self, supervisor: Supervisor) -> None:
        """Also what hides in another session and ignores SIGTERM; the shim writes its record."""
        script = "(trap '' TERM; setsid sleep 60) & echo $! > $ROTA_ATTEMPT_DIR/pid; wait"
        live = running(supervisor, supervisor.start(shell(0, script)))
        seen(live, "pid")
        assert live.shim is not None
        pids = see(lambda: [s.pid for s in below(live.shim.pid)][1:], "the hidden one")  # type: ignore[union-attr]
        supervisor.kill(live, "cancelled")
        gone(supervisor, live)
        assert live.status is PartStatus.ENDED
        assert live.end is not None
        assert live.end.signal == signal.SIGKILL
        assert not any(alive(pid) for pid in pids)

    def test_a_kill_before_the_beginning(self, supervisor: Supervisor) -> None:
        """Whatever the shim was about to do: it ends."""
        live = supervisor.start(shell(0, COUNT))
        supervisor.kill(live)
        assert live.status is PartStatus.LEAVING
        gone(supervisor, live)
        assert live.status is PartStatus.ENDED

    def test_a_full_disk_does_not_prevent_it(
        self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The plan is not durable, and says so; the job ends."""
        live = running(supervisor, supervisor.start(part(0, "sleep", "60")))
        monkeypatch.setattr(Folder, "write", full_disk)
        supervisor.stop(live, PREEMPTED, grace_s=30)
        assert live.status is PartStatus.LEAVING
        assert live.why == "stop.json of job 1 cannot be written: [Errno 28] No space left on device"
        gone(supervisor, live)
        assert live.end is not None
        assert live.end.signal == signal.SIGTERM

    def test_what_is_gone_is_not_stopped(self, supervisor: Supervisor) -> None:
        """No error: the end and the order crossed each other."""
        live = gone(supervisor, supervisor.start(part(0, "true")))
        end = live.end
        supervisor.stop(live, PREEMPTED, grace_s=1)
        supervisor.kill(live)
        assert (live.status, live.end) == (PartStatus.ENDED, end)


class TestForget:
    def test_logs_and_record_stay(self, make: Make) -> None:
        """Environment and orders go, and the next supervisor does not know it."""
        first = make()
        live = gone(first, first.start(shell(0, "echo hello")))
        first.forget(live)
        assert first.find(0, 1) is None
        left = {path.name for path in live.folder.path.iterdir()}
        assert {"exit.json", "logs"} <= left
        assert left <= {"exit.json", "logs", "lock", "ranks.json", "shim.json", "shim.log", "training"}
        assert live.folder.log(0).read_text() == "hello\n"
        assert make().known() == []

    def test_without_a_record_it_is_kept(
        self, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Or it could be started again; as soon as there is room it has one, and can go."""
        live = running(supervisor, supervisor.start(shell(0, GATE)))
        assert live.shim is not None
        with monkeypatch.context() as full:
            full.setattr(Folder, "write", full_disk)
            os.kill(live.shim.pid, signal.SIGKILL)
            gone(supervisor, live)
            with pytest.raises(WorldError, match="job 1 cannot be forgotten here"):
                supervisor.forget(live)
            assert supervisor.find(0, 1) is live
        supervisor.forget(live)
        assert supervisor.start(live.part).status is PartStatus.LOST
        assert supervisor.find(0, 1) is not live

    def test_what_runs_is_not_forgotten(self, supervisor: Supervisor) -> None:
        """It would become a process that nobody knows."""
        live = running(supervisor, supervisor.start(shell(0, GATE)))
        with pytest.raises(WorldError, match="job 1 cannot be forgotten here: it is running"):
            supervisor.forget(live)


class TestWait:
    def test_it_returns_when_woken(self, supervisor: Supervisor) -> None:
        """From another thread, long before its time is over."""
        threading.Timer(0.05, supervisor.wake).start()
        began_s = time.monotonic()
        assert supervisor.wait(30) == []
        assert time.monotonic() - began_s < 20

    def test_it_learns_of_a_start_in_another_thread(self, supervisor: Supervisor) -> None:
        """It sleeps on nothing, and yet sees the new attempt."""
        threading.Timer(0.05, lambda: supervisor.start(shell(0, GATE))).start()
        (live,) = supervisor.wait(30)
        until(supervisor, live, {PartStatus.RUNNING})

    def test_its_time_ends(self, supervisor: Supervisor) -> None:
        """Nothing has changed."""
        assert supervisor.wait(0.01) == []


NUDGED = """
trap '' TERM; trap 'echo x >> $ROTA_ATTEMPT_DIR/nudges' WINCH; echo x > $ROTA_ATTEMPT_DIR/ready
while :; do sleep 0.05; done
"""


@pytest.mark.parametrize("has_terminal", [True, False])
def test_who_is_at_a_terminal_is_reminded_that_it_is_to_go(make: Make, has_terminal: bool) -> None:
    """A shell may sleep on what it was told.  Nobody else is disturbed."""
    supervisor = make()
    live = running(supervisor, supervisor.start(shell(0, NUDGED, terminal=has_terminal)))
    seen(live, "ready")
    supervisor.stop(live, PREEMPTED, grace_s=60.0 if has_terminal else 3.0)
    until_s = time.monotonic() + PATIENCE_S
    while live.status is not PartStatus.ENDED and len(lines(out(live, "nudges"))) < 2:
        assert time.monotonic() < until_s, "not reminded"
        supervisor.wait(0.2)
    assert (len(lines(out(live, "nudges"))) >= 2) is has_terminal


@pytest.mark.parametrize("dies", [False, True], ids=["the same agent", "the next agent"])
def test_who_fails_before_the_signal_has_failed_by_itself(make: Make, dies: bool) -> None:
    """The stop is planned before anybody has looked at the end."""
    supervisor = make()
    live = running(supervisor, supervisor.start(shell(0, GATE)))
    seen(live, "gate").write_text("go\n")
    see(out(live, "exit.json").exists, "the record")
    supervisor.stop(live, PREEMPTED, grace_s=30.0)
    if dies:
        supervisor = make()
        live = the_same(supervisor, live)
    gone(supervisor, live)
    assert live.end is not None
    assert (live.end.code, live.end.by_itself) == (5, True)


def test_who_answers_a_signal_has_not_ended_by_itself(supervisor: Supervisor) -> None:
    script = "trap 'exit 3' TERM; touch $ROTA_ATTEMPT_DIR/set; while :; do sleep 0.01; done"
    live = running(supervisor, supervisor.start(shell(0, script)))
    seen(live, "set")
    supervisor.stop(live, PREEMPTED, grace_s=30.0)
    gone(supervisor, live)
    assert live.end is not None
    assert (live.end.code, live.end.by_itself) == (3, False)
