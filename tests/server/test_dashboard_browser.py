"""The dashboard in a real browser, on a live cluster whose policy preempts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from dashboard_play import WIDTHS, signed_in
from live_cluster import LiveCluster

from browser import PALE

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def live(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Two slots; who has less to do is served first, and takes the devices of who has more."""
    with LiveCluster(tmp_path_factory.mktemp("dash"), devices="cpu:2", policy="srtf") as cluster:
        yield cluster


HEARS_OF_IT = """document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.xhr.responseText.includes("s-running")) document.body.dataset.heard = "yes";
})"""


def row(page: Any, id: str) -> Any:
    """The row of a job."""
    return page.locator(f'tr[data-row="{id}"]')


def test_jobs_come_and_go_by_themselves(chromium: Any, live: LiveCluster) -> None:
    """Submitted elsewhere, seen without a reload; preempted by a shorter one; cancelled on the page."""
    with signed_in(chromium, live) as opened:
        page = opened("/queue?state=all")
        page.evaluate("window.same = true")
        long = live.submit(gpus=2, time_s=90_000, name="long-one")
        row(page, long).locator(".s-running").wait_for()
        short = live.submit(gpus=2, time_s=900, name="short-one")
        row(page, short).locator(".s-running").wait_for()
        row(page, long).locator(".s-pending, .s-suspended").wait_for()
        assert "short" in row(page, short).inner_text()
        page.get_by_role("button", name=f"Cancel job {short}").click()
        page.locator("#confirm", has_text=f"Cancel job {short} (short-one)").get_by_role(
            "button", name="No"
        ).click()
        assert live.job(short)["state"] == "RUNNING"
        page.get_by_role("button", name=f"Cancel job {short}").click()
        page.locator("#confirm").get_by_role("button", name="Yes").click()
        page.locator(".toast", has_text=f"Job {short} is cancelled").wait_for()
        row(page, short).wait_for(state="detached")
        row(page, long).locator(".s-running").wait_for()
        assert page.evaluate("window.same"), "it was never loaded anew"
        live.act(long, "cancel", force=True)


def test_an_answer_that_is_late_is_told(chromium: Any, live: LiveCluster) -> None:
    """Who said yes and sees nothing would say it again; the answer itself comes as ever."""
    job = live.submit(gpus=1, hold=True, name="slowly")
    asked: list[Any] = []
    with signed_in(chromium, live) as opened:
        page = opened("/queue?state=all")
        page.route("**/act/**", lambda route: asked.append(route))
        page.get_by_role("button", name=f"Cancel job {job}").click()
        page.locator("#confirm").get_by_role("button", name="Yes").click()
        page.locator(".toast", has_text="has not answered yet").wait_for()
        asked[0].continue_()
        page.locator(".toast", has_text=f"Job {job} is cancelled").wait_for()
    assert len(asked) == 1
    live.reaches(job, "CANCELLED")


def test_a_stream_that_dies_without_a_word_is_noticed(chromium: Any, live: LiveCluster) -> None:
    """No beat for a minute, and nobody says hello: the page says that it is old, until somebody does."""
    with signed_in(chromium, live) as opened:
        page = opened("/queue")
        page.clock.install()
        page.reload()
        page.locator("body[data-hears=yes]").wait_for()
        page.route("**/stream*", lambda route: None)
        page.clock.fast_forward(60_000)
        page.locator("#lost").wait_for()
        page.unroute("**/stream*")
        page.clock.fast_forward(60_000)
        page.locator("#lost").wait_for(state="hidden")


def said_every(seconds: float, memory_gib: list[float]) -> dict[str, Any]:
    """Curves as the API gives them: one point for each value."""
    at_s = [1.8e9 + seconds * i for i in range(len(memory_gib))]
    curve = {"unit": "GiB", "mean": memory_gib, "low": memory_gib, "high": memory_gib}
    times = {"at_s": at_s, "until_s": at_s, "attempt": [1] * len(at_s), "spacing_s": 2.0}
    return {**times, "curves": {"memory_gib": curve}}


