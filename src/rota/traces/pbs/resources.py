"""Resources of jobs in PBS and Torque, as numbers: `2:ncpus=8:ngpus=4`, `64gb`, `(n1:ngpus=2)`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isnan

from rota.errors import brief

_GIB = {"": 1 / 1024**3, "k": 1 / 1024**2, "m": 1 / 1024, "g": 1.0, "t": 1024.0}
_SIZE = re.compile(r"(\d{1,18})(?:([kmgt]?)([bw]))?", re.IGNORECASE | re.ASCII)
_CLOCK = re.compile(r"(?:(?:(\d{1,9}):)?(\d{1,9}):)?(\d{1,9}):(\d\d)(?:\.\d+)?", re.ASCII)
_SECONDS = re.compile(r"\d{1,12}(?:\.\d+)?", re.ASCII)
_COUNT = re.compile(r"\d{1,15}", re.ASCII)
_COUNTS = ("ngpus", "gpus", "ncpus", "ppn")
_WORD_BYTES = 8
_NUMBER = ("no number", "a whole number")
_AMOUNTS = {
    "mem": ("no amount of memory", "64gb, 512mb"),
    "walltime": ("no time limit", "hours:minutes:seconds"),
}
"""The problem with an invalid amount, and what is expected."""
_TOO_MANY = 10**18


def unread_in(asked: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Name of the first invalid amount, such as `ngpus` if it is `two`, its problem, and what is expected.

    Without this check it would count as 0.
    """
    for name in ("ngpus", "ncpus", "select", "nodes", "mem", "walltime"):
        if text := _unread(name, asked.get(name, "")):
            what, expected = _AMOUNTS.get(name, _NUMBER)
            return name, f"{brief(text)} is {what}", expected
    return None


def _unread(name: str, text: str) -> str:
    """The part of `text` that is not an amount of `name`; empty if all is valid, or if there is no text."""
    if name in ("select", "nodes"):
        for part in re.split("[+:]", text):
            key, is_set, value = part.partition("=")
            counts = value if is_set and key in _COUNTS else part if part.isdecimal() else "0"
            if not _COUNT.fullmatch(counts):
                return part
        return ""
    if name in ("mem", "walltime"):
        is_read = not isnan(memory_gib(text) if name == "mem" else seconds(text))
    else:
        is_read = bool(_COUNT.fullmatch(text))
    return "" if is_read else text


def gpus_of(asked: Mapping[str, str], vnodes: str, exec_gpus: str) -> int:
    """GPUs of a job: those it was given (`exec_vnode`, `exec_gpus`), else those it asked for."""
    given = _number_in(vnodes, "ngpus")
    if given:
        return given
    if exec_gpus:
        return len(exec_gpus.split("+"))
    if asked.get("ngpus", "").isdecimal():
        return int(asked["ngpus"])
    return _in_chunks(asked.get("select", ""), "ngpus") or _in_chunks(asked.get("nodes", ""), "gpus")


def cpus_of(asked: Mapping[str, str]) -> float:
    """CPU cores asked for; 0 if not stated."""
    if asked.get("ncpus", "").isdecimal():
        return float(asked["ncpus"])
    return float(_in_chunks(asked.get("select", ""), "ncpus") or _in_chunks(asked.get("nodes", ""), "ppn"))


def nodes_of(vnodes: str, hosts: str) -> tuple[str, ...]:
    """Names in `exec_vnode` or, without it, in `exec_host` (`n1/0*8+n2/0*8`), each once."""
    parts = [part.strip() for part in re.split(r"[()+]", vnodes or hosts)]
    return tuple(dict.fromkeys(re.split("[:/]", part)[0] for part in parts if part))


def memory_gib(text: str) -> float:
    """Memory in GiB (`64gb`, `2097152kb`, plain bytes); 0 if not stated, NaN if invalid."""
    if not text:
        return 0.0
    match = _SIZE.fullmatch(text.strip())
    if not match:
        return float("nan")
    words = _WORD_BYTES if (match[3] or "").lower() == "w" else 1
    return float(match[1]) * _GIB[(match[2] or "").lower()] * words


def seconds(text: str) -> float:
    """Seconds of `120:30:00`, `5:00:30:00` (days first), `30:00` or `3600`; NaN if there are none."""
    if _SECONDS.fullmatch(text.strip()):
        return float(text)
    match = _CLOCK.fullmatch(text.strip())
    if not match:
        return float("nan")
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return float(days * 86400 + hours * 3600 + minutes * 60 + rest)


def _in_chunks(text: str, name: str) -> int:
    """The sum of `name` over chunks `2:ncpus=8:ngpus=4+1:ncpus=4`; a chunk without a number counts once."""
    total = 0
    for chunk in text.split("+"):
        parts = chunk.split(":")
        count = int(parts[0]) if parts[0].isdecimal() else 1
        values = [part.removeprefix(f"{name}=") for part in parts if part.startswith(f"{name}=")]
        total += count * sum(int(value) for value in values if value.isdecimal())
    return total


def _number_in(text: str, name: str) -> int:
    numbers = re.findall(rf"\b{name}=(\d+)", text)
    return sum(int(number) if _COUNT.fullmatch(number) else _TOO_MANY for number in numbers)
