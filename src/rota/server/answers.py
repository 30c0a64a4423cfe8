"""Why a job waits, what would become of another one, and what another policy would do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rota.server.answering.dry_run import NEW, dry_run
from rota.server.answering.estimator import Estimator
from rota.server.answering.policy import policy_view
from rota.server.answering.whatif import whatif
from rota.server.answering.why import Asking
from rota.server.api.forms import Question
from rota.server.facade import Identity
from rota.server.store.asked import asked
from rota.server.store.rows import JobRow, JobState
from rota.wire.job import JobSpec
from rota.wire.views import DryRun, PolicyView, WhatIf, Why

if TYPE_CHECKING:
    from rota.server.controller import LiveController


class Answers:
    """Asks the store, the policy's process and one that looks ahead; changes nothing.

    Estimates of single jobs and what-ifs have a process each, so that the quick ones need not wait for the
    slow ones; both are started when they are first needed.
    """

    def __init__(self, controller: LiveController, log: Path | None = None) -> None:
        self.controller = controller
        self._starts, self._futures = Estimator(log), Estimator(log)

    def policy(self) -> PolicyView:
        """The policy in force, and its shadow."""
        return policy_view(self.controller.scheduler, self.controller.store)

    def why(self, row: JobRow) -> Why:
        """All binding reasons, dominant first, and an estimate."""
        return Asking(self.controller.scheduler, self.controller.store, self._starts, row).answer()

    def dry_run(self, who: Identity, spec: JobSpec) -> DryRun:
        """What would happen to a job of `who`."""
        controller = self.controller
        wants = asked(spec, who.user, who.tenant or who.user, controller.epoch_s)
        row = JobRow(-1, NEW, who.user, controller.now, None, None, 0, wants, JobState())
        return dry_run(controller.scheduler, controller.store, self._starts, who.user, row, spec)

    def whatif(self, question: Question) -> WhatIf:
        """What would become of the live jobs under other policies."""
        return whatif(self.controller.scheduler, self._futures, question)

    def close(self) -> None:
        """End the processes that look ahead."""
        self._starts.close()
        self._futures.close()
