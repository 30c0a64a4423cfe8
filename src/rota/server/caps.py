"""An operator's `caps`: the most that one user or tenant may ask for; admins are exempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from rota.errors import InputError
from rota.server.refusals import Forbidden
from rota.server.store.rows import JobQuery
from rota.wire.job import JobSpec

if TYPE_CHECKING:  # `rota up` reads caps, and has no use for a database
    from rota.server.store.store import Store


@dataclass(frozen=True)
class Cap:
    """Limits on requests of users; a tenant may allow its users more, or less."""

    priority: int = 1000
    """Highest priority."""
    jobs: int = 100_000
    """Jobs of one user, and of one tenant, that are not over."""
    log_mib: int = 0
    """Most MiB of each rank's log; its beginning and its end are kept; 0 is no limit."""
    kept_mib: int = 0
    """Most MiB that ended jobs of one user, and of one tenant, leave on one machine, checkpoints aside: the
    oldest go, each user's newest stays; 0 is no limit.  Of admins too."""
    no_preempt: bool = True
    """Whether jobs may keep their devices from others."""


@dataclass(frozen=True)
class Caps:
    """The caps for all users, and the caps of tenants by path: the nearest one upwards counts."""

    everybody: Cap = field(default_factory=Cap)
    tenants: Mapping[str, Cap] = field(default_factory=dict)
    own: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By tenant, the caps that it sets itself; the caps for all users fill the rest."""

    def of(self, tenant: str) -> Cap:
        """What counts for a tenant."""
        return self.tenants.get(self._nearest(tenant), self.everybody)

    def bounded(self, tenant: str, cap: str) -> str:
        """The tenant whose jobs together `cap` bounds: this one, or the one above it that sets the cap."""
        nearest = self._nearest(tenant)
        return nearest if cap in self.own.get(nearest, ()) else tenant

    def _nearest(self, tenant: str) -> str:
        """The tenant with caps, itself or above `tenant`; empty if there is none."""
        while tenant and tenant not in self.tenants:
            tenant = tenant.rpartition("/")[0]
        return tenant

    def check_spec(self, spec: JobSpec, tenant: str) -> None:
        """Raise Forbidden if users of `tenant` may not ask for that."""
        self.check_priority(spec.priority, tenant)
        if not spec.preemptible and not self.of(tenant).no_preempt:
            raise Forbidden(
                f"jobs of tenant {tenant!r} may not be submitted with --no-preempt; an operator's caps say so"
            )

    def check_priority(self, priority: int, tenant: str) -> None:
        """Raise Forbidden for a priority above the highest that users of `tenant` may give."""
        most = self.of(tenant).priority
        if priority > most:
            raise Forbidden(
                f"priority {priority} is above {most}, the highest that users of tenant {tenant!r} may give; "
                "ask an admin for more"
            )

    def check_jobs(self, store: Store, user: str, tenant: str, more: int) -> None:
        """Raise Forbidden if the user, the tenant, or the one above it that the cap was given to, would have
        too many jobs that are not over."""
        most = self.of(tenant).jobs
        tenants = dict.fromkeys((tenant, self.bounded(tenant, "jobs")))
        queries = {
            f"user {user!r}": JobQuery(user=user, live=True),
            **{f"tenant {path!r}": JobQuery(tenant=path, live=True) for path in tenants},
        }
        for whose, query in queries.items():
            has = store.count_jobs(query)
            if has + more > most:
                raise Forbidden(
                    f"{whose} has {has:,} jobs that are not over and may have {most:,}: "
                    f"{more:,} more are too many"
                )


def caps_of(said: Any) -> Caps:
    """The setting `caps`, such as `{priority: 100, jobs: 5000, tenants: {vision: {priority: 500}}}`.

    InputError names what is wrong with it.
    """
    if not isinstance(said, Mapping):
        raise InputError(f"caps: {said!r} is no mapping; expected lines such as `priority: 100`")
    own = {name: value for name, value in said.items() if name != "tenants"}
    everybody = _cap(own, Cap(), "caps")
    tenants = said.get("tenants") or {}
    if not isinstance(tenants, Mapping):
        raise InputError(f"caps: tenants is {tenants!r}; expected caps by tenant")
    return Caps(
        everybody,
        {str(path): _cap(of, everybody, f"caps of {path}") for path, of in tenants.items()},
        {str(path): frozenset(of) for path, of in tenants.items()},
    )


def _cap(said: Any, base: Cap, where: str) -> Cap:
    known = {one.name: type(getattr(base, one.name)) for one in fields(Cap)}
    values = {name: getattr(base, name) for name in known}
    for name, value in (said if isinstance(said, Mapping) else {"": said}).items():
        if name not in known:
            raise InputError(f"{where}: there is no {name!r}; expected {', '.join(known)}")
        if type(value) is not known[name] or (known[name] is int and value < 0):
            expected = "a whole number, 0 or more" if known[name] is int else "yes or no"
            raise InputError(f"{where}: {name} is {value!r}; expected {expected}")
        values[name] = value
    return Cap(**values)
