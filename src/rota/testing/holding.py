"""Properties of what is in force after a decision: devices, gangs, quotas, endings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rota.model.grants import Grant, Purpose, Role
from rota.model.units import plural
from rota.scheduler.loop import Loop
from rota.table.state import Phase
from rota.testing.onlooking import Onlooker
from rota.testing.scenes import Scene, with_hopeless
from rota.testing.sentences import ids, moment
from rota.testing.subject import Subject, moments
from rota.worlds.simulated.checks import recount
from rota.worlds.simulated.recorder import RunRecorder


class DevicesWithinOne(Onlooker):
    def moment(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        claims: dict[int, float] = {}
        for grant in loop.state.grants.values():
            for device in () if grant.role is Role.OPPORTUNISTIC else grant.devices:
                claims[device] = claims.get(device, 0.0) + grant.share
        for device, claim in claims.items():
            if claim > 1.0 + 1e-6:
                holders = [g.job for g in loop.state.grants.values() if device in g.devices]
                yield f"{moment(loop)} device {device} is claimed {claim:g} times by {ids(loop, holders)}"


class GangsWhole(Onlooker):
    def moment(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        jobs = self.scene.trace.jobs
        for row, grant in loop.state.grants.items():
            count, least, most = len(set(grant.devices)), jobs.gpus_min.item(row), jobs.gpus_max.item(row)
            if grant.purpose is Purpose.PROFILE:
                least, most = 1, max(most, 1)  # measured, it may stand for itself with fewer
            if jobs.gang[row] and not least <= count <= most:
                yield f"{moment(loop)} job {jobs.ids[row]} of {least} to {most} GPUs holds {count}"


class QuotasKept(Onlooker):
    def moment(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        for tenant in self.scene.cluster.tenants.by_path.values():
            if not tenant.hard:
                continue
            held = [g for g in loop.state.grants.values() if _counts_against(loop, g, tenant.path)]
            used = sum(len(g.devices) * g.share for g in held)
            if used > tenant.quota_gpus + 1e-6:
                who = ids(loop, [g.job for g in held])
                yield f"{moment(loop)} {tenant.path} uses {used:g} of {tenant.quota_gpus:g} GPUs by {who}"


def _counts_against(loop: Loop, grant: Grant, path: str) -> bool:
    name = loop.state.jobs.name_of("tenant", grant.job)
    return grant.role is not Role.OPPORTUNISTIC and (name + "/").startswith(path + "/")


class FinishedHoldNothing(Onlooker):
    def moment(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        state = loop.state
        for row in state.grants:
            if state.phase[row] != Phase.RUNNING:
                phase = Phase(int(state.phase[row])).name
                yield f"{moment(loop)} {ids(loop, [row])} is {phase} and holds devices"
        for reservation in state.reservations:
            if state.phase[reservation.job] > Phase.RUNNING and reservation.until_s > state.now:
                yield f"{moment(loop)} devices are reserved for {ids(loop, [reservation.job])}, which ended"


class EveryJobEnds(Onlooker):
    """Checks work-conserving policies; a job that does not end even alone asks for too much of them."""

    def over(self, loop: Loop, recorder: RunRecorder) -> Iterator[str]:
        stuck, subject, scene = left(loop, recorder), self.subject, self.scene
        if not subject.work_conserving:
            return
        if stuck:
            alone = [row for row in range(len(scene.trace)) if not unfinished(subject, _only(scene, [row]))]
            if len(alone) < len(scene.trace):
                scene = _only(scene, alone)
                stuck = unfinished(subject, scene) if alone else []
        for row in stuck:
            jobs = scene.trace.jobs
            yield f"job {jobs.ids[row]} of {plural(jobs.gpus.item(row), 'GPU')} never ends"


def hopeless_block_nobody(subject: Subject, scene: Scene) -> Iterator[str]:
    """Some jobs of the scene need what the cluster does not have; the others must not be affected."""
    harder, hopeless = with_hopeless(scene)
    others = [row for row in range(len(scene.trace)) if row not in hopeless]
    stuck = set(others).intersection(unfinished(subject, harder))
    if not stuck:
        return
    stuck_alone = {others[row] for row in unfinished(subject, _only(harder, others))}
    for row in sorted(stuck - stuck_alone):
        yield f"job {scene.trace.jobs.ids[row]} never ends because of jobs that could never run"


def unfinished(subject: Subject, scene: Scene) -> list[int]:
    """Rows that have not ended when nothing happens any more."""
    loop, recorder = subject.loop(scene)
    for _ in moments(loop):
        pass
    loop.close()
    return left(loop, recorder)


def left(loop: Loop, recorder: RunRecorder) -> list[int]:
    """Rows that have not ended in a run that is over; it is recounted."""
    recount(loop.state, recorder)
    return np.flatnonzero(loop.state.phase < Phase.COMPLETED).tolist()


def _only(scene: Scene, rows: list[int]) -> Scene:
    return replace(scene, trace=scene.trace.take(np.array(rows, dtype=np.int64)))
