"""The API's answers about tenants: what each is entitled to, holds and has used, and effects of changes."""

from __future__ import annotations

from pydantic import BaseModel


class CellView(BaseModel):
    """Whole units of the cluster that a tenant is entitled to."""

    level: str
    """`node` or `device`."""
    count: int
    gpu_type: str = ""
    at: str = ""
    """Name of the unit, if a certain one is reserved."""
    gpus: int | None = None
    """GPUs of all these units together; None while the machines that have joined do not have them."""


class TenantView(BaseModel):
    """What a tenant is entitled to and holds; its child tenants are included."""

    path: str
    configured: bool = True
    """False if the tenant is not configured: it has jobs, but no quota, and weight 1."""
    quota: float | None = None
    """GPUs of its quota; None if it has none."""
    hard: bool = False
    """True if the quota is a cap; otherwise the tenant may borrow idle GPUs."""
    weight: float = 1.0
    quota_by_type: dict[str, float] = {}
    cells: list[CellView] = []
    entitled: float | None = None
    """GPUs that are its own: those of its cells, or else its quota; None without both."""
    held: float = 0.0
    """GPUs that its jobs hold now."""
    held_by_type: dict[str, float] = {}
    own: float | None = None
    """GPUs held that it is entitled to; None if unknown."""
    running: int = 0
    waiting: int = 0
    waiting_gpus: float = 0.0
    """GPUs that its waiting jobs ask for."""
    gpu_hours: float = 0.0
    """GPU-hours that its jobs held in the last `TenantsView.days`."""
    rho: float | None = None
    """Finish-time fairness of its jobs that completed in that time: how long they took, divided by how long
    they would have taken alone on an equal part of the cluster; None if there are none."""

    @property
    def free(self) -> float | None:
        """GPUs that it is entitled to and that none of its jobs holds."""
        return None if self.entitled is None or self.own is None else max(self.entitled - self.own, 0.0)

    @property
    def borrowed(self) -> float | None:
        """GPUs that it holds beyond those it is entitled to."""
        return None if self.own is None else self.held - self.own


class TenantsView(BaseModel):
    """Answer of `rota tenants`."""

    tenants: list[TenantView]
    """Tenants, by path."""
    policy: str
    between: str = ""
    """What the policy divides between tenants: a value of `Between`; empty if it divides nothing."""
    since_s: float | None = None
    """When these quotas, weights and cells came into force; None if none are configured."""
    by: str = ""
    """User who last changed them after the cluster began; empty if they are as configured."""
    days: float = 7.0
    notes: list[str] = []
    """Remarks for the reader, as sentences: cells that are not available, or that the policy ignores."""


class TenantsHistory(BaseModel):
    """GPUs that tenants held over time, their child tenants included."""

    times: list[float]
    """Unix times of the ends of intervals of equal length."""
    held: dict[str, list[float]]
    """Mean GPUs in each interval, by tenant; tenants with the most GPU-hours first."""


class TenantLoss(BaseModel):
    """A job that would lose something if quotas, weights or cells were changed."""

    job: str
    tenant: str
    what: str
    """preempted, guarantee (it runs on without), refused, held."""
    sentence: str


class TenantsMoved(BaseModel):
    """The effect of changing quotas, weights and cells, done or proposed."""

    applied: bool
    changes: list[str]
    """What changes for which tenant, as sentences; empty if nothing does."""
    losses: list[TenantLoss] = []
    notes: list[str] = []
