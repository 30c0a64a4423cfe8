"""Where a cluster's GPU-hours went: stretches on record and what runs now, by type, exact to the second."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from dashboard_play import ask, get
from postgres import postgres  # noqa: F401
from serving_toys import Stage
from store_place import Place, jobs_of, node_info, place  # noqa: F401
from test_store import DONE, RUNNING, attempt

from rota.client import Refused
from rota.errors import InputError
from rota.reports.usage.prices import parse_prices, prices_of
from rota.reports.usage.view import notes
from rota.server.scheduler_view import SchedulerView
from rota.server.store.rows import IntervalRow, JobState, Step, TokenRow
from rota.server.store.store import Store
from rota.server.usage import cluster_usage
from rota.table.state import Phase
from rota.wire.usage import UsageView
from rota.worlds.live.curves import Point

HOUR = 3600.0
LOSS = [1.0, 1.0, 1.0, 1.0]
EPOCH_S = 1_793_491_200.0  # 2026-11-01


def interval(
    row: int, start_h: float, end_h: float, devices: list[int], how: str, **more: float
) -> IntervalRow:
    attempt_number = int(more.pop("attempt", 1))
    nodes = tuple(0 if device < 2 else 1 for device in devices)
    return IntervalRow(
        row, attempt_number, start_h * HOUR, end_h * HOUR, devices, nodes, 1.0, "alone", how, **more
    )


@pytest.fixture
def store(place: Place) -> Store:  # noqa: F811
    """Job 1 was preempted once and went on; job 2 failed once and is done; job 3 runs on both types."""
    store = place.open()
    store.join(node_info("n0", 2), TokenRow("h0", "agent", "n0", 1.0))
    slow = node_info("n1", 2)
    slow = slow.model_copy(
        update={"devices": [device.model_copy(update={"type": "K80"}) for device in slow.devices]}
    )
    store.join(slow, TokenRow("h1", "agent", "n1", 1.0))
    store.add_jobs("ann", "vision/cars", jobs_of(2), HOUR)
    store.add_jobs("bob", "speech", jobs_of(1), HOUR)
    over = replace(DONE, first_start_s=2 * HOUR, finish_s=9 * HOUR)
    runs = replace(RUNNING, first_start_s=4 * HOUR, since_s=4 * HOUR, adjusted_s=6 * HOUR, placed_s=4 * HOUR)
    store.commit(
        Step(
            jobs={0: replace(over, state="CANCELLED", phase=int(Phase.CANCELLED)), 1: over, 2: runs},
            attempts=[attempt(2, grant=[2, [1, 2, 3], 1.0, 0, -1, None])],
            intervals=[
                interval(0, 2, 4, [0, 1], "preempted", lost_work_s=0.5 * HOUR),
                interval(0, 7, 9, [0, 1], "cancelled", attempt=2),
                interval(1, 2, 3, [2], "failed"),
                interval(1, 3, 9, [3], "finished", attempt=2),
                interval(2, 4, 6, [1], "adjusted"),
            ],
            points=[
                Point(1, 1, 1.0, 2.0, 2.0, {"utilisation": [0.0, 0.0, 0.0, 1.0]}),
                Point(1, 2, 3.0, 4.0, 2.0, {"utilisation": [0.5, 0.0, 1.0, 3.0], "loss": LOSS}),
                Point(0, 1, 3.0, 4.0, 2.0, {"loss": LOSS}),
            ],
        )
    )
    return store


def usage(store: Store, *by: str, **more: object) -> UsageView:
    shown = SchedulerView(holding={2: attempt(2, grant=[2, [1, 2, 3], 1.0, 0, -1, None])})
    asked = {"since_s": None, "until_s": None, "prices": None, **more}
    return cluster_usage(store, shown, 10 * HOUR, EPOCH_S, by, **asked)  # type: ignore[arg-type]


def hours(found: UsageView) -> dict[tuple[str, ...], float]:
    return {line.names: line.gpu_hours for line in found.lines}


def test_what_was_held_and_is_held_now(store: Store) -> None:
    """Job 3 holds three devices since it was adjusted, one before."""
    found = usage(store, "user")
    assert hours(found) == {("ann",): 8.0 + 7.0, ("bob",): 2.0 + 12.0}
    ann, bob = found.lines
    assert (ann.jobs, ann.failed_gpu_hours, ann.cancelled_gpu_hours) == (2, 1.0, 8.0)
    assert ann.preempted_gpu_hours == 0.5, "half an hour of the one GPU that it asks for"
    assert (ann.wait_hours, bob.wait_hours) == (1.0, 3.0)
    assert (ann.measured_gpu_hours, ann.idle_gpu_hours) == (7.0, pytest.approx(7.0 * (1 - 1.5 / 4)))
    assert (bob.measured_gpu_hours, bob.idle_gpu_hours) == (0.0, None)


@pytest.mark.parametrize(
    ("by", "lines"),
    [
        ("tenant", {("vision",): 15.0, ("speech",): 14.0}),
        ("subtenant", {("vision/cars",): 15.0, ("speech",): 14.0}),
        ("node", {("n0",): 8.0 + 2.0 + 4.0, ("n1",): 7.0 + 8.0}),
        ("partition", {("-",): 29.0}),
        ("qos", {("-",): 29.0}),
        ("type", {("cpu",): 8.0 + 2.0 + 4.0, ("K80",): 7.0 + 8.0}),
        ("outcome", {("cancelled",): 8.0, ("completed",): 7.0, ("running",): 14.0}),
        ("month", {("2026-11",): 29.0}),
    ],
)
def test_by(store: Store, by: str, lines: dict[tuple[str, ...], float]) -> None:
    assert hours(usage(store, by)) == pytest.approx(lines)


def test_between_two_moments(store: Store) -> None:
    found = usage(store, "user", since_s=EPOCH_S + 3 * HOUR, until_s=EPOCH_S + 5 * HOUR)
    assert hours(found) == {("ann",): 2.0 + 2.0, ("bob",): 1.0}
    assert found.total.preempted_gpu_hours == 0.5


def test_idle_hours_are_those_of_the_time_asked_about(place: Place) -> None:  # noqa: F811
    """Idle for six hours of October and two of November, busy for two: a whole job is the mean of all."""
    store = place.open()
    store.join(node_info("n0", 2), TokenRow("h0", "agent", "n0", 1.0))
    store.add_jobs("ann", "vision", jobs_of(1), 0.0)
    over = replace(DONE, first_start_s=0.0, finish_s=10 * HOUR)
    idle, busy = [0.0, 0.0, 0.0, 6.0], [1.0, 1.0, 1.0, 2.0]
    store.commit(
        Step(
            jobs={0: over},
            intervals=[interval(0, 0, 10, [0], "finished")],
            points=[
                Point(0, 1, 0.0, 8 * HOUR, 2.0, {"utilisation": idle}),
                Point(0, 1, 8 * HOUR, 10 * HOUR, 2.0, {"utilisation": busy}),
            ],
        )
    )
    shown = SchedulerView()

    def asked(by: str, since_h: float | None = None, until_h: float | None = None) -> list[float | None]:
        begin, end = (None if at is None else epoch_s + at * HOUR for at in (since_h, until_h))
        found = cluster_usage(store, shown, 10 * HOUR, epoch_s, [by], begin, end, None)
        return [line.idle_gpu_hours for line in found.lines]

    epoch_s = EPOCH_S - 6 * HOUR
    assert asked("user") == [pytest.approx(10 * 6 / 8)]
    assert asked("user", 0, 8) == [8.0]
    assert asked("user", 8, 10) == [0.0]
    in_part = pytest.approx(4 * (6 / 4) / (6 / 4 + 2))
    assert asked("user", 6, 10) == [in_part], "a point that began before counts in part"
    assert asked("month") == [6.0, in_part]


def test_the_list_of_the_configuration(store: Store) -> None:
    """It counts where nobody types a price; a type it leaves out is named, and in no cost."""
    found = usage(store, "user", prices=prices_of({"CPU": {"on_demand": 2, "spot": 1}}))
    assert found.total.cost == 14 * 2
    assert found.without_price == ["K80"]
    assert "The price list has no price for K80: their hours are not in the cost." in notes(found)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ([1], "prices: is no list of prices; expected such as {V100: 1.2}"),
        ({"V100": "dear"}, "prices.V100: 'dear' is no price; expected a number such as 1.2"),
        ({"V100": -1}, "prices.V100: -1 is no price; expected a number such as 1.2"),
        ({"V100": {"cheap": 1}}, "prices.V100: has no class 'cheap'; expected on_demand or spot"),
        ({"V100": {}}, "prices.V100: states no price; expected on_demand or spot"),
        ({3: 1}, "prices: 3 is no GPU type; expected a name such as V100"),
    ],
)
def test_a_list_that_is_none(said: object, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        prices_of(said)
    assert str(refused.value) == problem


def test_prices(store: Store) -> None:
    assert usage(store, "user", prices=parse_prices("cpu=2,K80=0.5")).total.cost == 14 * 2 + 15 * 0.5
    with pytest.raises(InputError, match="GPU type 'K80' has no price"):
        usage(store, "user", prices=parse_prices("cpu=2"))


def test_nothing_yet(place: Place) -> None:  # noqa: F811
    found = usage(place.open(), "month", "type")
    assert (found.lines, found.total.jobs, found.total.gpu_hours) == ([], 0, 0.0)


def test_a_job_that_never_ran_holds_nothing(place: Place) -> None:  # noqa: F811
    store = place.open()
    store.add_jobs("ann", "vision", jobs_of(1), 1.0)
    store.commit(Step(jobs={0: JobState(state="CANCELLED", phase=int(Phase.CANCELLED), finish_s=9.0)}))
    assert usage(store, "user").lines == []


# -- the page ----------------------------------------------------------------------------------------


def test_the_page(stage: Stage) -> None:
    stage.controller.end(
        stage.client().call("POST", "/v1/jobs", {"spec": {"command": ["x"]}})["jobs"][0]["id"]
    )
    page = get(stage, "/usage?by=user&then=month&price=2.5")
    assert "1 job held GPUs for 2 GPU-hours" in page
    assert "<option selected>user</option>" in page
    assert 'href="/usage/lines.csv?by=user&amp;then=month&amp;price=2.5"' in page
    assert 'data-series="/usage/months?by=user&amp;then=month&amp;price=2.5"' in page
    drawn = json.loads(get(stage, "/usage/months?by=user&then=month"))
    assert drawn["unit"] == "GPU-hours"
    assert len(drawn["times"]) == len(drawn["series"][0]["values"]) >= 1
    said = get(stage, "/usage/lines.csv?by=user&then=month")
    assert said.splitlines()[0].startswith("user,month,jobs,gpu_hours,share,")
    assert len(said.splitlines()) == 2


def test_what_the_page_cannot_count_is_a_sentence(stage: Stage) -> None:
    assert "No cost: &#39;free&#39; is no price; expected 2.5" in get(stage, "/usage?price=free")
    answer = ask(stage, "GET", "/usage?since=yesterday", authorization=f"Bearer {stage.tokens['alice']}")
    assert answer.status == 400
    assert "is no day; expected one such as 2026-11-22" in answer.text


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("by=colour", "'colour' is nothing to count by; expected tenant, subtenant, user"),
        ("price=V100%3D-1", "'V100=-1' is no price; expected 2.5, or by type: V100=1.2,A100=3"),
        ("since=200000&until=100000", "1970-01-02 is not after 1970-01-03; expected a later day"),
    ],
)
def test_what_the_api_cannot_count_is_a_sentence(asked: str, sentence: str, stage: Stage) -> None:
    """Not a regular expression."""
    with pytest.raises(Refused) as refused:
        stage.client().call("GET", f"/v1/usage?{asked}")
    assert refused.value.status == 400
    assert sentence in str(refused.value)
