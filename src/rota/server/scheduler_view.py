"""What other threads may read of the scheduler: its state after its last step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rota.model.tenants import Tenants
from rota.server.step_recorder import attempt_row
from rota.server.store.rows import REAL, AttemptRow, NodeRow, PolicyRow, Step
from rota.server.tenants.in_force import TenantsInForce, on_record
from rota.table.state import Phase, State
from rota.worlds.live.attempts import LiveJob


@dataclass
class SchedulerView:
    """Written by the scheduler's thread, as stored last; copy a mapping before going through it."""

    policy: PolicyRow | None = None
    """The one that decides; None until the store has been read."""
    tenants: TenantsInForce = field(default_factory=lambda: TenantsInForce(Tenants.none(), Tenants.none()))
    """What each tenant is entitled to."""
    nodes: dict[str, NodeRow] = field(default_factory=dict)
    holding: dict[int, AttemptRow] = field(default_factory=dict)
    """The living attempt of each running job."""
    suspended: dict[int, AttemptRow] = field(default_factory=dict)
    """Attempts of jobs that are suspended in place."""
    ids: dict[int, str] = field(default_factory=dict)
    """Ids of the jobs in both."""
    decisions: int = 0
    late: int = 0
    """Decisions that did not come in time."""
    last_s: float | None = None
    """How long the last decision took."""

    def show(self, step: Step) -> None:
        """Show the policy and the tenants of a stored step: their caller may ask about them next."""
        for row in step.policies:
            if row.name == REAL:
                self.policy = row
        self.tenants = on_record(step.facts) or self.tenants

    def begin_anew(self, state: State, jobs: Mapping[int, LiveJob]) -> None:
        """Show what all jobs hold; readers see the old view until the new one is complete."""
        anew = SchedulerView()
        for job in jobs.values():
            anew._show_job(state, job, {})
        self.ids, self.holding, self.suspended = anew.ids, anew.holding, anew.suspended

    def show_turn(
        self, state: State, step: Step, changed: Mapping[int, LiveJob], live: Mapping[int, LiveJob]
    ) -> None:
        """The holdings of the jobs of a recorded step."""
        stored = {(attempt.row, attempt.number): attempt for attempt in step.attempts}
        for row in {row for row, _ in stored} | changed.keys():
            job = changed.get(row) or live.get(row)
            if job is not None:
                self._show_job(state, job, stored)
            else:
                self._hold(row, None, None)

    def _show_job(self, state: State, job: LiveJob, stored: Mapping[tuple[int, int], AttemptRow]) -> None:
        newest = job.attempt
        is_running = state.phase.item(job.row) == Phase.RUNNING
        if newest is None or not (is_running or newest.is_suspended):
            if job.is_over and not job.living:
                self.ids.pop(job.row, None)
            self._hold(job.row, None, None)
            return
        self.ids[job.row] = job.id
        row = stored.get((job.row, newest.number)) or attempt_row(newest)
        self._hold(job.row, *((row, None) if is_running else (None, row)))

    def _hold(self, row: int, holding: AttemptRow | None, suspended: AttemptRow | None) -> None:
        """One after the other, and none is away in between: others look meanwhile."""
        for attempts, attempt in ((self.holding, holding), (self.suspended, suspended)):
            if attempt is None:
                attempts.pop(row, None)
            else:
                attempts[row] = attempt

    def holding_by_node(self) -> dict[str, dict[str, AttemptRow]]:
        """Attempts of running jobs by the names of their nodes and the ids of their jobs."""
        return _by_node(self.holding, self.ids)

    def suspended_by_node(self) -> dict[str, dict[str, AttemptRow]]:
        """Attempts of jobs that are suspended in place."""
        return _by_node(self.suspended, self.ids)


def _by_node(attempts: Mapping[int, AttemptRow], ids: Mapping[int, str]) -> dict[str, dict[str, AttemptRow]]:
    by_node: dict[str, dict[str, AttemptRow]] = {}
    ids = dict(ids)  # the scheduler changes both
    for row, attempt in dict(attempts).items():
        if row in ids:
            for place in attempt.parts["places"]:
                by_node.setdefault(place["name"], {})[ids[row]] = attempt
    return by_node
