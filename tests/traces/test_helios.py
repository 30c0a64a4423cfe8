"""Helios logs: states, CPU jobs, and jobs that never started."""

from __future__ import annotations

from typing import Any

import numpy as np

from rota.model.jobs import Outcome
from rota.traces.helios import COLUMNS

LOG = (
    ",".join(COLUMNS)
    + """
1,u1,vc1,8,64,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,60
2,u2,vc1,0,4,1,FAILED,2020-04-01 00:00:10,2020-04-01 00:00:10,2020-04-01 00:00:15,5,0
3,u1,vc2,2,12,1,CANCELLED,2020-04-01 00:00:20,None,2020-04-01 00:10:00,,580
4,u1,vc2,2,12,1,TIMEOUT,2020-04-01 00:00:30,2020-04-01 00:00:30,2020-04-02 00:00:30,86400,0
5,u1,vc2,2,12,1,NODE_FAIL,2020-04-01 00:00:40,2020-04-01 00:00:40,2020-04-01 00:00:50,10,0
6,u1,vc2,2,12,1,COMPLETED,2020-04-01 00:00:50,None,None,,0
"""
)


def test_a_log(read_text: Any) -> None:
    trace = read_text(LOG)
    assert list(trace.jobs.ids) == ["1", "2", "3", "4", "5"]
    assert trace.jobs.gpus.tolist() == [8, 0, 2, 2, 2]
    assert trace.jobs.cpus.tolist() == [64, 4, 12, 12, 12]
    assert trace.jobs.submit_s.tolist() == [0, 10, 20, 30, 40]
    assert trace.truth.duration_s.tolist() == [3600, 5, 0, 86400, 10]
    assert trace.truth.outcome.tolist() == [
        *(Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED, Outcome.FAILED, Outcome.FAILED),
    ]
    assert trace.jobs.job(3).tenant == "vc2/u1"
    assert trace.observed is not None
    assert np.isnan(trace.observed.start_s).tolist() == [False, False, True, False, False]
    assert trace.observed.end_s.tolist() == [3660, 15, 600, 86430, 50]


def test_what_is_odd_about_it(read_text: Any) -> None:
    assert {odd.what: (odd.count, odd.done) for odd in read_text(LOG).odd} == {
        "cancelled while waiting": (1, "kept with duration 0"),
        "ended as TIMEOUT": (1, "kept as failed"),
        "ended as NODE_FAIL": (1, "kept as failed"),
        "no run time recorded": (1, "dropped: how long it ran is not known"),
        "no GPU asked for": (1, "kept as CPU jobs"),
    }
