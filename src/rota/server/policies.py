"""Which policy decides, which one runs in its shadow, and what another one would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from rota.knowledge.registry import Where, kinds
from rota.model.tenants import Between
from rota.scheduler.early_plans import plans_too_early
from rota.server.answers.answers import Answers
from rota.server.answers.unused_fields import unread_knowledge
from rota.server.api.forms import Question
from rota.server.callers import Caller
from rota.server.commands import Commands
from rota.server.policy.messages import check_policy
from rota.server.tenants.accounts import between
from rota.wire.views import DecisionView, PolicyView, WhatIf


class Policies:
    """Implements `rota.server.api.services.PoliciesService`."""

    def __init__(
        self,
        commands: Commands,
        answers: Answers,
        promised: Callable[[], list[str]],
        min_run_s: float = 0.0,
        knowledge: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`promised` gives a sentence for each of the tenants' cells that cannot be had now.

        No job is preempted before it has run for `min_run_s`; `knowledge` has the configured sources by kind.
        """
        self._commands, self._answers, self._promised = commands, answers, promised
        self._min_run_s, self._knowledge = min_run_s, knowledge

    def policy(self) -> PolicyView:
        """The policy in force, and its shadow."""
        view = self._answers.policy()
        view.warnings = [*view.warnings, *self._warnings(view.policy)]
        return view

    def decisions(self, limit: int) -> list[DecisionView]:
        """Durations and results of the newest decisions."""
        return self._answers.decisions(limit)

    def set_policy(self, who: Caller, policy: str) -> PolicyView:
        """Another policy, from now on."""
        self._try(policy)
        self._commands.give(who, "policy", {"policy": policy}, "policy")
        new = self._answers.new_policy(policy)
        cells = self._promised() if between(policy) == Between.CELLS.value else []
        new.warnings = [*new.warnings, *cells, *self._warnings(policy)]
        return new

    def _warnings(self, policy: str) -> list[str]:
        """Warnings: plans of `policy` that will not happen, and provided knowledge that it does not read."""
        return [*plans_too_early(policy, self._min_run_s), *unread_knowledge(policy, self._knowledge)]

    def shadow(self, who: Caller, policy: str | None) -> PolicyView:
        """Set a policy that reports what it would do; None ends that."""
        if policy:
            self._try(policy)
        self._commands.give(who, "shadow", {"policy": policy or ""}, "shadow")
        return self._answers.policy()

    def whatif(self, question: Question) -> WhatIf:
        """What would become of the live jobs under other policies."""
        return self._answers.whatif(question)

    def _try(self, policy: str) -> None:
        """Refuse a policy that is not known, or that fails at the present moment."""
        check_policy(policy, kinds(Where.LIVE))
        self._answers.try_policy(policy)
