"""The sentences of reasons: every code has one, they hold for one as for many, and remedies do, too."""

from __future__ import annotations

import math

import pytest

from rota.model.reasons import Code, Constraint, names_of, noted


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_a_sentence(code: Code) -> None:
    """No number is shown that is none, and nothing is left of a template."""
    said = Constraint(code, 3.0, 1.0, "n1, n2").sentence("device")
    assert said
    assert "nan" not in said.replace(",", "").split()
    assert "{" not in said
    assert "1 devices" not in said
    remedy = Constraint(code, 3.0, 1.0, "n1, n2").remedy("device")
    assert not remedy or (not remedy[0].islower() and remedy.endswith("."))


@pytest.mark.parametrize(
    ("constraint", "sentence", "remedy"),
    [
        (
            Constraint(Code.RESOURCES, 1, 0),
            "needs 1 GPU; 0 are free",
            "1 more GPU would have to be free.",
        ),
        (
            Constraint(Code.RESOURCES, 3, 1),
            "needs 3 GPUs; 1 is free",
            "2 more GPUs would have to be free.",
        ),
        (
            Constraint(Code.HOST, 1, 0, "CPU cores"),
            "needs 1 CPU core on one node; the most free on one is 0",
            "Ask for less, or wait until a node has 1 CPU core free.",
        ),
        (
            Constraint(Code.HOST_TOO_LARGE, 100, 64, "GiB of host memory"),
            "needs 100 GiB of host memory on one node; the largest node has 64",
            "Ask for less, or add a node that has 100 GiB of host memory.",
        ),
        (
            Constraint(Code.HOST_TOO_LARGE, 8, 8, "CPU cores"),
            "needs 8 CPU cores on one node; too few nodes have it",
            "Ask for less, or add a node that has 8 CPU cores.",
        ),
        (Constraint(Code.DEPENDENCY, detail="3"), "waits for job 3 to end", "Job 3 would have to end."),
        (
            Constraint(Code.NODE, detail="n1, n2"),
            "would fit if nodes n1 and n2 took new jobs",
            "Open nodes n1 and n2 again: `rota drain NODE --undo` ends a drain, `rota up` or `rota agent` "
            "brings back what is lost, and what a node reports is to be mended there.",
        ),
        (
            Constraint(Code.QUOTA, 11, 0),
            "the tenants without a quota of their own would use 11 GPUs together; their quota is 0",
            "The job would have to ask for 11 GPUs less, those tenants to give back as many, "
            "or the quota to be 11.",
        ),
        (
            Constraint(Code.RESERVATION, 1, 0, "3 (for another 9s), 4"),
            "needs 1 GPU; 0 are free, the rest is reserved for jobs 3 (for another 9s) and 4",
            "Jobs 3 and 4 would have to start.",
        ),
        (
            Constraint(Code.PREEMPTED, 1, detail="4, 5, 6"),
            "gave up 1 GPU to jobs 4, 5 and 6",
            "Jobs 4, 5 and 6 would have to end.",
        ),
        (Constraint(Code.PREEMPTED, 2, detail=""), "gave up 2 GPUs to nobody yet", ""),
        (
            Constraint(Code.PRIORITY, provided=5, detail="1, 2, 3, 2 more"),
            "stands behind 5 jobs of higher priority (1, 2, 3 and 2 more)",
            "Those jobs would have to start or end, or the job get more priority.",
        ),
        (
            Constraint(Code.PROFILING, math.nan, 2),
            "is being profiled on 2 GPUs; then it gets what it asked for",
            "",
        ),
        (Constraint(Code.RUNNING, 2, 4), "runs on 4 GPUs, more than the 2 it asked for", ""),
        (Constraint(Code.RUNNING, 0, 0), "runs without devices", ""),
        (
            Constraint(Code.BACK_OFF, 65.0, detail="rank 0 was ended by SIGKILL"),
            "is tried again in 1m 5s: rank 0 was ended by SIGKILL",
            "",
        ),
    ],
)
def test_grammar(constraint: Constraint, sentence: str, remedy: str) -> None:
    assert constraint.sentence() == sentence
    assert constraint.remedy() == remedy


def test_long_lists_are_cut() -> None:
    assert names_of(["1", "2", "3"]) == "1, 2, 3"
    assert names_of(["1", "2", "3", "4", "5"]) == "1, 2, 3, 2 more"


def test_what_the_table_notes_is_read_back() -> None:
    dependency = Constraint(Code.DEPENDENCY, detail="4, 5")
    assert noted(dependency.note()).sentence() == "waits for jobs 4 and 5 to end"
    gang = Constraint(Code.GANG_TOO_LARGE, 8, 4)
    assert noted(gang.note()) == gang
    failure = Constraint(Code.BACK_OFF, 1, 2, "rank 0: exit code 3: again")
    assert noted(failure.note()) == failure, "colons are the detail's own"
    assert noted("alice").sentence() == "is held by alice"
