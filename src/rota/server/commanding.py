"""What people want done to jobs and to the cluster: put on record, then carried out by the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rota.server.api.forms import Act, JobChange, Verb
from rota.server.facade import Caller, Conflict, Forbidden
from rota.server.store.rows import JobQuery, JobRow
from rota.server.views import is_over
from rota.wire.views import ArrayDone, JobView, RefusedJob, Updated
from rota.worlds.live.inbox import CommandAsked

if TYPE_CHECKING:
    from rota.server.controller import LiveController

PATIENCE_S = 5.0
"""How long a call waits for its command to be carried out; it is on record anyhow."""


class Commands:
    """Each call is one command, be it for one job or for all of an array."""

    def __init__(self, controller: LiveController) -> None:
        self.controller = controller

    def update(self, who: Caller, id: str, change: JobChange) -> Updated:
        """Change what a job asks for."""
        row, changes = self.controller.own(who, id), change.changes()
        if is_over(row.now.state):
            raise Conflict(f"job {id} has ended ({row.now.state})")
        if changes:
            self.give(who, "update", row, changes, id)
        return Updated(**self._view(id).model_dump(), warnings=self._ignored(row, changes))

    def _ignored(self, row: JobRow, changes: Mapping[str, Any]) -> list[str]:
        """What of a change has no effect; what is not changed was said when it was asked for."""
        spec = self.controller.store.spec(row.row)
        if spec is None or "priority" not in changes:
            return []
        changed = spec.model_copy(update={"priority": changes["priority"]})
        return self.controller.answers.ignored(changed)

    def act(self, who: Caller, id: str, verb: Verb, act: Act) -> JobView | ArrayDone:
        """Cancel, hold, …"""
        if members := self._members(id):
            return self._act_on_all(who, id, members, verb, act)
        row = self.controller.own(who, id)
        if is_over(row.now.state):
            if verb is Verb.CANCEL:
                return self.controller.views([row])[0]
            raise Conflict(f"job {id} has ended ({row.now.state})")
        self.give(who, verb.value, row, {"reason": act.reason, "force": act.force}, id)
        return self._view(id)

    def _view(self, id: str) -> JobView:
        return self.controller.views([self.controller.row_of(id)])[0]

    def _members(self, id: str) -> list[JobRow]:
        """The jobs of the array with this number; none if it is not one."""
        if not id.isdecimal() or id.startswith("0"):
            return []
        return self.controller.store.jobs(JobQuery(array_first=int(id) - 1))

    def _act_on_all(self, who: Caller, id: str, members: Sequence[JobRow], verb: Verb, act: Act) -> ArrayDone:
        """One command for all of an array that are not over.  Conflict if all are, except for cancelling."""
        first = members[0]
        if not who.owns(first.user, first.asked.tenant):
            raise Forbidden(f"array {id} belongs to {first.user!r}; {who.user!r} may not touch it")
        rows = [member.row for member in members if not is_over(member.now.state)]
        if not rows and verb is not Verb.CANCEL:
            raise Conflict(f"all jobs of array {id} have ended")
        refused: list[RefusedJob] = []
        if rows:
            args = {"reason": act.reason, "force": act.force, "array": int(id) - 1}
            outcome = self.give(who, verb.value, None, args, f"array {id}")
            refused = [
                RefusedJob(job=job, error=error)
                for error, jobs in outcome.get("refused", {}).items()
                for job in jobs
            ]
        not_done = {refusal.job for refusal in refused}
        chosen = set(rows)
        after = self.controller.store.jobs(JobQuery(array_first=int(id) - 1)) if rows else []
        done = [row for row in after if row.row in chosen and row.id not in not_done]
        views = self.controller.views(done)
        return ArrayDone(array=id, jobs=views, ended=len(members) - len(rows), refused=refused)

    def give(
        self, who: Caller, kind: str, row: JobRow | None, args: dict[str, Any], about: str
    ) -> Mapping[str, Any]:
        """Put a command on record and wait a little until it is done; Conflict if it could not be.

        Returns what is told of it; nothing if it takes longer.
        """
        controller, node = self.controller, args.pop("node", None)
        number = None if row is None else row.row
        seq = controller.store.add_command(controller.now, who.user, kind, row=number, node=node, args=args)
        controller.outcomes.expect(seq)
        controller.inbox.put(CommandAsked(seq, who.user, kind, number, node, args))
        outcome: Mapping[str, Any] = controller.outcomes.wait(seq, PATIENCE_S) or {}
        if outcome.get("error"):
            what = about if row is None else f"job {about}"
            raise Conflict(f"{what}: {outcome['error']}")
        return outcome