@pytest.mark.parametrize(
    ("seconds", "left_out", "gaps", "label", "shown"),
    [
        (2.0, (), [], "Host memory: 12 points", "6.35 MiB"),
        (30.0, (), [], "Host memory: 12 points", "6.35 MiB"),
        (30.0, (4, 5, 6, 7, 8), [], "Host memory: 7 points, 1 silence between them", "6.35 MiB"),
        (30.0, (), [(1.8e9 + 61, 1.8e9 + 62)], "Host memory: 12 points, 1 silence between them", "6.35 MiB"),
    ],
    ids=["program", "agent", "silence", "suspended"],
)
def test_curves_are_broken_by_silence_and_suspension_only(
    chromium: Any,
    live: LiveCluster,
    seconds: float,
    left_out: tuple[int, ...],
    gaps: list[tuple[float, float]],
    label: str,
    shown: str,
) -> None:
    """A job that speaks twice a minute is not silent in between; megabytes are not thousandths of a GiB."""
    job = live.submit(gpus=1, hold=True, name="speaks")
    answer = said_every(seconds, [0.0062] * 12) | {"gaps": gaps}
    for times in (answer, answer["curves"]["memory_gib"]):
        for key in set(times) - {"spacing_s", "curves", "unit", "gaps"}:
            times[key] = [value for i, value in enumerate(times[key]) if i not in left_out]
    with signed_in(chromium, live) as opened:
        page = opened("/queue?state=all")
        page.route("**/v1/jobs/*/curves*", lambda route: route.fulfill(json=answer))
        page.goto(f"{page.url.partition('/queue')[0]}/jobs/{job}")
        figure = page.locator("figure[data-curve=memory_gib]")
        figure.wait_for()
        assert figure.get_attribute("aria-label") == label
        assert figure.locator("output").inner_text() == shown
    live.act(job, "cancel")


def test_an_act_is_not_lost_with_its_row(chromium: Any, live: LiveCluster) -> None:
    """The row changes while the question is read, and is gone before the answer is there."""
    job = live.submit(gpus=1, hold=True, name="changes-meanwhile")

    def answered_late(route: Any) -> None:
        answer = route.fetch()
        row(page, job).wait_for(state="detached")
        route.fulfill(response=answer)

    with signed_in(chromium, live) as opened:
        page = opened("/queue?state=all")
        page.route("**/act/**", answered_late)
        row(page, job).locator(".s-pending").wait_for()
        page.get_by_role("button", name=f"Cancel job {job}").click()
        live.act(job, "release")
        row(page, job).locator(".s-running").wait_for()
        page.locator("#confirm").get_by_role("button", name="Yes").click()
        page.locator(".toast", has_text=f"Job {job} is cancelled").wait_for()
    live.reaches(job, "CANCELLED")


def test_a_click_ends_where_it_began(chromium: Any, live: LiveCluster) -> None:
    """The row has changed while the mouse was down: what was clicked is asked about, and the row follows."""
    job = live.submit(gpus=1, hold=True)
    with signed_in(chromium, live) as opened:
        page = opened("/queue?state=all")
        page.get_by_role("button", name=f"Cancel job {job}").hover()
        page.mouse.down()
        page.evaluate(HEARS_OF_IT)
        live.act(job, "release")
        page.locator("body[data-heard]").wait_for()
        assert row(page, job).locator(".s-pending").is_visible()
        page.mouse.up()
        page.locator("#confirm", has_text=f"Cancel job {job}").get_by_role("button", name="No").click()
        row(page, job).locator(".s-running").wait_for()
    live.act(job, "cancel")


def test_an_act_that_nobody_answers_is_said(chromium: Any, live: LiveCluster) -> None:
    job = live.submit(hold=True)
    with signed_in(chromium, live, quiet=False) as opened:
        page = opened("/queue")
        page.route("**/act/**", lambda route: route.abort())
        page.get_by_role("button", name=f"Release job {job}").click()
        page.locator("#confirm").get_by_role("button", name="Yes").click()
        page.locator(".toast.wrong", has_text="The controller does not answer").wait_for()
    assert live.job(job)["reason"] == "Held", "what never arrived was not done"
    live.act(job, "cancel")


def test_keys(chromium: Any, live: LiveCluster) -> None:
    jobs = [live.submit(hold=True, name=f"key-{i}") for i in range(3)]
    with signed_in(chromium, live) as opened:
        page = opened("/")
        page.keyboard.press("g")
        page.keyboard.press("q")
        page.wait_for_url("**/queue")
        row(page, jobs[2]).wait_for()
        where = "document.activeElement.closest('tr')?.dataset.row"
        page.keyboard.press("j")
        first = page.evaluate(where)
        page.keyboard.press("j")
        assert page.evaluate(where) != first
        page.keyboard.press("k")
        assert page.evaluate(where) == first
        live.act(jobs[2], "cancel")
        row(page, jobs[2]).wait_for(state="detached")
        assert page.evaluate(where) == first, "it stays where it was when the list is written anew"
        page.keyboard.press("/")
        page.keyboard.type("key-1")
        row(page, jobs[0]).wait_for(state="detached")
        assert row(page, jobs[1]).count() == 1
        assert page.url.endswith("/queue?text=key-1")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        assert page.locator("#help").is_visible()
        page.keyboard.press("Escape")
        assert page.locator("#help").is_hidden()
    for id in jobs[:2]:
        live.act(id, "cancel")


