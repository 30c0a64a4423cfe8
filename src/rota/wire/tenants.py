"""What the API answers about tenants: what each is entitled to, has and had, and what moving that does."""

from __future__ import annotations

from pydantic import BaseModel


class CellView(BaseModel):
    """Units of the cluster that a tenant is entitled to as a whole."""

    level: str
    """node or device."""
    count: int
    gpu_type: str = ""
    at: str = ""
    """Name of the unit, if it is to be this one."""
    gpus: int | None = None
    """Of all of them together; None while the machines that have joined do not have them."""


class TenantView(BaseModel):
    """What a tenant is entitled to and has; those below it count as it."""

    path: str
    configured: bool = True
    """False if nobody configured it: it has jobs, no quota and weight 1."""
    quota: float | None = None
    """GPUs; None if nobody set one."""
    hard: bool = False
    """True if the quota is a cap; otherwise what is idle may be borrowed."""
    weight: float = 1.0
    quota_by_type: dict[str, float] = {}
    cells: list[CellView] = []
    entitled: float | None = None
    """GPUs that are its own: those of its cells, or else its quota; None without both."""
    held: float = 0.0
    """GPUs that its jobs have now."""
    held_by_type: dict[str, float] = {}
    own: float | None = None
    """Of those held, GPUs that it is entitled to; None where it is not known."""
    running: int = 0
    waiting: int = 0
    waiting_gpus: float = 0.0
    """That its waiting jobs ask for."""
    gpu_hours: float = 0.0
    """That its jobs held in the last `TenantsView.days`."""
    rho: float | None = None
    """Finish-time fairness of its jobs that completed in that time: how long they took, to how long they
    would have taken alone on an equal part of the cluster; None if there are none."""

    @property
    def free(self) -> float | None:
        """GPUs of its own that none of its jobs has."""
        return None if self.entitled is None or self.own is None else max(self.entitled - self.own, 0.0)

    @property
    def borrowed(self) -> float | None:
        """GPUs that it has beyond its own."""
        return None if self.own is None else self.held - self.own


class TenantsView(BaseModel):
    """`rota tenants`."""

    tenants: list[TenantView]
    """By path."""
    policy: str
    between: str = ""
    """What the policy divides the cluster between tenants by: `Between`; empty while there is none."""
    since_s: float | None = None
    """When these quotas, weights and cells came in force; None if nobody configured any."""
    by: str = ""
    """Who moved them since the cluster began with its configuration; empty if nobody did."""
    days: float = 7.0
    notes: list[str] = []
    """What a reader should know, as sentences: cells that cannot be had, or that the policy does not heed."""


class TenantsHistory(BaseModel):
    """GPUs that tenants held over time, those below them included."""

    times: list[float]
    """Unix times of the ends of equal stretches."""
    held: dict[str, list[float]]
    """By tenant, mean GPUs in each stretch; those with the most GPU-hours first."""


class TenantLoss(BaseModel):
    """A job that would be worse off if tenants were entitled to something else."""

    job: str
    tenant: str
    what: str
    """preempted, guarantee (it runs on without), refused, held."""
    sentence: str


class TenantsMoved(BaseModel):
    """What became, or would become, of moving quotas, weights and cells."""

    applied: bool
    changes: list[str]
    """What is another for whom, as sentences; empty if nothing is."""
    losses: list[TenantLoss] = []
    notes: list[str] = []
