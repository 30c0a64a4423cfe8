"""The protocol between a program and the agent of its machine: files in one folder (version 1).

    command          64 bytes, mapped by both sides: eight words of 64 bits, little-endian
                     0  sequence of the newest directive                          (agent)
                     1  stop step + 1, 0 while unknown                            (rank 0, or agent)
                     2  sequence that the stop step belongs to                    (rank 0, or agent)
                     3  words 1 and 2 in one check word, so that no reader sees half an agreement
                     4  verdict of the leading rank on a stop: 4 * sequence + 1, 2 or 3      (a rank)
                     5  step + 1 of the last checkpoint that rank 0 has finished with     (rank 0)
                     6  number of the agreement that this node looks for in the torch store (ranks)
                     7  to word 4: sequence obeyed << 32 | samples of a step from now on (0: as before)
    directive.json   the newest directive, written before word 0 is raised       (agent)
    rank-R.json      last report of rank R, at most every 0.5 s and at every change of state

JSON files are replaced by rename, so that a reader sees a whole file or none.  Neither side needs the other
to be alive.
A step number is the count of steps done: a rank at step s has finished its s-th step.

The agent's side is `prepare`, `command`, `check_rank` and `settle`; a rank's is `Page`, `read_directive` and
`write_rank`.  The user controls what ranks write: `rota.training.checked` reads and checks it.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.training.checked import LARGEST, count, number, read_json, read_object, shown, text
from rota.training.page import PAGE, Page

VERSION = 1
LEAVE_CODE = 85
"""Exit code: checkpoint written, run again."""
VOID_CODE = 86
"""Exit code: this attempt is void (fenced or superseded) and stopped itself; its end is ignored."""

RUN, PAUSE, SUSPEND, RESUME = "run", "pause", "suspend", "resume"
LEAVE, CHECKPOINT, BATCH_SIZE = "leave", "checkpoint", "batch_size"
DIRECTIVES = (RUN, PAUSE, SUSPEND, RESUME, LEAVE, CHECKPOINT, BATCH_SIZE)
"""`run` and `resume` mean the same; `checkpoint` writes one and goes on."""

RUNNING, ANNOUNCED, PAUSED = "running", "announced", "paused"
SUSPENDED, LEAVING, FINISHED = "suspended", "leaving", "finished"
STATES = (RUNNING, ANNOUNCED, PAUSED, SUSPENDED, LEAVING, FINISHED)

REPORT_EVERY_S = 0.5
DIRECTIVE = "directive.json"
VOID = "VOID"
"""File in a checkpoint folder that forbids publishing there."""

MEASURED = ("ready", "suspend", "resume", "checkpoint", "restore", "leave")
"""Kinds of `RankState.costs`; other kinds that a program names are left out."""
ABILITIES = ("checkpoint", "resize", "batch_size", "to_host")
MOST_S, LATEST_S = 1e10, 1e11
"""Seconds of the longest duration, and the latest Unix time."""
MOST_AMOUNT = 1e18
"""Most bytes or samples."""
SHORTEST_S, SMALLEST_BATCH, MOST_BATCH = 1e-9, 1e-9, 1e12
RANGES = {
    "loss": (-LARGEST, LARGEST),
    "step_s": (SHORTEST_S, MOST_S),
    "batch_size": (SMALLEST_BATCH, MOST_BATCH),
    "gradient_noise": (-LARGEST, LARGEST),
    "gradient_s": (SHORTEST_S, MOST_S),
    "local_most": (SMALLEST_BATCH, MOST_BATCH),
    "samples": (0.0, MOST_AMOUNT),
    "residual_bytes": (0.0, MOST_AMOUNT),
    "suspended_bytes": (0.0, MOST_AMOUNT),
    "at_s": (0.0, LATEST_S),
}
"""What a rank measures -> least and most; a number outside, such as a loss of NaN, counts as missing."""
AGREED = ("pid", "step", "sequence", "announced", "at_step")
"""Counts that an agreement needs: if one is invalid, the rank's whole report is ignored."""

GO_ON, GO_AWAY, SAVE = 1, 2, 3
"""Verdicts of word 4; SAVE writes a checkpoint and goes on."""

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    Folder = str | Path


