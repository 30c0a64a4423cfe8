"""The shim by itself: a folder in, ranks, an exit record out, whatever is done to it."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mounts
from attempts import lines, see
from rota.engines.rota import native, shim
from rota.engines.rota.identity import ProcessIdentity, Stat

PROGRAM = str(Path(shim.__file__))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that")


class Attempt:
    """A folder for the shim, made by hand."""

    def __init__(self, path: Path, compiled: Path | None) -> None:
        self.path, self.compiled = path, compiled
        (path / "logs").mkdir(parents=True)

    def launch(self, *command: str, ranks: int | list[dict[str, Any]] = 1, **other: Any) -> None:
        form = {
            "command": command,
            "workdir": "/",
            "env": {"PATH": os.environ["PATH"], "OUT": str(self.path)},
            "ranks": files(self, ranks=ranks) if isinstance(ranks, int) else ranks,
            "user": None,
            "grace_s": 10.0,
            "cgroups": [],
        }
        (self.path / "launch.json").write_text(json.dumps(form | other))

    def start(self, pipe: int | None = None, **env: str) -> int:
        """Run the shim until it has the lock; its exit code.  It tells `pipe` how far it is."""
        if self.compiled is None:
            arguments = [sys.executable, "-I", "-S", PROGRAM, str(self.path)]
            told = [] if pipe is None else [pipe]
            arguments += map(str, told)
            return subprocess.run(arguments, env=env, timeout=60, check=False, pass_fds=told).returncode
        form = json.loads((self.path / "launch.json").read_text())
        nothing = os.open(os.devnull, os.O_WRONLY)
        child = native.start(self.compiled, self.path, form, env, nothing, nothing if pipe is None else pipe)
        os.close(nothing)
        see(lambda: child.poll() is not None, "its first process to end")
        return child.poll() or 0

    def record(self) -> dict[str, Any]:
        """The exit record, as soon as it is there."""
        path = self.path / "exit.json"
        see(path.exists, "an exit record")
        value: dict[str, Any] = json.loads(path.read_text())
        return value

    def run(self, *command: str, **other: Any) -> dict[str, Any]:
        """From launch to record."""
        self.launch(*command, **other)
        assert self.start() == 0
        return self.record()

    def identity(self, name: str = "shim.json") -> ProcessIdentity:
        path = self.path / name
        see(path.exists, name)
        return ProcessIdentity.read(json.loads(path.read_text()))

    def ranks(self) -> list[ProcessIdentity]:
        path = self.path / "ranks.json"
        see(path.exists, "ranks.json")
        return [ProcessIdentity.read(one) for one in json.loads(path.read_text())["ranks"]]

    def log(self, rank: int = 0) -> str:
        return (self.path / "logs" / f"rank-{rank}.log").read_text()

    def end(self) -> None:
        """Nothing of it outlives the test."""
        if (self.path / "shim.json").exists():
            one = self.identity()
            if one.alive():
                for pid in shim.descendants(one.pid):
                    shim.quietly(os.kill, pid, signal.SIGKILL)
                os.kill(one.pid, signal.SIGKILL)


@pytest.fixture(params=["interpreted", "compiled"])
def compiled(request: pytest.FixtureRequest) -> Path | None:
    """One shim and the other: both do the same."""
    if request.param == "interpreted":
        return None
    program: Path = request.getfixturevalue("compiled_shim")
    return program


@pytest.fixture
def attempt(tmp_path: Path, compiled: Path | None) -> Iterator[Attempt]:
    one = Attempt(tmp_path / "attempt", compiled)
    yield one
    one.end()


def sh(script: str) -> tuple[str, str, str]:
    return "/bin/sh", "-c", script


def children(pid: int) -> list[Stat]:
    """Children of a process, zombies too."""
    found = [Stat.of(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    return [stat for stat in found if stat is not None and stat.parent == pid]


@pytest.mark.parametrize(
    ("command", "code", "number"),
    [
        (("true",), 0, None),
        (sh("exit 3"), 3, None),
        (sh("exit 85"), 85, None),  # checkpointed, run me again
        (sh("kill -9 $$"), None, 9),
        (sh("kill -15 $$"), None, 15),
    ],
)
def test_an_end_is_recorded(
    attempt: Attempt, command: tuple[str, ...], code: int | None, number: int
) -> None:
    """Exit code and signal stand in the record, and nobody else is to blame."""
    record = attempt.run(*command)
    assert [(end["code"], end["signal"]) for end in record["ranks"]] == [(code, number)]
    assert record["first"] == (None if code in (0, 85) else 0)
    assert (record["error"], record["infrastructure"]) == ("", False)


def test_what_it_used_is_recorded(attempt: Attempt) -> None:
    """Also of a program that is over before anybody looks at it: its CPU time and its memory."""
    record = attempt.run(sys.executable, "-c", "x = bytearray(50 << 20); any(i < 0 for i in range(400_000))")
    (end,) = record["ranks"]
    assert 0.005 < end["cpu_s"] < 20.0
    assert 50 << 20 <= end["peak_bytes"] < 500 << 20


@pytest.mark.parametrize(
    ("heard_s", "lost_after_s", "is_fenced"),
    [(-3600.0, 60.0, True), (-0.5, 1.1, True), (0.0, 3600.0, False), (None, None, False)],
)
def test_it_fences_itself_though_no_agent_lives(
    attempt: Attempt, heard_s: float | None, lost_after_s: float | None, is_fenced: bool
) -> None:
    """Once the controller was silent for too long, whatever grace its ranks were granted."""
    contact = attempt.path / "contact"
    if heard_s is not None:
        contact.write_text(f"{time.clock_gettime(time.CLOCK_BOOTTIME) + heard_s} {lost_after_s} boot\n")
    script = sh("trap '' TERM; sleep 600 & wait" if is_fenced else "exit 0")
    record = attempt.run(*script, contact=str(contact), grace_s=600.0)
    assert (record["error"], record["infrastructure"]) == (shim.SILENT if is_fenced else "", is_fenced)
    assert record["ranks"][0]["signal"] == (9 if is_fenced else None)


def files(attempt: Attempt, output: str = "", error: str = "", ranks: int = 1) -> list[dict[str, Any]]:
    """Ranks whose output goes to files of their user's choice as well."""
    return [
        {"rank": i, "cores": [], "env": {"RANK": str(i)}, "output": output, "error": error}
        for i in range(ranks)
    ]


