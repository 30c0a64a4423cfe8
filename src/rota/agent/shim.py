"""The shim: one process that keeps one attempt, whatever becomes of agent and controller.

    python -I -S shim.py FOLDER [FD]

Takes the lock of FOLDER, starts the ranks that `launch.json` names, waits for all their processes, leaves
`exit.json`.  FD is a pipe to the agent: `L` once the lock is held, `R` once the ranks run, `E` once the
record is there.  No command starts without the lock, nor twice in one folder.  Ranks die with the shim
(parent-death signal), orphans come to it: `exit.json` appears when none is left, in room kept from the
beginning, so a full disk cannot lose it.
SIGTERM, SIGINT and SIGHUP to the shim do nothing.  Standard library only: it outlives upgrades.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import stat
import sys
import time
import warnings  # noqa: F401  exec by PATH imports it, when the user may no longer read the library

TYPE_CHECKING = False  # `typing` would cost more time to load than all the rest
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

TAKEN = 75  # exit code: somebody else runs this attempt, or did
NO_ROOM = 74  # exit code: not even the exit record could be kept room for
LEAVING = 85  # exit code of a rank: checkpointed, run me again
LOCK_TRIES = 10  # an agent that looks whether the lock is taken holds it for a moment
ROOM = 1 << 16  # bytes kept for a record: some hundred ranks
ORPHAN_S = 2.0  # between SIGTERM and SIGKILL for what the ranks leave behind
SMALLEST_DISK = 1 << 20  # bytes; below this a log could not even hold the error
OOM_SCORE = ("/proc/self/oom_score_adj", "300")  # memory runs out: rather a rank than the shim or the agent
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
DEAF = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
libc = ctypes.CDLL(None, use_errno=True)


def crash_point(name: str) -> None:
    """Die here if a test says so."""
    if os.environ.get("ROTA_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, pipe: int) -> int:
    """Lock, and go on in a process of our own session, whose parent is nobody that matters."""
    for number in DEAF:
        signal.signal(number, signal.SIG_IGN)
    crash_point("shim started")
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not take(lock) or any(os.path.exists(f"{folder}/{name}") for name in ("exit.json", "shim.json")):
        return TAKEN
    crash_point("lock taken")
    try:
        own, ranks, record = (Room(f"{folder}/{name}.json") for name in ("shim", "ranks", "exit"))
    except OSError as error:
        print(f"no room for the exit record: {error.strerror}", file=sys.stderr)
        return NO_ROOM
    if os.fork():  # the child shares the open file, and with it the lock
        return 0
    os.setsid()
    libc.prctl(PR_SET_NAME, b"rota-shim", 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    crash_point("shim forked")
    own.fill(identity(os.getpid()))
    crash_point("shim written")
    tell(pipe, b"L")
    end = AttemptKeeper(folder, pipe, ranks).run()
    crash_point("all ended")
    record.fill(end)
    crash_point("exit renamed")
    tell(pipe, b"E")  # before the disk has it: what the controller has on record needs it no more
    record.keep()
    return 0


def take(lock: int) -> bool:
    """Take the lock, unless another process keeps it."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.02)
    return False


class Room:
    """A file whose space is taken before it is needed, and which appears whole when it is filled."""

    def __init__(self, path: str) -> None:
        """Raises OSError if the disk is full."""
        self.path, self.partial = path, f"{os.path.dirname(path)}/.{os.path.basename(path)}.room"
        self.fd = os.open(self.partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self.fd, 0, ROOM)

    def fill(self, value: Json) -> None:
        """Write it and give it its name."""
        data = json.dumps(value).encode()
        os.ftruncate(self.fd, os.pwrite(self.fd, data, 0))
        crash_point(f"{os.path.basename(self.path)} unnamed")
        os.rename(self.partial, self.path)

    def keep(self) -> None:
        """Make what it holds and its name survive a power cut."""
        os.fsync(self.fd)
        os.fsync(os.open(os.path.dirname(self.path), os.O_RDONLY))