@dataclass(frozen=True)
class Directive:
    """Request of the agent to all ranks of its node; a new one replaces earlier ones."""

    do: str = RUN
    """One of `DIRECTIVES`."""
    sequence: int = 0
    reason: str = ""
    """Text for people and for the program's own log: `preempted by job 12`."""
    deadline_s: float | None = None
    """Unix time. For a pause or suspension: leave by checkpoint if it has not ended by then; without a
    deadline the program waits for any time. For `leave`: when the signals come."""
    batch_size: float | None = None
    """Samples of one step over all workers; obeyed with every directive that sets it."""
    workers: int | None = None
    """With `leave`: the number of ranks of the next attempt. For information."""
    version: int = VERSION


@dataclass
class RankState:
    """Last report of one rank."""

    rank: int = 0
    pid: int = 0
    state: str = RUNNING
    """One of `STATES`. Only in `paused` (memory stays), `suspended` and after exit has it stopped."""
    step: int = 0
    samples: float = 0.0
    """Samples that this rank has reported, with those of earlier attempts if a checkpoint recorded them."""
    loss: float | None = None
    step_s: float | None = None
    """Mean seconds of a step since the previous report, without pauses."""
    batch_size: float | None = None
    """Samples of one step over all workers; None if the program has not reported them."""
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
    """Most samples of one rank in one pass, as the program has set."""
    capability: dict[str, Any] = field(default_factory=dict)
    """`protocol`, `agreement` (`alone`, `rank 0`, `store`, `agent`), `checkpoint`, `resize`, `batch_size`,
    `to_host` (device state can go to host memory)."""
    costs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """kind -> (seconds, bytes) of the last `suspend`, `resume`, `checkpoint`, `restore`, `leave`; of `ready`:
    from the start of the rank's command to the end of the first step here (that step included)."""
    residual_bytes: float = 0.0
    """Device memory that a suspended rank still holds, as far as torch knows."""
    suspended_bytes: float = 0.0
    """Host memory that a suspended rank holds for its device state."""
    at_s: float = 0.0
    version: int = VERSION


