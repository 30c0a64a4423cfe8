"""What a program and the agent of its machine say to each other: files in one folder (version 1).

    command          64 bytes, mapped by both sides: eight words of 64 bits, little-endian
                     0  sequence of the newest directive                          (agent)
                     1  stop step + 1, 0 while unknown                            (rank 0, or agent)
                     2  sequence that the stop step belongs to                    (rank 0, or agent)
                     3  words 1 and 2 in one check word, so that no reader takes half an agreement
                     4  verdict of the leading rank on a stop: 4 * sequence + 1, 2 or 3      (a rank)
                     5  step + 1 of the last checkpoint that rank 0 has done with         (rank 0)
                     6  number of the agreement that this node looks for in the torch store (ranks)
                     7  to word 4: sequence obeyed << 32 | samples of a step from now on (0: as before)
    directive.json   the newest directive, written before word 0 is raised       (agent)
    rank-R.json      what rank R last did, at most every 0.5 s and at every change of state

JSON files are replaced by rename, so a reader sees a whole one or none.  No side needs the other to be alive.
A step number is the count of steps done: a rank at step s has finished its s-th step.

The agent's side is `prepare`, `command`, `ranks` and `settle`; a rank's is `Page`, `read_directive` and
`write_rank`.  What ranks write is the user's and may be anything: readers give None instead of raising.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

VERSION = 1
LEAVE_CODE = 85
"""Exit code: checkpointed, run me again."""
VOID_CODE = 86
"""Exit code: this attempt is void (fenced or superseded) and stopped itself; its end counts for nothing."""

RUN, PAUSE, SUSPEND, RESUME = "run", "pause", "suspend", "resume"
LEAVE, CHECKPOINT, BATCH_SIZE = "leave", "checkpoint", "batch_size"
DIRECTIVES = (RUN, PAUSE, SUSPEND, RESUME, LEAVE, CHECKPOINT, BATCH_SIZE)
"""`run` and `resume` mean the same; `checkpoint` writes one and goes on."""

RUNNING, ANNOUNCED, PAUSED = "running", "announced", "paused"
SUSPENDED, LEAVING, FINISHED = "suspended", "leaving", "finished"
STATES = (RUNNING, ANNOUNCED, PAUSED, SUSPENDED, LEAVING, FINISHED)

REPORT_EVERY_S = 0.5
PAGE = "command"
DIRECTIVE = "directive.json"
VOID = "VOID"
"""A file of this name in a checkpoint folder: nothing may be published there any more."""

_WORDS = 8
_CHECK = 0x5A5A_A5A5_3C3C_C3C3
GO_ON, GO_AWAY, SAVE = 1, 2, 3
"""Verdicts of word 4; SAVE writes a checkpoint and goes on."""

if TYPE_CHECKING:
    Folder = str | Path


@dataclass(frozen=True)
class Directive:
    """What the agent asks of all ranks of its node; the newest one replaces those before."""

    do: str = RUN
    """One of `DIRECTIVES`."""
    sequence: int = 0
    reason: str = ""
    """For people, and for the program's own log: `preempted by job 12`."""
    deadline_s: float | None = None
    """Unix time.  Of a pause or suspension: leave by checkpoint if it is not over by then; without one the
    program waits for as long as it takes.  Of `leave`: when the signals come."""
    batch_size: float | None = None
    """Samples of one step over all workers; obeyed with every directive that names one."""
    workers: int | None = None
    """With `leave`: the next attempt has this many ranks.  For information."""
    version: int = VERSION


@dataclass
class RankState:
    """What one rank last said."""

    rank: int = 0
    pid: int = 0
    state: str = RUNNING
    """One of `STATES`.  Only `paused` (memory stays), `suspended` and an exited process have stopped."""
    step: int = 0
    samples: float = 0.0
    """Samples this rank has reported, earlier attempts included as far as a checkpoint carried them."""
    loss: float | None = None
    step_s: float | None = None
    """Mean seconds of a step since the report before, pauses left out."""
    batch_size: float | None = None
    """Samples of one step over all workers, if the program has told."""
    sequence: int = 0
    """Sequence of the last directive obeyed."""
    announced: int = 0
    """Sequence announced for an agreement through the agent; valid while `state` is `announced`."""
    at_step: int = 0
    """Step at which `state` was entered."""
    checkpoint_step: int | None = None
    """Step of the newest complete checkpoint that this attempt has restored or written."""
    checkpoint_error: str = ""
    """Why the last checkpoint was not written; empty if it was."""
    total_steps: int | None = None
    gradient_noise: float | None = None
    """Simple noise scale, in samples; see `rota.training.statistics`."""
    gradient_s: float | None = None
    """Seconds of one pass, forward and backward, without waiting for other ranks."""
    local_most: float | None = None
    """Most samples that a rank bears in one pass, as the program has said."""
    capability: dict[str, Any] = field(default_factory=dict)
    """`protocol`, `agreement` (`alone`, `rank 0`, `store`, `agent`), `checkpoint`, `resize`, `batch_size`,
    `to_host` (device state can go to host memory)."""
    costs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """kind -> (seconds, bytes) of the last `suspend`, `resume`, `checkpoint`, `restore`, `leave`; of `ready`:
    from the start of the rank's command to the end of the first step here (that step included)."""
    residual_bytes: float = 0.0
    """Device memory a suspended rank still holds, as far as torch knows."""
    suspended_bytes: float = 0.0
    """Host memory that a suspended rank holds for its device state."""
    at_s: float = 0.0
    version: int = VERSION


