"""What owners do to their jobs: one command for one job, or for all jobs of an array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rota.server.answers.answers import Answers
from rota.server.api.forms import Act, JobChange, Verb
from rota.server.callers import Caller
from rota.server.caps import Caps
from rota.server.commands import Commands
from rota.server.records import JobRecords
from rota.server.refusals import Conflict, Forbidden
from rota.server.store.rows import JobQuery, JobRow
from rota.server.store.store import Store
from rota.server.views import is_over
from rota.wire.views import ArrayDone, JobView, RefusedJob, Updated


class JobCommands:
    """Implements `rota.server.api.services.JobCommandsService`."""

    def __init__(
        self,
        store: Store,
        records: JobRecords,
        commands: Commands,
        answers: Answers,
        caps: Caps | None = None,
    ) -> None:
        self._store, self._records, self._commands, self._answers = store, records, commands, answers
        self._caps = caps or Caps()

    def update(self, who: Caller, id: str, change: JobChange) -> Updated:
        """Change what a job asks for."""
        row, changes = self._records.own(who, id), change.changes()
        if is_over(row.now.state):
            raise Conflict(f"job {id} has ended ({row.now.state})")
        if "priority" in changes and not who.admin:
            self._caps.check_priority(changes["priority"], row.asked.tenant)
        ignored = self._ignored(row, changes)
        if changes:
            self._commands.give(who, "update", changes, f"job {id}", row=row.row)
        return Updated(**self._records.view(id).model_dump(), warnings=ignored)

    def _ignored(self, row: JobRow, changes: Mapping[str, Any]) -> list[str]:
        """Changed fields without effect; for the others that was said when they were submitted."""
        spec = self._store.spec(row.row)
        if spec is None:
            return []
        return self._answers.ignored_change(spec, changes, row.asked.tenant)

    def act(self, who: Caller, id: str, verb: Verb, act: Act) -> JobView | ArrayDone:
        """Cancel, hold, …"""
        if verb is Verb.ACCEPT:
            return self._accept(who, id)
        if members := self._members(id):
            return self._act_on_all(who, id, members, verb, act)
        row = self._records.own(who, id)
        if is_over(row.now.state):
            if verb is Verb.CANCEL:
                return self._records.views([row])[0]
            raise Conflict(f"job {id} has ended ({row.now.state})")
        args = {"reason": act.reason, "force": act.force}
        self._commands.give(who, verb.value, args, f"job {id}", row=row.row)
        return self._records.view(id)

    def _accept(self, who: Caller, id: str) -> JobView:
        """A job takes the later deadline that it was offered.  Conflict if none is."""
        row = self._records.own(who, id)
        if is_over(row.now.state):
            raise Conflict(f"job {id} has ended ({row.now.state}): {row.now.cause}")
        self._commands.give(who, "accept", {}, f"job {id}", row=row.row)
        return self._records.view(id)

    def _members(self, id: str) -> list[JobRow]:
        """The jobs of the array with this number; none if it is not one."""
        if not id.isdecimal() or id.startswith("0"):
            return []
        return self._store.jobs(JobQuery(array_first=int(id) - 1))

    def _act_on_all(self, who: Caller, id: str, members: Sequence[JobRow], verb: Verb, act: Act) -> ArrayDone:
        """One command for all of an array that are not over.  Conflict if all are, except for cancelling."""
        first = members[0]
        if not who.owns(first.user, first.asked.tenant):
            raise Forbidden(f"array {id} belongs to {first.user!r}; {who.user!r} may not touch it")
        rows = {member.row for member in members if not is_over(member.now.state)}
        if not rows and verb is not Verb.CANCEL:
            raise Conflict(f"all jobs of array {id} have ended")
        refused = self._give_to_all(who, id, verb, act) if rows else []
        not_done = {refusal.job for refusal in refused}
        done = [row for row in self._members(id) if row.row in rows and row.id not in not_done]
        views = self._records.views(done)
        return ArrayDone(array=id, jobs=views, ended=len(members) - len(rows), refused=refused)

    def _give_to_all(self, who: Caller, id: str, verb: Verb, act: Act) -> list[RefusedJob]:
        """The command for an array; the jobs that do not allow it."""
        args = {"reason": act.reason, "force": act.force, "array": int(id) - 1}
        outcome = self._commands.give(who, verb.value, args, f"array {id}")
        refused: Mapping[str, Sequence[str]] = outcome.get("refused", {})
        return [RefusedJob(job=job, error=error) for error, jobs in refused.items() for job in jobs]