class AttemptKeeper:
    """Starts the ranks of one attempt and sees them out."""

    def __init__(self, folder: str, pipe: int, room: Room) -> None:
        self.folder, self.pipe, self.room = folder, pipe, room
        self.stop = f"{folder}/stop.json"  # the agent's plan to stop the attempt, if it has one
        self.launch: Json = {}
        self.pids: dict[int, int] = {}  # process -> rank, of those that still run
        self.ends: dict[int, Json] = {}  # rank -> how it ended
        self.group = 0
        self.first: int | None = None  # the rank that failed first
        self.error, self.infrastructure = "", False  # why it could not be started, and whose fault that is
        self.oom_kills = oom_kills()
        self.wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake[1], warn_on_full_buffer=False)

    def run(self) -> Json:
        """The whole life of the attempt; returns its record."""
        try:
            self.begin()
        except OSError as error:  # this machine is to blame: nothing of the attempt may go on
            what = f"{error.filename}: " if error.filename else ""
            self.error, self.infrastructure = (
                f"the attempt could not be started: {what}{error.strerror}",
                True,
            )
            self.kill()
        self.watch()
        self.clear()
        return {
            "version": 1,
            "ended_s": time.time(),
            "ranks": [self.ends[rank] for rank in sorted(self.ends)],
            "first": self.first,
            "error": self.error,
            "infrastructure": self.infrastructure,
            "oom_kills": oom_kills() - self.oom_kills,
        }

    def begin(self) -> None:
        """Start every rank; raises OSError for what is this machine's fault."""
        self.launch = read(f"{self.folder}/launch.json")
        if os.path.exists(self.stop):
            self.error = "stopped before it began"
            return
        disk = os.statvfs(f"{self.folder}/logs")
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < SMALLEST_DISK:
            raise OSError(errno.ENOSPC, "the disk is full", f"{self.folder}/logs")
        logs = [self.log(rank["rank"]) for rank in self.launch["ranks"]]
        crash_point("logs opened")
        shim, started_s, errors = os.getpid(), time.time(), []
        self.launch["env"]["ROTA_STARTED_S"] = f"{started_s:.6f}"
        for rank, log in zip(self.launch["ranks"], logs, strict=True):
            error, theirs = os.pipe2(os.O_CLOEXEC)
            pid = os.fork()
            if not pid:
                become(self.launch, rank, log, theirs, self.group, shim)
            os.close(theirs)
            self.group = self.group or pid
            quietly(os.setpgid, pid, self.group)  # it does so as well: whoever comes first is right
            self.pids[pid] = rank["rank"]
            errors.append((rank["rank"], log, error))
            crash_point("rank started")
        crash_point("ranks started")
        ranks = [{"rank": rank, **identity(pid)} for pid, rank in self.pids.items()]
        for number, log, error in errors:
            self.check(number, log, error)
        self.room.fill({"started_s": started_s, "pgid": self.group, "ranks": ranks})
        crash_point("ranks written")
        tell(self.pipe, b"R")

    def log(self, rank: int) -> int:
        """The log of a rank, open for appending and the job's user's own."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        path = f"{self.folder}/logs/rank-{rank}.log"
        fd = os.open(path, flags, 0o640)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:  # a trap that its user has set
            raise OSError(errno.EPERM, "no file of its own", path)
        if self.launch["user"]:
            os.fchown(fd, self.launch["user"]["uid"], self.launch["user"]["gid"])
        return fd

    def check(self, rank: int, log: int, pipe: int) -> None:
        """Whether the rank's command began; if not, say in its log and in the record what was wrong."""
        with open(pipe, "rb") as stream:
            said = stream.read()
        if said:
            step, number = said.decode().split()
            code, sentence = blame(self.launch, step, int(number))
            os.write(log, f"rota: {sentence}\n".encode())
            self.error = self.error or sentence
            self.infrastructure |= not code
        os.close(log)

    def watch(self) -> None:
        """Until every rank has ended: one that fails takes the others along."""
        terminate_s = kill_s = float("inf")
        while self.pids:
            self.sleep(min(terminate_s, kill_s) - time.monotonic())
            now, grace_s = time.monotonic(), self.launch["grace_s"]
            ended = [end for end in self.reap() if not os.path.exists(self.stop)]
            if any(end["code"] == LEAVING for end in ended):  # the others are about to leave as well
                terminate_s = min(terminate_s, now + grace_s)
            if any(end["code"] not in (0, LEAVING) for end in ended):
                terminate_s = min(terminate_s, now)
            if now >= terminate_s and self.pids:
                quietly(os.killpg, self.group, signal.SIGTERM)
                quietly(os.killpg, self.group, signal.SIGCONT)
                terminate_s, kill_s = float("inf"), min(kill_s, now + grace_s)
            if now >= kill_s:
                self.kill()
                kill_s = now + 0.1  # again, for those that were born meanwhile

    def sleep(self, wait_s: float) -> None:
        """Until a child ends, or for `wait_s`."""
        poll = select.poll()
        poll.register(self.wake[0], select.POLLIN)
        if poll.poll(None if wait_s == float("inf") else 1000 * max(0.0, wait_s) + 1):
            os.read(self.wake[0], 4096)

    def reap(self) -> list[Json]:
        """The ranks that have ended since; orphans are buried without a word."""
        ended: dict[int, Json] = {}
        for pid, status in iter(reap_one, None):
            if pid not in self.pids:
                continue
            rank, code = self.pids.pop(pid), os.waitstatus_to_exitcode(status)
            ended[rank] = {
                "rank": rank,
                "code": code if code >= 0 else None,
                "signal": -code if code < 0 else None,
                "ended_s": time.time(),
            }
        self.ends |= ended
        if self.first is None:
            failed = (rank for rank, end in ended.items() if end["code"] not in (0, LEAVING))
            self.first = min(failed, default=None)
        return list(ended.values())

    def clear(self) -> None:
        """The ranks are gone; what they left behind goes as well, and has the time a stop grants it."""
        plan, now = read(self.stop) if os.path.exists(self.stop) else {}, time.monotonic()
        until_s = now + ORPHAN_S
        if plan and plan["terminate_s"] <= now:  # they have had their SIGTERM
            until_s = plan["kill_s"]
        else:
            for pid in descendants(os.getpid()) if has_children() else ():
                quietly(os.kill, pid, signal.SIGTERM)
                quietly(os.kill, pid, signal.SIGCONT)
        while has_children() and descendants(os.getpid()):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                self.kill()
            self.sleep(min(max(left_s, 0.1), 1.0))
            self.reap()

    def kill(self) -> None:
        """SIGKILL to everything that descends from us."""
        for pid in descendants(os.getpid()):
            quietly(os.kill, pid, signal.SIGKILL)


