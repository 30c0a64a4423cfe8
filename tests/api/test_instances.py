"""Policies of one's own as instances: each its own row, and what stops them told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rota
from play import trace_of
from rota.errors import InputError
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import parse_policy
from rota.scheduler.snapshot import Snapshot

JOBS = "A 1x10 B 1x10@1"


class Late:
    """Lets everybody wait until `from_s`, and then serves them in order."""

    needs: Any = frozenset()

    def __init__(self, from_s: float, name: str = "") -> None:
        self.from_s = from_s
        self.inner = parse_policy("fifo").make()
        if name:
            self.name = name

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        if snapshot.now < self.from_s:
            return Decision(memory)
        return self.inner.decide(snapshot, memory)


def test_two_instances_of_a_class_are_not_two_seeds_of_one_policy() -> None:
    """They stood in one row, as the mean of both with its deviation."""
    with pytest.raises(InputError, match="'Late' is named twice; expected instances with a `name` each"):
        rota.simulate(trace_of(JOBS), cluster="1x1", policies=[Late(0.0), Late(1.0)])
    with pytest.raises(InputError, match="'fifo' is named twice; expected each policy once"):
        rota.simulate(trace_of(JOBS), cluster="1x1", policies=["fifo", Late(0.0, "fifo")])


def test_a_name_tells_instances_apart() -> None:
    both = [Late(0.0, "early"), Late(1.0, "late")]
    result = rota.simulate(trace_of(JOBS), cluster="1x1", policies=both, baseline="late")
    assert result.frame()["policy"].to_list() == ["early", "late"]
    assert result.frame()["mean_jct_s"].to_list() == [14.5, 15.5]


def test_a_job_that_waits_alone_stands_behind_nobody() -> None:
    """It was left for ever since it "stands behind 0 jobs of higher priority"."""
    result = rota.simulate(trace_of("A 1x10"), cluster="1x1", policies=Late(99.0))
    assert result.records[0].jobs["why"].to_list() == [
        "could start, and the policy gives no reason why it does not"
    ]


def test_a_report_goes_into_a_folder(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").touch()
    result = rota.simulate(trace_of(JOBS), cluster="1x1", policies="fifo")
    with pytest.raises(InputError, match=r"argument 'folder': .*jobs.csv is a file; expected a folder"):
        result.report(tmp_path / "jobs.csv" / "deeper")


def test_what_a_result_is_asked_for(tmp_path: Path) -> None:
    """One sentence that names the argument; a picture under the name of another kind of file is none."""
    result = rota.simulate(trace_of(JOBS), cluster="1x1", policies="fifo")
    for wrong, told in (
        (lambda: result.table("wide"), r"argument 'width': 'wide' is no whole number"),
        (lambda: result.figure(3), r"argument 'name': 3 is no text"),
        (lambda: result.report(None), r"argument 'folder': None is no folder"),
        (lambda: result.write(tmp_path, csv="no"), r"argument 'csv': 'no' is no yes or no"),
        (
            lambda: result.figure().write(tmp_path / "a.jpg"),
            r"a.jpg: a figure cannot be written so; expected",
        ),
    ):
        with pytest.raises(InputError, match=told):
            wrong()
    assert not list(tmp_path.iterdir())
    assert result.figure().write(tmp_path / "a.svg").read_text().startswith("<svg")