def test_output_goes_to_a_file_of_the_users_choice(attempt: Attempt, tmp_path: Path) -> None:
    """To the log as well; errors to their own file; what was there stays; two ranks may share one."""
    out, err = tmp_path / "out", tmp_path / "err"
    out.write_text("before\n")
    script = sh("echo out $RANK; echo err $RANK >&2")
    attempt.run(*script, ranks=files(attempt, str(out), str(err), ranks=2))
    assert sorted(out.read_text().splitlines()) == ["before", "out 0", "out 1"]
    assert sorted(err.read_text().splitlines()) == ["err 0", "err 1"]
    assert sorted(attempt.log(1).splitlines()) == ["err 1", "out 1"]
    assert out.stat().st_mode & 0o777 == 0o644


def test_output_and_error_in_one_file_keep_their_order(attempt: Attempt, tmp_path: Path) -> None:
    out = tmp_path / "out"
    attempt.run(*sh("for i in 1 2 3; do echo $i; echo e$i >&2; done"), ranks=files(attempt, str(out)))
    assert out.read_text() == "1\ne1\n2\ne2\n3\ne3\n" == attempt.log()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("link", "it is a link"),
        ("fifo", "it is no ordinary file"),
        ("folder", "Is a directory"),
        ("missing", "No such file or directory"),
    ],
)
def test_a_file_that_will_not_do_is_the_users_error(
    attempt: Attempt, tmp_path: Path, kind: str, why: str
) -> None:
    """Nothing runs, and no link is followed."""
    path, target = tmp_path / "out", tmp_path / "target"
    if kind == "link":
        path.symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path = tmp_path / "no" / "out"
    record = attempt.run(*sh(f"touch {tmp_path}/ran"), ranks=files(attempt, str(path)))
    assert f"the output file '{path}' cannot be written on this machine: {why}" in record["error"]
    assert (record["ranks"][0]["code"], record["infrastructure"], record["first"]) == (126, False, 0)
    assert not target.exists()
    assert not (tmp_path / "ran").exists()
    assert record["error"] in attempt.log()


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe that nobody reads", "pipe"])
def test_what_stands_where_a_log_is_to_be_holds_nobody_up(
    attempt: Attempt, tmp_path: Path, kind: str
) -> None:
    """Its folder is the user's: another process of theirs may have put anything there."""
    path, target = attempt.path / "logs" / "rank-0.log", tmp_path / "target"
    target.write_text("as it was")
    reader = None
    if kind == "link":
        path.symlink_to(target)
    elif kind == "hard link":
        path.hardlink_to(target)
    else:
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if kind == "pipe" else None
    try:
        record = attempt.run(*sh(f"touch {tmp_path}/ran"))
    finally:
        if reader is not None:
            os.close(reader)
    assert record["infrastructure"]
    assert str(path) in record["error"]
    assert target.read_text() == "as it was"
    assert not (tmp_path / "ran").exists()


