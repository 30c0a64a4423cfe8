"""The shim: one process that runs one attempt to its end, independently of agent and controller.

    python -I -S shim.py FOLDER [FD]

Takes the lock of FOLDER, starts the ranks in `launch.json`, waits for all their processes, and writes
`exit.json`.  FD is a pipe to the agent: `L` once the lock is held, `R` once the ranks run, `W` if the record
has to wait for its file system, `E` once it is written.  No command starts without the lock, nor twice in one
folder.  Ranks die with the shim (parent-death signal); orphans become its children.  `exit.json` appears when
no process is left, in space reserved at the start: a full disk cannot lose it, a read-only one delays it.
An attempt that fences itself is killed when the controller has been silent for too long, as the agent's file
`contact` records; also if the agent is dead or frozen.
The shim ignores SIGTERM, SIGINT and SIGHUP.  It uses the standard library only, because it outlives upgrades.
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
import termios
import time
import warnings  # noqa: F401  exec by PATH imports it, when the user may no longer read the library

TYPE_CHECKING = False  # `typing` would take longer to load than all the rest
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

TAKEN = 75  # exit code: another process runs or has run this attempt
NO_ROOM = 74  # exit code: no space could be reserved for the exit record
LEAVING = 85  # exit code of a rank: checkpoint written, run again
LOCK_TRIES = 10  # an agent that checks the lock holds it for a moment
ROOM = 1 << 16  # bytes reserved for a record: about a hundred ranks
FENCED_AT, LATEST_S = 0.9, 5.0  # as in `rota.engines.shared.silence`
SILENT = "the controller was silent for too long, and the job fences itself"
REFUSED_S, REFUSED_MOST_S = 0.1, 0.8  # seconds until the write of a record is tried again
ORPHAN_S = 2.0  # between SIGTERM and SIGKILL for processes that the ranks left behind
AHEAD_S = time.time() - time.monotonic()  # seconds that the wall clock is ahead of the monotonic clock
SMALLEST_DISK = 1 << 20  # bytes; on a smaller disk a log could not even hold the error
OOM_SCORE = ("/proc/self/oom_score_adj", "300")  # without memory a rank dies, not the shim or the agent
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
DEAF = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PIECE, MOST_TAIL = 1 << 16, 1 << 16  # bytes: most per read; most kept of the end when a file is full
MOST_RECENT, MOST_SAID = 1 << 15, 1 << 14  # bytes of a terminal: kept for viewers; most in a message
VIEWER_S, LAST_WORDS_S = 10.0, 2.0  # until a viewer that reads nothing is dropped; at the end of the job
libc = ctypes.CDLL(None, use_errno=True)


def crash_point(name: str) -> None:
    """Exit here if a test asks for it."""
    if os.environ.get("ROTA_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, pipe: int) -> int:
    """Take the lock, then continue in a process with a session of its own, independent of the agent."""
    for number in DEAF:
        signal.signal(number, signal.SIG_IGN)
    crash_point("shim started")
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not take(lock) or any(os.path.exists(f"{folder}/{name}") for name in ("exit.json", "shim.json")):
        return TAKEN
    crash_point("lock taken")
    try:
        own, ranks, record = (ReservedFile(f"{folder}/{name}.json") for name in ("shim", "ranks", "exit"))
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
    record.insist(end, pipe)
    crash_point("exit renamed")
    tell(pipe, b"E")  # before the disk has it: if the controller has recorded the end, that is enough
    record.keep()
    return 0


def take(lock: int) -> bool:
    """Take the lock, unless another process holds it."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.02)
    return False


