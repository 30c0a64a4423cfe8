"""Logs are one JSON object for each line, whatever is logged."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rota.server.json_logs import JsonLines, set_up

log = logging.getLogger("rota.test")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The root logger of the test run."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers = []
    yield
    logging.captureWarnings(False)
    for handler in root.handlers:
        handler.close()
    root.handlers = handlers
    root.setLevel(level)


def line_of(**record: object) -> dict[str, object]:
    made = logging.makeLogRecord({"name": "rota.x", "levelname": "INFO", "msg": "m", **record})
    text = JsonLines().format(made)
    assert "\n" not in text
    loaded: dict[str, object] = json.loads(text, parse_constant=pytest.fail)
    return loaded


def test_line() -> None:
    assert line_of(msg="job %s", args=("17",), created=0.25, job="17", attempt=2) == {
        "at": "1970-01-01T00:00:00.250Z",
        "level": "info",
        "logger": "rota.x",
        "message": "job 17",
        "job": "17",
        "attempt": 2,
    }


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, Path("/x"), b"\xff", "a\nb\u2028\0", float("nan"), [float("inf")], {(1,): 2}]
)
def test_any_extra(value: object) -> None:
    assert "extra" in line_of(extra=value)


def test_extra_cannot_hide_what_every_line_has() -> None:
    assert line_of(msg="true", at="never", level="none")["at"] != "never"


def test_traceback(tmp_path: Path) -> None:
    set_up(tmp_path / "logs" / "controller.log")
    try:
        raise ValueError("wrong\nline")
    except ValueError:
        log.exception("it %s", "failed")
    [text] = (tmp_path / "logs" / "controller.log").read_text().splitlines()
    assert json.loads(text)["message"] == "it failed"
    assert "ValueError: wrong\nline" in json.loads(text)["traceback"]


def test_rotated_file_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "controller.log"
    set_up(path)
    log.info("one")
    path.rename(tmp_path / "controller.log.1")
    log.info("two \ud800")
    assert json.loads(path.read_text())["message"].startswith("two")


def test_level_and_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    set_up(level=logging.WARNING)
    log.info("quiet")
    log.warning("loud")
    set_up(level=logging.WARNING)  # again: no line twice
    log.warning("louder")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["loud", "louder"]


def test_warnings_are_lines_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as NumPy's, where a number of a user overflows."""
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        set_up()
        np.float64(1.0) / np.float64(5e-324)
    [line] = stream.getvalue().splitlines()
    assert "overflow encountered" in json.loads(line)["message"]
