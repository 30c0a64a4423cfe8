"""Orders, board, silence and logs: what is said and heard, without a process or a network."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.engines.rota.folder import AgentFolder
from rota.engines.rota.logs import decoded, fetch
from rota.engines.shared import board as board_module
from rota.engines.shared.board import Board, Parcel
from rota.engines.shared.orders import Orders, QuestionBasis
from rota.engines.shared.reconcile import Silence
from rota.engines.shared.silence import Contact
from rota.wire.sync import (
    DeviceInfo,
    Exit,
    Fetch,
    Part,
    PartStatus,
    Piece,
    ProgressReport,
    Report,
    SyncReply,
    Wanted,
)
from strategies import seconds  # noqa: F401  (loads the profile)

HANGS_S = 10.0
NEW, OLD = QuestionBasis("", 0), "one"


def part(row: int, version: int, wanted: Wanted = Wanted.RUN) -> Part:
    return Part(row=row, job=str(row + 1), attempt=1, version=version, wanted=wanted)


def reply(version: int, *parts: Part, controller: str = "one", whole: bool = True) -> SyncReply:
    return SyncReply(controller=controller, version=version, now_s=0.0, parts=list(parts), whole=whole)


def wanted(orders: Orders) -> dict[int, int]:
    """Row -> version."""
    return {row: part.version for (row, _), part in orders.wanted()[0].items()}


def test_orders_are_whole_after_the_first_answer() -> None:
    orders = Orders()
    assert orders.wanted() == ({}, False)
    assert orders.take(reply(3, part(0, 2), part(1, 3)), orders.question())
    assert (wanted(orders), orders.wanted()[1], orders.question()) == (
        {0: 2, 1: 3},
        True,
        QuestionBasis("one", 3),
    )


def test_a_controller_that_has_not_read_its_store_is_not_taken_at_its_word() -> None:
    orders = Orders()
    orders.take(reply(0, whole=False), NEW)
    assert orders.wanted() == ({}, False)
    orders.take(reply(2, part(0, 2)), QuestionBasis("one", 0))
    assert (wanted(orders), orders.wanted()[1]) == ({0: 2}, False)


def test_a_late_answer_undoes_nothing() -> None:
    orders = Orders()
    orders.take(reply(3, part(0, 2), part(1, 3)), NEW)
    orders.take(reply(5, part(0, 5)), QuestionBasis("one", 3))
    orders.take(reply(4, part(0, 4)), QuestionBasis("one", 3))
    assert (wanted(orders), orders.question().seen) == ({0: 5, 1: 3}, 5)


def test_what_is_forgotten_stays_so_unless_it_is_ordered_anew() -> None:
    orders = Orders()
    orders.take(reply(3, part(0, 3, Wanted.FORGET)), NEW)
    orders.forget((0, 1))
    orders.take(reply(3, part(0, 1)), QuestionBasis("one", 0))
    orders.take(reply(3, part(0, 3, Wanted.FORGET)), QuestionBasis("one", 2))
    assert wanted(orders) == {}
    orders.take(reply(4, part(0, 4, Wanted.KILL)), QuestionBasis("one", 3))
    assert wanted(orders) == {0: 4}


def test_a_new_controller_is_asked_for_everything() -> None:
    orders = Orders()
    orders.take(reply(9, part(0, 8), part(1, 9)), NEW)
    assert not orders.take(reply(2, part(2, 2), controller="two"), QuestionBasis("one", 9))
    assert orders.question() == NEW
    assert orders.wanted()[1] is False, "until it has answered nobody knows what it does not want"
    assert wanted(orders) == {0: 8, 1: 9}
    assert orders.take(reply(2, part(0, 1), part(2, 2), controller="two"), NEW)
    assert (wanted(orders), orders.wanted()[1]) == ({0: 1, 2: 2}, True)
    assert not orders.take(reply(10, part(1, 10)), QuestionBasis("one", 9)), "the old one's last words"
    assert wanted(orders) == {0: 1, 2: 2}


@given(st.permutations(range(1, 7)), st.data())
def test_answers_in_any_order_come_to_the_same(order: list[int], data: st.DataObject) -> None:
    changes = [part(data.draw(st.integers(0, 2)), version) for version in range(1, 7)]
    orders = Orders()
    orders.take(reply(0), NEW)
    for version in order:
        seen = data.draw(st.integers(0, version - 1))
        news = {one.row: one for one in changes[:version] if one.version > seen}
        orders.take(reply(version, *news.values()), QuestionBasis("one", seen))
    last = {one.row: one.version for one in changes}
    assert wanted(orders) == last
    assert orders.question().seen == 6


class Clock:
    """Goes when it is told to."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def report(row: int, status: PartStatus = PartStatus.RUNNING, **more: object) -> Report:
    return Report.model_validate({"row": row, "attempt": 1, "status": status, "since_s": 1.0, **more})


