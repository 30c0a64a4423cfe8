"""Philly: gangs gathered close together, quotas that may be exceeded while GPUs are idle.

Paper     Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads",
          USENIX ATC 2019, section 2.3; constants as our card of the system gives them
Decides   order, placement, reservations, preemption
Needs     nothing about the future; `patience_per_h` (guideline 1) needs durations
Idea      1. Virtual clusters by used GPUs over quota, least first; within one, order of arrival, passing by
             what does not fit.
          2. An attempt fixes candidate nodes, holds what is free there, starts when the gang is complete;
             after 180 s it lets go and waits 120 s.  Every waiting job runs this cycle by itself.
          3. After two failed attempts locality is relaxed: fewest nodes, one rack, anywhere.
          4. A quota may be exceeded while GPUs are idle.  Above 90 % use, a job within its quota takes GPUs
             back from the virtual cluster that is furthest above its own.
Departs   A job starts at the strictest level that the empty cluster could meet.  A victim whose GPUs turn out
          not to be needed is spared.  Retries are the world's (`retries`); of the guidelines, waiting longer
          for locality (`patience_per_h`) and dedicated nodes (`dedicated`) are here, the pre-run pool is not.
Checked   systems/philly.md, worked examples 1 to 4 (pre-run aside)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop

from rota.model.cluster import Cluster
from rota.model.grants import Grant, Reservation
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.free import mask_of
from rota.scheduler.needs import Knowledge
from rota.scheduler.occupancy import EPSILON
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.scheduler.stages.delays import Delays, Reasons, label_of
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.gang import Agenda, Attempt, Patience
from rota.scheduler.stages.locality import Domains, Locality, gather, room_on
from rota.scheduler.stages.place import consolidate
from rota.scheduler.stages.quota import Shares, reclaim


@dataclass(frozen=True)
class PhillyParameters:
    """Parameters of `philly`."""

    acquire_timeout_s: float = 180.0
    """How long an attempt holds GPUs (section 2.3: 2 to 3 minutes)."""
    backoff_s: float = 120.0
    """Pause between two attempts."""
    relax_after: int = 2
    """Failed attempts at a level of locality before the next one."""
    reclaim_util: float = 0.9
    """Share of the GPUs in use from which a quota is enforced by preemption."""
    patience_per_h: float = 0.0
    """Guideline 1: further failed attempts per hour of expected run time before locality is relaxed."""
    dedicated: bool = False
    """Guideline 2: a job of several GPUs shares its nodes with nobody."""
    domain: str = "rack"
    """Level of the cluster within which nodes are close (RDMA); without it all nodes are."""


@register(
    "philly",
    "Quotas with borrowing, gangs gathered by reservation, locality relaxed by retries",
    paper="Jeon et al., ATC 2019",
    needs={Knowledge.DURATION},
    levers={Lever.PREEMPT, Lever.RESERVE},
    parameters=PhillyParameters,
)
class Philly:
    """Microsoft's production scheduler as its trace study describes it."""

    def __init__(self, parameters: PhillyParameters | None = None) -> None:
        self.p = parameters or PhillyParameters()
        self.needs = frozenset({Knowledge.DURATION} if self.p.patience_per_h else ())
        self.agenda = Agenda({})
        self._log: list[int] | None = None
        self._read = 0
        self._labelled: tuple[float, ...] = ()
        self._cluster: Cluster | None = None
        self._domains: Domains | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        attempts: dict[int, Attempt] = memory.setdefault("attempts", {})
        delays = Delays(memory, snapshot.state.gpus_of)
        gone, come = self._changes(snapshot, attempts)
        for row in gone:
            del attempts[row]
            delays.close(row, snapshot.now)
        turn = _Turn(self.p, snapshot, self.agenda, self._domains_of(snapshot.cluster))
        turn.run(come)
        free = snapshot.cluster.gpus - len(snapshot.occupancy.down) - turn.shares.granted
        for row in turn.grants:
            delays.close(row, snapshot.now)
        for row in self._to_label(turn, free):
            if attempts[row]["until_s"] < math.inf or row not in delays.waits:  # a pause keeps its label
                delays.label(row, label_of(turn.shares, row, snapshot.state.gpus_of[row], free), snapshot.now)
        return Decision(
            memory,
            grants=list(turn.grants.values()),
            preempt=[row for row in turn.victims if row not in turn.grants],
            reservations=[Reservation(r, d, attempts[r]["until_s"]) for r, d in turn.held.items()],
            reasons=Reasons(delays, turn.shares, free),
            wake=Wake(self.agenda.next_s(), if_waiting=True),
        )

    # -- caches: built anew from snapshot and memory whenever they do not match ----------------------

    def _changes(self, snapshot: Snapshot, attempts: dict[int, Attempt]) -> tuple[list[int], list[int]]:
        """Rows that have an attempt but no longer wait, and rows that wait but have none."""
        log, waiting = snapshot.state.log, snapshot.state.waiting
        if self.agenda.attempts is attempts and self._log is log:
            rows = sorted(set(log[self._read :]))
        else:
            self.agenda, self._labelled = Agenda(attempts), ()
            rows = sorted({*attempts, *snapshot.waiting.tolist()})
        self._log, self._read = log, len(log)
        gone = [row for row in rows if row in attempts and row not in waiting]
        return gone, [row for row in rows if row in waiting and row not in attempts]

    def _to_label(self, turn: _Turn, free: float) -> Iterable[int]:
        """Rows whose label may have changed: all, unless nobody's share has."""
        now = (free, *turn.shares.used.values())
        if now != self._labelled:
            self._labelled = now
            return turn.attempts
        return [row for row in turn.touched if row in turn.attempts]

    def _domains_of(self, cluster: Cluster) -> Domains:
        if self._domains is None or self._cluster is not cluster:
            self._cluster, self._domains = cluster, Domains(cluster, self.p.domain)
        return self._domains


