"""What fails between two decisions: told apart, said with its moment, and survived by another policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from site_play import Site

from rota.model.words import utc
from rota.scheduler.decision import Decision
from rota.scheduler.guard.check import Breach
from rota.scheduler.loop import Loop
from rota.server.answers.policy import policy_view
from rota.server.overview import Overview
from rota.server.policy.fallback import LAST_RESORT
from rota.server.store.failures import StoreError
from rota.server.store.rows import REAL, Step
from rota.server.turn import TurnChanges
from rota.worlds.live.world import LiveWorld

GOOD, BAD = "fifo:skip=yes", "las"


@dataclass
class FailingSite(Site):
    """A site whose turns may raise anything, as those of a controller do."""

    def __post_init__(self) -> None:
        self.said: list[str] = []
        super().__post_init__()

    def told(self, turn: TurnChanges) -> None:
        self.said += [turn.replaced] if turn.replaced else []

    def turn(self) -> None:
        try:
            super().turn()
        except Exception as error:
            self.scheduler._fail(error, 0.0)

    def until(self, is_so: Callable[[], object], turns: int = 80) -> None:
        for _ in range(turns):
            if is_so():
                return
            self.turn()
        raise AssertionError(f"not so after {turns} turns: {self.scheduler.troubles()}, {self.states()}")

    def states(self) -> list[str]:
        return [row.now.state for row in self.rows()]

    def policy_now(self) -> tuple[str, str]:
        row = self.store.policies()[REAL]
        return row.spec, row.by

    def choose(self, policy: str) -> None:
        self.command("policy", policy=policy)
        self.until(lambda: self.policy_now() == (policy, "u"))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FailingSite]:
    made = FailingSite(tmp_path, {"n1": 1}, GOOD)
    yield made
    made.store.close()


class Poison:
    """The guard breaks at the decisions of some policies."""

    def __init__(self) -> None:
        self.policies: tuple[str, ...] = ()

    def __call__(self, *policies: str) -> None:
        """Of these from now on."""
        self.policies = policies


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Poison:
    made, sound = Poison(), Loop._breaches

    def breaches(loop: Loop, decision: Decision) -> Sequence[Breach]:
        host: Any = loop.policy
        if host.name in made.policies and not decision.is_cut:
            raise IndexError("list index out of range")
        return sound(loop, decision)

    monkeypatch.setattr(Loop, "_breaches", breaches)
    return made


def test_the_last_good_policy_takes_over_after_three_failures_in_a_row(
    site: FailingSite, poison: Poison
) -> None:
    first = site.submit(1.0)
    site.until(lambda: site.states()[first] == "COMPLETED")
    poison(BAD)
    site.choose(BAD)
    site.until(lambda: site.scheduler.trouble or site.scheduler.policy_trouble)
    since = utc(site.time.epoch_unix_s + site.time.now)
    (said,) = site.scheduler.troubles()
    what = "decided what cannot be carried out: IndexError: list index out of range (test_policy_failing.py, "
    assert said.startswith(f"policy {BAD} {what}")
    assert f"(once, since {since}); after 3 times in a row another policy takes over" in said
    site.until(lambda: site.policy_now() != (BAD, "u"))
    assert site.policy_now() == (GOOD, "rota")
    (told,) = site.said
    assert told.startswith(f"policy {GOOD} decides since ")
    assert (
        f" in place of {BAD}, which failed 3 times in a row (decided what cannot be carried out: IndexError"
        in told
    )
    second = site.submit(1.0)
    site.until(lambda: site.states()[second] == "COMPLETED")
    assert site.scheduler.troubles() == [told], "as long as no person has chosen another"
    assert policy_view(site.scheduler, site.store).trouble == told
    (event,) = (event for event in site.store.events() if event.who == "rota" and event.kind == "policy")
    assert event.text == told
    site.kill_controller()
    site.until(lambda: site.scheduler.loop is not None)
    assert site.scheduler.troubles() == [told], "a restart does not forget it"
    poison()
    site.choose(BAD)
    site.until(lambda: site.scheduler.loop is not None)
    assert site.scheduler.troubles() == []


def test_while_a_policy_fails_ends_and_cancels_are_carried_out(site: FailingSite, poison: Poison) -> None:
    _, second, _ = site.submit(3.0), site.submit(3.0), site.submit(3.0)
    site.until(lambda: site.states() == ["RUNNING", "PENDING", "PENDING"])
    poison(GOOD)
    site.until(lambda: site.scheduler.policy_trouble)
    assert site.states() == ["RUNNING", "PENDING", "PENDING"], "the turn in which it ended has not happened"
    site.command("cancel", second)
    site.until(lambda: site.states() == ["COMPLETED", "CANCELLED", "PENDING"])
    assert site.policy_now() == (GOOD, "test"), "before another has taken over"


def test_a_decision_that_is_carried_out_ends_the_count_and_the_trouble(
    site: FailingSite, poison: Poison
) -> None:
    poison(GOOD)
    for _ in range(4):
        site.submit(1.0)
        poison(GOOD)
        site.until(lambda: site.scheduler.policy_trouble)
        assert "(once, since" in site.scheduler.policy_trouble
        poison()
        site.until(lambda: not site.scheduler.policy_trouble)
    assert site.policy_now() == (GOOD, "test")
    assert site.scheduler.troubles() == []


@pytest.mark.parametrize(
    ("first", "bad", "charged"),
    [
        (GOOD, (GOOD,), [LAST_RESORT]),
        (GOOD, (GOOD, LAST_RESORT), [LAST_RESORT]),
        (LAST_RESORT, (LAST_RESORT,), []),
    ],
    ids=["no other has decided well", "the last resort fails as well", "it fails from the start"],
)
def test_fifo_takes_over_where_there_is_no_other(
    tmp_path: Path, first: str, bad: tuple[str, ...], charged: list[str], poison: Poison
) -> None:
    site = FailingSite(tmp_path, {"n1": 1}, first)
    poison(*bad)
    site.submit(1.0)
    for _ in range(60):
        site.turn()
    assert [told.split()[1] for told in site.said] == charged
    assert site.policy_now()[0] == LAST_RESORT
    assert bool(site.scheduler.policy_trouble) == (LAST_RESORT in bad)
    assert ("takes over" in site.scheduler.policy_trouble) is False
    poison()
    site.store.close()


def test_one_that_took_over_and_fails_gives_way_to_the_last_resort(site: FailingSite, poison: Poison) -> None:
    site.submit(1.0)
    site.until(lambda: "COMPLETED" in site.states())
    poison(GOOD, BAD)
    site.choose(BAD)
    site.until(lambda: site.policy_now()[0] == LAST_RESORT)
    assert [told.split()[1] for told in site.said] == [GOOD, LAST_RESORT]


def raising(error: Exception) -> Callable[..., Any]:
    def act(*_: object, **__: object) -> Any:
        raise error

    return act


NOT_THE_POLICY = {
    "what happens cannot be taken in": (
        (Loop, "_absorb", KeyError("n9")),
        "the scheduler fails: KeyError: 'n9' ",
        f"policy {GOOD} is not to blame, it had decided nothing",
    ),
    "no timers": (
        (LiveWorld, "next", RuntimeError("no time")),
        "the scheduler fails: RuntimeError: no time ",
        f"policy {GOOD} is not to blame, it had decided nothing",
    ),
}


@pytest.mark.parametrize("what", NOT_THE_POLICY)
def test_what_fails_without_a_decision_is_not_blamed_on_the_policy(
    site: FailingSite, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (where, name, error), *sentences = NOT_THE_POLICY[what]
    with monkeypatch.context() as broken:
        broken.setattr(where, name, raising(error))
        for _ in range(12):
            site.turn()
        (said,) = site.scheduler.troubles()
        assert all(sentence in said for sentence in sentences), said
        assert "12 times in a row, since 2023-11-14" in said
    site.until(lambda: not site.scheduler.trouble)
    assert site.scheduler.troubles() == []
    assert site.policy_now() == (GOOD, "test")


def test_a_store_that_fails_is_not_blamed_on_the_policy(
    site: FailingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.submit(1.0)
    with monkeypatch.context() as broken:
        broken.setattr(site.store, "commit", raising(StoreError("rota.db cannot grow: its disk is full")))
        for _ in range(12):
            site.turn()
        (said,) = site.scheduler.troubles()
        assert said.startswith("the store does not answer: rota.db cannot grow: its disk is full (12 ti")
    site.until(lambda: site.states() == ["COMPLETED"])
    assert site.policy_now() == (GOOD, "test")
    assert site.scheduler.troubles() == []


def test_what_cannot_be_carried_out_counts_like_what_the_guard_chokes_on(
    site: FailingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.submit(1.0)
    monkeypatch.setattr(LiveWorld, "apply", raising(TypeError("no such order")))
    site.until(lambda: site.said)
    assert "decided what cannot be carried out: TypeError: no such order" in site.said[0]


def test_a_policy_that_cannot_be_made_any_more_gives_way(site: FailingSite) -> None:
    """Its module is gone: without a policy there is no turn, and no command would be carried out."""
    site.submit(1.0)
    site.until(lambda: site.states() == ["COMPLETED"])
    row = site.store.policies()[REAL]
    site.store.commit(Step(policies=[replace(row, spec="mine", since_s=7.0, by="u")]))
    site.kill_controller()
    site.until(lambda: site.said)
    assert "which failed 3 times in a row (cannot be made: " in site.said[0]
    assert site.policy_now() == (GOOD, "rota")


def test_health_says_what_fails_and_since_when_and_nothing_of_what_it_says(
    site: FailingSite, poison: Poison, monkeypatch: pytest.MonkeyPatch
) -> None:
    overview = Overview("c", site.store, site.scheduler, SimpleNamespace())  # type: ignore[arg-type]
    poison(GOOD)
    site.submit(1.0)
    site.until(lambda: site.scheduler.policy_trouble)
    assert overview.health() == "its policy fails since 2023-11-14 22:13:20 UTC; `rota status` says why"
    poison()
    site.until(lambda: not overview.health())
    with monkeypatch.context() as broken:
        broken.setattr(Loop, "_absorb", raising(KeyError("n9")))
        site.turn()
        assert overview.health().startswith("the scheduler fails since 2023-11-14")
        broken.setattr(site.store, "facts", raising(StoreError("rota.db is damaged")))
        assert overview.health() == "the store does not answer"
    site.until(lambda: not overview.health())