def write_json(path: Folder, value: dict[str, Any]) -> None:
    """Replace `path` by `value` in one rename; on OSError the earlier file is unchanged."""
    target = str(path)
    temporary = f"{target}.{os.getpid()}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        if os.path.lexists(temporary):  # of a process that died, or a trap, so that we would write through it
            os.unlink(temporary)
        with open(os.open(temporary, flags, 0o644), "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(temporary, target)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def prepare(folder: Folder, uid: int = -1, gid: int = -1) -> None:
    """Make the folder and its empty page (agent, before the ranks start); -1 keeps the owner."""
    os.makedirs(str(folder), mode=0o700, exist_ok=True)
    Page(folder, mapped=False).close()
    if uid >= 0 or gid >= 0:
        os.chown(str(folder), uid, gid)
        os.chown(os.path.join(str(folder), PAGE), uid, gid)


def command(folder: Folder, directive: Directive) -> int:
    """Write a directive (agent) whose sequence is one more than the last; returns that sequence.

    Raises OSError if the folder cannot be written, for example because the program has damaged it.
    """
    if directive.do not in DIRECTIVES:
        raise ValueError(f"unknown directive {directive.do!r}; known are {', '.join(DIRECTIVES)}")
    page = Page(folder, mapped=False)
    try:
        sequence = page.checked_sequence() + 1
        given = replace(directive, sequence=sequence)
        write_json(Path(folder) / DIRECTIVE, asdict(given))
        page.words[0] = sequence
    finally:
        page.close()
    return sequence


def read_directive(folder: Folder) -> Directive | None:
    """The newest directive; None if none can be read."""
    said = read_json(Path(folder) / DIRECTIVE)
    if said is None or said.get("do") not in DIRECTIVES:
        return None
    return Directive(
        do=str(said["do"]),
        sequence=count(said.get("sequence")) or 0,
        reason=text(said.get("reason"), 1000),
        deadline_s=number(said.get("deadline_s"), 0.0, LATEST_S),
        batch_size=number(said.get("batch_size"), *RANGES["batch_size"]),
        workers=count(said.get("workers")),
        version=count(said.get("version")) or VERSION,
    )


def write_rank(folder: Folder, state: RankState) -> None:
    """Replace this rank's file; stamps `at_s`."""
    state.at_s = time.time()
    write_json(Path(folder) / f"rank-{state.rank}.json", asdict(state))


def read_rank(folder: Folder, rank: int) -> RankState | None:
    """Last report of rank `rank`; None if there is none, or if it is invalid."""
    try:
        return check_rank(folder, rank)
    except (OSError, ValueError):
        return None


def check_rank(folder: Folder, rank: int) -> RankState | None:
    """Last report of rank `rank`; None if there is none.

    Raises OSError if its file cannot be read, and ValueError with a sentence if it is invalid.
    """
    name = f"rank-{rank}.json"
    try:
        said = read_object(Path(folder) / name)
    except FileNotFoundError:
        return None
    if said.get("state") not in STATES:
        raise ValueError(f"{name}: state is {shown(said.get('state'))}, expected one of {', '.join(STATES)}")
    state = RankState(rank=rank, state=str(said["state"]))
    for field_name in AGREED:
        if (counted := count(said.get(field_name, 0))) is None:
            value = shown(said[field_name])
            raise ValueError(f"{name}: {field_name} is {value}, expected a whole number from 0 to 2**53")
        setattr(state, field_name, counted)
    for field_name, within in RANGES.items():
        measured = number(said.get(field_name), *within)
        setattr(state, field_name, getattr(state, field_name) if measured is None else measured)
    for field_name in ("checkpoint_step", "total_steps"):
        setattr(state, field_name, count(said.get(field_name)))
    state.version = count(said.get("version")) or VERSION
    state.checkpoint_error = text(said.get("checkpoint_error"), 1000)
    state.capability, state.costs = _capability(said.get("capability")), _costs(said.get("costs"))
    return state


def _capability(said: object) -> dict[str, Any]:
    """The valid parts of a capability."""
    if not isinstance(said, dict):
        return {}
    able: dict[str, Any] = {name: said[name] for name in ABILITIES if isinstance(said.get(name), bool)}
    return {
        **able,
        "protocol": count(said.get("protocol")) or VERSION,
        "agreement": text(said.get("agreement"), 100),
    }


def _costs(said: object) -> dict[str, tuple[float, float]]:
    """The valid costs."""
    costs = {}
    for kind in MEASURED if isinstance(said, dict) else ():
        pair = said.get(kind) if isinstance(said, dict) else None
        if isinstance(pair, list) and len(pair) == 2:
            seconds, moved = number(pair[0], 0.0, MOST_S), number(pair[1], 0.0, MOST_AMOUNT)
            if seconds is not None and moved is not None:
                costs[kind] = (seconds, moved)
    return costs


def ranks(folder: Folder, expected: Iterable[int]) -> dict[int, RankState]:
    """Valid reports of the ranks `expected`, by rank."""
    states = {rank: read_rank(folder, rank) for rank in sorted(expected)}
    return {rank: state for rank, state in states.items() if state is not None}


def settle(folder: Folder, expected: Collection[int]) -> int | None:
    """Agree on a stop step for ranks that cannot do so themselves (agent, while a directive is open).

    Once all ranks of this node, `expected`, have announced the newest directive (or finished), publishes the
    greatest announced step + 1, at which all of them stop, and returns it. Returns None while one has not
    announced, or if the ranks agree by themselves. It may be called at any time, except while `command` runs
    for the same folder: ranks whose directive is replaced before it is agreed forget it. Raises OSError for a
    page that the program has damaged.
    """
    page = Page(folder, mapped=False)
    try:
        sequence, agreed = page.checked_sequence(), page.agreed()
        if agreed is not None and agreed[0] == sequence:
            return agreed[1]
        states = ranks(folder, expected)
        alive = [one for one in states.values() if one.state != FINISHED]
        if len(states) < len(expected) or not alive:
            return None
        if any(one.state != ANNOUNCED or one.announced != sequence for one in alive):
            return None
        stop = max(one.at_step for one in alive) + 1
        page.agree(sequence, stop)
        return stop
    finally:
        page.close()