class _Turn:
    """One call: serves every attempt that can get further, in order."""

    def __init__(self, p: PhillyParameters, snapshot: Snapshot, agenda: Agenda, domains: Domains) -> None:
        self.p = p
        self.snapshot = snapshot
        self.now = snapshot.now
        self.agenda = agenda
        self.attempts = agenda.attempts
        self.gpus_of = snapshot.state.gpus_of
        self.domains = domains
        self.shares = Shares(snapshot)
        self.fit = Fitter(snapshot, consolidate)
        self.scratch = snapshot.scratch()
        self.held: dict[int, tuple[int, ...]] = {}
        self.grants: dict[int, Grant] = {}
        self.victims: list[int] = []
        self.touched: list[int] = []

    def run(self, come: list[int]) -> None:
        """Serve everybody; `come` are rows that have begun to wait."""
        for row in come:
            self._enter(row)
        due = self.agenda.due(self.now)
        for row in due:
            if self.attempts[row]["until_s"] <= self.now:
                self._patience(row).timed_out(self.attempts[row])
        for row, devices, _ in self.snapshot.state.reservations:
            if row in self.attempts and self.attempts[row]["until_s"] < math.inf:
                self.held[row] = tuple(d for d in devices if self.scratch.free.is_free(d))
                self.scratch.free.remove_all(self.held[row])
        self.touched = [*due]
        self._serve({*self._open(), *(row for row in due if self.attempts[row]["retry_s"] <= self.now)})
        if self.victims:  # they wait again, and may have left more than was needed
            self.touched += self.victims
            self._serve({*self._open(), *(row for row in self.victims if row in self.attempts)})
        for row in self.touched:
            if row in self.attempts:
                self.agenda.plan(row)

    def _enter(self, row: int) -> None:
        """`row` begins to wait."""
        within = self.fit.nodes_for(self.scratch, row)
        level = min(self.domains.first_level(self.scratch.free, self.gpus_of[row], nodes) for nodes in within)
        self.attempts[row] = self._patience(row).first(level, self.now)
        self.agenda.plan(row)

    def _patience(self, row: int) -> Patience:
        p = self.p
        relax_after = float(p.relax_after)
        if p.patience_per_h:
            relax_after += p.patience_per_h * self.snapshot.know(Knowledge.DURATION)[row] / 3600.0
        return Patience(p.acquire_timeout_s, p.backoff_s, relax_after)

    # -- order -------------------------------------------------------------------------------------

    def _open(self) -> list[int]:
        """Rows whose open attempt finds GPUs to hold."""
        free = self.scratch.free
        some = ((1 << len(free.size)) - 1) & ~free.buckets[0]
        if not some:
            return []
        return [
            row
            for row, attempt in self.attempts.items()
            if attempt["until_s"] < math.inf and attempt["nodes"] & some
        ]

    def _serve(self, rows: set[int]) -> None:
        """Virtual clusters with the least use of their quota first; in each, in order of arrival."""
        queues: dict[str, list[int]] = {}
        for row in rows:
            queues.setdefault(self.shares.of(row), []).append(row)
        for queue in queues.values():
            heapify(queue)
        while queues:
            name = min(queues, key=lambda name: (self.shares.ratio(name), name))
            self._try(heappop(queues[name]))
            if not queues[name]:
                del queues[name]

    def _try(self, row: int) -> None:
        attempt = self.attempts[row]
        if attempt["until_s"] < math.inf:
            self._collect(row)
            return
        self._patience(row).opened(attempt, self._candidates(row), self.now)
        if not self._collect(row):
            self._reclaim(row)

    # -- one attempt -------------------------------------------------------------------------------

    def _candidates(self, row: int) -> int:
        """Nodes of one type for the attempt: where the gang fits now, if anywhere."""
        free, gpus = self.scratch.free, self.gpus_of[row]
        level, best, open_to = Locality(self.attempts[row]["level"]), 0, self._open_to(row)
        for within in self.fit.nodes_for(self.scratch, row):
            nodes = self.domains.candidates(free, gpus, level, within & open_to)
            if nodes and room_on(free, nodes) >= gpus:
                return nodes
            best = best or nodes or self.domains.candidates(free, gpus, level, within)
        return best

    def _open_to(self, row: int) -> int:
        """Nodes on which `row` disturbs nobody, if nodes are dedicated; else all."""
        if not self.p.dedicated:
            return -1
        node_of = self.scratch.free.node_of
        grants = [grant for r, grant in self.snapshot.grants.items() if r not in self.victims]
        grants += self.grants.values()
        if self.gpus_of[row] == 1:
            grants = [grant for grant in grants if len(grant.devices) > 1]
        return ~mask_of(list({node_of[device] for grant in grants for device in grant.devices}))

    def _collect(self, row: int) -> bool:
        """Hold what is free on the candidate nodes; True if the gang is complete and starts."""
        if not self.gpus_of[row]:
            return self._start(row, self.fit(self.scratch, row))
        grant, devices = self._gathered(row, self.attempts[row]["nodes"], self.held.pop(row, ()))
        if grant is not None:
            return self._start(row, grant)
        if devices:
            self.scratch.free.remove_all(devices)
            self.held[row] = devices
        return False

    def _gathered(self, row: int, nodes: int, held: tuple[int, ...]) -> tuple[Grant | None, tuple[int, ...]]:
        """What `row` could hold on `nodes` besides `held`, left free; a grant if it needs no more."""
        free, gpus = self.scratch.free, self.gpus_of[row]
        devices = tuple(sorted(held + gather(free, gpus - len(held), nodes & self._open_to(row))))
        free.put_all(devices)
        grant = Grant(row, devices)
        return (grant if len(devices) == gpus and self.fit.admits(self.scratch, grant) else None), devices

    def _start(self, row: int, grant: Grant | None) -> bool:
        if grant is None:
            return False
        self.scratch.hold(grant)
        self.shares.grant(row, len(grant.devices))
        self.grants[row] = grant
        del self.attempts[row]
        return True

    # -- taking back ---------------------------------------------------------------------------------

    def _reclaim(self, row: int) -> None:
        """Take GPUs back for `row`, whose attempt could not complete at once, if that is its right."""
        gpus, shares, grants = self.gpus_of[row], self.shares, self.snapshot.grants
        in_use = self.p.reclaim_util * self.snapshot.cluster.gpus
        if not gpus or shares.granted < in_use - EPSILON or not shares.is_due(row, gpus):
            return
        if not any(map(shares.is_above, shares.used)):
            return
        self.scratch.free.put_all(self.held.pop(row, ()))
        since, before = self.snapshot.state.since_s, len(self.victims)
        running = [(since.item(r), r, len(g.devices)) for r, g in grants.items() if r not in self.victims]

        def fits(victim: int) -> bool:
            self.scratch.release(grants[victim])
            self.victims.append(victim)
            return self._gathered(row, self._candidates(row), ())[0] is not None

        enough = reclaim(shares, running, fits) is not None
        gone, self.victims = self.victims[before:], self.victims[:before]
        used = set[int]()
        if enough:
            self.attempts[row]["nodes"] = self._candidates(row)
            self._collect(row)
            used.update(self.grants[row].devices)
        for victim in gone:
            if used.isdisjoint(grants[victim].devices):
                self._spare(victim, enough)
            else:
                self.victims.append(victim)
                self._enter(victim)
        if not enough:
            self._collect(row)

    def _spare(self, victim: int, counted: bool) -> None:
        """`victim` keeps its GPUs after all; `counted` if its loss shows in the shares."""
        grant = self.snapshot.grants[victim]
        self.scratch.hold(grant)
        if counted:
            self.shares.grant(victim, len(grant.devices))