def test_a_limit_keeps_the_beginning_and_the_end(attempt: Attempt, tmp_path: Path) -> None:
    """Of the log and of the file, each by its own limit; the program notices nothing."""
    out = tmp_path / "out"
    attempt.run(
        *sh("seq 1 200000; echo last"),
        ranks=files(attempt, str(out)),
        log_limit=10_000,
        output_limit=100_000,
    )
    whole = "".join(f"{i}\n" for i in range(1, 200001)) + "last\n"
    for text, limit in ((attempt.log(), 10_000), (out.read_text(), 100_000)):
        left_out = len(whole) - limit
        note = f"\nrota: {left_out} bytes are left out here: this file may have {limit}\n"
        assert note in text
        head, tail = text.split(note)
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) + len(tail) == limit


def test_the_log_says_what_a_full_disk_did_not_take(attempt: Attempt, tmp_path: Path) -> None:
    """The program runs on, and its log is whole."""
    with mounts.small_disk(tmp_path / "disk", "64k") as disk:
        out = disk / "out"
        record = attempt.run(*sh("seq 1 50000; echo last"), ranks=files(attempt, str(out)))
        took = out.read_bytes()
    whole = "".join(f"{i}\n" for i in range(1, 50001)) + "last\n"
    assert record["ranks"][0]["code"] == 0
    assert 0 < len(took) <= 65536
    assert whole.encode().startswith(took)
    told = f"\nrota: {len(whole) - len(took)} bytes of the output file '{out}' could not be written: "
    assert attempt.log() == f"{whole}{told}No space left on device\n"


@needs_root
def test_files_are_written_as_the_user(attempt: Attempt, tmp_path: Path) -> None:
    """Where the user may not write, nothing is written, although the shim is root; its file is the user's."""
    tmp_path.chmod(0o711)
    for parent in list(tmp_path.parents)[:3]:
        parent.chmod(0o711)
    user = {"uid": 65534, "gid": 65534, "groups": [65534]}
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir(mode=0o700)
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    os.chmod(attempt.path, 0o711)
    os.chown(attempt.path / "logs", 65534, 65534)
    attempt.run("true", ranks=files(attempt, str(mine / "out")), user=user)
    assert "Permission denied" in attempt.log()
    assert not (mine / "out").exists()
    for name in ("shim.json", "exit.json", "launch.json", "lock"):
        (attempt.path / name).unlink()
    attempt.run("id", "-u", ranks=files(attempt, str(theirs / "out")), user=user)
    assert (theirs / "out").read_text() == "65534\n"
    assert (theirs / "out").stat().st_uid == 65534


def test_what_outlives_a_rank_may_write_on(attempt: Attempt, tmp_path: Path) -> None:
    """All of a rank's output is there when the record is."""
    out = tmp_path / "out"
    # set before the fork: what starts late would else be ended before it could say so
    attempt.run(*sh("trap '' TERM; (sleep 0.3; echo late) & echo early"), ranks=files(attempt, str(out)))
    assert out.read_text() == "early\nlate\n"


@pytest.mark.parametrize(
    ("command", "workdir", "code", "says"),
    [
        ("pyton", "/", 127, "there is no command 'pyton' in PATH="),
        ("./none.sh", "/", 127, "there is no file './none.sh' to run (working folder '/')"),
        (
            "{}/lost.sh",
            "/",
            127,
            "the interpreter that the first line of '{}/lost.sh' names is not on this machine",
        ),
        ("{}/bare.sh", "/", 126, "'{}/bare.sh' is no program and has no `#!` line"),
        ("true", "/no/such", 126, "the working folder '/no/such' cannot be entered on this machine"),
        pytest.param("{}/plain.sh", "/", 126, "may not be executed; `chmod +x` it", id="mode"),
    ],
)
def test_what_cannot_run_is_the_users_error(
    attempt: Attempt, command: str, workdir: str, code: int, says: str
) -> None:
    """Codes as a shell gives them, and one sentence in log and record."""
    for name, text, mode in [
        ("lost", "#!/no/sh\n", 0o755),
        ("bare", "echo\n", 0o755),
        ("plain", "#!/bin/sh\n", 0o644),
    ]:
        path = attempt.path / f"{name}.sh"
        path.write_text(text)
        path.chmod(mode)
    record = attempt.run(command.format(attempt.path), workdir=workdir)
    assert record["ranks"][0]["code"] == code
    assert says.format(attempt.path) in record["error"]
    assert attempt.log() == f"rota: {record['error']}\n"
    assert not record["infrastructure"]


