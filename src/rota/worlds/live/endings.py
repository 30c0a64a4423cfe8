"""Rules for the end of an attempt, in the spirit of the Philly study of failures.

The study found that most failures are the program's own fault and come back on every retry, while a few are
the infrastructure's, where a retry helps (Jeon et al., ATC 2019, sections 4.2 and 6).  So each end gets a
cause by the first rule that fits; a program's fault fails at once, the infrastructure's is tried again after
a back-off that doubles.  A job that fails a few times in a row from the same cause is given up, as the
study's third guideline says.  `rota config` shows the rules, a configuration file may put others before them.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rota.errors import InputError
from rota.wire.sync import Exit


class Cause(StrEnum):
    """What caused the end of an attempt."""

    FINISHED = "finished"
    REQUEUE = "requeue"
    USER = "user"
    OOM = "oom"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True)
class Rule:
    """Ends that fit all that is said here have `cause`."""

    name: str
    cause: Cause
    codes: frozenset[int] = frozenset()
    """Exit codes; empty fits any."""
    signals: frozenset[int] = frozenset()
    log: str = ""
    """A regular expression searched in the last lines of the log; empty fits any."""

    def fits(self, end: Exit) -> bool:
        if self.codes and end.code not in self.codes:
            return False
        if self.signals and end.signal not in self.signals:
            return False
        return not self.log or re.search(self.log, end.tail, re.MULTILINE) is not None


_OOM_LOG = r"CUDA out of memory|OutOfMemoryError|^MemoryError\b|std::bad_alloc|Cannot allocate memory"
_GPU_LOG = (
    r"uncorrectable ECC|CUDA error: (?:an )?(?:ecc|hardware|unspecified launch|device not ready)"
    r"|GPU is lost|Xid \d+|CUDA driver version is insufficient|no CUDA-capable device|NVML: Driver"
)
_NETWORK_LOG = (
    r"NCCL (?:error|WARN).*(?:unhandled system error|remote|timeout|connection)"
    r"|Connection (?:reset by peer|refused|closed by peer|timed out)|Socket Timeout|Broken pipe"
    r"|No route to host|Network is unreachable|Name or service not known"
)
_STORAGE_LOG = (
    r"Input/output error|Stale file handle|Transport endpoint is not connected|Read-only file system"
    r"|No space left on device"
)
_PROGRAM_LOG = (
    r"^(?:\w+\.)*(?:ImportError|ModuleNotFoundError|SyntaxError|IndentationError|NameError|AttributeError"
    r"|TypeError|ValueError|KeyError|IndexError|AssertionError|ZeroDivisionError|FileNotFoundError"
    r"|PermissionError|NotADirectoryError|IsADirectoryError|UnicodeDecodeError|RecursionError)\b"
)
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP})

_KILLS = frozenset({signal.SIGKILL, signal.SIGTERM})
"""A shell says 128 more of what ended its command."""

RULES: tuple[Rule, ...] = (
    Rule("program not found or not executable", Cause.USER, codes=frozenset({126, 127})),
    Rule("out of memory", Cause.OOM, log=_OOM_LOG),
    Rule("device fault", Cause.INFRASTRUCTURE, log=_GPU_LOG),
    Rule("network fault", Cause.INFRASTRUCTURE, log=_NETWORK_LOG),
    Rule("storage fault", Cause.INFRASTRUCTURE, log=_STORAGE_LOG),
    Rule("bus error", Cause.INFRASTRUCTURE, signals=frozenset({signal.SIGBUS})),
    Rule("error in the program", Cause.USER, log=_PROGRAM_LOG),
    Rule("crash of the program", Cause.USER, signals=_CRASHES),
    Rule("killed from outside", Cause.INFRASTRUCTURE, signals=_KILLS),
    Rule("killed from outside", Cause.INFRASTRUCTURE, codes=frozenset(128 + one for one in _KILLS)),
)
"""In order; an end that none fits is the program's own."""


@dataclass(frozen=True)
class EndVerdict:
    """What an end means."""

    cause: Cause
    rule: str
    sentence: str
    signature: str = ""
    """Signature of the failure in what the program left behind, equal if it fails from the same cause again;
    empty if there is none, or if something outside ended it."""


