"""The operator's hook: what it is told, how often, by whom; and that nobody waits for it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rota.engines.rota.identity import ProcessIdentity
from rota.errors import InputError
from rota.server.clocks import Clock
from rota.server.config import choose
from rota.server.hooks import autoscaler
from rota.server.hooks.autoscale_setting import autoscale_of
from rota.server.hooks.autoscaler import RUNNING, Scaler, Wish, wish_of
from rota.server.hooks.delivery import NotTaken, run_command
from rota.server.scheduler_view import SchedulerView
from rota.server.store.rows import REAL, EventRow, NodeRow, PolicyRow, Step
from rota.server.store.store import Store
from rota.wire.sync import DeviceInfo, NodeInfo
from rota.worlds.live.wanted_nodes import AUTOSCALE, ScaleLimits

PATIENCE_S = 60.0
HOOK = """#!/bin/sh
cat >> {told}; echo >> {told}
{then}
"""


def node(name: str, state: str = "up", drained_by: str = "", position: int = 0) -> NodeRow:
    device = DeviceInfo(index=0, type="cpu")
    info = NodeInfo(name=name, address="", cpus=1, memory_gib=1, boot_id="b", devices=[device], kind="cpu")
    return NodeRow(position, name, info, state, position, 0.0, "", "", drained_by)


def scaling(wanted: int, released: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"wanted": wanted, "changed_s": None, "released": list(released), "gone": list(gone)}


LEAVES = "autoscale"
WISHES: list[tuple[str, dict[str, Any], list[NodeRow], Wish, bool]] = [
    # the cluster -> how many machines there shall be, which of them may go; whether it is so
    ("as it is", scaling(2), [node("a"), node("b")], Wish(2), True),
    ("none yet", scaling(1), [], Wish(1), False),
    ("two are missing", scaling(4), [node("a"), node("b")], Wish(4), False),
    ("one leaves", scaling(1), [node("a"), node("b", "drained", LEAVES)], Wish(2), True),
    ("it is empty", scaling(1, ("b",)), [node("a"), node("b", "drained", LEAVES)], Wish(1, ("b",)), False),
    ("it has gone", scaling(1, (), ("b",)), [node("a"), node("b", "forgotten")], Wish(1, ("b",)), False),
    ("drained by ann", scaling(2), [node("a"), node("b", "drained", "ann")], Wish(3), False),
    ("restarting", scaling(2), [node("a"), node("b", "away")], Wish(2), True),
    ("lost", scaling(2), [node("a"), node("b", "lost")], Wish(2), False),
]


@pytest.mark.parametrize(("about", "stored", "nodes", "wish", "is_so"), WISHES)
def test_wishes(about: str, stored: dict[str, Any], nodes: list[NodeRow], wish: Wish, is_so: bool) -> None:
    found = wish_of(stored, nodes)
    assert (found, found.is_so) == (wish, is_so), about


def test_who_was_named_before_it_went_is_not_named_again() -> None:
    assert wish_of(scaling(1, (), ("b",)), [node("a")], ["b"]) == Wish(1)
    assert wish_of(scaling(1, ("b",)), [node("a")], ["b"]) == Wish(1, ("b",)), "it is there still"


def test_the_setting() -> None:
    said = {"command": ["x"], "min": 2, "max": 5, "cooldown": "5m", "nodes": "w*", "again": "1h"}
    made = autoscale_of(said)
    assert made is not None
    assert made.limits == ScaleLimits(2, 5, 300.0, "w*")
    assert (made.command, made.timeout_s, made.again_s) == (("x",), 60.0, 3600.0)
    assert autoscale_of({}) is None


@pytest.mark.parametrize(
    "said",
    [
        ["x"],
        {"min": 1, "max": 2},
        {"command": ["x"], "url": "http://x", "max": 2},
        {"command": "x", "max": 2},
        {"url": "x", "max": 2},
        {"command": ["x"]},
        {"command": ["x"], "min": 3, "max": 2},
        {"command": ["x"], "min": 0, "max": 2},
        {"command": ["x"], "max": True},
        {"command": ["x"], "max": 2, "cooldown": 60},
        {"command": ["x"], "max": 2, "timeout": "0s"},
        {"command": ["x"], "max": 2, "nodes": ""},
        {"command": ["x"], "most": 2},
    ],
)
def test_settings_that_make_no_sense(tmp_path: Path, said: Any) -> None:
    with pytest.raises(InputError, match=r"^autoscale: "):
        autoscale_of(said)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"autoscale": said}))
    with pytest.raises(InputError):
        choose(tmp_path, {}, {})


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"command": ["x"]}, "it does not say `max`; expected the most nodes"),
        ({"command": ["x"], "max": 2, "colour": 1}, "there is no `colour`; expected `command` or `url`"),
        ({"url": "http://ann:geheim@x/", "max": 2}, "url holds a user or a password, which are not sent"),
    ],
)
def test_what_is_wrong_with_a_setting(said: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=f"^autoscale: {sentence}") as caught:
        autoscale_of(said)
    assert "geheim" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["", "#!/no/such/shell\n"])
def test_a_script_that_names_no_program_to_run_it(tmp_path: Path, first: str) -> None:
    """The kernel says of both what it says of a file that is not there, or less."""
    hook = tmp_path / "hook"
    hook.write_text(f"{first}exit 0\n")
    hook.chmod(0o755)
    with pytest.raises(NotTaken, match="cannot be run: its first line names no program to run it with"):
        run_command([str(hook)], b"{}", 60.0)
    with pytest.raises(NotTaken, match="cannot be run: No such file or directory"):
        run_command([str(tmp_path / "none")], b"{}", 60.0)


class Play:
    """A store with what is wanted, and a hook that writes down what it is told."""

    def __init__(self, folder: Path, then: str = "", **setting: Any) -> None:
        self.folder, self.told = folder, folder / "told"
        self.hook = folder / "hook"
        self.write(then)
        self.store = Store.open(None, folder)
        self.store.commit(Step(policies=[PolicyRow(REAL, "pollux:utility=0.35/0.65", 0.0, "ann")]))
        self.shown = SchedulerView(policy=self.store.policies()[REAL])
        self.nodes = [node("a")]
        self.setting = {"command": [str(self.hook)], "max": 9, **setting}
        self.begin()

    def begin(self) -> None:
        autoscale = autoscale_of(self.setting)
        assert autoscale is not None
        clock = Clock(self.store.epoch_s, None, 0.0)
        self.scaler = Scaler(autoscale, "c", self.store, self.shown, clock, self.folder)
        self.scaler.start()

    def write(self, then: str) -> None:
        self.hook.write_text(HOOK.format(told=self.told, then=then))
        self.hook.chmod(0o755)

    @property
    def nodes(self) -> list[NodeRow]:
        """The machines that the scheduler knows of."""
        return list(self.shown.nodes.values())

    @nodes.setter
    def nodes(self, nodes: list[NodeRow]) -> None:
        self.shown.nodes = {node.name: node for node in nodes}

    def want(self, wanted: int, released: tuple[str, ...] = ()) -> None:
        self.store.commit(Step(facts={AUTOSCALE: scaling(wanted, released)}))
        self.scaler._news.set()

    def messages(self) -> list[dict[str, Any]]:
        text = self.told.read_text() if self.told.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line]

    def until(self, true: Callable[[], Any], what: str) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < end_s, f"{what}: {self.messages()} {self.scaler.trouble}"
            time.sleep(0.01)

    def wishes(self) -> list[tuple[int, list[str]]]:
        return [(one["nodes"], one["remove"]) for one in self.messages()]

    def noted(self) -> list[str]:
        found: list[EventRow] = [row for row in self.store.events() if row.kind == "autoscale"]
        return [row.text for row in found]

    def close(self) -> None:
        self.scaler.close()
        self.scaler._thread.join(PATIENCE_S)
        self.store.close()


@pytest.fixture
def playing(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    plays: list[Play] = []

    def make(*args: Any, **setting: Any) -> Play:
        plays.append(Play(tmp_path, *args, **setting))
        return plays[-1]

    yield make
    for play in plays:
        play.close()


@pytest.mark.slow
def test_it_is_told_once_what_is_wanted(playing: Any) -> None:
    play = playing()
    play.want(3)
    play.until(lambda: play.wishes() == [(3, [])], "told")
    message = play.messages()[0]
    assert {key: message[key] for key in ("cluster", "min", "max", "wanted", "working", "lost")} == {
        "cluster": "c",
        "min": 1,
        "max": 9,
        "wanted": 3,
        "working": ["a"],
        "lost": [],
    }
    play.nodes = [node("a"), node("b"), node("c")]
    play.scaler._news.set()
    play.want(2, ("c",))
    play.nodes = [node("a"), node("b"), node("c", "drained", LEAVES)]
    play.until(lambda: play.wishes()[-1] == (2, ["c"]), "who may go")
    assert play.scaler.trouble == ""
    view = play.scaler.view()
    assert view is not None
    assert (view.wanted, view.working, view.remove) == (2, 2, ["c"])
    assert play.noted()[0].endswith("was told that 3 nodes are wanted")


@pytest.mark.slow
def test_a_failure_is_told_and_tried_again(playing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoscaler, "FIRST_PAUSE_S", 0.05)
    play = playing("echo no quota >&2; exit 7")
    play.want(3)
    play.until(lambda: len(play.messages()) > 2, "tried again")
    assert play.scaler.troubles() == [
        f"autoscale: command {play.hook} has not taken that 3 nodes are wanted: it ended with 7: no quota"
    ]
    assert len(play.noted()) == 1, "the same failure is noted once"
    play.write("")
    play.until(lambda: not play.scaler.trouble, "taken")
    told = len(play.messages())
    time.sleep(0.3)
    assert len(play.messages()) == told


@pytest.mark.slow
def test_machines_that_do_not_come_are_asked_for_again(playing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoscaler, "LOOK_S", 0.05)
    play = playing(again="200ms")
    play.want(2)
    play.until(lambda: len(play.messages()) > 1, "told again")
    play.until(lambda: "which is not so after" in play.scaler.trouble, "trouble")
    play.nodes = [node("a"), node("b")]
    play.until(lambda: not play.scaler.trouble, "it is so")
    assert {message["wanted"] for message in play.messages()} == {2}


@pytest.mark.slow
def test_one_that_hangs_is_ended_and_what_it_leaves_running_keeps_nobody_waiting(playing: Any) -> None:
    play = playing("sleep 600", timeout="300ms")
    play.want(3)
    play.until(lambda: "it has not ended within" in play.scaler.trouble, "time-out")
    assert not (play.folder / RUNNING).exists()
    play.write("setsid sleep 600 & echo $! > " + str(play.folder / "left"))
    play.until(lambda: not play.scaler.trouble, "taken")
    subprocess.run(["kill", (play.folder / "left").read_text().strip()], check=True)


@pytest.mark.slow
def test_who_follows_on_a_killed_controller_waits_for_its_command(playing: Any) -> None:
    play = playing()
    play.scaler.close()
    play.scaler._thread.join()
    earlier = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    who = ProcessIdentity.of(earlier.pid)
    assert who is not None
    until_s = time.time() + 600.0
    (play.folder / RUNNING).write_text(json.dumps({"process": who.form(), "until_s": until_s}))
    play.begin()
    play.want(3)
    time.sleep(0.5)
    assert play.messages() == []
    earlier.communicate()
    play.until(lambda: play.wishes() == [(3, [])], "told")


@pytest.mark.slow
def test_what_was_told_before_a_controller_ended_is_not_told_again(playing: Any) -> None:
    play = playing()
    play.want(3)
    play.until(lambda: play.noted(), "told")
    play.scaler.close()
    play.scaler._thread.join()
    play.begin()
    play.scaler._news.set()
    time.sleep(0.5)
    assert len(play.messages()) == 1
    play.want(4)
    play.until(lambda: play.wishes() == [(3, []), (4, [])], "something else")


@pytest.mark.slow
def test_a_policy_that_wants_nothing_is_named(playing: Any) -> None:
    play = playing()
    play.store.commit(Step(policies=[PolicyRow(REAL, "fifo", 0.0, "ann")]))
    assert "policy fifo does not decide how many nodes there are" in play.scaler.troubles()[0]