def told(board: Board) -> Parcel:
    """What it has to tell now; where that is nothing the test fails instead of hanging."""
    guard = threading.Timer(HANGS_S, board.close)
    guard.start()
    try:
        parcel = board.wait()
    finally:
        guard.cancel()
    assert not parcel.empty, "nothing was due"
    return parcel


def rows(board: Board) -> list[int]:
    """Rows told now."""
    return sorted(report.row for report in told(board).reports)


def test_news_is_told_once_and_small_news_rides_along() -> None:
    clock = Clock()
    board = Board(clock)
    board.post([report(0), report(1)])
    clock.now += board_module.SOON_S
    assert rows(board) == [0, 1]
    board.post([report(0, progress=ProgressReport(steps=5)), report(1)])
    board.post([report(0, progress=ProgressReport(steps=6)), report(1, PartStatus.LEAVING)])
    assert rows(board) == [0, 1], "the progress of 0 goes with the status of 1"
    board.post([report(0, progress=ProgressReport(steps=7)), report(1, PartStatus.LEAVING)])
    clock.now += board_module.LAZY_S
    assert rows(board) == [0]


def test_of_a_short_part_the_end_is_told_with_its_beginning() -> None:
    board = Board(Clock())
    board.post([report(0)])
    board.post([report(0, PartStatus.ENDED)])
    assert [one.status for one in told(board).reports] == [PartStatus.ENDED]


def test_what_did_not_arrive_is_told_again() -> None:
    board = Board(Clock())
    board.post([report(0), report(1)])
    board.pieces([Piece(id="a", offset=0, text="", size=0)])
    parcel = told(board)
    board.post([report(0, PartStatus.ENDED, end=Exit(ended_s=2.0, code=0))])
    board.untold(parcel)
    again = told(board)
    assert [(one.row, one.status) for one in again.reports] == [(0, PartStatus.ENDED)], "1 is forgotten"
    assert [piece.id for piece in again.pieces] == ["a"]


def test_a_new_controller_is_told_how_the_devices_are_though_the_old_one_was() -> None:
    """That one may have been killed before it was on record: sick for ever, if nobody said it again."""
    board = Board(Clock())
    board.devices([DeviceInfo(index=0, type="cpu", healthy=False, why="its folder cannot be written")])
    board.devices([DeviceInfo(index=0, type="cpu")])
    assert told(board).devices == [DeviceInfo(index=0, type="cpu")]
    assert board.all().devices == [DeviceInfo(index=0, type="cpu")]


def test_how_the_devices_were_is_not_told_after_how_they_are() -> None:
    """What did not arrive was overtaken by what a new controller was told."""
    board = Board(Clock())
    board.devices([DeviceInfo(index=0, type="cpu", healthy=False, why="its folder cannot be written")])
    late = told(board)
    board.devices([DeviceInfo(index=0, type="cpu")])
    assert board.all().devices == [DeviceInfo(index=0, type="cpu")]
    board.untold(late)
    assert told(board).devices == [DeviceInfo(index=0, type="cpu")]


