"""A snapshot as a value that can be stored, and back.

Everything a policy may see is in it, to the bit, and nothing else: jobs not yet submitted, their truth and
knowledge the policy did not declare stay out.  What can be derived (the index of free devices, which jobs are
plain) is derived again.  `frozen` writes the value to a file; the contract suite hashes it to check that a
snapshot has not been changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rota.knowledge.needs import Knowledge, Known, Provenance, Table
from rota.model.cluster import Cluster
from rota.model.columns import Array
from rota.model.grants import UNLIMITED, Grant, Purpose, Reservation, Role, with_one_nan
from rota.model.job_columns import Deadline
from rota.model.jobs import JOB_COLUMNS, JobPart, JobTable, filled_columns
from rota.model.tenants import CellQuota, Tenant, Tenants
from rota.scheduler.snapshot import RunSeed, Snapshot, table_of
from rota.table.device_memory import memory_of
from rota.table.occupancy import EPSILON, Occupancy
from rota.table.progress import COLUMNS as PROGRESS
from rota.table.progress import Progress
from rota.table.rows import RowSet
from rota.table.state import COLUMNS, State

Packed = dict[str, Any]

_CLUSTER_COLUMNS = (
    "first_device", "node_type", "node_cpus", "node_memory_gib",
    "device_node", "device_type", "device_memory_gib",
)  # fmt: skip
_STATE_SCALARS = ("now", "submitted", "waiting_gpus", "special")
_NAMES = ("tenant_names", "group_names", "workload_names", "node_set_names", "type_names")


def pack(snapshot: Snapshot) -> Packed:
    """The snapshot as a storable value; its arrays are views, valid as long as the snapshot."""
    return {
        "cause": int(snapshot.cause),
        "seed": snapshot.seed,
        "cluster": pack_cluster(snapshot.cluster),
        "jobs": pack_jobs(snapshot.jobs.table, len(snapshot.jobs)),
        "state": _pack_state(table_of(snapshot)),
        "occupancy": pack_occupancy(snapshot.occupancy),
        "knowledge": {
            kind.value: {
                "provenance": snapshot.provenance(kind).value,
                "values": _pack_known(snapshot.know(kind)),
            }
            for kind in Knowledge
            if snapshot.knows(kind)
        },
    }


def unpack(packed: Packed, needs: frozenset[Knowledge]) -> Snapshot:
    """The snapshot as a policy with these `needs` sees it."""
    state = _unpack_state(packed, unpack_jobs(packed["jobs"]), unpack_cluster(packed["cluster"]))
    known = {
        Knowledge(kind): Known(unpack_known(entry["values"]), Provenance(entry["provenance"]))
        for kind, entry in packed["knowledge"].items()
    }
    return Snapshot(state, packed["cause"], known, needs, RunSeed(packed["seed"]))


def _pack_known(values: Array | Table) -> Array | Packed:
    if isinstance(values, Table):
        return {"by_row": dict(values.by_row), "shared": dict(values.shared)}
    return values


def unpack_known(packed: Array | Packed) -> Array | Table:
    """A column or a table; moments of earlier versions hold a sample as a dictionary of arrays."""
    if not isinstance(packed, dict):
        return packed
    return Table(packed["by_row"], packed["shared"]) if "shared" in packed else Table(shared=packed)


# -- grants ----------------------------------------------------------------------------------------


def pack_grant(grant: Grant) -> list[Any]:
    """The fields of `Grant` in their order, as JSON values."""
    job, devices, share, role, node, batch_size, power_w, purpose, *limits = grant
    head = [int(job), [int(device) for device in devices], float(share), int(role), int(node)]
    return [*head, float(batch_size), float(power_w), int(purpose), *map(float, limits)]


def unpack_grant(packed: list[Any]) -> Grant:
    job, devices, share, role, node, batch_size, power_w, purpose, *limits = packed
    if len(limits) < len(UNLIMITED):
        limits = list(UNLIMITED)  # a grant of earlier versions, which ended with leases
    head = (job, tuple(devices), share, Role(role), node)
    return with_one_nan(Grant(*head, batch_size, power_w, Purpose(purpose), *limits))


def pack_reservation(reservation: Reservation) -> list[Any]:
    devices = [int(device) for device in reservation.devices]
    return [int(reservation.job), devices, float(reservation.until_s)]


# -- cluster and jobs ------------------------------------------------------------------------------


def pack_cluster(cluster: Cluster) -> Packed:
    packed: Packed = {name: getattr(cluster, name) for name in _CLUSTER_COLUMNS}
    packed["node_names"] = list(cluster.node_names)
    packed["type_names"] = list(cluster.type_names)
    packed["gone"] = list(cluster.gone)
    packed["levels"] = dict(cluster.levels)
    packed["level_names"] = {level: list(names) for level, names in cluster.level_names.items()}
    packed["tenants"] = [_pack_tenant(tenant) for tenant in cluster.tenants.by_path.values()]
    for name in ("device_levels", "capacities", "labels", "price_classes"):
        packed[name] = dict(getattr(cluster, name))
    packed["prices"] = {gpu_type: dict(classes) for gpu_type, classes in cluster.prices.items()}
    return packed


def unpack_cluster(packed: Packed) -> Cluster:
    return Cluster(
        **{name: packed[name] for name in _CLUSTER_COLUMNS},
        node_names=tuple(packed["node_names"]),
        type_names=tuple(packed["type_names"]),
        levels=packed["levels"],
        level_names={level: tuple(names) for level, names in packed["level_names"].items()},
        tenants=Tenants.of(*map(_unpack_tenant, packed["tenants"])),
        # moments of earlier versions have none of these
        device_levels=packed.get("device_levels", {}),
        capacities=packed.get("capacities", {}),
        labels=packed.get("labels", {}),
        prices=packed.get("prices", {}),
        price_classes=packed.get("price_classes", {}),
        gone=tuple(packed.get("gone", ())),  # moments of earlier versions have none
    )


def _pack_tenant(tenant: Tenant) -> list[Any]:
    cells = [[cell.level, cell.count, cell.gpu_type, cell.gpus, cell.at] for cell in tenant.cells]
    quotas = [float(tenant.quota_gpus), tenant.hard, float(tenant.weight), dict(tenant.quota_by_type)]
    return [tenant.path, *quotas, cells]


def _unpack_tenant(fields: list[Any]) -> Tenant:
    path, quota_gpus, hard, weight, quota_by_type, *rest = fields
    cells = tuple(CellQuota(*cell) for cell in (rest[0] if rest else ()))
    return Tenant(path, quota_gpus, hard, weight, quota_by_type, cells)


def pack_jobs(jobs: JobTable, submitted: int) -> Packed:
    """The first `submitted` jobs: a policy must not know those that come later."""
    seen = jobs if submitted == len(jobs) else jobs.take(np.arange(submitted))
    packed: Packed = {name: getattr(seen, name) for name in JOB_COLUMNS}
    packed["ids"] = list(seen.ids)
    packed |= {name: list(getattr(seen, name)) for name in _NAMES}
    packed["deadlines"] = {row: [list(one) for one in several] for row, several in seen.deadlines.items()}
    packed["after"] = {row: list(rows) for row, rows in seen.after.items()}
    packed["parts"] = {
        row: [[p.tasks, p.gpus, p.cpus, p.memory_gib, p.role] for p in parts]
        for row, parts in seen.parts.items()
    }
    return packed


def unpack_jobs(packed: Packed) -> JobTable:
    columns: Packed = {name: packed[name] for name in JOB_COLUMNS if name in packed}
    if len(columns) < len(JOB_COLUMNS):  # moments of earlier versions lack later columns
        columns = filled_columns(len(packed["ids"]), columns)
    columns |= {name: tuple(packed.get(name, ())) for name in _NAMES}  # earlier versions lack some
    several = packed.get("deadlines", {})
    return JobTable(
        ids=packed["ids"],
        **columns,
        deadlines={row: tuple(Deadline(*one) for one in moments) for row, moments in several.items()},
        after={row: tuple(rows) for row, rows in packed["after"].items()},
        parts={row: tuple(JobPart(*fields) for fields in parts) for row, parts in packed["parts"].items()},
    )


# -- state -----------------------------------------------------------------------------------------


def _pack_state(state: State) -> Packed:
    seen, progress = slice(0, state.submitted), state.progress
    packed: Packed = {name: np.asarray(getattr(state, name))[seen] for name in COLUMNS}
    packed |= {name: _number(getattr(state, name)) for name in _STATE_SCALARS}
    packed["waiting"] = state.waiting.rows
    packed["running"] = state.running.rows
    packed["held"] = dict(state.held)
    packed["refused"] = {int(row): why for row, why in state.refused.items()}
    packed["grants"] = [pack_grant(grant) for grant in state.grants.values()]
    packed["reservations"] = [pack_reservation(reservation) for reservation in state.reservations]
    packed["progress"] = {name: getattr(progress, name)[seen] for name in PROGRESS}
    if progress.per_s is not None:
        packed["progress"]["per_s"] = progress.per_s[seen]
    packed["steady"] = progress.steady
    return packed


def _number(value: Any) -> int | float:
    """A plain number, whatever NumPy made of it."""
    return int(value) if isinstance(value, int | np.integer) else float(value)


def _unpack_state(packed: Packed, jobs: JobTable, cluster: Cluster) -> State:
    stored = packed["state"]
    progress = Progress(len(jobs), stored["progress"].get("per_s"))
    for name in PROGRESS:
        if name in stored["progress"]:  # moments of earlier versions have neither batch sizes nor abilities
            setattr(progress, name, stored["progress"][name])
    progress.steady = stored["steady"]
    state = State(jobs, cluster, progress)
    for name in (*COLUMNS, *_STATE_SCALARS):
        setattr(state, name, stored[name])
    state.bind()
    for rows, kept in ((stored["waiting"], state.waiting), (stored["running"], state.running)):
        _refill(kept, rows.tolist())
    state.held, state.refused = stored["held"], stored["refused"]
    state.grants = {fields[0]: unpack_grant(fields) for fields in stored["grants"]}
    state.reservations = tuple(Reservation(j, tuple(d), until) for j, d, until in stored["reservations"])
    fill_occupancy(state, packed["occupancy"])
    return state


def _refill(kept: RowSet, rows: list[int]) -> None:
    """Restore rows in their stored internal order."""
    for row in rows:
        kept.add(row)


def pack_occupancy(occupancy: Occupancy) -> Packed:
    """The sums are stored as they are, since adding shares in another order may differ in the last bit."""
    return {
        "claimed": _floats(occupancy.claimed),
        "spare": _by_row(occupancy.spare, float),
        "sharers": _by_row(occupancy.sharers, list),
        "gpu_memory_used": _by_row(occupancy.device_memory.used, float),
        "cpus_used": _floats(occupancy.cpus_used),
        "memory_used": _floats(occupancy.memory_used),
        "down": sorted(occupancy.down),
        "down_nodes": sorted(occupancy.down_nodes),
        "tenant_gpus": [[path, kind, float(n)] for (path, kind), n in occupancy.tenant_gpus.items()],
    }


def _floats(values: list[float]) -> list[float]:
    return [float(value) for value in values]


def _by_row(values: Mapping[int, Any], kind: Callable[[Any], Any]) -> dict[int, Any]:
    return {int(row): kind(value) for row, value in values.items()}


def fill_occupancy(state: State, packed: Packed) -> None:
    """Bring the fresh occupancy of a state with grants to where the packed one was, to the bit."""
    occupancy = state.occupancy
    for name in ("claimed", "spare", "sharers", "cpus_used", "memory_used"):
        setattr(occupancy, name, packed[name])
    occupancy.device_memory.used = packed["gpu_memory_used"]
    occupancy.down = set(packed["down"])
    occupancy.down_nodes = set(packed["down_nodes"])
    occupancy.tenant_gpus = {(path, kind): n for path, kind, n in packed["tenant_gpus"]}
    occupancy.spares = sorted((left, device) for device, left in occupancy.spare.items())
    for device, claim in enumerate(occupancy.claimed):
        if claim > EPSILON or device in occupancy.down:
            occupancy.free.remove(device)
    opportunistic = [grant for grant in state.grants.values() if grant.role == Role.OPPORTUNISTIC]
    occupancy.opportunists = sum(len(grant.devices) for grant in opportunistic)
    for grant in state.grants.values():
        _, turn = memory_of(occupancy.jobs, grant)
        for device in grant.devices if turn else ():
            occupancy.device_memory.enter_turn(device, turn)
