"""Chronus within a lease: who is sure of its GPUs, who gives way, and who has outrun its estimate."""

from __future__ import annotations

import pytest
from test_chronus import NONE, PLAIN, column, ends, minutes

from play import play
from rota.worlds.simulated.run import Setting

NO = NONE


@pytest.mark.parametrize(
    ("jobs", "due", "cluster", "ended", "why"),
    [
        ("A 2x15 B 2x1@9", [17, 25], "1x2", {"A": 15, "B": 16},
         "A ends within the lease and is sure of its GPUs, although B would end sooner"),
        ("A 4x15 B 4x1@9", [17, NO], "1x4", {"A": 15, "B": 16},
         "and nobody else makes it give way"),
        ("C 8x20 A 3x15@1 B 5x20@1 D 5x5@24", [NO, 40, NO, 26], "1x8", {"C": 20, "A": 35, "D": 30, "B": 45},
         "A's lease leaves 5 GPUs, and D is sure of them: that A is planned with 4 holds for plans alone"),
        ("A 4x60 B 4x1@45", [NO, NO], "1x4", {"A": 60, "B": 61},
         "B comes amid a lease whose beginning nobody had to look at: best effort gives way when one begins"),
        ("A 4x60 B 4x1@35", [NO, NO], "1x4", {"A": 65, "B": 41},
         "which is so here"),
    ],
)  # fmt: skip
def test_who_runs_within_a_lease(jobs, due, cluster, ended, why):
    assert ends(play(PLAIN, minutes(jobs, due), cluster)) == ended, why


@pytest.mark.parametrize(
    ("jobs", "due", "says", "ended", "why"),
    [
        ("C 4x20 A 4x15@1 B 4x5@21", [NO, 60, 38], [20, 5, 5], {"C": 20, "A": 35, "B": 40},
         "A has outrun its estimate by minute 25, but has this lease to its end"),
        ("C 4x20 A 4x25@1 B 4x5@21", [NO, 60, 38], [20, 5, 5], {"C": 20, "A": 50, "B": 45},
         "and after that comes behind who is sure to end within a lease"),
        ("A 4x25 B 4x10@1 D 4x1@2", [4, NO, NO], [5, 10, 1], {"A": 25, "D": 26, "B": 40},
         "nobody promised A its deadline: once it is late it is first on spare GPUs all the same"),
    ],
)  # fmt: skip
def test_who_outruns_its_estimate(jobs, due, says, ended, why):
    trace = minutes(jobs, due, limit_s=[60.0 * one for one in says])
    record = play(PLAIN, trace, "1x4", Setting(knowledge={"duration": "user"}))
    assert ends(record) == ended, why


@pytest.mark.parametrize("policy", ["chronus", "chronus@authors"])
@pytest.mark.parametrize(
    ("due", "ended", "why"),
    [
        (36, {"R": 35, "B": 95}, "R takes 30 minutes from minute 5 on: it can be in time; 35 are estimated"),
        (34, {"R": 95, "B": 65}, "R can meet no deadline any more, and comes last"),
    ],
)
def test_an_unpromised_job_is_last_only_once_it_must_be_late(policy, due, ended, why):
    trace = minutes("R 4x30@1 B 4x60@1", [due, NO])
    assert ends(play(policy, trace, "1x4")) == pytest.approx(ended), why


@pytest.mark.parametrize(
    ("policy", "ended"), [("chronus", {"B": 115, "C": 34}), ("chronus@authors", {"B": 115, "C": 19})]
)
def test_the_artifact_goes_by_the_run_time_of_what_ends_within_the_lease(policy, ended):
    """C takes 14 minutes of the 15 that are left of the lease, and is estimated at 16."""
    trace = minutes("B 4x100 C 4x14@5", [NO, 19])
    assert ends(play(policy, trace, "1x4")) == pytest.approx(ended)


def test_who_goes_on_when_a_lease_begins_keeps_its_gpus():
    """A needs three GPUs: Y stops, and X, the last in order, goes on where it is."""
    record = play(PLAIN, minutes("Y 2x30 X 1x80 A 3x15@1", [NO, NO, 40]), "1x4")
    assert ends(record) == {"A": 35, "X": 80, "Y": 45}
    assert column(record, "migrations")["X"] == 0