def test_ends_are_repeated_soon_and_the_rest_now_and_then() -> None:
    clock = Clock()
    board = Board(clock)
    board.post([report(0, PartStatus.ENDED), report(1)])
    assert rows(board) == [0, 1], "what begins goes with what ends"
    repeated = []
    for _ in range(10):
        clock.now += board_module.REPEAT_END_S
        repeated.append(rows(board))
    assert repeated[:9] == [[0]] * 9 or repeated[8] == [0, 1]
    assert any(1 in one for one in repeated)
    board.post([report(1)])
    assert [one.row for one in board.all().reports] == [1]


def test_a_parcel_is_never_too_large_for_a_controller() -> None:
    clock = Clock()
    board = Board(clock)
    board.post([report(row) for row in range(board_module.MOST_REPORTS + 5)])
    clock.now += board_module.SOON_S
    assert len(told(board).reports) == board_module.MOST_REPORTS
    assert len(told(board).reports) == 5
    half = "x" * (board_module.MOST_PIECES_BYTES // 2 + 1)
    board.pieces([Piece(id=name, offset=0, text=half, size=0) for name in "abc"])
    assert [[piece.id for piece in told(board).pieces] for _ in "abc"] == [["a"], ["b"], ["c"]]


def test_a_closed_board_says_nothing() -> None:
    board = Board()
    board.close()
    assert board.wait().empty


@pytest.mark.parametrize(
    ("after_s", "silence"),
    [
        (0.0, Silence.HEARD),
        (29.9, Silence.HEARD),
        (30.1, Silence.FENCING),
        (54.9, Silence.FENCING),
        (55.1, Silence.FENCED),
        (600.0, Silence.FENCED),
    ],
)
def test_silence(tmp_path: Path, after_s: float, silence: Silence) -> None:
    clock = Clock()
    contact = Contact(tmp_path / "contact", clock=clock, boot="b")
    assert contact.silence() is Silence.HEARD, "nobody has spoken yet, so nobody has fallen silent"
    contact.heard(clock.now, 60.0)
    clock.now += after_s
    assert contact.silence() is silence
    assert Contact(tmp_path / "contact", clock=clock, boot="b").silence() is silence, (
        "another agent goes on counting"
    )
    if silence is not Silence.FENCED:
        clock.now += contact.next_s() + 1e-6
        assert contact.silence() is not silence
    else:
        assert contact.next_s() == float("inf")


def test_an_older_answer_does_not_make_the_silence_longer(tmp_path: Path) -> None:
    clock = Clock()
    contact = Contact(tmp_path / "contact", clock=clock, boot="b")
    contact.heard(1000.0, 10.0)
    contact.heard(990.0, 10.0)
    assert contact.fenced_s == pytest.approx(1009.0)
    assert contact.wait_s == pytest.approx(2.0)
    contact.heard(1000.0, 1000.0)
    assert contact.wait_s == 20.0


def test_a_folder_that_is_gone_is_told_with_the_way_out(tmp_path: Path) -> None:
    """It is not made anew, which could be below what is to be mounted there; it is well once it is back."""
    clock, home, told = Clock(), tmp_path / "home", []
    home.mkdir()
    contact = Contact(
        home / "contact", clock=clock, boot="b", on_trouble=lambda: told.append(contact.trouble)
    )
    contact.heard(clock.now, 60.0)
    home.rename(tmp_path / "elsewhere")
    clock.now += 10.0
    contact.heard(clock.now, 60.0)
    assert contact.trouble == (
        f"{home} is gone: put it back or mount it, or end process {os.getpid()}, which works there, and "
        "start it again"
    )
    (tmp_path / "elsewhere").rename(home)
    contact.heard(clock.now, 60.0)
    assert [bool(said) for said in told] == [True, False]


@pytest.fixture
def log(tmp_path: Path) -> tuple[AgentFolder, Path]:
    home = AgentFolder(tmp_path, tmp_path / "checkpoints")
    path = home.of(3, 1).log(0)
    path.parent.mkdir(parents=True)
    return home, path


def piece(home: AgentFolder, offset: int, limit: int = 1000, rank: int = 0) -> Piece:
    return fetch(home, Fetch(id="x", row=3, attempt=1, rank=rank, offset=offset, limit=limit))


@pytest.mark.parametrize(
    ("data", "offset", "limit", "text", "at"),
    [
        (b"hello", 0, 100, "hello", 0),
        (b"hello", 2, 2, "ll", 2),
        (b"hello", -2, 100, "lo", 3),
        (b"hello", -99, 100, "hello", 0),
        (b"hello", 9, 100, "", 9),
        (b"hello", 0, 0, "", 0),
        ("aé".encode(), 0, 2, "a", 0),
        ("aé".encode(), 1, 1, "?", 1),
        ("éa".encode(), -2, 9, "a", 2),
        ("a😀".encode(), 0, 4, "a", 0),
        (b"a\xffb", 0, 9, "a?b", 0),
    ],
)
def test_pieces(
    log: tuple[AgentFolder, Path], data: bytes, offset: int, limit: int, text: str, at: int
) -> None:
    home, path = log
    path.write_bytes(data)
    found = piece(home, offset, limit)
    assert (found.text, found.offset, found.size, found.error) == (text, at, len(data), "")


@given(st.binary(max_size=60) | st.text(max_size=30).map(str.encode), st.integers(1, 7))
def test_pieces_follow_one_another_without_gap(data: bytes, limit: int) -> None:
    offset, text = 0, ""
    while offset < len(data):
        one = decoded(data[offset : offset + limit])
        assert one
        offset += len(one.encode())
        text += one
    assert offset == len(data)
    if limit >= 4 and data.decode(errors="ignore").encode() == data:
        assert text == data.decode()


def test_a_log_that_is_not_there(log: tuple[AgentFolder, Path]) -> None:
    home, _ = log
    assert piece(home, 0, rank=5).error == "there is no log of rank 5 of attempt 1 on this machine"


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/passwd"), lambda path: os.mkfifo(path)])
def test_a_log_that_is_a_trap(log: tuple[AgentFolder, Path], make: Callable[[Path], None]) -> None:
    home, path = log
    make(path)
    found = piece(home, 0)
    assert (found.text, found.error.startswith("the log cannot be read")) == ("", True)


def test_a_log_that_says_to_be_endless(log: tuple[AgentFolder, Path]) -> None:
    """No more of it is said than any answer can hold."""
    home, path = log
    path.write_text("one")
    try:
        os.truncate(path, 2**62)
    except OSError as error:
        pytest.skip(f"this file system has no such files: {error}")
    assert piece(home, 0).size == 2**53


@pytest.mark.parametrize(
    ("kept", "silence"),
    [
        (None, Silence.HEARD),  # no agent was here before
        ("", Silence.HEARD),  # one of an earlier version: the silence begins now
        ("1000.0 60.0 before", Silence.HEARD),  # the machine has started anew: nothing runs from before
        ("1000.0 60.0 b", Silence.FENCED),
        ("9000.0 60.0 b", Silence.HEARD),
    ],
)
def test_what_an_agent_before_has_heard(tmp_path: Path, kept: str | None, silence: Silence) -> None:
    """By the clock of the boot, whatever becomes of the one on the wall."""
    path = tmp_path / "contact"
    if kept is not None:
        path.write_text(kept)
    clock = Clock(2000.0)
    contact = Contact(path, clock=clock, boot="b")
    assert contact.silence() is silence
    if kept == "":
        clock.now += 61.0
        assert contact.silence() is Silence.FENCED