def judge(end: Exit | None, lost: str, requeue_code: int, rules: Sequence[Rule] = RULES) -> EndVerdict:
    """The meaning of an unrequested end; `lost` says why there is no record of it."""
    if end is None:
        return EndVerdict(Cause.INFRASTRUCTURE, "lost", lost or "lost: it left no record of its end")
    if end.infrastructure or (end.code is None and end.signal is None):
        return EndVerdict(Cause.INFRASTRUCTURE, "could not be started", end.error or "could not be started")
    if end.code == 0 and end.signal is None:
        return EndVerdict(Cause.FINISHED, "finished", "finished")
    if end.code == requeue_code and end.signal is None:
        return EndVerdict(
            Cause.REQUEUE, "checkpointed", f"left a checkpoint and asked to be run again ({end.code})"
        )
    if end.oom:
        sentence = f"{words(end)}: the kernel killed it for memory"
        return EndVerdict(Cause.OOM, "out of memory", sentence, "out of memory: killed by the kernel")
    rule = next((rule for rule in rules if rule.fits(end)), None)
    cause, name = (rule.cause, rule.name) if rule else (Cause.USER, "error in the program")
    signature = signature_of(rule, end) if rule is not None else ""
    return EndVerdict(cause, name, f"{words(end)}: {end.error or name}", signature)


def signature_of(rule: Rule, end: Exit) -> str:
    """The rule with the line of the log or the status that it fits; empty for a kill from outside."""
    if rule.log:
        told = re.search(rule.log, end.tail, re.MULTILINE)
        return f"{rule.name}: {told[0]}" if told is not None else rule.name
    killed = end.signal in _KILLS or (end.code or 0) - 128 in _KILLS
    return "" if killed else f"{rule.name}: {end.signal or end.code}"


def fails_alike(signatures: Sequence[str], most: int) -> bool:
    """True if the last `most` failures had the same known signature; 0: never."""
    last = list(signatures[-most:]) if most else []
    return len(last) == most > 0 and bool(last[0]) and len(set(last)) == 1


def parting(end: Exit | None, verdict: EndVerdict) -> str:
    """The outcome of an attempt that was ordered to stop: what our own signals did to it is no failure."""
    if end is None or end.oom or verdict.cause in (Cause.FINISHED, Cause.REQUEUE):
        return verdict.sentence
    if signal.SIGKILL in (end.signal, (end.code or 0) - 128):
        return f"rank {end.rank} did not end by itself: SIGKILL"
    if signal.SIGTERM in (end.signal, (end.code or 0) - 128):
        return "ended by SIGTERM"
    return verdict.sentence if end.code is None and end.signal is None else words(end)


def words(end: Exit) -> str:
    """`rank 1 exited with code 3`, `rank 0 was ended by SIGSEGV`."""
    if end.signal is not None:
        try:
            name = signal.Signals(end.signal).name
        except ValueError:
            name = f"signal {end.signal}"
        return f"rank {end.rank} was ended by {name}"
    return f"rank {end.rank} exited with code {end.code}"


@dataclass(frozen=True)
class BackOff:
    """Seconds to wait before each retry: doubling, bounded."""

    first_s: float = 10.0
    most_s: float = 600.0

    def after(self, failures: int) -> float:
        """Before the try that follows failure number `failures` (from 1)."""
        return min(self.first_s * 2.0 ** min(failures - 1, 60), self.most_s)


def rules_of(failures: Any) -> tuple[Rule, ...]:
    """The failure classifier: the rules of the setting `failures`, then the built-in ones."""
    own = []
    for number, said in enumerate(failures if isinstance(failures, list) else [None], start=1):
        where = f"failures: rule {number}"
        if not isinstance(said, dict) or not _HEAD < set(said) <= _HEAD | _FITS:
            raise InputError(f"{where}: expected name, cause, and some of codes, signals, log")
        try:
            re.compile(said.get("log", ""))
            own.append(
                Rule(
                    str(said["name"]),
                    _CAUSES[str(said["cause"])],
                    _numbers(said.get("codes", [])),
                    _numbers(said.get("signals", [])),
                    str(said.get("log", "")),
                )
            )
        except (KeyError, ValueError, TypeError, re.error) as error:
            problem = f"there is no cause {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(
                f"{where}: {problem}; expected cause user, oom or infrastructure, lists of numbers, a regex"
            ) from None
    return (*own, *RULES)


_HEAD, _FITS = {"name", "cause"}, {"codes", "signals", "log"}
_CAUSES = {cause.value: cause for cause in (Cause.USER, Cause.OOM, Cause.INFRASTRUCTURE)}
"""No rule makes a success of a failure."""


def _numbers(said: Any) -> frozenset[int]:
    if not isinstance(said, list):
        raise TypeError(f"{said!r} is no list")
    return frozenset(int(one) for one in said)
