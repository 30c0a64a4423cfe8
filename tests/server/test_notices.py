"""Notices by command and webhook: what is told, to whom, how often; and that nobody waits for it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from live_cluster import LiveCluster

from rota.errors import InputError
from rota.server.hooks import notices as module
from rota.server.hooks.delivery import NotTaken, post, run_command
from rota.server.hooks.notices import END, FAILURE, POLICY, PREEMPTION, RISK, Notices, Target, targets_of

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0


class Hook:
    """A webhook that remembers what it got and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.at_s: list[float] = []
        self.answers: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.got.append(body)
                hook.at_s.append(time.monotonic())
                hook.may_answer.wait(PATIENCE_S)
                self.send_response(hook.answers.pop(0) if hook.answers else 200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/secret"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def events(self) -> list[tuple[str, str]]:
        """Kind and job of all that was told, in its order."""
        return [(event["event"], event["job"]["id"]) for one in self.got for event in one["events"]]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    one = Hook()
    yield one
    one.close()


def until(true: Any, what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end_s, what
        time.sleep(0.01)


def test_a_replaced_policy_is_told_to_those_that_watch_the_cluster(hook: Hook) -> None:
    """It is about no job: a target of one tenant does not hear of it."""
    said = "policy fifo decides in place of mine"
    for target in (Target(url=hook.url, tenant="vision", every_s=0.0), Target(url=hook.url, every_s=0.0)):
        notices = begun(target)
        notices.replaced(said, 5.0)
        notices.ended(1, "FAILED", 6.0)
        until(
            lambda: [one for got in hook.got for one in got["events"] if one["event"] == FAILURE],
            "it is told",
        )
        notices.close()
        told = [one for got in hook.got for one in got["events"] if one["event"] == POLICY]
        assert [(one["text"], one["job"], one["at_s"]) for one in told] == (
            [] if target.tenant else [(said, None, 5.0)]
        )
        hook.got.clear()


def jobs(rows: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
    """Odd ones are of tenant vision/ann."""
    return {row: {"id": str(row + 1), "tenant": "vision/ann" if row % 2 else "speech"} for row in rows}


def begun(*targets: Target, details: Any = jobs) -> Notices:
    notices = Notices("c", targets, details)
    notices.start()
    return notices


def test_what_is_told_to_whom(hook: Hook) -> None:
    """All ends to who wants ends, failures alone to who wants these; one's own tenant; no end twice."""
    every = Target(url=hook.url, every_s=0.0)
    notices = begun(every)
    notices.preempted(1, "preempted", 5.0)
    notices.at_risk(2, "its promised deadline is at risk", 6.0)
    for state in ("COMPLETED", "COMPLETED"):
        notices.ended(0, state, 7.0)
    notices.ended(2, "FAILED", 8.0)
    until(lambda: len(hook.events()) == 4, "four events")
    notices.close()
    assert hook.events() == [(PREEMPTION, "2"), (RISK, "3"), (END, "1"), (FAILURE, "3")]
    hook.got.clear()
    notices = begun(Target(url=hook.url, on=frozenset({FAILURE}), tenant="vision", every_s=0.0))
    for row in range(4):
        notices.ended(row, "TIMEOUT", 1.0)
        notices.ended(10 + row, "COMPLETED", 1.0)
    until(lambda: len(hook.events()) == 2, "two events")
    time.sleep(0.1)
    notices.close()
    assert hook.events() == [(FAILURE, "2"), (FAILURE, "4")]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_webhook_on_this_machine_is_not_sought_through_a_proxy(
    hook: Hook, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Where the environment names one, as it does at many sites: what is "here" is another machine to it."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    post(hook.url.replace("127.0.0.1", host), b'{"events": []}', PATIENCE_S)
    assert hook.got == [{"events": []}]


def test_a_webhook_elsewhere_is_sought_through_the_proxy(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", hook.url)
    post("http://hooks.example.invalid/x", b'{"events": []}', PATIENCE_S)
    assert hook.got == [{"events": []}]


def test_an_answer_without_an_end_keeps_nobody() -> None:
    """One byte now and then was read on for ever, and its target was told nothing any more."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        is_over = threading.Event()

        def drip() -> None:
            line, _ = server.accept()
            with line, suppress(OSError):
                line.recv(4096)
                line.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while not is_over.wait(0.02):
                    line.sendall(b".")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        told = threading.Thread(
            target=post, args=(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", 1.0), daemon=True
        )
        told.start()
        told.join(5.0)
        is_over.set()
        assert not told.is_alive()
        thread.join(PATIENCE_S)


def test_of_a_command_that_says_much_the_end_is_told() -> None:
    with pytest.raises(NotTaken, match=r"^it ended with 3: no space$"):
        run_command(["sh", "-c", "seq 50000 >&2; echo no space >&2; exit 3"], b"{}", PATIENCE_S)


def test_it_is_tried_again_and_given_up(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 503 and 429 again, after 404 not; while it fails, the status says so without the secret."""
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.1)
    hook.answers = [503, 429, 200, 404]
    notices = begun(Target(url=hook.url, every_s=0.0))
    notices.ended(0, "FAILED", 1.0)
    until(lambda: len(hook.got) >= 1, "a try")
    until(lambda: notices.troubles() or len(hook.got) > 1, "it is told")
    until(lambda: len(hook.got) == 3 and not notices.troubles(), "the third try")
    notices.ended(1, "FAILED", 1.0)
    until(notices.troubles, "it is told")
    time.sleep(0.3)
    assert len(hook.got) == 4
    (said,) = notices.troubles()
    assert said.endswith(": it answers 404")
    assert "secret" not in said
    notices.close()


def test_one_message_in_a_while_with_all_that_has_come_in(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storm of ends is a few messages, nobody waits for them, and what finds no room is counted."""
    monkeypatch.setattr(module, "MOST_WAITING", 150)
    notices = begun(Target(url=hook.url, every_s=0.3))
    hook.may_answer.clear()
    notices.ended(9999, "COMPLETED", 0.0)
    until(lambda: len(hook.got) == 1, "the first message")
    for row in range(1000):
        notices.ended(row, "COMPLETED", 1.0)
    hook.may_answer.set()  # all have come in while it was on its way
    until(lambda: len(hook.got) == 3, "two more messages")
    assert [len(one["events"]) for one in hook.got] == [1, 100, 50]
    assert sum(one["left_out"] for one in hook.got) == 850
    assert min(b - a for a, b in zip(hook.at_s, hook.at_s[1:], strict=False)) >= 0.25
    notices.close()


def test_a_target_that_hangs_stops_nobody(hook: Hook, tmp_path: Path) -> None:
    """Neither who puts, nor the other target."""
    notices = begun(Target(command=("/bin/sleep", "600"), every_s=0.0), Target(url=hook.url, every_s=0.0))
    began_s = time.monotonic()
    for row in range(50):
        notices.ended(row, "COMPLETED", 1.0)
    until(lambda: len(hook.events()) == 50, "all ends at the other target")
    assert time.monotonic() - began_s < 300, "the one that hangs was waited for"
    notices.close()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"url": "x"}, "is no list"),
        ([{"url": "ftp://x"}], "entry 1: url is no address"),
        ([{"url": "http://x", "command": ["a"]}], "expected `command` or `url`"),
        ([{}], "expected `command` or `url`"),
        ([{"command": "mail ann"}], "command is 'mail ann'; expected a program and its arguments as a list"),
        (
            [{"url": "http://x", "on": ["start"]}],
            "on is ['start']; expected a list of end, failure, preemption, idle, risk",
        ),
        ([{"url": "http://x", "every": "soon"}], "every"),
        ([{"url": "http://x", "whom": "ann"}], "some of on, tenant, every"),
    ],
)
def test_a_wrong_setting_is_named(said: object, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        targets_of(said)
    assert sentence in str(caught.value)


def test_a_cluster_tells_by_command_and_webhook(hook: Hook, tmp_path: Path) -> None:
    """Real processes: an end, a failure, a job that others put out; the command gets JSON on its input."""
    box = tmp_path / "box"
    notify = [
        {"url": hook.url, "every": "0.1s"},
        {"command": ["/bin/sh", "-c", f"cat >> {box}; echo >> {box}"], "on": ["failure"]},
    ]
    with LiveCluster(tmp_path, devices="cpu:1", notify=notify, policy="fifo:skip=yes") as live:
        live.wait(live.submit("true"))
        failed = live.submit("sh", "-c", "exit 3", name="bad")
        live.wait(failed)
        until(lambda: (FAILURE, failed) in hook.events(), "the failure")
        until(lambda: box.exists() and box.read_text().endswith("\n"), "the command")
        long = live.submit("sleep", "600", time_s=1000.0)
        live.reaches(long, "RUNNING")
        live.client.call("PUT", "/v1/policy", {"policy": "srtf"})
        live.wait(live.submit("true", time_s=1.0))
        until(lambda: (PREEMPTION, long) in hook.events(), f"the preemption: {hook.events()}")
        assert live.client.call("GET", "/v1/status")["troubles"] == []
    assert hook.events()[:2] == [(END, "1"), (FAILURE, "2")]
    (line,) = box.read_text().splitlines()
    (event,) = json.loads(line)["events"]
    assert (event["job"]["name"], event["job"]["state"], event["job"]["exit_code"]) == ("bad", "FAILED", 3)
    assert abs(event["at_s"] - time.time()) < 120