class ReservedFile:
    """A file whose space is reserved before it is needed and that appears complete once it is filled."""

    def __init__(self, path: str) -> None:
        """Raises OSError if the disk is full."""
        self.path, self.partial = path, f"{os.path.dirname(path)}/.{os.path.basename(path)}.room"
        self.fd = os.open(self.partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self.fd, 0, ROOM)

    def fill(self, value: Json) -> None:
        """Write the value and give the file its name."""
        data = json.dumps(value).encode()
        os.ftruncate(self.fd, os.pwrite(self.fd, data, 0))
        crash_point(f"{os.path.basename(self.path)} unnamed")
        os.rename(self.partial, self.path)

    def insist(self, value: Json, pipe: int) -> None:
        """Fill the file, waiting as long as its file system is read-only or away.

        An attempt that has ended must not be taken for lost. Raises OSError only if the folder is gone.
        """
        wait_s = REFUSED_S
        while True:
            try:
                return self.fill(value)
            except (FileNotFoundError, NotADirectoryError):
                raise
            except OSError:
                if wait_s == REFUSED_S:
                    tell(pipe, b"W")
                time.sleep(wait_s)
            wait_s = min(2 * wait_s, REFUSED_MOST_S)
            self.open_again()

    def open_again(self) -> None:
        """Open the file again, since its file system may have been mounted again."""
        try:
            fd = os.open(self.partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        os.close(self.fd)
        self.fd = fd

    def keep(self) -> None:
        """Flush the contents and the name to disk, so that they survive a power cut."""
        os.fsync(self.fd)
        os.fsync(os.open(os.path.dirname(self.path), os.O_RDONLY))


class AttemptKeeper:
    """Starts the ranks of one attempt and waits for their end."""

    def __init__(self, folder: str, pipe: int, room: ReservedFile) -> None:
        self.folder, self.pipe, self.room = folder, pipe, room
        self.stop = f"{folder}/stop.json"  # the agent's plan to stop the attempt, if there is one
        self.launch: Json = {}
        self.pids: dict[int, int] = {}  # pid -> rank, of those that still run
        self.ends: dict[int, Json] = {}  # rank -> how it ended
        self.group = 0
        self.first: int | None = None  # the rank that failed first
        self.error, self.infrastructure = "", False  # why it could not start; is the machine at fault
        self.pumps: dict[int, list[Sink]] = {}  # pipe of a rank -> files for its output
        self.files: dict[str, Sink] = {}
        self.done: list[list[Sink]] = []
        self.terminal: Terminal | None = None  # of the first rank, if the job has one
        self.oom_kills = oom_kills()
        self.wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake[1], warn_on_full_buffer=False)

    def run(self) -> Json:
        """Run the attempt from start to end; returns its record."""
        try:
            self.begin()
        except OSError as error:  # a fault of this machine: no part of the attempt may run on
            what = f"{error.filename}: " if error.filename else ""
            self.error, self.infrastructure = (
                f"the attempt could not be started: {what}{error.strerror}",
                True,
            )
            self.kill()
        self.watch()
        self.clear()
        self.drain()
        return {
            "version": 1,
            "ended_s": unix_s(),
            "steady_s": time.monotonic(),
            "ranks": [self.ends[rank] for rank in sorted(self.ends)],
            "first": self.first,
            "error": self.error,
            "infrastructure": self.infrastructure,
            "oom_kills": oom_kills() - self.oom_kills,
        }

    def begin(self) -> None:
        """Start every rank; raises OSError for faults of this machine."""
        self.launch = read(f"{self.folder}/launch.json")
        if os.path.exists(self.stop):
            self.error = "stopped before it began"
            return
        disk = os.statvfs(f"{self.folder}/logs")
        if disk.f_blocks and disk.f_bavail * disk.f_frsize < SMALLEST_DISK:
            raise OSError(errno.ENOSPC, "the disk is full", f"{self.folder}/logs")
        logs = [self.log(rank["rank"]) for rank in self.launch["ranks"]]
        ends = [self.connect(rank, log) for rank, log in zip(self.launch["ranks"], logs, strict=True)]
        if self.error:
            return
        crash_point("logs opened")
        shim, started_s, errors = os.getpid(), unix_s(), []
        self.launch["env"]["ROTA_STARTED_S"] = f"{started_s:.6f}"
        for rank, log, (out, err) in zip(self.launch["ranks"], logs, ends, strict=True):
            error, theirs = os.pipe2(os.O_CLOEXEC)
            pid = os.fork()
            if not pid:
                become(self.launch, rank, (out, err), theirs, self.group, shim)
            for end in {theirs, *({out, err} if self.terminal is None else ())} - {log}:
                os.close(end)  # a terminal stays open: a program that closes its own would get SIGHUP
            self.group = self.group or pid
            if self.terminal is None:
                quietly(os.setpgid, pid, self.group)  # the child does so as well, whichever is first
            self.pids[pid] = rank["rank"]
            errors.append((rank["rank"], log, error))
            crash_point("rank started")
        crash_point("ranks started")
        ranks = [{"rank": rank, **identity(pid)} for pid, rank in self.pids.items()]
        for number, log, error in errors:
            self.check(number, log, error)
        steady_s = started_s - AHEAD_S
        self.room.fill({"started_s": started_s, "steady_s": steady_s, "pgid": self.group, "ranks": ranks})
        crash_point("ranks written")
        tell(self.pipe, b"R")

    def log(self, rank: int) -> int:
        """Open a rank's log for appending; it belongs to the job's user."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        path = f"{self.folder}/logs/rank-{rank}.log"
        fd = os.open(path, flags, 0o640)
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:  # replaced by its user
            raise OSError(errno.EPERM, "no file of its own", path)
        if self.launch["user"]:
            os.fchown(fd, self.launch["user"]["uid"], self.launch["user"]["gid"])
        return fd

    def check(self, rank: int, log: int, pipe: int) -> None:
        """Check whether the rank's command started; if not, write the cause to its log and the record."""
        with open(pipe, "rb") as stream:
            said = stream.read()
        if said:
            step, number = said.decode().split()
            code, sentence = blame(self.launch, step, int(number))
            os.write(log, f"rota: {sentence}\n".encode())
            self.error = self.error or sentence
            self.infrastructure |= not code
        if not self.pumps:
            os.close(log)

    def connect(self, rank: Json, log: int) -> tuple[int, int]:
        """Output and error of a rank: its log, or pipes that we read."""
        most, output = self.launch.get("log_limit", 0), rank.get("output", "")
        error, has_terminal = rank.get("error", "") or output, self.launch.get("terminal", False)
        if not (most or output or error or has_terminal) or self.error:
            return log, log
        kept, ends = Sink(log, most), []
        for path in [output] if has_terminal else dict.fromkeys((output, error)):
            try:
                sinks = [kept, self.theirs(path)] if path else [kept]
            except OSError as problem:
                reasons = {errno.ELOOP: "it is a link", errno.EINVAL: "it is no ordinary file"}
                reasons[errno.ENXIO] = reasons[errno.EINVAL]  # a pipe without a reader
                why = reasons.get(problem.errno or 0, problem.strerror)
                self.error = f"the output file {path!r} cannot be written on this machine: {why}"
                os.write(log, f"rota: {self.error}\n".encode())
                used = {"cpu_s": 0.0, "peak_bytes": 0}
                end = {"rank": rank["rank"], "code": 126, "signal": None, "ended_s": unix_s(), **used}
                self.ends[rank["rank"]], self.first = end, rank["rank"]
                return log, log
            if has_terminal:
                self.terminal = Terminal(self.folder, self.launch["user"])
                mine, their = self.terminal.fd, self.terminal.theirs
            else:
                mine, their = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(mine, False)
            self.pumps[mine] = sinks
            ends.append(their)
        return ends[0], ends[-1]

    def theirs(self, path: str) -> Sink:
        """The sink for a file of the user's choice; ranks that name the same file share it."""
        if path not in self.files:
            file, most = open_as(self.launch["user"], path), self.launch.get("output_limit", 0)
            self.files[path] = Sink(file, most, f"the output file {path!r}")
        return self.files[path]

    def pump(self, fd: int) -> bool:
        """Copy the data available now; False once there will be no more."""
        try:
            piece = os.read(fd, PIECE)
        except BlockingIOError:
            return True
        except OSError:  # of a terminal: no process has its other end open any more
            piece = b""
        for sink in self.pumps[fd]:
            sink.put(piece)
        if self.terminal is not None:
            self.terminal.show(piece)
        if not piece:
            os.close(fd)
            if self.terminal is not None:
                self.terminal.fd, self.terminal.typed = -1, b""
            self.done.append(self.pumps.pop(fd))
        return bool(piece)

    def drain(self) -> None:
        """Copy the last output after all processes have ended."""
        for fd in list(self.pumps):
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            while poll.poll(0) and self.pump(fd):
                if self.terminal is not None:
                    self.terminal.last_words()
        if self.terminal is not None:
            self.terminal.last_words()
        pairs = [*self.done, *self.pumps.values()]
        for sink in (sink for sinks in pairs for sink in sinks):
            sink.finish()  # harmless if repeated
        for sinks in pairs:
            for sink in sinks:
                sink.tell_lost(sinks[0])

    def watch(self) -> None:
        """Wait until every rank has ended; when one fails, stop the others."""
        terminate_s = kill_s = float("inf")
        while self.pids:
            self.sleep(min(min(terminate_s, kill_s) - time.monotonic(), self.fenced_in_s()))
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
            if self.pids and self.fenced_in_s() <= 0:
                self.error, self.infrastructure, self.launch["contact"] = self.error or SILENT, True, ""
                kill_s = now
            if now >= kill_s:
                self.kill()
                kill_s = now + 0.1  # repeat for processes born meanwhile

    def fenced_in_s(self) -> float:
        """Seconds it may run on if its agent hears nothing more; infinite if it does not fence itself."""
        if not (path := self.launch.get("contact", "")):
            return float("inf")
        try:
            with open(path, encoding="ascii") as stream:
                last_s, lost_after_s = map(float, stream.read().split()[:2])
        except (OSError, ValueError):  # the controller has not been heard yet
            return float("inf")
        left_s = last_s + max(FENCED_AT * lost_after_s, lost_after_s - LATEST_S)
        return left_s - time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, wait_s: float) -> None:
        """Sleep until a child ends, or for `wait_s`; copy output of the ranks meanwhile."""
        poll, shown = select.poll(), self.terminal
        for fd in (self.wake[0], *self.pumps):
            poll.register(fd, select.POLLIN)
        if shown is not None:
            shown.ask(poll)
            wait_s = min(wait_s, VIEWER_S if shown.unseen else wait_s)
        for fd, events in poll.poll(None if wait_s == float("inf") else 1000 * max(0.0, wait_s) + 1):
            if shown is not None and fd == shown.fd and events & select.POLLOUT:
                shown.type_on()
            if fd in self.pumps:
                if events & ~select.POLLOUT:
                    self.pump(fd)
            elif fd == self.wake[0]:
                os.read(fd, 4096)
            elif shown is not None:
                shown.tend(fd)
        if shown is not None:
            shown.show_on()

    def reap(self) -> list[Json]:
        """Ends of the ranks since the last call; orphans are reaped and not reported."""
        ended: dict[int, Json] = {}
        for pid, status, used in iter(reap_one, None):
            if pid not in self.pids:
                continue
            rank, code = self.pids.pop(pid), os.waitstatus_to_exitcode(status)
            ended[rank] = {
                "rank": rank,
                "code": code if code >= 0 else None,
                "signal": -code if code < 0 else None,
                "ended_s": unix_s(),
                "cpu_s": used.ru_utime + used.ru_stime,
                "peak_bytes": 1024 * used.ru_maxrss,
            }
        self.ends |= ended
        if self.first is None:
            failed = (rank for rank, end in ended.items() if end["code"] not in (0, LEAVING))
            self.first = min(failed, default=None)
        return list(ended.values())

    def clear(self) -> None:
        """Stop what the ranks left behind, within the time that a stop grants."""
        plan, now = read(self.stop) if os.path.exists(self.stop) else {}, time.monotonic()
        until_s = now + ORPHAN_S
        if plan and plan["terminate_s"] <= now:  # they have had SIGTERM
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
        """Send SIGKILL to all our descendants."""
        for pid in descendants(os.getpid()):
            quietly(os.kill, pid, signal.SIGKILL)


