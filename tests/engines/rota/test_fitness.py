"""A machine that can begin nothing is found out by a rehearsal, and found well by the next."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from mounts import small_disk
from rota.engines.rota import native
from rota.engines.rota.fitness import FIRST_S, MOST_S, Fitness, could_not_begin, rehearsed
from rota.engines.rota.folder import AgentFolder
from rota.engines.rota.live import Live
from rota.wire.accounts import NO_ACCOUNT
from rota.wire.sync import Exit, Part, PartStatus, Wanted

END = Exit(ended_s=1.0, rank=0, error="the attempt could not be started: Resource temporarily unavailable")


def home_of(folder: Path) -> AgentFolder:
    return AgentFolder(folder, folder / "checkpoints")


def live_of(
    row: int, status: PartStatus, *, started_s: float | None = None, infrastructure: bool | None = None
) -> Live:
    part = Part(row=row, job=str(row + 1), attempt=1, version=1, wanted=Wanted.RUN, user="me")
    folder = home_of(Path("/nowhere")).of(row, 1)
    end = None if infrastructure is None else END.model_copy(update={"infrastructure": infrastructure})
    return Live(part, folder, status, 0.0, started_s=started_s, end=end)


@pytest.mark.parametrize(
    ("status", "started_s", "infrastructure", "doubtful"),
    [
        (PartStatus.LOST,     None, True,  True),   # no folder could be made, or no shim started
        (PartStatus.ENDED,    None, True,  True),   # the shim could start no rank
        (PartStatus.ENDED,    None, False, False),  # there is no such program
        (PartStatus.LOST,     1.0,  True,  False),  # it had begun: what it died of is another matter
        (PartStatus.ENDED,    1.0,  False, False),
        (PartStatus.STARTING, None, None,  False),
    ],
)  # fmt: skip
def test_which_ends_cast_doubt_on_the_machine(
    status: PartStatus, started_s: float | None, infrastructure: bool | None, doubtful: bool
) -> None:
    live = live_of(0, status, started_s=started_s, infrastructure=infrastructure)
    assert could_not_begin(live) is doubtful


def test_it_is_rehearsed_once_for_each_and_again_until_it_goes_well(tmp_path: Path) -> None:
    now_s, found, rehearsals = 0.0, "full", []

    def rehearse(_: AgentFolder) -> str:
        rehearsals.append(now_s)
        return found

    fitness = Fitness(home_of(tmp_path), clock=lambda: now_s, rehearse=rehearse)
    first, second = live_of(0, PartStatus.LOST), live_of(1, PartStatus.LOST)
    fitness.look([])
    assert (rehearsals, fitness.next_s) == ([], float("inf"))
    for lives in ([first], [first], [first, second]):
        fitness.look(lives)
    assert (rehearsals, fitness.trouble, fitness.next_s) == ([0.0, 0.0], "full", FIRST_S)
    now_s = FIRST_S
    fitness.look([second])  # the first is forgotten; it is due
    found, now_s = "", 2 * FIRST_S
    fitness.look([second])
    assert (rehearsals, fitness.trouble) == ([0.0, 0.0, FIRST_S, 2 * FIRST_S], "")
    assert fitness.next_s == float("inf")
    pauses = []
    for row in range(2, 14):  # a rehearsal that goes well, and nothing can begin all the same
        found = "full"
        fitness.look([live_of(row, PartStatus.LOST)])
        pauses.append(fitness.next_s - now_s)
        found, now_s = "", fitness.next_s
        fitness.look([])
    assert pauses == [min(2**k * FIRST_S, MOST_S) for k in range(1, 13)]
    found, now_s = "full", now_s + MOST_S
    fitness.look([live_of(99, PartStatus.LOST)])
    assert fitness.next_s - now_s == FIRST_S


@pytest.mark.parametrize(
    ("uid", "rows", "users", "begins", "rests"),
    [
        (1000, [1, 2, 3], "aaa", None, True),   # all jobs are this account's: none is to blame
        (1000, [1, 2],    "aa",  None, False),
        (1000, [1, 1, 1], "aaa", None, False),  # one job, again and again: it waits longer each time
        (1000, [1, 2, 3], "aaa", 1,    False),  # one began in between
        (0,    [1, 2, 3], "aaa", None, False),  # a user without an account keeps others from nothing
        (0,    [1, 2, 1], "aba", None, True),
        (1000, [1, 2, 3], ["", NO_ACCOUNT, ""], None, False),  # orders that nobody could carry out
    ],
)  # fmt: skip
def test_a_machine_that_refuses_several_in_a_row_rests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uid: int,
    rows: list[int],
    users: Sequence[str],
    begins: int | None,
    rests: bool,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    now_s = 0.0
    fitness = Fitness(home_of(tmp_path), clock=lambda: now_s, rehearse=lambda _: "")
    lives: list[Live] = []
    for number, (row, user) in enumerate(zip(rows, users, strict=True)):
        live = live_of(row, PartStatus.LOST)
        live.part = live.part.model_copy(update={"attempt": number + 1, "user": user})
        live.why = "no such wheel"
        lives.append(live)
        fitness.look(lives)
        if number == begins:
            lives.append(live_of(77, PartStatus.RUNNING, started_s=1.0))
    said = "the last 3 attempts could not begin, and nothing is known to be lacking: no such wheel"
    assert fitness.trouble == (said if rests else "")
    if rests:  # the next job is the proof: another that cannot begin makes it rest for longer
        now_s = fitness.next_s
        fitness.look(lives)
        assert (fitness.trouble, now_s) == ("", FIRST_S)
        lives.append(live_of(9, PartStatus.LOST))
        lives[-1].part = lives[-1].part.model_copy(update={"user": "c"})
        fitness.look(lives)
        assert (bool(fitness.trouble), fitness.next_s - now_s) == (True, 2 * FIRST_S)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True, False])
def test_a_machine_that_has_all_it_takes(
    tmp_path: Path, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(native, "PROGRAM", tmp_path / "none")
    home = home_of(tmp_path / "agent")
    assert rehearsed(home) == ""
    assert list(home.attempts.iterdir()) == list(home.checkpoints.iterdir()) == []
    (home.attempts / ".rehearsal").mkdir()  # an agent was killed
    (home.attempts / ".rehearsal" / "3").touch()
    assert rehearsed(home) == ""
    assert list(home.attempts.iterdir()) == []


@pytest.mark.slow
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        home = home_of(disk / "agent")
        assert rehearsed(home) == ""
        filler = disk / "filler"
        filler.write_bytes(b"0" * (7 << 19))
        said = f"no attempt can begin in {home.path}: No space left on device; free some space there"
        assert rehearsed(home) == said
        filler.unlink()
        assert rehearsed(home) == ""
        assert list(home.attempts.iterdir()) == []


@pytest.mark.slow
def test_no_descriptor_is_left(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    used = {int(name) for name in os.listdir("/proc/self/fd")}  # with gaps, if other tests came before
    free = [number for number in range(len(used) + 9) if number not in used]
    with _descriptors(free[8]):
        said = rehearsed(home)
    assert said == "no attempt can begin: Too many open files; start the agent with a higher `ulimit -n`"
    assert rehearsed(home) == ""


@contextmanager
def _descriptors(most: int) -> Iterator[None]:
    """In this block no descriptor has a number of `most` or more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
