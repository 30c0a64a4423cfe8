"""The pages Tenants, Policy and History: what they gather, what they say, who may do what from them."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from dashboard_play import ask, get
from serving_toys import Stage

from rota.errors import InputError
from rota.model.tenants import Between
from rota.scheduler.policy import parse_policy
from rota.server.api.forms import Submission
from rota.server.callers import Caller
from rota.server.dashboard.futures import LEFT, ROWS, WIDTH, charts
from rota.server.dashboard.history import LINES, Filter, as_csv, history_page
from rota.server.dashboard.policy import able, lines_of, once, parameters_of, times
from rota.server.dashboard.responses import colour_of, data
from rota.server.dashboard.tenants import curves, sentence_of, tenants_page
from rota.wire.job import JobSpec
from rota.wire.tenants import CellView, TenantsHistory, TenantsView, TenantView
from rota.wire.views import DecisionView, ForecastRow, JobView, WhatIf

# -- Tenants -----------------------------------------------------------------------------------------


def tenant(path: str, own: float | None = None, held: float = 0.0, **more: Any) -> TenantView:
    mine = None if own is None else min(own, held)
    return TenantView(path=path, **{"quota": own, "entitled": own, "own": mine, "held": held, **more})


QUOTA, LENT = tenant("a", 8, 4), tenant("b", 4, 10)
SENTENCES = [
    ([QUOTA], "a can always have 8 GPUs (its quota) and has 4 GPUs now; 4 of its own are free."),
    (
        [QUOTA, LENT],
        "a can always have 8 GPUs (its quota) and has 4 GPUs now; 4 of its own are free. b has 10 GPUs: "
        "6 are borrowed, which is lent while no tenant claims it; no job of a waits.",
    ),
    (
        [LENT],
        "b can always have 4 GPUs (its quota) and has 10 GPUs now, 6 of them borrowed until others want what "
        "is theirs.",
    ),
    ([tenant("a", 8, 8)], "a can always have 8 GPUs (its quota) and has 8 GPUs now: all that is its own."),
    (
        [tenant("a", 2, 1, waiting=1, waiting_gpus=4), tenant("b", 8, 8, weight=3)],
        "a can always have 2 GPUs (its quota) and has 1 GPU now; 1 of its own is free. 1 job waits and asks "
        "for 4 GPUs. b has 8 GPUs: 8 are its own and those of a are 2; the free ones of a do not "
        "fit what waits, or are just being given out.",
    ),
    (
        [tenant("a", held=1.0), tenant("b", held=2.0, weight=3)],
        "a has no quota and no cells: it gets what drf gives it (its weight is 1 of 4), and has 1 GPU now. "
        "b has 2 GPUs: its weight is 3 to 1; no job of a waits.",
    ),
    (
        [tenant("a", held=3.0, cells=[CellView(level="node", count=1)])],
        "a owns cells that the machines here do not have: it has 3 GPUs now.",
    ),
    (
        [tenant("a", held=3.0, entitled=8.0, cells=[CellView(level="node", count=1, gpus=8)])],
        "a can always have 8 GPUs (its cells) and has 3 GPUs now; drf does not say how many of them "
        "are its own.",
    ),
    (
        [tenant("a", 8, 4), tenant("a/x", 8, 6)],
        "a can always have 8 GPUs (its quota) and has 4 GPUs now; 4 of its own are free.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("tenants", "sentence"), SENTENCES)
def test_what_a_tenant_can_have_and_why_a_peer_has_more(tenants: list[TenantView], sentence: str) -> None:
    between = Between.WEIGHTS if tenants[0].entitled is None else ""
    assert sentence_of(tenants[0], tenants, "drf", between) == sentence


BY_POLICY = [
    (
        Between.NOTHING,
        tenant("a", held=1.0, waiting=1, waiting_gpus=4),
        "a has no quota and no cells: P treats its jobs like any others, and has 1 GPU now. 1 job waits "
        "and asks for 4 GPUs. b has 6 GPUs: P does not ask whose a job is, and those of b that run came "
        "before in its order, or fit where the others do not.",
    ),
    (
        Between.NOTHING,
        tenant("a", 8, 1),
        "a has a quota of 8 GPUs, which P does not read: it neither keeps nor caps anything, and has 1 GPU "
        "now. b has 6 GPUs: no job of a waits.",
    ),
    (
        Between.NOTHING,
        tenant("a", 8, 1, hard=True),
        "a may have 8 GPUs at most (its quota, a cap; P keeps nothing free for it) and has 1 GPU now. "
        "b has 6 GPUs: no job of a waits.",
    ),
    (
        Between.EQUALLY,
        tenant("a", held=1.0),
        "a has no quota and no cells: under P it gets as much as any other that has jobs, and has 1 GPU now. "
        "b has 6 GPUs: no job of a waits.",
    ),
    (
        Between.QUOTAS,
        tenant("a", held=1.0),
        "a has no quota and no cells: under P it gets what others leave idle, and has 1 GPU now. b has 6 "
        "GPUs: 4 are its own; 2 are borrowed, which is lent while no tenant claims it; no job of a waits.",
    ),
    (
        Between.UNITS,
        tenant("a", held=1.0, waiting=1, waiting_gpus=4),
        "a has no quota and no cells: it gets what P gives it, and has 1 GPU now. 1 job waits and asks for 4 "
        "GPUs. b has 6 GPUs: each has its own part of the cluster under P, and lends nothing.",
    ),
]


@pytest.mark.parametrize(("between", "mine", "sentence"), BY_POLICY)
def test_what_it_says_is_what_the_policy_heeds(between: Between, mine: TenantView, sentence: str) -> None:
    """b has a quota of 4 and 6 GPUs, which is borrowing only where quotas count."""
    assert sentence_of(mine, [mine, tenant("b", 4, 6)], "P", between) == sentence


@pytest.mark.parametrize(
    ("policy", "between"),
    [
        ("fifo", Between.NOTHING), ("drf", Between.WEIGHTS), ("drf:weighted=no", Between.EQUALLY),
        ("philly", Between.QUOTAS), ("hived:policy=fifo", Between.CELLS), ("partition", Between.UNITS),
        ("prerun:policy=philly", Between.QUOTAS), ("gavel", Between.NOTHING),
        ("gavel:objective=hierarchy", Between.WEIGHTS), ("gandiva_fair", Between.WEIGHTS),
    ],
)  # fmt: skip
def test_what_policies_divide_between_tenants_by(policy: str, between: Between) -> None:
    assert parse_policy(policy).between is between


class Accounts:
    """A service that says what it was given."""

    def __init__(self, *tenants: TenantView) -> None:
        self._view = TenantsView(tenants=list(tenants), policy="drf")

    def tenants(self) -> TenantsView:
        return self._view

    def tenants_history(self, days: float, points: int) -> TenantsHistory:
        return TenantsHistory(
            times=[1.0, 2.0], held={one.path: [0.0, one.held] for one in self._view.tenants}
        )


def test_the_callers_own_tenant_comes_first() -> None:
    shown = tenants_page(Accounts(QUOTA, LENT), Caller(user="x", tenant="b/team"))  # type: ignore[arg-type]
    assert [(line.view.path, line.is_mine, line.part) for line in shown.lines] == [
        ("b", True, 1.0),
        ("a", False, 0.5),
    ]


def test_curves_of_all_and_of_one_against_its_own() -> None:
    accounts: Any = Accounts(QUOTA, LENT)
    assert [one["name"] for one in curves(accounts, 7, "")["series"]] == ["a", "b"]
    one = curves(accounts, 7, "b")["series"]
    assert [(line["name"], line["values"]) for line in one] == [("b", [0.0, 10.0]), ("its own", [4.0, 4.0])]
    (nobody,) = curves(accounts, 7, "nobody")["series"]
    assert (nobody["name"], nobody["values"]) == ("nobody", [0.0, 0.0])
    assert nobody["colour"] == f"--f{colour_of('nobody')}", "as in the table below, and on all other pages"


# -- Policy ------------------------------------------------------------------------------------------


def forecast(job: str, policy: str, start_s: float | None, finish_s: float | None) -> ForecastRow:
    return ForecastRow(job=job, policy=policy, start_s=start_s, finish_s=finish_s)


def whatif(rows: Sequence[ForecastRow]) -> WhatIf:
    return WhatIf(rows=list(rows), summary=[], basis={}, took_s=0.0)


def test_charts_have_one_order_and_one_scale() -> None:
    """Job 2 begins later now, and at once under the other; nobody sees job 3 start."""
    now_s = 1000.0
    rows = [
        forecast("2", "fifo", 1100.0, 1200.0),
        forecast("1", "fifo", 900.0, 1100.0),
        forecast("3", "fifo", None, None),
        forecast("2", "srtf", 1000.0, 1100.0),
        forecast("1", "srtf", 1100.0, 1400.0),
        forecast("3", "srtf", 1300.0, None),
    ]
    first, second = charts(whatif(rows), {}, now_s)
    assert [bar.job for bar in first.bars] == [bar.job for bar in second.bars] == ["1", "2", "3"]
    wide = WIDTH - LEFT - 8.0
    assert (first.bars[0].run_x, first.bars[0].run_width) == (LEFT, wide / 4)
    assert second.bars[0].run_x == LEFT + wide / 4
    assert second.bars[0].run_width == pytest.approx(wide * 3 / 4)
    assert first.bars[2].run_width == 0.0
    assert [bar.text for bar in first.bars] == [
        "job 1: runs, done in 1m 40s",
        "job 2: starts in 1m 40s, done in 3m 20s",
        "job 3: does not start as far as one can see",
    ]
    assert second.bars[2].text.endswith("no end in sight")
    assert [text for _, text in first.ticks] == ["now", "in 2m", "in 4m", "in 6m"]


def test_charts_of_many_jobs_are_cut_and_say_so() -> None:
    rows = [forecast(str(i), "fifo", 1000.0 + i, 2000.0 + i) for i in range(ROWS + 5)]
    (chart,) = charts(whatif(rows), {}, 1000.0)
    assert (len(chart.bars), chart.more) == (ROWS, 5)
    assert charts(whatif([]), {}, 0.0) == []


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (60.0, 30.0, ("Mean wait", "1m", "30s", "better")),
        (30.0, 60.0, ("Mean wait", "30s", "1m", "worse")),
        (30.0, 30.0, ("Mean wait", "30s", "30s", "")),
        (None, 30.0, ("Mean wait", "–", "30s", "")),
        (1961.0, 1926.0, ("Mean wait", "32m 41s", "32m 6s", "")),
    ],
)
def test_measures_side_by_side(before: float | None, after: float, line: tuple[str, ...]) -> None:
    assert lines_of([{"mean_wait_s": before}, {"mean_wait_s": after}])[0] == line


def test_parameters_have_their_values_and_meanings() -> None:
    told = {one.name: (value, one) for one, value in parameters_of(parse_policy("fifo:skip=no"))}
    value, one = told["skip"]
    assert value == "no"
    assert one.meaning
    assert all(one.meaning for _, one in told.values())


def test_what_a_shadow_meant_more_than_once_is_told_once() -> None:
    said = ["1s ago: would start 8", "1s ago: would preempt 3", "5s ago: would start 8", "no: colon"]
    assert once(said) == ["1s ago: would start 8", "1s ago: would preempt 3", "no: colon"]


def test_policies_on_offer_can_run_here() -> None:
    assert {"fifo", "hived", "tiresias"} <= set(able())


def test_times_of_decisions() -> None:
    decided = [
        DecisionView(at_s=1.0, policy="fifo", took_ms=2.0),
        DecisionView(at_s=2.0, policy="fifo", took_ms=9.0, late=True),
    ]
    drawn = times(SimpleNamespace(decisions=lambda limit: decided))  # type: ignore[arg-type]
    assert [one["values"] for one in drawn["series"]] == [[2.0, 9.0], [None, 9.0]]
    assert len(times(SimpleNamespace(decisions=lambda limit: decided[:1]))["series"]) == 1  # type: ignore[arg-type]


# -- History -----------------------------------------------------------------------------------------


def job(row: int, end_s: float, **more: Any) -> JobView:
    said = {"name": f"n{row}", "user": "u", "tenant": "t", "state": "COMPLETED", "gpus": 1, "submit_s": 0.0}
    return JobView(id=str(row + 1), row=row, end_s=end_s, gpu_s=3600.0, **{**said, **more})


class Ended:
    """Jobs that a service lists."""

    def __init__(self, *jobs: JobView) -> None:
        self._jobs = list(jobs)

    def ended(self, which: Any) -> list[JobView]:
        low_s, high_s = which.since_s or 0.0, which.until_s or 1e9
        return [
            one
            for one in self._jobs[::-1]
            if one.state in which.state and which.tenant in ("", one.tenant) and low_s <= one.end_s <= high_s
        ]


DAY = 86400.0
JOBS = Ended(
    job(0, 0.5 * DAY, cause="finished"),
    job(1, 1.5 * DAY, state="FAILED", cause="exit code 3"),
    job(2, 2.5 * DAY, tenant="b", name="resnet"),
)


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        (Filter(), ["3", "2", "1"]),
        (Filter(tenant="b"), ["3"]),
        (Filter(state="FAILED"), ["2"]),
        (Filter(state="RUNNING"), ["3", "2", "1"]),
        (Filter(text="EXIT code"), ["2"]),
        (Filter(text="resnet"), ["3"]),
        (Filter(since="1970-01-02"), ["3", "2"]),
        (Filter(until="1970-01-02"), ["2", "1"]),
        (Filter(since="1970-01-02", until="1970-01-02"), ["2"]),
        (Filter(text="nothing of it"), []),
    ],
)
def test_filters(asked: Filter, ids: list[str]) -> None:
    shown = history_page(JOBS, asked)  # type: ignore[arg-type]
    assert [one.id for one in shown.jobs] == ids
    assert (shown.matches, shown.gpu_hours) == (len(ids), float(len(ids)))


def test_pages() -> None:
    many: Any = Ended(*(job(row, float(row)) for row in range(LINES + 3)))
    last = history_page(many, Filter(at=99, text="n"))
    assert (last.pages, last.asked.at, [one.id for one in last.jobs]) == (2, 1, ["3", "2", "1"])
    assert last.asked.link(0) == "?text=n"
    assert Filter().link(0) == ""


def test_no_day_is_refused() -> None:
    with pytest.raises(InputError, match=r"since.: .yesterday. is no day; expected one such as 2026-11-22"):
        history_page(JOBS, Filter(since="yesterday"))  # type: ignore[arg-type]


def test_a_file_of_what_was_found() -> None:
    """A name that a spreadsheet would take for a formula is not one in it."""
    table = list(csv.DictReader(io.StringIO(as_csv([job(0, 1.0, name="=HYPERLINK(1)", cause="a,b\nc")]))))
    assert (table[0]["id"], table[0]["name"], table[0]["cause"]) == ("1", "'=HYPERLINK(1)", "a,b\nc")


# -- as pages ----------------------------------------------------------------------------------------


def test_as_pages(stage: Stage) -> None:
    """What users write stands in them as text."""
    spec = JobSpec(command=["a"], gpus=1, name="x", comment="y")
    stage.controller.submit(Caller(user="alice", tenant="vision/alice"), Submission(spec=spec))
    assert "Who has what" in get(stage, "/tenants")
    assert "Who has what" in get(stage, "/tenants/now")
    assert '"times"' in get(stage, "/tenants/curves?days=7&tenant=t")
    assert "skip" in get(stage, "/policy")
    assert '"unit":"ms"' in get(stage, "/policy/times")
    assert "History" in get(stage, f"/history?text={time.time()}&at=0")
    evil = get(stage, "/history?text=%3Cscript%3E&tenant=%22%3E%3Cscript%3E")
    assert "<script>alert" not in evil
    assert "&lt;script&gt;" in evil


def test_looking_ahead_and_swapping(stage: Stage) -> None:
    """Only admins swap; everybody may look ahead; what nobody knows is a sentence."""
    assert "Let srtf decide" in get(stage, "/policy/ahead?policy=srtf", "admin")
    assert "Admins may let it decide" in get(stage, "/policy/ahead?policy=srtf")
    wrong = ask(
        stage,
        "GET",
        "/policy/ahead?policy=strf",
        authorization=f"Bearer {stage.tokens['alice']}",
        hx_request="true",
    )
    assert (wrong.status, "did you mean 'srtf'" in wrong.text) == (400, True)
    refused = ask(stage, "PUT", "/policy?policy=srtf", authorization=f"Bearer {stage.tokens['alice']}")
    assert refused.status == 403
    done = ask(stage, "PUT", "/policy?policy=srtf", authorization=f"Bearer {stage.tokens['admin']}")
    assert (done.status, done.text) == (200, "srtf decides now.")
    shadow = ask(stage, "PUT", "/policy/shadow?policy=las", authorization=f"Bearer {stage.tokens['admin']}")
    assert shadow.text == "las watches now"
    ended = ask(stage, "DELETE", "/policy/shadow", authorization=f"Bearer {stage.tokens['admin']}")
    assert ended.text == "The shadow has ended"


def test_the_export_is_a_download(stage: Stage) -> None:
    answer = ask(
        stage, "GET", "/history/jobs.csv?state=FAILED", authorization=f"Bearer {stage.tokens['alice']}"
    )
    assert (answer.status, answer.headers["content-type"]) == (200, "text/csv; charset=utf-8")
    assert answer.headers["content-disposition"] == 'attachment; filename="rota-history.csv"'
    assert answer.text.startswith("id,name,user,tenant,state")


def test_data_of_a_page_is_json() -> None:
    """JavaScript reads neither NaN nor infinity."""
    text = bytes(data({"a": [math.nan, math.inf, 1.0]}).body)
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, None, 1.0]}