class FileWords:
    """The words of a page, read and written through the file.

    For the agent: a mapping of a file that its job cuts short would end whoever looks at it; here that is an
    OSError.
    """

    def __init__(self, file: int) -> None:
        self._file = file

    def __getitem__(self, place: int) -> int:
        data = os.pread(self._file, 8, 8 * place)
        if len(data) != 8:
            raise OSError("the command page has been cut short")
        return int.from_bytes(data, "little")

    def __setitem__(self, place: int, value: int) -> None:
        os.pwrite(self._file, value.to_bytes(8, "little"), 8 * place)

    def release(self) -> None:
        """Close the file."""
        os.close(self._file)


class Page:
    """The command page.  Words are read and written whole (one aligned 8-byte access each)."""

    words: Any
    """The words by number: mapped for ranks, through the file for the agent."""

    def __init__(self, folder: Folder, mapped: bool = True) -> None:
        """The page of `folder`; makes an empty one if there is none.  OSError if that cannot be done."""
        if sys.byteorder != "little":
            raise OSError("the command page of rota.training is little-endian; this machine is not")
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        file = os.open(os.path.join(str(folder), PAGE), flags, 0o600)
        self._map: Any = None
        try:
            if os.fstat(file).st_nlink != 1:
                raise OSError("the command page is a link to another file")
            if os.fstat(file).st_size < 8 * _WORDS:
                os.ftruncate(file, 8 * _WORDS)
            if mapped:
                self._map = mmap.mmap(file, 8 * _WORDS)
        except BaseException:
            os.close(file)
            raise
        if not mapped:
            self.words = FileWords(file)
            return
        os.close(file)
        self._bytes = memoryview(self._map)
        self.words = self._bytes.cast("Q")

    def close(self) -> None:
        """The page is of no use afterwards."""
        self.words.release()
        if self._map is not None:
            self._bytes.release()
            self._map.close()

    @property
    def sequence(self) -> int:
        """Sequence of the newest directive; 0 before the first."""
        return int(self.words[0])

    def agree(self, sequence: int, stop_step: int) -> None:
        """Publish: all ranks stop at the gate of `stop_step` for directive `sequence`."""
        words = self.words
        words[3] = 0
        words[1] = stop_step + 1
        words[2] = sequence
        words[3] = (stop_step + 1) ^ (sequence << 1) ^ _CHECK

    def agreed(self) -> tuple[int, int] | None:
        """(sequence, stop step) last published, None if there is none or it is being written now."""
        words = self.words
        check, stop, sequence = words[3], words[1], words[2]
        if not stop or check != stop ^ (sequence << 1) ^ _CHECK:
            return None
        return sequence, stop - 1

    def judge(self, sequence: int, verdict: int) -> None:
        """The leading rank says how a stop ends: `GO_ON`, `GO_AWAY` or `SAVE`."""
        self.words[4] = 4 * sequence + verdict

    def verdict(self, sequence: int) -> int | None:
        """How the stop for `sequence` ends, None while the leading rank has not said it."""
        said = self.words[4]
        return said & 3 if said >> 2 == sequence else None


def write_json(path: Folder, value: dict[str, Any]) -> None:
    """Replace `path` by `value` in one rename; OSError leaves the file before as it was."""
    target = str(path)
    temporary = f"{target}.{os.getpid()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        if os.path.lexists(temporary):  # of a process that died, or put there for us to write through
            os.unlink(temporary)
        with open(os.open(temporary, flags, 0o644), "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(temporary, target)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def read_json(path: Folder, limit: int = 65536) -> dict[str, Any] | None:
    """The object in `path`; None if there is none, it is no JSON object or too long."""
    flags = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0)  # a pipe must not hold the agent up
    try:
        with open(os.open(str(path), flags), "rb") as file:
            text = file.read(limit + 1)
        value = json.loads(text) if len(text) <= limit else None
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def prepare(folder: Folder, uid: int = -1, gid: int = -1) -> None:
    """Make the folder and its empty page (agent, before the ranks start); -1 leaves the owner as it is."""
    os.makedirs(str(folder), mode=0o700, exist_ok=True)
    Page(folder, mapped=False).close()
    if uid >= 0 or gid >= 0:
        os.chown(str(folder), uid, gid)
        os.chown(os.path.join(str(folder), PAGE), uid, gid)


