"""What PBS and Torque write of a job's resources, as numbers: `2:ncpus=8:ngpus=4`, `64gb`, `(n1:ngpus=2)`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_GIB = {"": 1 / 1024**3, "k": 1 / 1024**2, "m": 1 / 1024, "g": 1.0, "t": 1024.0}
_SIZE = re.compile(r"(\d+)(?:([kmgt]?)([bw]))?", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):(\d\d)(?:\.\d+)?")
_WORD_BYTES = 8


def gpus_of(asked: Mapping[str, str], vnodes: str, exec_gpus: str) -> int:
    """GPUs of a job: what it was given (`exec_vnode`, `exec_gpus`), else what it asked for."""
    given = _number_in(vnodes, "ngpus")
    if given:
        return given
    if exec_gpus:
        return len(exec_gpus.split("+"))
    if asked.get("ngpus", "").isdecimal():
        return int(asked["ngpus"])
    return _in_chunks(asked.get("select", ""), "ngpus") or _in_chunks(asked.get("nodes", ""), "gpus")


def cpus_of(asked: Mapping[str, str]) -> float:
    """CPU cores asked for; 0 if that is not said."""
    if asked.get("ncpus", "").isdecimal():
        return float(asked["ncpus"])
    return float(_in_chunks(asked.get("select", ""), "ncpus") or _in_chunks(asked.get("nodes", ""), "ppn"))


def nodes_of(vnodes: str, hosts: str) -> tuple[str, ...]:
    """Names in `exec_vnode` or, without it, in `exec_host` (`n1/0*8+n2/0*8`), each once."""
    parts = [part.strip() for part in re.split(r"[()+]", vnodes or hosts)]
    return tuple(dict.fromkeys(re.split("[:/]", part)[0] for part in parts if part))


def memory_gib(text: str) -> float:
    """Memory in GiB (`64gb`, `2097152kb`, plain bytes); 0 if there is none, NaN if it is no amount."""
    if not text:
        return 0.0
    match = _SIZE.fullmatch(text.strip())
    if not match:
        return float("nan")
    words = _WORD_BYTES if (match[3] or "").lower() == "w" else 1
    return float(match[1]) * _GIB[(match[2] or "").lower()] * words


def seconds(text: str) -> float:
    """Seconds of `120:30:00`, `30:00` or `3600`; NaN if there are none."""
    if text.strip().isdecimal():
        return float(text)
    match = _CLOCK.fullmatch(text.strip())
    if not match:
        return float("nan")
    return float(int(match[1] or 0) * 3600 + int(match[2]) * 60 + int(match[3]))


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
    return sum(int(number) for number in re.findall(rf"\b{name}=(\d+)", text))