def test_another_tenants_job_and_a_wrong_token(chromium: Any, live: LiveCluster) -> None:
    """What one may not do is not offered, and is refused to who asks all the same."""
    bob = live.client.call("POST", "/v1/users", {"name": "bob", "tenant": "nlp"})["token"]
    job = live.submit(hold=True, name="not-bobs")
    with signed_in(chromium, live, bob, quiet=False) as opened:
        page = opened("/queue")
        row(page, job).wait_for()
        assert row(page, job).locator("button").count() == 0
        status = page.evaluate(
            f"fetch('/act/{job}/cancel', {{method: 'POST'}}).then((answer) => answer.status)"
        )
        assert status == 403
        assert live.job(job)["state"] == "PENDING"
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/sign-in")
        page.fill("#token", bob[:-4] + "oops")
        page.press("#token", "Enter")
        page.locator("[role=alert]", has_text="not known here").wait_for()
        page.goto(page.url.replace("/sign-in", "/queue"))
        assert "/sign-in?next=" in page.url
    live.act(job, "cancel")


def test_the_picture_is_read_by_keys_and_mouse(chromium: Any, live: LiveCluster) -> None:
    job = live.submit(gpus=1, name="seen")
    live.reaches(job, "RUNNING")
    with signed_in(chromium, live) as opened:
        page = opened("/")
        page.wait_for_selector("#grid[data-drawn='2']")
        page.wait_for_selector("#legend button")
        page.locator("#grid").focus()
        said = ""
        for key in ("ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
            said += page.locator("#grid-said").inner_text()
        assert f"job {job} seen" in said
        assert "n1:0" in said
        page.get_by_role("button", name="job", exact=True).click()
        page.locator("#only").fill("nobody")
        page.locator("#only").fill("")
        box = page.locator("#grid canvas").bounding_box()
        page.mouse.move(box["x"] + 5, box["y"] + 22)
        page.locator("#grid .tip", has_text="n1:0").wait_for()
    live.act(job, "cancel", force=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_or_fades(chromium: Any, live: LiveCluster, scheme: str) -> None:
    """No width scrolls sideways, every text stands out from what is behind it (WCAG AA), on every page."""
    tenant = "an-account-of-a-department-with-a-long-name/somebody_with_a_long_name_as_well"
    held = live.submit(
        hold=True, name="a-name-as-long-as-names-of-jobs-are-when-programs-make-them-up" * 2, tenant=tenant
    )
    with signed_in(chromium, live, scheme=scheme) as opened:
        for path in ("/", "/queue?state=all", "/tenants", "/sign-in"):
            page = opened(path)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (path, width)
                assert page.evaluate(PALE) == [], (path, width)
    live.act(held, "cancel")


@pytest.mark.soak
def test_names_of_128_letters_stick_out_nowhere(chromium: Any, live: LiveCluster) -> None:
    """Of a tenant with a job that runs, and of the nodes that one waits for."""
    tenant = "t/" + "u" * 126
    runs = live.submit("sleep", "600", tenant=tenant, name="x" * 128)
    waits = live.submit("true", tenant=tenant, node_set="|".join(f"m{i}" * 60 for i in range(3)))
    live.reaches(runs, "RUNNING")
    with signed_in(chromium, live) as opened:
        for path in ("/", "/queue", "/tenants", f"/jobs/{runs}", f"/jobs/{waits}"):
            page = opened(path)
            page.wait_for_function("(name) => document.body.textContent.includes(name)", arg=tenant)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (path, width)
    for job in (runs, waits):
        live.act(job, "cancel", force=True)


def test_a_lost_connection_is_said_and_mended(chromium: Any, live: LiveCluster) -> None:
    """The controller dies and comes back: a banner meanwhile, then what has changed, signed in as before."""
    with signed_in(chromium, live, quiet=False) as opened:
        page = opened("/queue")
        page.wait_for_selector("body[data-hears]")
        live.kill_controller()
        page.locator("#lost").wait_for()
        live.start_controller()
        page.locator("#lost").wait_for(state="hidden")
        job = live.submit(hold=True, name="after")
        row(page, job).wait_for()
        assert re.search(r"/queue\??$", page.url)
        live.act(job, "cancel")
    assert json.loads((live.home / "controller.json").read_text())["url"]
