"""What ends of attempts mean: a table of exits, in the spirit of the Philly study of failures."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from rota.wire.sync import Exit
from rota.worlds.live.endings import RULES, BackOff, Cause, Rule, judge, parting, words

PYTHON = "Traceback (most recent call last):\n  File 'train.py', line 3\n"
TABLE: list[tuple[str, dict[str, Any], Cause, str]] = [
    ("finished", {"code": 0}, Cause.FINISHED, "finished"),
    ("checkpointed", {"code": 85}, Cause.REQUEUE, "checkpointed"),
    ("a plain failure", {"code": 3}, Cause.USER, "error in the program"),
    ("no such program", {"code": 127}, Cause.USER, "program not found or not executable"),
    ("not executable", {"code": 126}, Cause.USER, "program not found or not executable"),
    ("import", {"code": 1, "tail": PYTHON + "ModuleNotFoundError: x"}, Cause.USER, "error in the program"),
    ("a class of a module", {"code": 1, "tail": PYTHON + "json.decoder.ValueError: x"}, Cause.USER, ""),
    ("segmentation fault", {"signal": signal.SIGSEGV}, Cause.USER, "crash of the program"),
    ("abort", {"signal": signal.SIGABRT}, Cause.USER, "crash of the program"),
    ("device memory", {"code": 1, "tail": "torch.OutOfMemoryError: CUDA out of memory."}, Cause.OOM, ""),
    ("host memory", {"code": 1, "tail": PYTHON + "MemoryError"}, Cause.OOM, "out of memory"),
    ("C++ memory", {"signal": signal.SIGABRT, "tail": "what():  std::bad_alloc"}, Cause.OOM, ""),
    ("the kernel's killer", {"signal": signal.SIGKILL, "oom": True}, Cause.OOM, "out of memory"),
    ("ECC", {"code": 1, "tail": "CUDA error: uncorrectable ECC error"}, Cause.INFRASTRUCTURE, "device fault"),
    ("Xid", {"code": 1, "tail": "NVRM: Xid 79"}, Cause.INFRASTRUCTURE, "device fault"),
    (
        "NCCL",
        {"code": 1, "tail": "NCCL error: unhandled system error, peer has gone"},
        Cause.INFRASTRUCTURE,
        "network fault",
    ),
    ("a peer's reset", {"code": 1, "tail": "Connection reset by peer"}, Cause.INFRASTRUCTURE, ""),
    ("a stale file", {"code": 1, "tail": "OSError: Stale file handle"}, Cause.INFRASTRUCTURE, ""),
    ("a full disk", {"code": 1, "tail": "No space left on device"}, Cause.INFRASTRUCTURE, "storage fault"),
    ("bus error", {"signal": signal.SIGBUS}, Cause.INFRASTRUCTURE, "bus error"),
    ("killed", {"signal": signal.SIGKILL}, Cause.INFRASTRUCTURE, "killed from outside"),
    ("terminated", {"signal": signal.SIGTERM}, Cause.INFRASTRUCTURE, "killed from outside"),
    ("a shell whose child was killed", {"code": 137}, Cause.INFRASTRUCTURE, "killed from outside"),
    ("a shell whose child crashed", {"code": 139}, Cause.USER, "error in the program"),
    ("an unknown signal", {"signal": 63}, Cause.USER, "error in the program"),
    ("no start", {"error": "no such folder", "infrastructure": True}, Cause.INFRASTRUCTURE, ""),
    ("requeue code and a signal", {"code": None, "signal": 15}, Cause.INFRASTRUCTURE, ""),
]


@pytest.mark.parametrize(("end", "cause", "rule"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_ends(end: dict[str, Any], cause: Cause, rule: str) -> None:
    verdict = judge(Exit(ended_s=0, **end), "", 85)
    assert verdict.cause is cause
    assert verdict.rule == rule or not rule
    assert verdict.sentence


def test_every_built_in_rule_is_in_the_table() -> None:
    reached = {judge(Exit(ended_s=0, **end), "", 85).rule for _, end, _, _ in TABLE}
    assert {rule.name for rule in RULES} <= reached


def test_no_record_is_the_infrastructures_fault() -> None:
    assert judge(None, "", 85).sentence == "lost: it left no record of its end"
    verdict = judge(None, "its shim was killed", 85)
    assert (verdict.cause, verdict.sentence) == (Cause.INFRASTRUCTURE, "its shim was killed")


def test_the_requeue_code_is_the_jobs_own() -> None:
    assert judge(Exit(ended_s=0, code=99), "", 99).cause is Cause.REQUEUE
    assert judge(Exit(ended_s=0, code=85), "", 99).cause is Cause.USER


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ({"code": 1, "tail": "ImportError: libmine"}, Cause.INFRASTRUCTURE),
        ({"code": 17}, Cause.OOM),
        ({"signal": 10}, Cause.USER),
        ({"code": 0}, Cause.FINISHED),
        ({"code": 85}, Cause.REQUEUE),
    ],
)
def test_own_rules_come_first(end: dict[str, Any], cause: Cause) -> None:
    """But no rule makes a failure of a success."""
    own = (
        Rule("our filer", Cause.INFRASTRUCTURE, log=r"libmine"),
        Rule("their code", Cause.OOM, codes=frozenset({17})),
        Rule("usr1", Cause.USER, signals=frozenset({10})),
        Rule("all", Cause.USER, codes=frozenset({0, 85})),
    )
    assert judge(Exit(ended_s=0, **end), "", 85, (*own, *RULES)).cause is cause


def test_a_rule_fits_if_all_it_says_fits() -> None:
    rule = Rule("both", Cause.OOM, codes=frozenset({1}), log="^bad")
    assert rule.fits(Exit(ended_s=0, code=1, tail="x\nbad"))
    assert not rule.fits(Exit(ended_s=0, code=2, tail="bad"))
    assert not rule.fits(Exit(ended_s=0, code=1, tail="not bad"))


def test_sentences_name_rank_and_reason() -> None:
    assert words(Exit(ended_s=0, code=3, rank=1)) == "rank 1 exited with code 3"
    assert words(Exit(ended_s=0, signal=11)) == "rank 0 was ended by SIGSEGV"
    assert words(Exit(ended_s=0, signal=99)) == "rank 0 was ended by signal 99"
    verdict = judge(Exit(ended_s=0, code=127, error="train.py: no such file"), "", 85)
    assert verdict.sentence == "rank 0 exited with code 127: train.py: no such file"


@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        ({"signal": signal.SIGTERM}, "ended by SIGTERM"),
        ({"code": 143}, "ended by SIGTERM"),
        ({"signal": signal.SIGKILL, "rank": 2}, "rank 2 did not end by itself: SIGKILL"),
        (
            {"signal": signal.SIGKILL, "oom": True},
            "rank 0 was ended by SIGKILL: the kernel killed it for memory",
        ),
        ({"code": 3}, "rank 0 exited with code 3"),
        ({"code": 0}, "finished"),
        ({"code": 85}, "left a checkpoint and asked to be run again (85)"),
        ({"error": "stopped before it began"}, "stopped before it began"),
    ],
)
def test_who_was_told_to_go_has_not_failed(end: dict[str, Any], sentence: str) -> None:
    """Our own signals are no kill from outside, and what a program makes of them is no error."""
    record = Exit(ended_s=0, **end)
    assert parting(record, judge(record, "", 85)) == sentence


def test_who_was_told_to_go_and_left_no_record_is_lost() -> None:
    assert parting(None, judge(None, "its shim was killed", 85)) == "its shim was killed"


def test_pauses_double_up_to_a_bound() -> None:
    back_off = BackOff(10, 60)
    assert [back_off.after(failures) for failures in (1, 2, 3, 4, 1001)] == [10, 20, 40, 60, 60]