def test_a_taken_lock_is_respected(attempt: Attempt) -> None:
    """Somebody else runs the attempt: a distinct code, and no command."""
    attempt.launch(*sh("echo ran >> $OUT/runs"))
    with open(attempt.path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert attempt.start() == shim.TAKEN
    assert not lines(attempt.path / "runs")


def test_nothing_runs_twice_in_one_folder(attempt: Attempt) -> None:
    """Neither while it runs nor after its end."""
    attempt.launch(*sh("echo ran >> $OUT/runs; read x < $OUT/gate"))
    os.mkfifo(attempt.path / "gate")
    assert attempt.start() == 0
    see(lambda: lines(attempt.path / "runs"), "the command")
    assert attempt.start() == shim.TAKEN
    (attempt.path / "gate").write_text("go\n")
    attempt.record()
    assert attempt.start() == shim.TAKEN
    assert lines(attempt.path / "runs") == ["ran"]


def test_a_failing_rank_takes_the_others_along(attempt: Attempt) -> None:
    """They get SIGTERM and may end by themselves; the record names the first."""
    wait = "until [ -e $OUT/0 ] && [ -e $OUT/2 ]; do sleep 0.01; done"
    fail = f"[ $RANK = 1 ] && {{ {wait}; exit 3; }}"
    script = f"trap 'exit 7' TERM; : > $OUT/$RANK; {fail}; while :; do sleep 0.02; done"
    record = attempt.run(*sh(script), ranks=3)
    assert [end["code"] for end in record["ranks"]] == [7, 3, 7]
    assert record["first"] == 1


def test_a_deaf_rank_is_killed_after_its_grace(attempt: Attempt) -> None:
    """SIGKILL to what does not listen to SIGTERM."""
    deaf = "trap '' TERM; : > $OUT/deaf-$RANK; [ $RANK = 1 ] || while :; do sleep 0.02; done"
    script = f"{deaf}; read x < $OUT/gate; exit 3"
    os.mkfifo(attempt.path / "gate")
    attempt.launch(*sh(script), ranks=2, grace_s=0.1)
    assert attempt.start() == 0
    see(lambda: (attempt.path / "deaf-0").exists(), "a deaf rank")
    (attempt.path / "gate").write_text("\n")
    record = attempt.record()
    assert record["first"] == 1
    assert record["ranks"][0]["signal"] == signal.SIGKILL


def test_a_rank_that_left_by_checkpoint_does_not_hurry_the_others(attempt: Attempt) -> None:
    """85 is no failure: the others are about to leave as well, and get no SIGTERM."""
    record = attempt.run(*sh("trap 'exit 9' TERM; [ $RANK = 0 ] || sleep 0.2; exit 85"), ranks=2)
    assert [end["code"] for end in record["ranks"]] == [85, 85]
    assert record["first"] is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_polite_signal_to_the_shim_does_nothing(attempt: Attempt, number: signal.Signals) -> None:
    """Neither shim nor ranks die of it."""
    os.mkfifo(attempt.path / "gate")
    attempt.launch(*sh("read x < $OUT/gate; exit 4"))
    assert attempt.start() == 0
    attempt.ranks()
    os.kill(attempt.identity().pid, number)
    (attempt.path / "gate").write_text("\n")
    assert attempt.record()["ranks"][0]["code"] == 4


def test_ranks_die_with_their_shim(attempt: Attempt) -> None:
    """Parent-death signal: no record, no rank."""
    attempt.launch("sleep", "60", ranks=2)
    assert attempt.start() == 0
    ranks = attempt.ranks()
    os.kill(attempt.identity().pid, signal.SIGKILL)
    see(lambda: not any(rank.alive() for rank in ranks), "the end of the ranks")
    assert not (attempt.path / "exit.json").exists()


def test_the_record_waits_for_orphans(attempt: Attempt) -> None:
    """What a rank leaves behind is gone when the record appears, also if it opened a session of its own."""
    record = attempt.run(*sh("setsid sleep 60 & echo $! > $OUT/orphan; exit 0"))
    pid = int((attempt.path / "orphan").read_text())
    assert record["ranks"][0]["code"] == 0
    stat = Stat.of(pid)
    assert stat is None or stat.dead


def test_orphans_that_end_are_buried(attempt: Attempt) -> None:
    """A helper that dies before its rank leaves no zombie with the shim."""
    os.mkfifo(attempt.path / "gate")
    attempt.launch(*sh("(setsid true &); echo x > $OUT/done; read x < $OUT/gate"))
    assert attempt.start() == 0
    see(lambda: (attempt.path / "done").exists(), "the helper")
    pid = attempt.identity().pid
    see(lambda: len(children(pid)) == 1, "the rank alone")
    (attempt.path / "gate").write_text("\n")
    attempt.record()


def test_a_missing_log_folder_is_the_machines_fault(attempt: Attempt) -> None:
    """No command runs; the record says which file, and whose fault."""
    attempt.launch(*sh("echo ran >> $OUT/runs"))
    (attempt.path / "logs").rmdir()
    assert attempt.start() == 0
    record = attempt.record()
    assert record["infrastructure"]
    assert (
        record["error"] == f"the attempt could not be started: {attempt.path}/logs: No such file or directory"
    )
    assert record["ranks"] == []
    assert not lines(attempt.path / "runs")


def test_a_log_that_cannot_be_opened_is_the_machines_fault(attempt: Attempt) -> None:
    """The second rank's log is a folder: the first does not run either."""
    attempt.launch(*sh("echo ran >> $OUT/runs"), ranks=2)
    (attempt.path / "logs" / "rank-1.log").mkdir()
    assert attempt.start() == 0
    record = attempt.record()
    assert record["infrastructure"]
    assert "rank-1.log: Is a directory" in record["error"]
    assert not lines(attempt.path / "runs")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    with mounts.small_disk(tmp_path / "disk", "4m") as disk:
        yield disk


def fill(disk: Path, leave: int = 0) -> None:
    """Use up a disk but for `leave` bytes."""
    free = os.statvfs(disk)
    with open(disk / "ballast", "wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, free.f_bavail * free.f_frsize - leave)


@needs_root
def test_a_disk_that_fills_up_does_not_lose_the_record(small_disk: Path, compiled: Path | None) -> None:
    """Its room was kept from the beginning."""
    attempt = Attempt(small_disk / "attempt", compiled)
    os.mkfifo(attempt.path / "gate")
    attempt.launch(*sh("read x < $OUT/gate; exit 6"))
    assert attempt.start() == 0
    attempt.ranks()
    fill(small_disk)
    (attempt.path / "gate").write_text("\n")
    assert attempt.record()["ranks"][0]["code"] == 6


@needs_root
def test_a_record_waits_for_a_disk_that_can_only_be_read(attempt: Attempt) -> None:
    """What has ended is not lost; and the agent is told that it has to wait."""
    os.mkfifo(attempt.path / "gate")
    attempt.launch(*sh("read x < $OUT/gate; exit 6"))
    said, pipe = os.pipe()
    assert attempt.start(pipe) == 0
    os.close(pipe)
    attempt.ranks()
    with mounts.read_only(attempt.path), open(said, "rb", buffering=0) as told:
        (attempt.path / "gate").write_text("\n")
        assert [told.read(1) for _ in "LRW"] == [b"L", b"R", b"W"]
        assert not (attempt.path / "exit.json").exists()
    assert attempt.record()["ranks"][0]["code"] == 6


@needs_root
def test_a_disk_almost_full_starts_nothing(small_disk: Path, compiled: Path | None) -> None:
    """Room for the record but not for a log: the machine's fault, in one sentence."""
    attempt = Attempt(small_disk / "attempt", compiled)
    attempt.launch(*sh("echo ran >> $OUT/runs"))
    fill(small_disk, leave=300_000)
    assert attempt.start() == 0
    record = attempt.record()
    assert record["infrastructure"]
    assert record["error"] == f"the attempt could not be started: {attempt.path}/logs: the disk is full"
    assert not lines(attempt.path / "runs")


@needs_root
def test_a_disk_without_any_room_starts_nothing(small_disk: Path, compiled: Path | None) -> None:
    """A distinct code: there is not even room for a record."""
    attempt = Attempt(small_disk / "attempt", compiled)
    attempt.launch("true")
    (attempt.path / "lock").touch()
    fill(small_disk)
    assert attempt.start() == shim.NO_ROOM


@needs_root
def test_the_command_runs_as_its_user(attempt: Attempt, tmp_path: Path) -> None:
    """User, group and groups; the log is theirs, orders and records are not."""
    for path in (attempt.path, *attempt.path.parents):
        if path.stat().st_uid == 0 and str(path).startswith(("/tmp", str(tmp_path))):
            path.chmod(path.stat().st_mode | 0o055)
    script = f"id -u; id -g; id -G; cat {attempt.path}/launch.json || echo secret"
    attempt.launch(*sh(script), user={"uid": 65534, "gid": 65534, "groups": [65534]})
    (attempt.path / "launch.json").chmod(0o600)
    assert attempt.start() == 0
    attempt.record()
    said = attempt.log().splitlines()
    assert said[:3] == ["65534", "65534", "65534"]
    assert said[-1] == "secret"
    assert (attempt.path / "logs" / "rank-0.log").stat().st_uid == 65534


@needs_root
def test_ranks_of_another_user_die_with_their_shim(attempt: Attempt) -> None:
    """The parent-death signal is asked for after the change of user, which forgets it."""
    attempt.launch("sleep", "60", user={"uid": 65534, "gid": 65534, "groups": []})
    assert attempt.start() == 0
    ranks = attempt.ranks()
    os.kill(attempt.identity().pid, signal.SIGKILL)
    see(lambda: not any(rank.alive() for rank in ranks), "the end of the ranks")


def test_a_rank_gets_a_clean_process(attempt: Attempt) -> None:
    """Its cores, three descriptors, no signal ignored or blocked, a group of the ranks' own."""
    core = min(os.sched_getaffinity(0))
    code = (
        "import os,signal;print(sorted(os.sched_getaffinity(0)));"
        "print(sorted(set(map(int,os.listdir('/proc/self/fd')))-{3}));"
        "print([s for s in (1,2,15,13,25) if signal.getsignal(s) == signal.SIG_IGN and s != 13 and s != 25]);"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK,()));"
        "print(os.getpgrp()==os.getpid(), os.getsid(0)==os.getppid(), 'ROTA_CRASH_AT' in os.environ)"
    )
    rank = {"rank": 0, "cores": [core], "env": {}}
    attempt.launch(sys.executable, "-c", code, ranks=1)
    form = json.loads((attempt.path / "launch.json").read_text()) | {"ranks": [rank]}
    (attempt.path / "launch.json").write_text(json.dumps(form))
    assert attempt.start(ROTA_CRASH_AT="elsewhere") == 0
    attempt.record()
    assert attempt.log().splitlines() == [f"[{core}]", "[0, 1, 2]", "[]", "set()", "True True False"]


