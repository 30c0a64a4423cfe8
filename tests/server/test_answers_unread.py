"""Who says something of a job that nobody reads is told so; nobody else is."""

from __future__ import annotations

from typing import Any

import pytest

from rota.server.answers.unused_fields import unread_by_itself, unread_by_policy, unread_knowledge
from rota.wire.job import JobSpec


def job(**said: Any) -> JobSpec:
    return JobSpec(command=["true"], **said)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({}, []),
        ({"counts": "powers of two"}, ["it runs on 1 GPU alone"]),
        ({"gpus": 2, "gpus_step": 2}, ["it runs on 2 GPUs alone"]),
        ({"gpus": 2, "gpus_step": 2, "gpus_max": 4}, []),
        ({"output_limit_gib": 1}, ["neither output nor error names a file"]),
        ({"output_limit_gib": 1, "error": "e"}, []),
        ({"accept_later_deadline": True}, ["it has no deadline"]),
        ({"accept_later_deadline": True, "deadline_s": 9.0}, []),
        ({"counts": "powers of two", "gpus_step": 2}, ["counts and gpus_step have no effect"]),
        ({"gpus": 0, "gpu_memory_gib": 4}, ["gpu_memory has no effect on a job without GPUs"]),
        (
            {"gpus": 0, "gpu_types": ["A100"], "trial": True},
            ["gpu_type and trial have no effect on a job without GPUs"],
        ),
        ({"gpu_types": ["A100"], "trial": True, "idle_after_s": 60}, []),
        ({"notice_signal": "USR1"}, ["0 seconds before SIGTERM"]),
        ({"notice_signal": "USR1", "notice_s": 60}, []),
        ({"notice_signal": "USR1", "notice_s": 60, "time_s": 60}, []),
        (
            {"notice_signal": "USR1", "notice_s": 20, "time_s": 5},
            ["notice of 20s is longer than time, 5s: it comes as soon as the job runs"],
        ),
        ({"group_rule": "first"}, ["the first of all your jobs without a name that say so ends the others"]),
        ({"group_rule": "first", "name": "a"}, ["the first of all your jobs named 'a' that say so"]),
        ({"group_rule": "first", "group": "sweep"}, []),
    ],
)
def test_what_nobody_reads(said: dict[str, Any], says: list[str]) -> None:
    sentences = unread_by_itself(job(**said))
    assert len(sentences) == len(says)
    assert all(part in sentence for part, sentence in zip(says, sentences, strict=True))


@pytest.mark.parametrize(
    ("policy", "said", "says"),
    [
        ("fifo:skip=yes", {"gpus_max": 4}, ["fifo gives each job the GPUs that it asks for: the range 1:4"]),
        ("afs", {"gpus_max": 4}, []),
        ("elasticflow", {"gpus_max": 4}, []),
        ("fifo", {"batch_min": 8, "batch_max": 64}, ["fifo never changes batches"]),
        ("pollux", {"batch_min": 8, "batch_max": 64}, []),
        ("edf", {"accept_later_deadline": True, "deadline_s": 9.0}, ["edf never offers a later deadline"]),
        ("chronus:offer_s=600", {"accept_later_deadline": True, "deadline_s": 9.0}, []),
        ("srtf", {"weight": 2}, ["srtf does not look at weights: weight 2 has no effect under it"]),
        ("gavel", {"weight": 2}, []),
        ("gavel:objective=fifo", {"weight": 2}, ["gavel does not look at weights"]),
        ("synergy:policy=gavel", {"weight": 2}, []),
        (
            "fifo",
            {"kind": "opportunistic"},
            ["fifo never stops a running job: the kind opportunistic has"],
        ),
        ("fifo", {"kind": "service"}, []),
        ("srtf", {"kind": "opportunistic"}, []),
        ("hived", {"kind": "opportunistic"}, []),
        (
            "of another installation",
            {"gpus_max": 4, "batch_min": 8, "batch_max": 64, "weight": 2, "kind": "opportunistic"},
            [],
        ),
    ],
)
def test_what_the_policy_does_not_read(policy: str, said: dict[str, Any], says: list[str]) -> None:
    sentences = unread_by_policy(policy, job(**said))
    assert len(sentences) == len(says)
    assert all(part in sentence for part, sentence in zip(says, sentences, strict=True))


@pytest.mark.parametrize(
    ("policy", "knowledge", "says"),
    [
        (
            "fifo",
            {"scaling": "predicted"},
            ["knowledge scaling=predicted has no effect: fifo reads no scaling"],
        ),
        ("fifo", {"duration": "predicted"}, []),
        ("afs", {"scaling": "predicted"}, []),
        ("of another installation", {"scaling": "predicted"}, []),
    ],
)
def test_what_a_policy_is_told_in_vain(policy: str, knowledge: dict[str, str], says: list[str]) -> None:
    assert unread_knowledge(policy, knowledge) == says
