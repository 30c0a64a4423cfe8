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
             back from the virtual cluster that is furthest above its own; who loses them and fits elsewhere
             moves there.
Departs   A job starts at the strictest level that the empty cluster could meet. A victim whose GPUs turn
          out not to be needed is spared. Of the guidelines, waiting longer for locality (`patience_per_h`),
          starting spread and moving together (`migrate`) and dedicated nodes (`dedicated`; with `migrate`
          cleared of jobs of one GPU) are here. Retries are the world's, under any policy: blind, or by class
          of failure with back-off, given up at the same failure thrice or where it stayed for others
          (`rota simulate --retries adaptive`; live by its classifier). The pre-run pool is a policy around
          this one (`prerun`). The policy sleeps through attempts that can find nothing: no GPU is free and
          nobody may take any. Jobs submitted together pause together, so that GPUs idle in front of a
          queue, as by the card. A fraction has a GPU to itself, a gang of them as many. How much others on a
          node, or 16 GPUs spread wide, slow a job down is the world's
          too (`--slowdowns`): the study's table of co-located servers is not built in.
Checked   systems/philly.md, worked examples 1 to 4; a generated month (docs/philly.md):
          strict locality raises the 90th percentile wait of jobs above 8 GPUs from 1.1 to 172 h, shortens
          their runs by 4.1 %; fragmentation is 0 to 3 % of waiting time where the study has 80 % of delays,
          and more with larger quotas
"""

from __future__ import annotations

from rota.knowledge.needs import Knowledge
from rota.model.cluster import Cluster
from rota.model.grants import Reservation
from rota.model.jobs import JobTable
from rota.model.tenants import Between
from rota.policies.philly.decision import PhillyDecision
from rota.policies.philly.delays import DelayReasons, Delays, label_of
from rota.policies.philly.gang import Attempts, Cycle
from rota.policies.philly.locality import Domains
from rota.policies.philly.moving import MovingDecision
from rota.policies.philly.parameters import PhillyParameters
from rota.policies.philly.queues import AttemptQueues
from rota.policies.philly.quota import QuotaShares, VirtualClusterQuotas
from rota.scheduler.decision import Decision, Memory, Wake
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.scheduler.stages.fit import Fitter
from rota.scheduler.stages.place import consolidate


@register(
    "philly",
    "Quotas with borrowing, gangs gathered by reservation, locality relaxed by retries",
    paper="Jeon et al., ATC 2019",
    needs={Knowledge.DURATION: lambda p: p.patience_per_h > 0.0},
    levers={Lever.PREEMPT, Lever.MIGRATE, Lever.RESERVE},
    parameters=PhillyParameters,
    between=Between.QUOTAS,
)
class Philly:
    """Microsoft's production scheduler as its trace study describes it."""

    def __init__(self, parameters: PhillyParameters | None = None) -> None:
        self.parameters = self.p = parameters or PhillyParameters()
        self.cycle = Cycle(self.p.acquire_timeout_s, self.p.backoff_s)
        self.queues = AttemptQueues({}, self.cycle)
        self._cursor = Cursor()
        self._place: _Place | None = None

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        now, attempts, place = snapshot.now, memory.setdefault("attempts", {}), self._place_of(snapshot)
        delays, shares = Delays(memory, self.cycle), QuotaShares(snapshot, place.clusters)
        fit = Fitter(snapshot, consolidate)
        gone, come = self._changes(snapshot, attempts, shares, fit)
        queues = self.queues
        slept_s = memory.setdefault("slept_s", {})
        make = MovingDecision if self.p.migrate else PhillyDecision
        turn = make(self.p, snapshot, fit, queues, place.domains, shares, slept_s, place.sleeps)
        if isinstance(turn, MovingDecision):
            turn.stays = self._staying(snapshot, memory)
        turn.run(gone, come, memory.get("asleep_until_s", now))
        for of, ended in turn.ended:
            delays.close(of, ended, now)
        free = snapshot.cluster.gpus - len(snapshot.occupancy.down) - shares.granted
        noted = (free, shares.used, shares.quota, queues.in_order())
        if queues.labelled != noted:  # else each class has the reason that it had
            delays.label(noted[-1], lambda name, gpus: label_of(shares, name, gpus, free), now)
            queues.labelled = noted
        memory["asleep_until_s"] = turn.next_opening_s()
        until = {row: self.cycle.until_s(attempts[row], now) for row in turn.held}
        return Decision(
            memory,
            grants=list(turn.grants.values()),
            preempt=[row for row in turn.victims if row not in turn.grants],
            reservations=[Reservation(row, devices, until[row]) for row, devices in turn.held.items()],
            reasons=DelayReasons(delays, shares, free, attempts, queues.class_of.__getitem__, now),
            wake=Wake(min([memory["asleep_until_s"], *until.values()]), if_waiting=not self.p.migrate),
        )

    def _staying(self, snapshot: Snapshot, memory: Memory) -> dict[int, float]:
        """Running jobs that the world did not move, and until when nobody asks it to again."""
        stays: dict[int, float] = memory.setdefault("stays", {})
        for row in stays.keys() - snapshot.grants.keys():
            del stays[row]
        stays.update(
            {row: snapshot.now + self.cycle.period_s for row in snapshot.refused if row in snapshot.grants}
        )
        return stays

    # -- caches: built anew from snapshot and memory whenever they do not match ----------------------

    def _changes(
        self, snapshot: Snapshot, attempts: dict[int, Attempts], shares: QuotaShares, fit: Fitter
    ) -> tuple[list[int], list[int]]:
        """Rows that have attempts but no longer wait, and rows that wait but have none."""
        changed = snapshot.changes(self._cursor)
        if changed is not None and self.queues.attempts is attempts and not snapshot.refused:
            rows = sorted(changed)
        else:
            self.queues = AttemptQueues(attempts, self.cycle)
            for row in attempts:
                self.queues.add(row, (shares.of(row), snapshot.gpus_of[row]), fit.accepted(row))
            rows = sorted({*attempts, *snapshot.waiting.tolist()})
        gone = [row for row in rows if row in attempts and not snapshot.waits(row)]
        return gone, [row for row in rows if snapshot.waits(row) and row not in attempts]

    def _place_of(self, snapshot: Snapshot) -> _Place:
        place = self._place
        if place is None or place.cluster is not snapshot.cluster or place.jobs is not snapshot.jobs.table:
            if place is not None and place.cluster is not snapshot.cluster:
                self._cursor = Cursor()  # other nodes will do
            place = self._place = _Place(snapshot.cluster, snapshot.jobs.table, self.p)
        return place


class _Place:
    """What follows from the cluster and the table of jobs alone."""

    def __init__(self, cluster: Cluster, jobs: JobTable, p: PhillyParameters) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.domains = Domains(cluster, p.domain)
        self.clusters = VirtualClusterQuotas(cluster, jobs)
        hosts = jobs.cpus.any() and cluster.node_cpus.any()
        hosts |= jobs.memory_gib.any() and cluster.node_memory_gib.any()
        caps = any(tenant.hard for tenant in cluster.tenants.by_path.values())
        self.sleeps = not (p.dedicated or hosts or caps)
        """True if the candidate nodes of an attempt depend on nothing but free GPUs."""
