"""This side of `rota shell`: what its person is told while nothing comes from the other side."""

from __future__ import annotations

import os
import select
import termios
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from live_play import STATUS, job

from rota.cli.live.shell import silent_node
from rota.cli.live.terminal import LocalTerminal
from rota.client import Client, Refused, Unreachable
from rota.wire.terminal import TerminalTalk, unpacked

PATIENCE_S = 60.0


class MuteJob:
    """A controller's terminal that takes what is typed and prints nothing, until `is_over`."""

    def __init__(self) -> None:
        self.taken = b""
        self.is_over = threading.Event()

    def call(self, method: str, path: str, body: dict[str, Any], **_: object) -> dict[str, Any]:
        if not body.get("session"):
            return {"session": "s"}
        if "data" in body and "at" in body:
            self.taken += unpacked(body["data"])
            return {"session": "s", "have": len(self.taken)}
        return {"session": "s", "over": self.is_over.wait(0.01)}


@pytest.fixture
def pair() -> Iterator[tuple[int, int]]:
    mine, theirs = os.openpty()
    yield mine, theirs
    os.close(mine)
    os.close(theirs)


def shown(screen: int, last: bytes) -> bytes:
    """What stands on a terminal once it ends with `last`, which may come after what was echoed before."""
    text = b""
    while not text.endswith(last) and select.select([screen], [], [], PATIENCE_S)[0]:
        text += os.read(screen, 4096)
    return text


def test_who_types_into_silence_is_told_once(pair: tuple[int, int]) -> None:
    """Why nothing comes is asked after something was typed, not before, and told on a line of its own."""
    mine, theirs = pair
    mute, asked = MuteJob(), []

    def unanswered() -> str:
        asked.append(mute.taken)
        mute.is_over.set()
        return "node n1 does not answer"

    terminal = LocalTerminal(cast("Client", mute), "17", theirs, theirs, unanswered)
    assert terminal.wait(0.0)
    os.write(mine, b"x")
    assert terminal.run()
    assert asked == [b"x"]
    assert shown(mine, b"answer\r\n").endswith(b"\r\nrota: node n1 does not answer\r\n")


class RestartedController(MuteJob):
    """Away when the first key comes; back, it knows no session of before."""

    def __init__(self, was_sent: bool) -> None:
        super().__init__()
        self.away = Unreachable("away")
        self.away.was_sent = was_sent
        self.session = "before"
        self.is_back = threading.Event()

    def call(self, method: str, path: str, body: dict[str, Any], **_: object) -> dict[str, Any]:
        if not body.get("session"):
            if self.session == "none":
                self.session = "after"
                self.is_back.set()
            return {"session": self.session}
        if body.get("data") and self.session == "before":
            self.session = "none"
            raise self.away
        if body["session"] != self.session:
            raise Refused(404, "there is no such session")
        if b"\n" in self.taken + unpacked(body.get("data") or ""):
            self.is_over.set()
        return super().call(method, path, body)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("was_sent", "taken", "told"),
    [(False, b"make\n", b""), (True, b"\n", b"when the connection broke may not have arrived")],
    ids=["nobody was there", "it may have arrived"],
)
def test_what_is_typed_while_no_controller_is_there_is_kept(
    pair: tuple[int, int], monkeypatch: pytest.MonkeyPatch, was_sent: bool, taken: bytes, told: bytes
) -> None:
    """Nothing is typed twice; but what nobody can have heard was dropped as well, and nobody was told."""
    monkeypatch.setattr("rota.cli.live.terminal.PAUSE_S", 0.01)
    mine, theirs = pair
    job = RestartedController(was_sent)
    terminal = LocalTerminal(cast("Client", job), "17", theirs, theirs, lambda: "")
    assert terminal.wait(0.0)
    os.write(mine, b"make")
    typing = threading.Thread(target=lambda: job.is_back.wait() and os.write(mine, b"\n"))
    typing.start()
    assert terminal.run()
    typing.join()
    assert job.taken == taken
    os.write(theirs, b"end")
    text = shown(mine, b"end")
    assert told in text
    assert bool(told) is (b"rota: " in text)


@pytest.mark.parametrize(("side", "told"), [(80, 80), (65_535, 10_000)])
def test_a_terminal_of_any_size_will_do(pair: tuple[int, int], side: int, told: int) -> None:
    """One of 65,535 columns, as some say that have none, was refused, and the session with it."""
    termios.tcsetwinsize(pair[1], (side, side))
    terminal = LocalTerminal(cast("Client", MuteJob()), "17", pair[1], pair[1], lambda: "")
    said = TerminalTalk.model_validate(terminal._size())
    assert (said.rows, said.columns) == (told, told)


@pytest.mark.parametrize(
    ("trouble", "nodes", "said"),
    [
        (
            "node n1 is silent for 32s; it counts as lost after 1m",
            ["n1"],
            "node n1, where job 17 is, does not",
        ),
        ("node n10 is silent for 32s; it counts as lost after 1m", ["n1"], ""),
        ("node n1 is silent for 32s; it counts as lost after 1m", [], ""),
    ],
    ids=["silent", "another", "nowhere"],
)
def test_a_silent_node_is_named(
    trouble: str, nodes: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = STATUS.model_copy(update={"troubles": [trouble]}).model_dump(mode="json")
    client = Client("http://127.0.0.1:1", "token")
    monkeypatch.setattr(client, "call", lambda method, path: status)
    answer = silent_node(client, job("17", "RUNNING", nodes=nodes))
    assert answer.startswith(said)
    assert bool(answer) == bool(said)
