"""Structured logs: one JSON object for each line, through the standard library's loggers.

`at` (UTC), `level`, `logger` and `message` always; `traceback` after an exception; and whatever the caller
gave as `extra={"job": "17", "attempt": 2}`.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path

_OWN = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"})


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
    """Send all logs of this process to a file (opened anew if somebody rotates it), or to stderr.

    Replaces what was set up before, and answers the handler.
    """
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = WatchedFileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("alembic").setLevel(max(level, logging.WARNING))  # it lists its plugins at each start
    return handler
