"""The page Queue: its order, its filters, and what it offers to whom, from views made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from dashboard_play import ask, get
from serving_toys import Stage

from rota.scheduler.reasons.order import Precedence
from rota.server.answers.starts import Starts
from rota.server.callers import Caller
from rota.server.dashboard.acts import offered
from rota.server.dashboard.queue import ROWS, Look, queue_of, queue_page
from rota.server.refusals import Busy
from rota.server.store.queries import JobLine
from rota.wire.views import JobView, ReasonView

ANN = Caller(user="ann", tenant="vision/ann")
ADMIN = Caller(user="root", tenant="all", admin=True)


def job(id: int, state: str = "PENDING", user: str = "ann", reason: str = "", **more: str) -> JobView:
    said = {"tenant": f"vision/{user}", "name": f"j{id}", **more}
    return JobView(id=str(id), row=id - 1, user=user, state=state, reason=reason, gpus=1, submit_s=0, **said)


@dataclass
class Toys:
    """The jobs that a service would tell of."""

    all: list[JobView]
    ranking: list[int] | None = None
    is_busy: bool = False
    targets: dict[int, float] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def lines(self) -> list[JobLine]:
        return [JobLine(*(getattr(one, name) for name in JobLine._fields)) for one in self.all]

    def some(self, rows: Sequence[int]) -> list[JobView]:
        return [next(one for one in self.all if one.row == row) for row in rows]

    def order(self) -> Precedence:
        if self.is_busy:
            raise Busy("it is deciding")
        return Precedence(self.ranking, self.targets, "part of its time" if self.targets else "")

    def reasons(self, ids: Sequence[str]) -> dict[str, list[ReasonView]]:
        if self.is_busy:
            raise Busy("it is deciding")
        self.asked += ids
        return {id: [ReasonView(code="Resources", sentence=f"why {id}")] for id in ids}

    def starts(self) -> Starts:
        return Starts(1.0, {"1": (5.0, None, None)})


LIVE = [
    job(1),
    job(2, "RUNNING"),
    job(3),
    job(4, "SUSPENDED"),
    job(5, reason="Held"),
    job(6, "COMPLETED"),
    job(7, user="bob"),
]


def shown(toys: Toys, who: Caller = ANN, **look: object) -> list[str]:
    """Ids of the rows, in their order."""
    page = queue_page(queue_of(toys), toys, who, replace(Look(), **look))  # type: ignore[arg-type]
    return [row.job.id for row in page.rows]


@pytest.mark.parametrize(
    ("look", "rows"),
    [
        ({}, "3 7 1 5"),
        ({"state": "running"}, "2"),
        ({"state": "suspended"}, "4"),
        ({"state": "all"}, "3 7 1 5 2 4"),
        ({"text": "BOB"}, "7"),
        ({"text": "vision j3"}, "3"),
        ({"text": "held"}, "5"),
        ({"text": "nobody"}, ""),
        ({"tenant": "vision"}, "3 7 1 5"),
        ({"tenant": "vision/bob"}, "7"),
        ({"tenant": "visio"}, ""),
        ({"first": 2}, "1 5"),
        ({"first": 99}, "3 7 1 5"),
    ],
)
def test_order_and_filters(look: dict[str, object], rows: str) -> None:
    """The policy serves 3 before 7 before 1; 5 is held and in no order."""
    assert shown(Toys(LIVE, [2, 6, 0]), **look) == rows.split()


def test_places_reasons_and_starts() -> None:
    toys = Toys(LIVE, [2, 6, 0])
    page = queue_page(queue_of(toys), toys, ANN, Look(state="all"))
    assert {row.job.id: row.place for row in page.rows} == {
        "3": 1,
        "7": 2,
        "1": 3,
        "5": None,
        "2": None,
        "4": None,
    }
    assert {row.job.id: len(row.reasons) for row in page.rows} == {
        "3": 1,
        "7": 1,
        "1": 1,
        "5": 1,
        "2": 0,
        "4": 1,
    }
    assert [row.job.id for row in page.rows if row.start] == ["1"]
    assert page.counts == {"waiting": 4, "running": 1, "suspended": 1, "all": 6}
    assert page.order == "as the policy serves them"


def test_a_policy_without_an_order_and_one_that_is_deciding() -> None:
    """By submission then, and the page says so; what can be shown is."""
    toys = Toys(LIVE)
    assert shown(toys) == ["1", "3", "5", "7"]
    assert "no order" in queue_page(queue_of(toys), toys, ANN, Look()).order
    busy = Toys(LIVE, [2], is_busy=True)
    page = queue_page(queue_of(busy), busy, ANN, Look())
    assert [row.job.id for row in page.rows] == ["1", "3", "5", "7"]
    assert "it is deciding" in page.trouble


def test_a_policy_that_says_what_it_means_to_give() -> None:
    """Who is to have most stands first; an order counts before that, with the targets beside it."""
    toys = Toys(LIVE, targets={0: 0.25, 6: 1.0, 2: 0.5, 1: 0.75})
    page = queue_page(queue_of(toys), toys, ANN, Look(state="all"))
    assert [(row.job.id, row.target) for row in page.rows] == [
        ("7", 1.0),
        ("3", 0.5),
        ("1", 0.25),
        ("5", None),
        ("2", 0.75),
        ("4", None),
    ]
    assert page.order == "by what the policy means to give each: part of its time"
    assert [row.place for row in page.rows] == [None] * 6
    toys.ranking = [0, 2]
    page = queue_page(queue_of(toys), toys, ANN, Look())
    assert [(row.job.id, row.target) for row in page.rows[:2]] == [("1", 0.25), ("3", 0.5)]
    assert page.target == "part of its time"


def test_long_queues_in_windows() -> None:
    toys = Toys([job(id) for id in range(1, 5001)])
    queue = queue_of(toys)
    page = queue_page(queue, toys, ANN, Look(first=4950))
    assert ([page.rows[0].job.id, len(page.rows), page.total]) == (["4951", 50, 5000])
    assert len(toys.asked) == 50, "of those that are seen, and of no others"
    assert queue_page(queue, toys, ANN, Look(first=7000)).look.first == 0
    assert len(queue_page(queue, toys, ANN, Look()).rows) == ROWS


@pytest.mark.parametrize(
    ("who", "state", "reason", "verbs"),
    [
        (ANN, "PENDING", "", "hold cancel"),
        (ANN, "PENDING", "Held", "release cancel"),
        (ANN, "RUNNING", "", "suspend requeue cancel"),
        (ANN, "SUSPENDED", "", "resume cancel"),
        (ANN, "COMPLETED", "", ""),
        (ADMIN, "PENDING", "", "hold cancel"),
        (Caller(user="bob", tenant="nlp"), "PENDING", "", ""),
        (Caller(user="lead", tenant="vision"), "PENDING", "", "hold cancel"),
        (Caller(user="lead", tenant="vision", viewer=True), "PENDING", "", ""),
    ],
)
def test_what_is_offered_to_whom(who: Caller, state: str, reason: str, verbs: str) -> None:
    assert [verb.value for verb in offered(who, job(1, state, reason=reason))] == verbs.split()


def test_the_page(stage: Stage) -> None:
    """Its address keeps what is looked for; a text to look for is text, whatever it looks like."""
    id = stage.client("bob").call("POST", "/v1/jobs", {"spec": {"command": ["x"], "name": "bert"}})["jobs"][
        0
    ]["id"]
    text = get(stage, "/queue?text=bert", "bob")
    assert f'data-path="/act/{id}/cancel"' in text
    assert f'data-path="/act/{id}/cancel"' not in get(stage, "/queue?text=bert", "alice")
    odd = get(stage, "/queue?text=%22%3E%3Cscript%3Ealert(1)&tenant=%3Cscript%3E&state=odd&first=-4")
    assert "<script>" not in odd
    token = f"Bearer {stage.tokens['bob']}"
    part = ask(
        stage, "GET", "/queue/rows?text=bert&state=all&first=0", authorization=token, hx_request="true"
    )
    assert part.headers["hx-replace-url"] == "/queue?text=bert&state=all"
    done = ask(stage, "POST", f"/act/{id}/cancel", authorization=token, hx_request="true")
    assert done.text == f"Job {id} is cancelled"
    other = ask(
        stage, "POST", f"/act/{id}/hold", authorization=f"Bearer {stage.tokens['alice']}", hx_request="true"
    )
    assert other.status == 403
