"""The disk under ROTA_HOME: permissions, room, and the time of a synchronised write."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rota.cli.doctor.finding import FindingState, MachineFinding, MachinePlaces

GIB = float(2**30)
LEAST_GIB, LITTLE_GIB = 0.1, 5.0
WRITES, BLOCK = 12, 4096
SLOW_MS = 20.0
NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "lustre", "gpfs", "beegfs", "ceph"})
"""File systems where SQLite may not keep a write-ahead log."""
ELSEWHERE = "let ROTA_HOME name a folder on a local disk that you may write"


def home_folder(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Everything about the folder of the state and of the attempts."""
    place = nearest(machine.home)
    says = str(machine.home) if place == machine.home else f"{machine.home}, which `rota up` makes"
    if not place.is_dir():
        yield MachineFinding("folder", FindingState.BROKEN, f"{machine.home}: {place} is a file", ELSEWHERE)
        return
    try:
        with tempfile.TemporaryDirectory(prefix=".rota-doctor-", dir=place) as trial:
            yield MachineFinding("folder", FindingState.OK, says)
            yield _file_system(machine, place)
            yield from _abilities(Path(trial))
            yield _flush(Path(trial))
            yield _space(place)
    except OSError as error:
        why = f"{machine.home} cannot be written: {error.strerror}"
        yield MachineFinding("folder", FindingState.BROKEN, why, ELSEWHERE)


def nearest(folder: Path) -> Path:
    """The folder itself, or its nearest parent that exists."""
    folder = folder.absolute()
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    return folder


def _space(place: Path) -> MachineFinding:
    usage = shutil.disk_usage(place)
    free = usage.free / GIB
    facts = {"free_gib": round(free, 3), "total_gib": round(usage.total / GIB, 3)}
    says = f"{free:.1f} of {usage.total / GIB:.0f} GiB free"
    if free < LEAST_GIB:
        advice = "nothing can be put on record on a full disk; free some, or move ROTA_HOME"
        return MachineFinding("space", FindingState.BROKEN, says, advice, facts)
    if free < LITTLE_GIB:
        advice = "logs and checkpoints lie here: `keep_files`, `keep_checkpoints`, `caps: {kept_mib: …}`"
        return MachineFinding("space", FindingState.ADVICE, says, advice, facts)
    return MachineFinding("space", FindingState.OK, says, facts=facts)


def _file_system(machine: MachinePlaces, place: Path) -> MachineFinding:
    kind = file_system(machine, place)
    facts = {"type": kind}
    if not kind:
        return MachineFinding(
            "file system", FindingState.UNKNOWN, "the kernel does not say which", facts=facts
        )
    if kind in NETWORK:
        advice = f"SQLite is not safe over a network: {ELSEWHERE}, or `database_url` a PostgreSQL database"
        return MachineFinding("file system", FindingState.ADVICE, kind, advice, facts)
    if kind in ("tmpfs", "ramfs"):
        advice = f"the state is gone when the machine restarts: {ELSEWHERE}"
        return MachineFinding("file system", FindingState.ADVICE, kind, advice, facts)
    return MachineFinding("file system", FindingState.OK, kind, facts=facts)


def file_system(machine: MachinePlaces, place: Path) -> str:
    """Type of the file system that `place` lies on, as the kernel calls it; empty if it does not say."""
    try:
        text = (machine.proc / "self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    best, kind = -1, ""
    for line in text.splitlines():
        fields, dash, rest = line.partition(" - ")
        mount = Path(fields.split(" ")[4].replace("\\040", " ")) if dash else None
        if mount is not None and place.is_relative_to(mount) and len(mount.parts) >= best:
            best, kind = len(mount.parts), rest.split(" ")[0]
    return kind


def _abilities(trial: Path) -> Iterator[MachineFinding]:
    """Locks and sockets, which some file systems do not have."""
    failed = []
    with open(trial / "lock", "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            failed.append(f"locks ({error.strerror})")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        folder = os.open(trial, os.O_RDONLY)
        try:  # through the descriptor, since paths of sockets are short
            listener.bind(f"/proc/self/fd/{folder}/socket")
        except OSError as error:
            failed.append(f"sockets ({error.strerror})")
        finally:
            os.close(folder)
    if failed:
        yield MachineFinding(
            "locks and sockets", FindingState.BROKEN, f"there are no {' and no '.join(failed)}", ELSEWHERE
        )
    else:
        yield MachineFinding("locks and sockets", FindingState.OK, "both work")


def _flush(trial: Path) -> MachineFinding:
    took_ms = []
    with open(trial / "log", "wb", buffering=0) as file:
        for _ in range(WRITES):
            began_s = time.monotonic()
            file.write(b"\0" * BLOCK)
            os.fsync(file.fileno())
            took_ms.append(1000 * (time.monotonic() - began_s))
    median, most = statistics.median(took_ms), max(took_ms)
    facts = {"median_ms": round(median, 3), "most_ms": round(most, 3)}
    says = f"{median:.2g} ms (median of {WRITES}), {most:.2g} ms at most"
    if median > SLOW_MS:
        advice = "every submission and decision waits for one: a local SSD makes a cluster quicker"
        return MachineFinding("flush", FindingState.ADVICE, says, advice, facts)
    return MachineFinding("flush", FindingState.OK, says, facts=facts)
