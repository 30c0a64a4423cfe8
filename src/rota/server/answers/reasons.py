"""Why jobs wait, in this cluster's words, with what would have to change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rota.model.reasons import Code, Constraint, listed
from rota.model.units import format_duration, plural
from rota.model.words import utc
from rota.server.store.rows import JobRow
from rota.table.state import Phase
from rota.wire.job import After
from rota.wire.views import ReasonView
from rota.worlds.live.holds import BEGIN, DEPENDENCY, OFFERED, ORDER, SUSPENDED, USER, Hold

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler
    from rota.server.store.store import Store
    from rota.worlds.live.machines import LiveNode
    from rota.worlds.live.world import LiveWorld


_ENDS = {"ok": "complete", "any": "end", "failed": "fail"}


@dataclass(frozen=True)
class Words:
    """How this cluster speaks of its parts."""

    device: str = "GPU"
    nodes: Sequence[LiveNode] = ()

    @classmethod
    def of(cls, world: LiveWorld | None) -> Words:
        """Slots of CPU cores are devices and no GPUs."""
        nodes = [] if world is None else list(world.live.machines.nodes)
        is_cpu = bool(nodes) and all(node.info.kind == "cpu" for node in nodes)
        return cls("device" if is_cpu else "GPU", nodes)

    def view(self, constraint: Constraint) -> ReasonView:
        """A constraint with its sentence and what would have to change."""
        sentence = constraint.sentence(self.device)
        more = self._of_nodes(constraint)
        return ReasonView(
            code=constraint.code.value,
            sentence=f"{sentence}: {more}" if more else sentence,
            requested=_finite(constraint.requested),
            provided=_finite(constraint.provided),
            detail=""
            if all(name in sentence for name in constraint.detail.split(", "))
            else constraint.detail,
            remedy=constraint.remedy(self.device),
        )

    def _of_nodes(self, constraint: Constraint) -> str:
        """Why the nodes or devices that a constraint names are closed."""
        if constraint.code not in (Code.NODE, Code.UNHEALTHY):
            return ""
        named = set(constraint.detail.split(", "))
        said = [f"{node.name} {_closed(node)}" for node in self.nodes if node.name in named]
        reports: dict[str, list[str]] = {}
        for node in self.nodes:
            for index, why in sorted(node.sick.items()):
                if why and f"{node.name}:{index}" in named:
                    reports.setdefault(why, []).append(f"{node.name}:{index}")
        said += [
            f"{names[0] if len(names) == 1 else listed(', '.join(names), 'device')} "
            f"{'reports' if len(names) == 1 else 'report'} {why}"
            for why, names in reports.items()
        ]
        return ", ".join(said)


def _closed(node: LiveNode) -> str:
    """The user that closed it, or what happened to it."""
    if node.state == "lost":
        return f"is lost ({node.reason})" if node.reason else "is lost"
    if node.state == "away":
        return "has no agent, which was stopped"
    if node.state == "up" and node.trouble:
        return f"takes no new jobs ({node.trouble})"
    by = f"was drained by {node.drained_by}" if node.drained_by else "is closed"
    return f"{by} ({node.reason})" if node.reason else by


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def hold_views(
    words: Words, row: JobRow, now: float, epoch_s: float, after: Sequence[After], store: Store
) -> list[ReasonView]:
    """What hides a job from its policy, dominant first."""
    holds = sorted((Hold(**hold) for hold in row.now.hold), key=lambda hold: ORDER.index(hold.kind))
    views = []
    for hold in holds:
        view = words.view(hold.constraint(now))
        if hold.kind == USER:
            view.remedy = f"Release it with `rota release {row.id}`."
        elif hold.kind == SUSPENDED:
            view.remedy = f"Let it go on with `rota resume {row.id}`."
        elif hold.kind == OFFERED and hold.requested is not None and hold.until_s is not None:
            view = _offer(row, hold, now, epoch_s)
        elif hold.kind == BEGIN:
            view.remedy = f"Let it begin earlier with `rota update {row.id} --begin none`."
        elif hold.kind == DEPENDENCY:
            ends = _dependencies(after, store)
            if ends:
                view.sentence = f"waits for {', and for '.join(ends)}"
                view.remedy = f"{_first(', and '.join(ends)).replace(' to ', ' would have to ')}."
        views.append(view)
    return views


def _offer(row: JobRow, hold: Hold, now: float, epoch_s: float) -> ReasonView:
    """The later deadline that a job is offered, in a sentence."""
    assert hold.requested is not None
    assert hold.until_s is not None
    by = utc(epoch_s + hold.requested)
    left = format_duration(max(hold.until_s - now, 0.0))
    return ReasonView(
        code=Code.OFFERED.value,
        sentence=f"can be done by {by} if that is accepted within {left}: {hold.detail}",
        requested=epoch_s + hold.requested,
        remedy=f"Accept it with `rota accept {row.id}`, or cancel the job.",
    )


def _dependencies(after: Iterable[After], store: Store) -> list[str]:
    """`jobs 3 and 5 to complete`, `2 of the 9 jobs of array 6 to end`: those that have not ended."""
    wanted: dict[str, list[str]] = {}
    arrays = []
    for before in after:
        phases = store.phases(before.job)
        if all(phase >= Phase.COMPLETED for phase in phases):
            continue
        if store.job_of_id(before.job) is None:
            arrays.append(_array(before, phases))
        else:
            wanted.setdefault(before.when, []).append(before.job)
    return [f"{listed(', '.join(ids))} to {_ENDS[when]}" for when, ids in wanted.items()] + arrays


def _array(before: After, phases: Mapping[int, int]) -> str:
    """`12 of the 20 jobs of array 17 to complete`."""
    left = sum(count for phase, count in phases.items() if phase < Phase.COMPLETED)
    jobs = f"{left:,} of the {plural(sum(phases.values()), 'job')} of array {before.job}"
    if before.when != "failed":
        return f"{jobs} to {_ENDS[before.when]}"
    has_failed = any(phase > Phase.COMPLETED for phase in phases)
    return f"{jobs} to end" + ("" if has_failed else ", at least one of them by failing")


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]


def from_reply(packed: Iterable[Sequence[Any]]) -> list[Constraint]:
    """Constraints as the process that looks ahead packs them."""
    return [Constraint(Code(code), asked, had, what) for code, asked, had, what in packed]


def reasons_of(scheduler: Scheduler, store: Store, rows: Sequence[JobRow]) -> dict[str, list[ReasonView]]:
    """By id, dominant first: for held jobs their holds, for others the policy's reasons.  Raises Busy."""
    scheduler.standing.check()
    words, now, epoch_s = Words.of(scheduler.world), scheduler.clock(), scheduler.clock.epoch_unix_s
    held = [row for row in rows if row.now.hold]
    free = [row for row in rows if not row.now.hold]
    reasons: dict[str, list[ReasonView]] = {}
    for row in held:
        spec = store.spec(row.row)
        reasons[row.id] = hold_views(words, row, now, epoch_s, spec.after if spec else (), store)
    answers = scheduler.explain_all([row.row for row in free]) if free else {}
    for row in free:
        if row.row in answers:
            reasons[row.id] = [words.view(one) for one in answers[row.row].constraints]
    return reasons