def command(folder: Folder, directive: Directive) -> int:
    """Give a directive (agent): its sequence is one more than the last.  Returns that sequence."""
    if directive.do not in DIRECTIVES:
        raise ValueError(f"unknown directive {directive.do!r}; known are {', '.join(DIRECTIVES)}")
    page = Page(folder, mapped=False)
    try:
        sequence = page.sequence + 1
        given = replace(directive, sequence=sequence)
        write_json(Path(folder) / DIRECTIVE, asdict(given))
        page.words[0] = sequence
    finally:
        page.close()
    return sequence


def read_directive(folder: Folder) -> Directive | None:
    """The newest directive; None if there is none that can be read."""
    said = read_json(Path(folder) / DIRECTIVE)
    if said is None or said.get("do") not in DIRECTIVES:
        return None
    deadline, batch, workers = (_number(said.get(key)) for key in ("deadline_s", "batch_size", "workers"))
    return Directive(
        do=str(said["do"]),
        sequence=int(_number(said.get("sequence")) or 0),
        reason=str(said.get("reason", "")),
        deadline_s=deadline,
        batch_size=batch,
        workers=None if workers is None else int(workers),
        version=int(_number(said.get("version")) or VERSION),
    )


def write_rank(folder: Folder, state: RankState) -> None:
    """Replace this rank's file; stamps `at_s`."""
    state.at_s = time.time()
    write_json(Path(folder) / f"rank-{state.rank}.json", asdict(state))


def read_rank(folder: Folder, rank: int) -> RankState | None:
    """What rank `rank` last said; None if it has said nothing, or nothing that makes sense."""
    said = read_json(Path(folder) / f"rank-{rank}.json")
    if said is None or said.get("state") not in STATES:
        return None
    state = RankState(rank=rank, state=str(said["state"]))
    for name in ("pid", "step", "sequence", "announced", "at_step"):
        setattr(state, name, int(_number(said.get(name)) or 0))
    for name in ("samples", "residual_bytes", "suspended_bytes", "at_s"):
        setattr(state, name, _number(said.get(name)) or 0.0)
    for name in ("loss", "step_s", "batch_size", "gradient_noise", "gradient_s", "local_most"):
        setattr(state, name, _number(said.get(name)))
    for name in ("checkpoint_step", "total_steps"):
        number = _number(said.get(name))
        setattr(state, name, None if number is None else int(number))
    state.version = int(_number(said.get("version")) or VERSION)
    state.checkpoint_error = str(said.get("checkpoint_error", ""))[:1000]
    capability, costs = said.get("capability"), said.get("costs")
    state.capability = capability if isinstance(capability, dict) else {}
    for kind, cost in (costs if isinstance(costs, dict) else {}).items():
        pair = [_number(one) for one in cost] if isinstance(cost, list) else []
        if len(pair) == 2 and pair[0] is not None and pair[1] is not None:
            state.costs[str(kind)] = (pair[0], pair[1])
    return state


def ranks(folder: Folder) -> dict[int, RankState]:
    """All ranks of this node that have spoken so far, by rank."""
    names = (path.name[5:-5] for path in Path(folder).glob("rank-*.json"))
    states = {int(name): read_rank(folder, int(name)) for name in names if name.isdecimal()}
    return {rank: state for rank, state in sorted(states.items()) if state is not None}


def settle(folder: Folder, local_world_size: int) -> int | None:
    """Agree on a stop step for ranks that cannot among themselves (agent, while a directive is open).

    Once every rank of this node has announced the newest directive (or finished), publishes the greatest
    announced step + 1, at which all of them stop; returns it.  None while one has not announced, or if the
    ranks agree by themselves.  May be called as often as one likes, but not while `command` runs for the same
    folder: ranks whose directive is replaced before it is agreed forget it.
    """
    page = Page(folder, mapped=False)
    try:
        sequence, agreed = page.sequence, page.agreed()
        if agreed is not None and agreed[0] == sequence:
            return agreed[1]
        states = ranks(folder)
        alive = [one for one in states.values() if one.state != FINISHED]
        if len(states) < local_world_size or not alive:
            return None
        if any(one.state != ANNOUNCED or one.announced != sequence for one in alive):
            return None
        stop = max(one.at_step for one in alive) + 1
        page.agree(sequence, stop)
        return stop
    finally:
        page.close()


def _number(value: object) -> float | None:
    """A finite number, or None for anything else (booleans too)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < 1e300 else None
