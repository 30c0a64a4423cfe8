"""Counts failures of turns, and decides when another policy takes over.

A turn fails with a policy's decision if it raises after the policy has answered and before the step is
stored.  The turns after that go without a decision, carrying out what ended and what users want.  If such a
turn goes well, the decision was to blame, and it counts like one that the policy did not make: after `MOST`
in a row another policy takes over.  If a turn without a decision fails as well, or the store does not answer,
another policy would change nothing: the status says so, and the scheduler goes on trying.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.errors import RotaError, words_of
from rota.model.words import utc
from rota.server.clocks import Clock
from rota.server.policy.host import PolicyHost
from rota.server.policy.remote import KEEPS
from rota.server.store.failures import StoreError
from rota.server.store.rows import REAL, EventRow, Json, PolicyRow, Step

MOST: Final = 3
"""Failures of a policy in a row after which another one takes over."""
LAST_RESORT: Final = "fifo"
"""Takes over where no other policy has decided well."""
ITSELF: Final = "rota"
"""Stands for the user if Rota itself put a policy in charge."""
GOOD: Final = "policies_that_decided"
"""Name of the fact that lists the last two policies that made carried-out decisions, newest first."""
REPLACED: Final = "policy_replaced"
"""Name of the fact that says which policy was replaced, when, and why."""


class DecisionFailedError(Exception):
    """A turn raised `error` with a decision of the policy, or as its process was to be made."""

    def __init__(self, error: Exception, what: str) -> None:
        super().__init__(f"{what}: {_words(error)}")


@dataclass
class Failures:
    """Failures of one kind in a row."""

    count: int = 0
    since_s: float = 0.0
    """Moment of the first, in seconds since the cluster's epoch."""
    why: str = ""
    """The last failure, as a sentence."""

    def add(self, why: str, now: float) -> None:
        """One more."""
        if not self.count:
            self.since_s = now
        self.count, self.why = self.count + 1, why


class Failing:
    """Counts failures.  Written by the scheduler's thread; sentences may be read by any."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._policy: PolicyRow | None = None
        self._good: list[str] = []
        self._replaced: Mapping[str, Any] = {}
        self._own, self._of_policy = Failures(), Failures()
        self._seen = 0
        """Failures that the policy's process had counted at the last look."""

    # -- the scheduler's thread ------------------------------------------------------------------

    def begin(self, policy: PolicyRow, facts: Mapping[str, Json]) -> None:
        """The store has been read: `policy` decides."""
        before, self._policy = self._policy, policy
        if before is None or (before.spec, before.since_s) != (policy.spec, policy.since_s):
            self._of_policy = Failures()
        good, replaced = facts.get(GOOD), facts.get(REPLACED)
        self._good = [str(spec) for spec in good] if isinstance(good, list) else []
        self._replaced = replaced if isinstance(replaced, dict) else {}

    def start(self, host: PolicyHost) -> None:
        """The policy has a process; after a failure it rests, so that the next turn goes without it."""
        if self._of_policy.count:
            host.rest(self._of_policy.why, self._of_policy.count)
        self._seen = host.failures

    def failed(self, error: Exception) -> str:
        """A turn has failed; returns the line for the log."""
        if isinstance(error, DecisionFailedError):
            self._of_policy.add(str(error), self._clock())
            return f"policy {self._spec} {self._of_policy.why}"
        if isinstance(error, StoreError):
            self._own.add(f"the store does not answer: {error}", self._clock())
            return self._own.why
        guiltless = f"; policy {self._spec} is not to blame, it had decided nothing" if self._spec else ""
        self._of_policy = Failures()
        self._own.add(f"the scheduler fails: {_words(error)}{guiltless}", self._clock())
        return self._own.why

    def turned(self, host: PolicyHost, *, decided: bool) -> None:
        """A turn is over and on record; `decided` if the policy, or its host, was asked in it."""
        self._own = Failures()
        if host.failures > self._seen:
            self._of_policy.add(self._bare(host.trouble), self._clock())
        elif decided and not host.trouble:
            self._of_policy = Failures()
        self._seen = host.failures

    def credit(self) -> dict[str, Json]:
        """The fact to store with a decision of the policy that is carried out; none if it is on record."""
        if self._good[:1] == [self._spec]:
            return {}
        self._good = [self._spec, *(spec for spec in self._good if spec != self._spec)][:2]
        return {GOOD: list(self._good)}

    @property
    def successor(self) -> str:
        """The policy that is to take over now; empty if the present one decides on, or there is no other."""
        if self._of_policy.count < MOST or self._spec == LAST_RESORT:
            return ""
        if self._is_stopgap:
            return LAST_RESORT
        return next((spec for spec in self._good if spec != self._spec), LAST_RESORT)

    def replacement(self) -> tuple[Step, str]:
        """The step that puts `successor` in charge, and the sentence about it."""
        assert self._policy is not None
        now, new = self._clock(), self.successor
        told = {"policy": self._spec, "by": new, "at_s": now, "times": MOST, "why": self._of_policy.why}
        sentence = self._replacement_in_words(told)
        event = EventRow(now, ITSELF, "policy", text=sentence)
        return Step(
            policies=[PolicyRow(REAL, new, now, ITSELF)], events=[event], facts={REPLACED: told}
        ), sentence

    # -- any thread ------------------------------------------------------------------------------

    @property
    def own(self) -> str:
        """What keeps the scheduler itself from working, as a sentence; empty if nothing does."""
        return self._in_words(self._own, self._own.why) if self._own.count else ""

    @property
    def for_strangers(self) -> str:
        """The failing part and since when, without its message; empty if nothing fails."""
        for failures, what in ((self._own, "the scheduler fails"), (self._of_policy, "its policy fails")):
            if failures.count:
                return f"{what} since {self._moment(failures.since_s)}; `rota status` says why"
        return ""

    def of_policy(self, trouble: str) -> str:
        """The fault of the policy in charge, given the `trouble` that its process reports; empty if none."""
        failures = self._of_policy
        if not failures.count:
            return trouble
        said = self._in_words(failures, trouble or f"policy {self._spec} {failures.why}{KEEPS}")
        if self._spec == LAST_RESORT:
            return said
        return f"{said}; after {MOST} times in a row another policy takes over"

    @property
    def replaced(self) -> str:
        """That the policy in charge has taken over from one that failed; until a person chooses one."""
        return self._replacement_in_words(self._replaced) if self._is_stopgap else ""

    def _bare(self, trouble: str) -> str:
        """The process's words on a failure, without the phrases common to all failures."""
        return trouble.removeprefix(f"policy {self._spec} ").removesuffix(KEEPS)

    @property
    def _spec(self) -> str:
        return "" if self._policy is None else self._policy.spec

    @property
    def _is_stopgap(self) -> bool:
        """True if the policy in charge is one that no person chose."""
        policy = self._policy
        return policy is not None and policy.by == ITSELF and self._replaced.get("at_s") == policy.since_s

    def _replacement_in_words(self, told: Mapping[str, Any]) -> str:
        return (
            f"policy {told['by']} decides since {self._moment(told['at_s'])} in place of {told['policy']}, "
            f"which failed {told['times']} times in a row ({told['why']}); once it is mended, "
            f"`rota policy set {told['policy']}` puts it back"
        )

    def _in_words(self, failures: Failures, said: str) -> str:
        times = "once" if failures.count == 1 else f"{failures.count} times in a row"
        return f"{said} ({times}, since {self._moment(failures.since_s)})"

    def _moment(self, at_s: float) -> str:
        return utc(self._clock.epoch_unix_s + float(at_s))


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, RotaError) else words_of(error)