class Sink:
    """A file for output of ranks; of more than its limit it keeps the beginning and the end."""

    def __init__(self, fd: int, limit: int, name: str = "this log") -> None:
        self.fd, self.limit, self.name, self.dropped, self.tail = fd, limit, name, 0, b""
        self.lost, self.why = 0, ""
        self.tail_size = min(limit // 4, MOST_TAIL)
        self.room = max(0, limit - self.tail_size - os.fstat(fd).st_size) if limit else None

    def put(self, data: bytes) -> None:
        """Take the next piece of output."""
        head = data if self.room is None else data[: self.room]
        self.write(head)
        if self.room is not None:
            self.room -= len(head)
            self.dropped += len(data) - len(head)
            self.tail = (self.tail + data[len(head) :])[-self.tail_size :] if self.tail_size else b""

    def write(self, data: bytes) -> None:
        """Write as much as the disk takes; if it is full, the program still runs on."""
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError as problem:
            self.lost, self.why = self.lost + len(data), str(problem.strerror)

    def finish(self) -> None:
        """After the last output: write how much is missing, and the end of it."""
        missing = self.dropped - len(self.tail)
        if missing > 0:
            said = f"\nrota: {missing} bytes are left out here: this file may have {self.limit}\n"
            self.write(said.encode())
        self.write(self.tail)
        self.tail, self.dropped = b"", 0

    def tell_lost(self, log: Sink) -> None:
        """Write into the rank's log how much this file did not take."""
        lost, self.lost = self.lost, 0
        if lost:
            log.write(f"\nrota: {lost} bytes of {self.name} could not be written: {self.why}\n".encode())


class Terminal:
    """The pseudo-terminal of a job's first rank, and its viewer; `terminal.h` describes their protocol."""

    def __init__(self, folder: str, user: Json | None) -> None:
        import socket  # imported here, since few jobs need it

        self.recent, self.typed, self.unseen, self.printed = b"", b"", b"", 0
        self.viewer: Any = None
        self.is_placed = False  # the viewer has given its place and got an answer: output may follow
        self.taken_s = 0.0  # when the viewer last read something
        self.fd, self.theirs = os.openpty()
        os.set_blocking(self.fd, False)
        os.fchmod(self.theirs, 0o600)
        if user:
            os.fchown(self.theirs, user["uid"], -1)
        mode = termios.tcgetattr(self.theirs)
        mode[0] |= 0o40000  # IUTF8, which Python does not name
        termios.tcsetattr(self.theirs, termios.TCSANOW, mode)
        termios.tcsetwinsize(self.theirs, (24, 80))
        above = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.setblocking(False)
        mask = os.umask(0o177)  # for us alone, even if the job's user may enter the folder
        try:
            self.listener.bind(f"/proc/self/fd/{above}/terminal.sock")
            self.listener.listen(4)
        finally:
            os.umask(mask)
            os.close(above)

    def ask(self, poll: select.poll) -> None:
        """Register the events to wait for: the program and its viewer wait for each other."""
        events = (0 if self.unseen else select.POLLIN) | (select.POLLOUT if self.typed else 0)
        if self.fd >= 0 and events:
            poll.modify(self.fd, events)
        elif self.fd >= 0:
            poll.unregister(self.fd)
        poll.register(self.listener, select.POLLIN)
        if self.viewer is not None:
            inward = 0 if self.typed else select.POLLIN
            poll.register(self.viewer, inward | (select.POLLOUT if self.unseen else 0))

    def show(self, data: bytes) -> None:
        """Take output of the program."""
        self.recent, self.printed = (self.recent + data)[-MOST_RECENT:], self.printed + len(data)
        if self.is_placed:
            self.taken_s = self.taken_s if self.unseen else time.monotonic()
            self.unseen += data
            self.show_on()

    def show_on(self) -> None:
        """Send as much as the viewer takes; drop a viewer that takes nothing."""
        try:
            while self.viewer is not None and self.unseen:
                self.unseen = self.unseen[self.viewer.send(self.unseen[:MOST_SAID]) :]
                self.taken_s = time.monotonic()
        except (BlockingIOError, InterruptedError):
            if time.monotonic() - self.taken_s > VIEWER_S:
                self.drop()
        except OSError:
            self.drop()

    def drop(self) -> None:
        """Close the connection to the viewer."""
        if self.viewer is not None:
            self.viewer.close()
        self.viewer, self.unseen, self.typed, self.is_placed = None, b"", b"", False

    def tend(self, fd: int) -> None:
        """Handle a new viewer, or a message of the present one."""
        if fd == self.listener.fileno():
            try:
                newest, _ = self.listener.accept()
            except OSError:
                return
            self.drop()
            newest.setblocking(False)
            self.viewer = newest
        elif self.viewer is not None and fd == self.viewer.fileno():
            try:
                said = self.viewer.recv(MOST_SAID)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            self.hear(said[:1], said[1:])

    def hear(self, what: bytes, said: bytes) -> None:
        """Handle data from the viewer; empty data if it has gone."""
        if not what:
            self.drop()
        elif what == b"V":
            start, place = self.printed - len(self.recent), int(said)
            place = place if start <= place <= self.printed else start
            self.unseen, self.taken_s = self.recent[place - start :], time.monotonic()
            try:
                self.viewer.send(b"%d" % place)
                self.is_placed = True
            except OSError:
                self.drop()
        elif what == b"W":
            rows, columns = map(int, said.split())
            if self.fd >= 0:
                termios.tcsetwinsize(self.fd, (rows, columns))
        elif what == b"D":
            self.typed = said
            self.type_on()

    def type_on(self) -> None:
        """Write as much input as the program's terminal takes."""
        try:
            self.typed = self.typed[os.write(self.fd, self.typed) :] if self.typed else b""
        except BlockingIOError:
            return
        except OSError:
            self.typed = b""

    def last_words(self) -> None:
        """Send the last output to a viewer at the end, unless that takes too long."""
        until_s = time.monotonic() + LAST_WORDS_S
        while self.viewer is not None and self.unseen and time.monotonic() < until_s:
            select.select((), (self.viewer,), (), 0.1)
            self.show_on()


def open_as(user: Json | None, path: str) -> int:
    """Open a file for appending as the job's user, never through a link at its end; raises OSError."""
    flags = (
        os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    )
    if user:
        os.setgroups(user["groups"])
        libc.setfsgid(user["gid"])
        libc.setfsuid(user["uid"])
    try:
        fd = os.open(path, flags, 0o644)
    finally:
        if user:
            libc.setfsuid(os.geteuid())
            libc.setfsgid(os.getegid())
            os.setgroups([])
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "no ordinary file", path)
    return fd