def test_a_core_that_is_not_there_is_the_machines_fault(attempt: Attempt) -> None:
    """The agent chose it, not the user."""
    attempt.launch("true")
    form = json.loads((attempt.path / "launch.json").read_text())
    form["ranks"][0]["cores"] = [1000]
    (attempt.path / "launch.json").write_text(json.dumps(form))
    assert attempt.start() == 0
    record = attempt.record()
    assert record["infrastructure"]
    assert record["error"] == "this machine could not prepare the process: Invalid argument"


def test_a_stop_that_came_first_wins(attempt: Attempt) -> None:
    """A plan to stop that was there before the ranks: none is started."""
    attempt.launch(*sh("echo ran >> $OUT/runs"))
    (attempt.path / "stop.json").write_text("{}")
    assert attempt.start() == 0
    record = attempt.record()
    assert (record["ranks"], record["error"]) == ([], "stopped before it began")
    assert not lines(attempt.path / "runs")


def test_it_is_small(attempt: Attempt) -> None:
    """Under 15 MB, or a full node would feel its shims."""
    attempt.launch("sleep", "60")
    assert attempt.start() == 0
    attempt.ranks()
    status = Path(f"/proc/{attempt.identity().pid}/status").read_text()
    assert "Name:\trota-shim" in status
    rss_kib = int(status.split("VmRSS:")[1].split()[0])
    assert rss_kib < 15_000


def test_it_stands_alone() -> None:
    """Standard library only: it outlives upgrades of Rota, and starts quickly; what few need comes later."""
    tree = ast.parse(Path(PROGRAM).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    heavy = {"subprocess", "pathlib", "dataclasses", "asyncio", "logging", "inspect", "socket"}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names | {"__future__"}
    at_once = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert not at_once & heavy
    assert names & heavy <= {"socket"}
