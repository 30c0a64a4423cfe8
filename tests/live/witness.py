"""Jobs that leave evidence: python witness.py FOLDER plain|cooperative STEPS STEP_S

With 0 steps it goes on until there is a file FOLDER/go.

Each job has one file, FOLDER/JOB.txt, to which its attempts append one line at a time: `START attempt pid`,
`END attempt`; `TWICE attempt` if another attempt of the same job runs beside this one, which a lock tells for
certain; `AGAIN attempt` if an earlier attempt had come to its end and nobody knew; and `SHARED attempt` if
somebody who works had one of its slots while it worked.  Ranks but the first have FOLDER/JOB.rank-RANK.txt.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_S = 5.0
"""Who looks whether a lock is taken holds it for a moment."""
LOOKS, LOOK_S, GAP_S = 3, 0.02, 0.2
"""Seen so often in a row, a slot is shared; a look that took longer was interrupted, and says nothing."""


def main() -> None:
    folder, kind, steps, step_s = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    job, attempt, rank = os.environ["ROTA_JOB_ID"], os.environ["ROTA_ATTEMPT"], os.environ["RANK"]
    path = folder / (f"{job}.txt" if rank == "0" else f"{job}.rank-{rank}.txt")
    evidence = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def say(word: str, more: str = "") -> None:
        os.write(evidence, f"{word} {attempt}{more}\n".encode())

    if not is_alone(folder, job, attempt, rank):
        say("TWICE")
        sys.exit(3)
    say("START", f" {os.getpid()}")
    slots = Slots(folder)
    if kind == "plain":
        done = 0
        while goes_on(folder, steps, done):
            with slots.used():
                time.sleep(step_s)
            done += 1
    else:
        train(folder, steps, step_s, slots)
    if slots.shared:
        say("SHARED", f" {slots.shared}")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # who has said that it has ended does end, but for kill -9
    ended = any(line.startswith("END") for line in path.read_text().splitlines())
    say("AGAIN" if ended else "END")


def is_alone(folder: Path, job: str, attempt: str, rank: str) -> bool:
    """Whether no process of another attempt lives, nor another one of this rank; from now on it is known as
    alive."""
    mine = folder / f"{job}.{attempt}.{rank}.lock"
    lock, end_s = os.open(mine, os.O_RDWR | os.O_CREAT, 0o666), time.monotonic() + LOCK_S
    while not taken(lock, fcntl.LOCK_EX):
        if time.monotonic() > end_s:
            return False
        time.sleep(LOOK_S)
    others = (path for path in folder.glob(f"{job}.*.lock") if path.name.split(".")[1] != attempt)
    return all(is_free(path) for path in others)


def is_free(path: Path) -> bool:
    """Whether nobody holds this lock."""
    lock = os.open(path, os.O_RDWR)
    try:
        return taken(lock, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def taken(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Slots:
    """The cores of this rank's slots: nobody else works on them while it does.

    Where FOLDER/slots says that no two slots share a core, whoever works on one holds the lock of a file of
    its own in the core's folder.  (The environment says where it began; a suspended one may go on elsewhere.)
    """

    def __init__(self, folder: Path) -> None:
        node = os.environ["ROTA_NODES"].splitlines()[int(os.environ["ROTA_NODE_RANK"])]
        self.shared = ""
        """The first core on which somebody was met, and who."""
        self._prefix = folder / f"core-{node}-"
        self._is_told = (folder / "slots").exists()
        self._locks: dict[int, int] = {}

    @contextmanager
    def used(self) -> Iterator[None]:
        """For one step."""
        cores = os.sched_getaffinity(0) if self._is_told else set()
        for core in cores:
            self._enter(core)
        try:
            yield
        finally:
            for core in cores:
                fcntl.flock(self._locks[core], fcntl.LOCK_UN)

    def _enter(self, core: int) -> None:
        folder = Path(f"{self._prefix}{core}")
        mine = folder / str(os.getpid())
        if core not in self._locks:
            folder.mkdir(exist_ok=True)
            self._locks[core] = os.open(mine, os.O_RDWR | os.O_CREAT, 0o666)
        end_s = time.monotonic() + LOCK_S
        while not taken(self._locks[core], fcntl.LOCK_EX) and time.monotonic() < end_s:
            time.sleep(LOOK_S)
        for other in folder.iterdir():
            if other != mine and meets(other, core):
                self.shared = self.shared or f"{folder.name} with process {other.name}"


def meets(other: Path, core: int) -> bool:
    """Whether the process of this file works on the core for as long as we look at it without a break."""
    looks = 0
    while looks < LOOKS:
        began_s = time.monotonic()
        if not works(other.name, core) or is_free(other):
            return False
        time.sleep(LOOK_S)
        looks = looks + 1 if time.monotonic() - began_s < GAP_S else 0
    return True


def works(pid: str, core: int) -> bool:
    """Whether a process is neither stopped nor gone, nor elsewhere.

    One that was sent SIGSTOP or SIGKILL does nothing more, though a busy kernel may take a second to show it.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        told = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        pending = int(told["SigPnd"][0], 16) | int(told["ShdPnd"][0], 16)
        is_sent_away = any(pending >> (number - 1) & 1 for number in (signal.SIGSTOP, signal.SIGKILL))
        return told["State"][0] not in "TtZX" and not is_sent_away and core in os.sched_getaffinity(int(pid))
    except OSError:
        return False


def goes_on(folder: Path, steps: int, done: int) -> bool:
    return done < steps if steps else not (folder / "go").exists()


def train(folder: Path, steps: int, step_s: float, slots: Slots) -> None:
    """A loop that can be suspended, sent away and restored."""
    import rota.training as rota

    job = rota.attach(state={"loss": 1.0}, batch_size=4, checkpoint_every_s=0.5)
    for done in job.steps(steps or 10**9):
        if not goes_on(folder, steps, done):
            job.finish()
            break
        with slots.used():
            time.sleep(step_s)
        job.step(loss=1.0, samples=4)


if __name__ == "__main__":
    main()
