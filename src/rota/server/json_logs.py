"""Structured logs: one JSON object for each line, through the standard library's loggers.

`at` (UTC), `level`, `logger` and `message` always; `traceback` after an exception; and whatever the caller
gave as `extra={"job": "17", "attempt": 2}`.  Python's warnings are such lines, too.
`left_out` is how many lines like this one were not written before it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from time import monotonic

Clock = Callable[[], float]
_OWN = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"})


class Quiet(logging.Filter):
    """Lets `most` lines of one place of the program pass in `every_s` seconds, and counts the others.

    The first that passes afterwards says how many were left out: no caller fills the disk by causing log
    lines.  Lines of more places than `places` share one count.
    """

    def __init__(
        self,
        most: int = 20,
        every_s: float = 10.0,
        places: int = 1000,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__()
        self._most, self._every_s, self._places, self._clock = most, every_s, places, clock
        self._seen: dict[tuple[str, str, int], _Lines] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        place = (record.name, record.pathname, record.lineno)
        if place not in self._seen and len(self._seen) >= self._places:
            place = ("", "", 0)
        now_s = self._clock()
        lines = self._seen.setdefault(place, _Lines(now_s))
        if now_s - lines.since_s >= self._every_s:
            if lines.left_out:
                record.left_out = lines.left_out
            lines = self._seen[place] = _Lines(now_s)
        lines.written += 1
        if lines.written <= self._most:
            return True
        lines.left_out += 1
        return False


@dataclass(slots=True)
class _Lines:
    """Of one place, since a moment."""

    since_s: float
    written: int = 0
    left_out: int = 0


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON; what JSON does not know is written as its `str`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _OWN and key not in line}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        try:
            return json.dumps(line, ensure_ascii=False, default=str, allow_nan=False)
        except (TypeError, ValueError):  # a NaN, a circle, a key that is no text
            return json.dumps({key: str(value) for key, value in line.items()}, ensure_ascii=False)


def set_up(path: Path | None = None, level: int = logging.INFO) -> logging.Handler:
    """Send all logs of this process to a file (opened again after a rotation), or to stderr.

    Replaces the previous set-up, and returns the handler.
    """
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = WatchedFileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(JsonLines())
    handler.addFilter(Quiet())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)  # printed, they would be lines that are no JSON
    logging.getLogger("alembic").setLevel(max(level, logging.WARNING))  # it lists its plugins at each start
    return handler
