"""Which jobs would be worse off if tenants had other entitlements, before these take effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rota.errors import RotaError
from rota.model.cells import check_cells
from rota.model.cluster import Cluster
from rota.model.tenants import Tenants
from rota.server.answers.estimator import Estimator
from rota.server.answers.present_moment import gather
from rota.server.answers.questions import AskTenants, Looking
from rota.server.answers.reasons import Words
from rota.server.refusals import Busy
from rota.server.store.rows import JobQuery, JobRow
from rota.wire.tenants import TenantLoss
from rota.worlds.live.dependencies import impossible

if TYPE_CHECKING:
    from rota.server.scheduler import Scheduler
    from rota.server.store.store import Store

BUDGET_S = 5.0
LIVE = ("PENDING", "OFFERED", "RUNNING", "SUSPENDED")


def losses(scheduler: Scheduler, store: Store, estimator: Estimator, tenants: Tenants) -> list[TenantLoss]:
    """Jobs that would be stopped, refused, held for good, or go on without a guarantee.

    The policy in force decides upon the present moment twice, with the tenants that count and with `tenants`.
    InputError if the machines that have joined cannot hold the cells; Busy if it takes too long.
    """
    scheduler.standing.check()
    world = scheduler.world
    if world is None:  # it has fallen since
        raise Busy("the scheduler is starting; ask again in a moment")
    cluster = replace(world.cluster, tenants=tenants)
    check_cells(cluster)
    jobs = {row.row: row for row in store.jobs(JobQuery(states=LIVE))}
    try:
        asked = AskTenants(Looking(gather(scheduler), budget_s=BUDGET_S), tenants)
        reply = estimator.ask(asked, BUDGET_S)
    except Busy as error:
        raise Busy(
            f"the tenants are not moved, since what would come of it cannot be found out: {error}"
        ) from None
    except RotaError as error:
        raise RotaError(f"policy {_policy(scheduler)} fails with these tenants: {error}") from None
    held = _held(cluster, store, jobs, Words.of(world))
    return [*_of_policy(reply["before"], reply["after"], jobs, _policy(scheduler)), *held]


def _policy(scheduler: Scheduler) -> str:
    return "" if scheduler.view.policy is None else scheduler.view.policy.spec


def _of_policy(
    before: Mapping[str, Any], after: Mapping[str, Any], jobs: Mapping[int, JobRow], policy: str
) -> Iterator[TenantLoss]:
    """Effects of the policy on jobs under the new tenants that it does not have under the old ones."""
    stopped = set(after["preempt"]) - set(before["preempt"])
    lost = set(before["guaranteed"] or ()) - set(after["guaranteed"] or ()) - stopped
    for row in sorted(stopped & jobs.keys()):
        yield _loss(jobs[row], "preempted", f"would be preempted by {policy}")
    for row in sorted(lost & jobs.keys()):
        if jobs[row].now.state == "RUNNING":
            yield _loss(
                jobs[row], "guarantee", "would run on without a guarantee, until others want its GPUs"
            )
    for row, why in sorted(after["reject"].items()):
        if row in jobs and row not in before["reject"]:
            yield _loss(jobs[row], "refused", f"would be refused by {policy}: it {why}")


def _held(cluster: Cluster, store: Store, jobs: Mapping[int, JobRow], words: Words) -> Iterator[TenantLoss]:
    """Waiting jobs that a hard quota would never let run."""
    waiting = {row: job for row, job in jobs.items() if job.now.state == "PENDING"}
    for row, spec in store.specs(list(waiting)).items():
        never = impossible(cluster, spec, waiting[row].asked.tenant)
        if never is not None and all(hold["kind"] != never.kind for hold in waiting[row].now.hold):
            yield _loss(
                waiting[row], "held", f"could never run: it {words.view(never.constraint()).sentence}"
            )


def _loss(job: JobRow, what: str, sentence: str) -> TenantLoss:
    return TenantLoss(job=job.id, tenant=job.asked.tenant, what=what, sentence=sentence)
