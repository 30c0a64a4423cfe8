"""Rules that concern one grant alone: its devices, their number and type, its share."""

from __future__ import annotations

from rota.model.grants import Grant, Purpose, Role
from rota.model.job_columns import AllowedCounts
from rota.model.reasons import names_of
from rota.model.units import plural
from rota.scheduler.guard.rules import Breach, breach
from rota.table.state import State


def check_shape(state: State, grant: Grant) -> list[Breach]:
    """Breaches of `grant` by itself, for a live job."""
    breaches = _check_devices(state, grant)
    if breaches:
        return breaches
    count = len(grant.devices)
    if count == state.gpus_of[grant.job] and not state.jobs.type_names and not state.jobs.node_set_names:
        return _check_share(state, grant)
    return [
        *_check_size(state, grant, count),
        *_check_type(state, grant),
        *_check_nodes(state, grant),
        *_check_share(state, grant),
    ]


def _check_devices(state: State, grant: Grant) -> list[Breach]:
    """Devices exist, differ and are healthy; a grant without devices names a node that is."""
    row, devices, occupancy = grant.job, grant.devices, state.occupancy
    if not devices:
        if not 0 <= grant.node < state.cluster.nodes:
            return [breach(state, "no-device", row, "is granted neither a device nor a node")]
        if grant.node in occupancy.down_nodes:
            name = state.cluster.node_names[grant.node]
            return [breach(state, "unhealthy", row, f"is granted node {name}, which is lost")]
        return []
    missing = [device for device in devices if not 0 <= device < len(occupancy.claimed)]
    if missing:
        return [breach(state, "no-device", row, f"is granted device {missing[0]}, which does not exist")]
    if len(set(devices)) != len(devices):
        twice = next(device for device in devices if devices.count(device) > 1)
        return [breach(state, "device-twice", row, f"is granted device {twice} twice")]
    lost = sorted(occupancy.down.intersection(devices))
    if lost:
        return [breach(state, "unhealthy", row, f"is granted device {lost[0]}, which is lost")]
    return []


def _check_size(state: State, grant: Grant, count: int) -> list[Breach]:
    row, jobs = grant.job, state.jobs
    wanted, least, most = state.gpus_of[row], jobs.gpus_min.item(row), jobs.gpus_max.item(row)
    if count == wanted or (grant.purpose is Purpose.PROFILE and 0 < count < wanted):
        return []  # a gang that is only measured may run on fewer
    if jobs.gang[row] and least == most:
        return [
            breach(state, "gang", row, f"asks for {plural(wanted, 'GPU')} in a gang and is granted {count}")
        ]
    if not jobs.gang[row]:
        least, most = min(wanted, 1), max(wanted, most)  # whatever part of it can be had
    powers = jobs.counts[row] == AllowedCounts.POWERS_OF_TWO
    step = jobs.gpus_step.item(row) if jobs.gang[row] else 1
    fits = not (powers and count & (count - 1)) and (count - least) % step == 0
    if least <= count <= most and fits:
        return []
    among = (" in powers of two" if powers else "") + (f" in steps of {step}" if step > 1 else "")
    return [
        breach(state, "size", row, f"can use {least} to {plural(most, 'GPU')}{among} and is granted {count}")
    ]


def _check_type(state: State, grant: Grant) -> list[Breach]:
    row, jobs, cluster = grant.job, state.jobs, state.cluster
    wanted = jobs.gpu_types.item(row)
    if not wanted:
        return []
    names = jobs.types_in(wanted)
    for device in grant.devices:
        name = cluster.type_names[cluster.device_type[device]]
        if name not in names:
            accepted = ", ".join(sorted(names))
            return [
                breach(state, "type", row, f"accepts {accepted} and is granted device {device}, a {name}")
            ]
    return []


def _check_nodes(state: State, grant: Grant) -> list[Breach]:
    row, cluster = grant.job, state.cluster
    wanted = state.jobs.name_of("node_set", row)
    if not wanted:
        return []
    admitted = state.occupancy.node_sets.admitted(wanted)
    nodes = {int(cluster.device_node[device]) for device in grant.devices} | ({grant.node} - {-1})
    outside = sorted(cluster.node_names[node] for node in nodes if not admitted >> node & 1)
    if not outside:
        return []
    return [breach(state, "node-set", row, f"asks for nodes {wanted} and is granted {names_of(outside)}")]


def _check_share(state: State, grant: Grant) -> list[Breach]:
    share, role = grant.share, grant.role
    if share == 1.0:
        return []
    # A job that takes turns may hold a share of 0: it is suspended in place and keeps its memory.
    if role != Role.ALONE and 0.0 <= share <= 1.0 and (share > 0.0 or role == Role.TURNS):
        return []
    asked = state.jobs.gpu_share.item(grant.job)
    where = f"device {grant.devices[0]}" if grant.devices else "its node"
    word = Role(role).name.lower()
    message = f"asks for a share of {asked:g} and is granted {share:g} of {where}, {word}"
    return [breach(state, "share", grant.job, message)]
