"""Clocks: whether the wall clock is synchronised, whether it jumps, whether the machine has slept."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator

from rota.cli.doctor.finding import FindingState, MachineFinding, MachinePlaces
from rota.model.units import format_duration

WATCHED_S = 0.1
STEP_S = 0.01
"""Least seconds between wall clock and monotonic clock that show that the wall clock was set."""
SLEPT_S = 1.0
UNSYNCHRONISED = 0x0040
"""STA_UNSYNC of linux/timex.h."""
ADVICE = "run chrony or systemd-timesyncd: nodes whose clocks differ tell moments that do not fit together"


class _Timex(ctypes.Structure):
    """The head of `struct timex`; the rest is room for the kernel's output."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("most_error_us", ctypes.c_long),
        ("error_us", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def wall_clock(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Whether the kernel regards the wall clock as synchronised, and whether it jumps while we look."""
    stepped_s = _gained_s(WATCHED_S)
    if abs(stepped_s) > STEP_S:
        said = f"it was set by {stepped_s:+.3f} s while the doctor watched for {WATCHED_S:g} s"
        advice = "let a daemon slew it instead of stepping it; run times and limits are not touched by that"
        yield MachineFinding("wall clock", FindingState.ADVICE, said, advice, {"stepped_s": stepped_s})
    kernel = _asked_kernel()
    if kernel is None:
        yield MachineFinding("synchronised", FindingState.UNKNOWN, "the kernel does not say", ADVICE)
        return
    status, error_s = kernel
    facts = {"synchronised": not status & UNSYNCHRONISED, "most_error_s": error_s}
    if status & UNSYNCHRONISED:
        yield MachineFinding(
            "synchronised", FindingState.ADVICE, "the wall clock is not synchronised", ADVICE, facts
        )
    else:
        says = f"yes, wrong by {error_s * 1000:.0f} ms at most"
        yield MachineFinding("synchronised", FindingState.OK, says, facts=facts)


def sleep(machine: MachinePlaces) -> Iterator[MachineFinding]:
    """Whether the machine has slept since it was started: jobs stand still meanwhile."""
    slept_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
    facts = {"slept_s": round(slept_s, 3)}
    if slept_s < SLEPT_S:
        yield MachineFinding(
            "sleep", FindingState.OK, "this machine has not slept since it was started", facts=facts
        )
        return
    advice = "keep it awake: a controller takes a sleeping node for lost, and starts its jobs elsewhere"
    said = f"this machine slept for {format_duration(slept_s)} since it was started"
    yield MachineFinding("sleep", FindingState.ADVICE, said, advice, facts)


def _gained_s(during_s: float) -> float:
    """Seconds that the wall clock gains on the monotonic one in that time."""
    before_s = time.time() - time.monotonic()
    time.sleep(during_s)
    return time.time() - time.monotonic() - before_s


def _asked_kernel() -> tuple[int, float] | None:
    """Status and greatest error in seconds, as adjtimex has them; None if it may not be asked."""
    timex = _Timex()
    try:
        library = ctypes.CDLL(None, use_errno=True)
        answered = int(library.adjtimex(ctypes.byref(timex)))
    except (OSError, AttributeError):
        return None
    return None if answered < 0 else (int(timex.status), timex.most_error_us / 1e6)