def become(launch: Json, rank: Json, ends: tuple[int, int], pipe: int, group: int, shim: int) -> None:
    """In the child: become the rank, or write `STEP ERRNO` to the pipe and exit."""
    step = "prepare"
    try:
        if has_terminal := launch.get("terminal", False):
            os.setsid()
            fcntl.ioctl(ends[0], termios.TIOCSCTTY, 0)
        else:
            os.setpgid(0, group)
        for path, text in (*((path, "0") for path in launch["cgroups"]), OOM_SCORE):
            try:
                with open(path, "w") as stream:
                    stream.write(text)
            except OSError:  # optional, not every machine allows it
                continue
        keys = ends[0] if has_terminal else os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((keys, *ends)):
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
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # a change of user would clear it
        if os.getppid() != shim:
            os._exit(1)  # the parent died before we could tie our life to it
        step = "workdir"
        os.chdir(launch["workdir"])
        step = "command"
        os.execvpe(launch["command"][0], launch["command"], {**launch["env"], **rank["env"]})
    except BaseException as error:
        why = getattr(error, "errno", None) or errno.EINVAL
        os.write(pipe, f"{step} {why}".encode())
        os._exit(127 if step == "command" and why == errno.ENOENT else 126)


def blame(launch: Json, step: str, number: int) -> tuple[bool, str]:
    """Whether the user is at fault that a rank did not start, and one sentence about the cause."""
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