def become(launch: Json, rank: Json, log: int, pipe: int, group: int, shim: int) -> None:
    """In the child: turn into the rank, or tell the pipe `STEP ERRNO` and die."""
    step = "prepare"
    try:
        os.setpgid(0, group)
        for path, text in (*((path, "0") for path in launch["cgroups"]), OOM_SCORE):
            try:
                with open(path, "w") as stream:
                    stream.write(text)
            except OSError:  # a help where the machine allows it, never needed
                continue
        for target, source in enumerate((os.open(os.devnull, os.O_RDONLY), log, log)):
            os.dup2(source, target)
        if rank["cores"]:
            os.sched_setaffinity(0, rank["cores"])
        if user := launch["user"]:
            os.setgroups(user["groups"])
            os.setresgid(user["gid"], user["gid"], user["gid"])
            os.setresuid(user["uid"], user["uid"], user["uid"])
        for number in (*DEAF, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # a change of user would forget it
        if os.getppid() != shim:
            os._exit(1)  # it died before we could ask to die with it
        step = "workdir"
        os.chdir(launch["workdir"])
        step = "command"
        os.execvpe(launch["command"][0], launch["command"], {**launch["env"], **rank["env"]})
    except BaseException as error:
        why = getattr(error, "errno", None) or errno.EINVAL
        os.write(pipe, f"{step} {why}".encode())
        os._exit(127 if step == "command" and why == errno.ENOENT else 126)


def blame(launch: Json, step: str, number: int) -> tuple[bool, str]:
    """Whether the user is to blame that a rank did not begin, and one sentence about it."""
    name, workdir, why = launch["command"][0], launch["workdir"], os.strerror(number)
    if step == "prepare":
        return False, f"this machine could not prepare the process: {why}"
    if step == "workdir":
        return True, f"the working folder {workdir!r} cannot be entered on this machine: {why}"
    missing = f"there is no file {name!r} to run (working folder {workdir!r})"
    if "/" not in name:
        missing = f"there is no command {name!r} in PATH={launch['env'].get('PATH', os.defpath)}"
    elif os.path.exists(os.path.join(workdir, name)):
        missing = f"the interpreter that the first line of {name!r} names is not on this machine"
    sentences = {
        errno.ENOENT: missing,
        errno.EACCES: f"{name!r} may not be executed; `chmod +x` it, or put its interpreter before it",
        errno.ENOEXEC: f"{name!r} is no program and has no `#!` line; put its interpreter before it",
    }
    return True, sentences.get(number, f"{name!r} cannot be run: {why}")


def reap_one() -> tuple[int, int] | None:
    """One child that has ended, with its status."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def has_children() -> bool:
    """Whether anything is below us: orphans of ours are ours, so without a child there is nobody."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants(root: int) -> list[int]:
    """Every living process below `root`; orphans of ours are ours again (sub-reaper)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_of(int(name))
            if fields and (fields[0] not in "ZX" or int(fields[17]) > 1):  # a dead leader's threads live
                children.setdefault(int(fields[1]), []).append(int(name))
    pids = children.get(root, [])[:]
    for pid in pids:  # grows while we walk
        pids += children.get(pid, [])
    return pids


def stat_of(pid: int) -> list[str]:
    """/proc/PID/stat from the state on; [] if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 2 :].split()


def identity(pid: int) -> Json:
    """pid, start time and boot: what names a process for good."""
    fields = stat_of(pid)
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        boot = stream.read().strip()
    return {"pid": pid, "started": int(fields[19]) if fields else 0, "boot": boot}


def quietly(call: Any, one: int, other: int) -> None:
    """For processes that may be gone already, or have become another user's (`sudo`)."""
    try:
        call(one, other)
    except (ProcessLookupError, PermissionError):
        return


def oom_kills() -> int:
    """How often this machine has killed a process for memory since it started."""
    with open("/proc/vmstat", encoding="ascii") as stream:
        return next((int(line.split()[1]) for line in stream if line.startswith("oom_kill ")), 0)


def read(path: str) -> Json:
    """A JSON file."""
    with open(path, encoding="utf-8") as stream:
        return dict(json.load(stream))


def tell(pipe: int, what: bytes) -> None:
    """Say something to an agent that may be dead."""
    try:
        os.write(pipe, what)
    except BrokenPipeError:
        return


if __name__ == "__main__":
    fd = int(sys.argv[2]) if len(sys.argv) > 2 else os.open(os.devnull, os.O_WRONLY)
    os.set_inheritable(fd, False)
    os._exit(main(os.path.abspath(sys.argv[1]), fd))