def reap_one() -> tuple[int, int, Any] | None:
    """Reap one child that has ended; returns its status and the resources of it and its reaped children."""
    try:
        pid, status, used = os.wait4(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status, used) if pid else None


def has_children() -> bool:
    """Whether any process is below us; orphans become our children, so that no child means no process."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants(root: int) -> list[int]:
    """Every living process below `root`; orphans become our children (sub-reaper)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_of(int(name))
            if fields and (fields[0] not in "ZX" or int(fields[17]) > 1):  # a dead leader may have threads
                children.setdefault(int(fields[1]), []).append(int(name))
    pids = children.get(root, [])[:]
    for pid in pids:  # grows during the loop
        pids += children.get(pid, [])
    return pids


def stat_of(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; [] if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            text = stream.read()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text[text.rindex(")") + 2 :].split()


def identity(pid: int) -> Json:
    """Pid, start time and boot, which together identify a process for good."""
    fields = stat_of(pid)
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        boot = stream.read().strip()
    return {"pid": pid, "started": int(fields[19]) if fields else 0, "boot": boot}


def quietly(call: Any, one: int, other: int) -> None:
    """Call for a process that may have ended or belong to another user (`sudo`); ignore such errors."""
    try:
        call(one, other)
    except (ProcessLookupError, PermissionError):
        return


def unix_s() -> float:
    """Unix seconds, counted from the wall clock at our start; setting that clock later changes nothing."""
    return time.monotonic() + AHEAD_S


def oom_kills() -> int:
    """Number of processes that this machine has killed for memory since it booted."""
    with open("/proc/vmstat", encoding="ascii") as stream:
        return next((int(line.split()[1]) for line in stream if line.startswith("oom_kill ")), 0)


def read(path: str) -> Json:
    """Contents of a JSON file."""
    with open(path, encoding="utf-8") as stream:
        return dict(json.load(stream))


def tell(pipe: int, what: bytes) -> None:
    """Write to the pipe of an agent that may be dead."""
    try:
        os.write(pipe, what)
    except BrokenPipeError:
        return


if __name__ == "__main__":
    fd = int(sys.argv[2]) if len(sys.argv) > 2 else os.open(os.devnull, os.O_WRONLY)
    os.set_inheritable(fd, False)
    os._exit(main(os.path.abspath(sys.argv[1]), fd))
