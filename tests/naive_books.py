"""The books of a run kept once more, from its intervals and its trace alone.

Nothing of the house's own accounting is used: what a job has received, done, paid and lost is worked out
anew from who held what and when, by docs/glossary.md, docs/metrics.md, docs/speeds.md and what `--costs`,
`--faults` and `--retries` say.  `complaints` tells what does not agree.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rota.model.cluster import Cluster
from rota.model.grants import Can
from rota.model.job_columns import AllowedCounts, GroupRule
from rota.model.jobs import Outcome
from rota.model.record import Record
from rota.model.trace import Trace
from rota.worlds.simulated.costs import CostModel, Costs
from rota.worlds.simulated.faults import Fault

NEAR = 1e-5
"""Seconds, or seconds of work, that sums of many stretches may differ by."""
GOES_ON = {"migrated", "resized", "adjusted"}
"""Ends of an interval after which the job holds something at once."""
WAITS_AGAIN = {"preempted", "lost", "failed"}
INFRASTRUCTURE = {
    "model checkpoint error",
    "MPI runtime failure",
    "job preempted",
    "GPU ECC error",
    "node failure",
}


@dataclass(frozen=True)
class Rules:
    """What a run was told, and what its policy may do that the tables do not show."""

    costs: Costs = field(default_factory=Costs)
    faults: Sequence[Fault] = ()
    retries: str = ""
    """As typed: `2`, `adaptive`; empty tries as often as the trace did."""
    can: Mapping[str, Can] = field(default_factory=dict)
    """What jobs bear without losing their work, by workload; everything where nobody says."""
    in_memory: bool = False
    """Whoever is preempted stays in the memory of its hosts."""
    limits: bool = False
    """Whoever has run for as long as it stated, and as it ran on record, is ended."""
    measures: bool = False
    """Jobs may be tried on fewer GPUs than they ask for."""


@dataclass(frozen=True)
class Stay:
    """One row of the intervals."""

    job: int
    start_s: float
    end_s: float
    devices: tuple[int, ...]
    share: float
    role: str
    end: str
    work: float | None
    cpus: float | None
    memory_gib: float | None


@dataclass
class Account:
    """What a job has got, as far as it has been followed."""

    failed: int = 0
    held_s: float = 0.0
    """Seconds for which it has held something."""
    done: float = 0.0
    """Work of the present attempt, in seconds at the request."""
    ready_s: float = -math.inf
    """Until when it stands still."""
    overhead_s: float = 0.0
    lost_s: float = 0.0
    forgone: float = 0.0
    """Work that it could not bring to where it is now."""
    lost_at_last: float = 0.0
    """What the last of its intervals lost."""


def price(model: CostModel, workload: str, gpus: int) -> float:
    """A constant, that of the workload or else of the size, and so much per GPU."""
    constant = model.constant_s
    reached = [least for least in model.from_gpus if gpus >= least]
    if reached:
        constant = model.from_gpus[max(reached)]
    return model.by_workload.get(workload, constant) + model.per_gpu_s * gpus


def outages(faults: Sequence[Fault], node: int) -> list[tuple[float, float]]:
    """When `node` is away; outages that touch are one."""
    spans: list[tuple[float, float]] = []
    for at_s, until_s in sorted((fault.at_s, fault.until_s) for fault in faults if fault.node == node):
        if spans and at_s <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], until_s)
        else:
            spans.append((at_s, until_s))
    return spans


class NaiveBooks:
    """Follows each job through its intervals, and all of them through time."""

    def __init__(self, trace: Trace, cluster: Cluster, record: Record, rules: Rules) -> None:
        self.trace, self.jobs, self.cluster, self.rules = trace, trace.jobs, cluster, rules
        self.node_of: list[int] = cluster.device_node.tolist()
        self.rows: list[dict[str, Any]] = list(record.jobs.iter_rows(named=True))
        self.stays = [
            Stay(
                row["job"],
                row["start_s"],
                row["end_s"],
                tuple(row["devices"]),
                row["share"],
                row["role"],
                row["end"],
                row["work"],
                row["cpus"],
                row["memory_gib"],
            )
            for row in record.intervals.iter_rows(named=True)
        ]
        self.listed = [list(row["nodes"]) for row in record.intervals.iter_rows(named=True)]
        self.of_job: list[list[Stay]] = [[] for _ in self.rows]
        for stay in self.stays:
            self.of_job[stay.job].append(stay)
        self.away = [outages(rules.faults, node) for node in range(cluster.nodes)]
        self.switched = self._switches()

    def complaints(self) -> list[str]:
        """What is wrong with the record, each in a sentence."""
        return [
            *self._of_intervals(),
            *self._of_devices(),
            *self._of_hosts(),
            *self._of_quotas(),
            *self._of_outages(),
            *(line for job in range(len(self.rows)) for line in self._of_job(job)),
            *self._of_retries(),
            *self._of_groups(),
        ]

    def name(self, job: int) -> str:
        return self.jobs.ids[job]

    def nodes(self, stay: Stay) -> set[int]:
        return {self.node_of[device] for device in stay.devices}

    # -- one interval by itself ------------------------------------------------------------------------

    def _of_intervals(self) -> Iterator[str]:
        jobs = self.jobs
        for stay, listed in zip(self.stays, self.listed, strict=True):
            job, asked = stay.job, jobs.gpus.item(stay.job)
            who = f"{self.name(job)} from {stay.start_s:g} to {stay.end_s:g} s"
            if stay.end_s < stay.start_s:
                yield f"{who}: ends before it begins"
            if listed != [self.node_of[device] for device in stay.devices]:
                yield f"{who}: nodes {listed} are not those of devices {stay.devices}"
            if len(set(stay.devices)) != len(stay.devices):
                yield f"{who}: a device twice"
            if not self._is_legal(job, len(stay.devices)):
                yield f"{who}: holds {len(stay.devices)} GPUs, asks for {asked}"
            types = {self.cluster.device_type.item(device) for device in stay.devices}
            if len(types) > 1 and jobs.gang[job]:
                yield f"{who}: a gang on several types"
            wanted = {name for bit, name in enumerate(jobs.type_names) if jobs.gpu_types.item(job) >> bit & 1}
            if wanted and not {self.cluster.type_names[code] for code in types} <= wanted:
                yield f"{who}: a type that it does not accept"
            if stay.end == "running":
                yield f"{who}: still runs when the run is over"

    def _is_legal(self, job: int, held: int) -> bool:
        """Whether so many GPUs are a number that the job can use."""
        jobs = self.jobs
        asked, least, most = (column.item(job) for column in (jobs.gpus, jobs.gpus_min, jobs.gpus_max))
        if held == asked or (self.rules.measures and 0 < held < asked):
            return True
        if not jobs.gang[job]:
            least, most = 1, max(asked, most)
        if jobs.counts.item(job) == AllowedCounts.POWERS_OF_TWO and held & (held - 1):
            return False
        return bool(least <= held <= most)

    # -- all of them at each moment --------------------------------------------------------------------

    def _present(self) -> Iterator[tuple[float, list[Stay]]]:
        """Every moment at which somebody begins to hold something, and who holds anything then."""
        lasting = [stay for stay in self.stays if stay.end_s > stay.start_s]
        for moment in sorted({stay.start_s for stay in lasting}):
            yield moment, [stay for stay in lasting if stay.start_s <= moment < stay.end_s]

    def _of_devices(self) -> Iterator[str]:
        need, capacity = self.jobs.gpu_memory_gib, self.cluster.device_memory_gib
        for moment, here in self._present():
            claimed, memory = defaultdict[int, float](float), defaultdict[int, float](float)
            once = [stay.job for stay in here]
            if len(set(once)) != len(once):
                yield f"at {moment:g} s a job holds two things at a time: {sorted(once)}"
            for stay in here:
                for device in stay.devices:
                    claimed[device] += 0.0 if stay.role == "opportunistic" else stay.share
                    memory[device] += need.item(stay.job)
            for device, share in claimed.items():
                if share > 1.0 + 1e-6:
                    yield f"at {moment:g} s device {device} is claimed {share:g} times"
                if 0.0 < capacity.item(device) < memory[device] - 1e-6:
                    yield f"at {moment:g} s device {device} holds {memory[device]:g} GiB"

    def _of_hosts(self) -> Iterator[str]:
        """Cores and memory, in proportion to the GPUs that a job has on a node."""
        jobs, cluster = self.jobs, self.cluster
        for what, asked_of, capacity in (
            ("cpus", jobs.cpus, cluster.node_cpus),
            ("memory_gib", jobs.memory_gib, cluster.node_memory_gib),
        ):
            for moment, here in self._present() if capacity.any() else ():
                used = defaultdict[int, float](float)
                for stay in here:
                    granted = getattr(stay, what)
                    for device in stay.devices:
                        each = asked_of.item(stay.job) / jobs.gpus.item(stay.job)
                        used[self.node_of[device]] += each if granted is None else granted / len(stay.devices)
                for node, amount in used.items():
                    if 0.0 < capacity.item(node) < amount - 1e-6:
                        yield f"at {moment:g} s node {node} gives {amount:g} of {what}"

    def _of_quotas(self) -> Iterator[str]:
        capped = [tenant for tenant in self.cluster.tenants.by_path.values() if tenant.hard]
        for moment, here in self._present() if capped else ():
            for tenant in capped:
                used, by_type = 0.0, defaultdict[str, float](float)
                for stay in here:
                    path = self.jobs.name_of("tenant", stay.job) + "/"
                    if stay.role == "opportunistic" or not path.startswith(tenant.path + "/"):
                        continue
                    used += len(stay.devices) * stay.share
                    for device in stay.devices:
                        name = self.cluster.type_names[self.cluster.device_type.item(device)]
                        by_type[name] += stay.share
                if used > tenant.quota_gpus + 1e-6:
                    yield f"at {moment:g} s {tenant.path} holds {used:g} of {tenant.quota_gpus:g} GPUs"
                for name, most in tenant.quota_by_type.items():
                    if by_type[name] > most + 1e-6:
                        yield f"at {moment:g} s {tenant.path} holds {by_type[name]:g} of {most:g} {name}"

    def _of_outages(self) -> Iterator[str]:
        for stay in self.stays:
            who = f"{self.name(stay.job)} from {stay.start_s:g} to {stay.end_s:g} s"
            spans = [(node, *span) for node in sorted(self.nodes(stay)) for span in self.away[node]]
            for node, at_s, until_s in spans:
                if stay.start_s < until_s and stay.end_s > at_s:
                    yield f"{who}: on node {node}, away from {at_s:g} to {until_s:g} s"
                if stay.start_s < at_s == stay.end_s and stay.end in {*GOES_ON, "preempted"}:
                    yield f"{who}: {stay.end} when node {node} was lost"
            moments = {at_s for _, at_s, _ in spans} if stay.devices else {f.at_s for f in self.rules.faults}
            if stay.end == "lost" and stay.end_s not in moments:
                yield f"{who}: lost, though none of its nodes was"

    def _switches(self) -> dict[int, bool]:
        """By the identity of an interval: whether another job was the last on one of its devices."""
        last, taken = dict[int, int](), dict[int, bool]()
        for stay in sorted(self.stays, key=lambda stay: (stay.start_s, stay.end_s)):
            taken[id(stay)] = any(last.get(device, stay.job) != stay.job for device in stay.devices)
            last.update(dict.fromkeys(stay.devices, stay.job))
        return taken

    # -- one job through its intervals -----------------------------------------------------------------

    def _of_job(self, job: int) -> Iterator[str]:
        row, stays = self.rows[job], self.of_job[job]
        account = Account()
        yield from self._of_sequence(job)
        for before, stay in zip([None, *stays], stays, strict=False):
            yield from self._follow(account, before, stay)
        yield from self._of_sums(job, account)
        yield from self._of_state(job, account)
        if row["state"] == "COMPLETED" and account.failed < len(self.trace.truth.failures.get(job, ())):
            yield f"{self.name(job)}: completed before it had failed as often as it does"

    def _of_sequence(self, job: int) -> Iterator[str]:
        """What follows on what."""
        stays, who = self.of_job[job], self.name(job)
        begin_s = self.begin_s(job)
        for stay in stays[:1]:
            if stay.start_s < begin_s - NEAR:
                yield f"{who}: starts at {stay.start_s:g} s, may not before {begin_s:g} s"
        for before, after in pairwise(stays):
            if before.end in GOES_ON:
                if after.start_s != before.end_s:
                    yield f"{who}: {before.end} at {before.end_s:g} s, goes on at {after.start_s:g} s"
                alike = before.devices == after.devices, len(before.devices) == len(after.devices)
                expected = {"adjusted": (True, True), "migrated": (False, True), "resized": (False, False)}
                if alike != expected[before.end] and before.devices:
                    moves = f"from {before.devices} to {after.devices}"
                    yield f"{who}: {before.end} at {before.end_s:g} s {moves}"
            elif before.end not in WAITS_AGAIN:
                yield f"{who}: {before.end} at {before.end_s:g} s, and holds something later"
            elif after.start_s < before.end_s:
                yield f"{who}: holds something at {after.start_s:g} s, {before.end} at {before.end_s:g} s"

    def begin_s(self, job: int) -> float:
        """The moment before which nobody could start it."""
        submit_s, held_s = self.jobs.submit_s.item(job), self.trace.truth.held_s.item(job)
        befores = self.jobs.after.get(job, ())
        if befores:
            ends = [self.rows[before]["finish_s"] for before in befores]
            return max(submit_s, *(math.inf if end is None else end for end in ends))
        return submit_s + (held_s if held_s == held_s else 0.0)

    def _follow(self, account: Account, before: Stay | None, stay: Stay) -> Iterator[str]:
        """Work, overhead and losses of one interval."""
        asked = self.jobs.gpus.item(stay.job)
        if before is None or before.end != "adjusted":
            account.ready_s = stay.start_s + self.stall_s(before, stay)
        rate = len(stay.devices) / asked if asked else 1.0
        if stay.share < 1.0:
            rate *= min(1.0, stay.share / self.jobs.gpu_share.item(stay.job))
        works_from = min(max(stay.start_s, account.ready_s), stay.end_s)
        account.overhead_s += works_from - stay.start_s
        account.held_s += stay.end_s - stay.start_s
        begun_with = account.done
        account.forgone = self.forgone(account, before, stay)
        account.done += -account.forgone + rate * (stay.end_s - works_from)
        if not self.is_unclear(stay.job):
            yield from self._of_end(account, stay, stay.end_s - works_from)
        lost = self.lost(account, stay)
        account.lost_at_last = lost + account.forgone
        account.lost_s += account.lost_at_last
        account.done -= lost
        if stay.end == "failed":
            account.failed, account.done = account.failed + 1, 0.0
        whole = self.trace.truth.duration_s.item(stay.job)
        if stay.work is not None and whole > 0.0 and not self.is_unclear(stay.job):
            own = (account.done - begun_with) / whole
            if abs(own - stay.work) * whole > NEAR:
                yield f"{self.name(stay.job)} at {stay.end_s:g} s: work {stay.work:g} of all, not {own:g}"

    def is_unclear(self, job: int) -> bool:
        """True if the tables do not say whether it stayed in memory, or on which host."""
        limited = bool(self.cluster.node_memory_gib.any()) or not self.jobs.gpus.item(job)
        if self.rules.in_memory and limited and not self.rules.costs.free:
            return True
        return not self.jobs.gpus.item(job) and not self.bears(job) & Can.CHECKPOINT  # nor where it was

    def stall_s(self, before: Stay | None, stay: Stay) -> float:
        """For how long it stands still as it begins to hold this: in full, whatever was cut short before."""
        costs, gpus = self.rules.costs, len(stay.devices)
        workload = self.jobs.name_of("workload", stay.job)
        back_s = price(costs.checkpoint, workload, gpus) + price(costs.restore, workload, gpus)
        if before is not None and before.end in GOES_ON:
            if costs.resize is not None and len(before.devices) != gpus:
                return price(costs.resize, workload, gpus)
            return back_s + price(costs.migrate, workload, gpus)
        switch_s = price(costs.switch, workload, gpus) if self.switched[id(stay)] else 0.0
        if before is None or before.end == "failed":  # nothing came before, or nothing is left of it
            return price(costs.start, workload, gpus) + switch_s
        stayed = self.rules.in_memory and before.end == "preempted" and self.nodes(before) == self.nodes(stay)
        if stayed and not self.was_away(self.nodes(before), before.end_s, stay.start_s):
            return switch_s
        return back_s + switch_s

    def was_away(self, nodes: set[int], from_s: float, to_s: float) -> bool:
        """True if one of `nodes` was lost in that time."""
        return any(from_s < at_s <= to_s for node in nodes for at_s, _ in self.away[node])

    def target(self, job: int, failed: int) -> float:
        """Work at which the attempt after so many failures ends."""
        runs = self.trace.truth.failures.get(job, ())
        return runs[failed] if failed < len(runs) else self.trace.truth.duration_s.item(job)

    def _of_end(self, account: Account, stay: Stay, worked_s: float) -> Iterator[str]:
        """Attempts end when their work is done, and not before."""
        runs = self.trace.truth.failures.get(stay.job, ())
        target, who = self.target(stay.job, account.failed), f"{self.name(stay.job)} at {stay.end_s:g} s"
        fails = account.failed < len(runs)
        if account.held_s > self.most_s(stay.job) + NEAR:
            yield f"{who}: has run {account.held_s:g} of the {self.most_s(stay.job):g} s of its limit"
        if self.is_timed_out(stay) and abs(account.held_s - self.most_s(stay.job)) <= NEAR:
            return
        if account.done > target + NEAR:
            yield f"{who}: has done {account.done:g} of the {target:g} s of its attempt"
        over = {
            Outcome.COMPLETED: "finished", Outcome.FAILED: "failed", Outcome.CANCELLED: "cancelled"
        }[Outcome(self.trace.truth.outcome.item(stay.job))]  # fmt: skip
        if stay.end in {"finished", "failed"} or (stay.end == over and not self._is_stopped(stay)):
            tried = len(stay.devices) < self.jobs.gpus.item(stay.job) and self.rules.measures
            if fails and tried and abs(worked_s - target) <= NEAR:
                return  # what a program does wrong comes as soon on one GPU as on all
            if abs(account.done - target) > NEAR:
                yield f"{who}: {stay.end} with {account.done:g} of {target:g} s done"
            if stay.end != ("failed" if fails else over):
                yield f"{who}: {stay.end} after {account.failed} of {len(runs)} failures"

    def most_s(self, job: int) -> float:
        """Seconds that it may run: what it stated, or those on record if they are more."""
        limit_s, truth = self.jobs.limit_s.item(job), self.trace.truth
        on_record = math.fsum([*truth.failures.get(job, ()), truth.duration_s.item(job)])
        return max(limit_s, on_record) if self.rules.limits and not math.isnan(limit_s) else math.inf

    def is_timed_out(self, stay: Stay) -> bool:
        """True if it is said to have ended by its limit."""
        row = self.rows[stay.job]
        is_last = stay is self.of_job[stay.job][-1]
        return is_last and stay.end == "failed" and row["why"].startswith("reached its time limit")

    def _is_stopped(self, stay: Stay) -> bool:
        """True if somebody else ended it: its policy, or another job of its group."""
        return bool(self.rows[stay.job]["why"]) or self.jobs.group_rule.item(stay.job) == GroupRule.FIRST

    def bears(self, job: int) -> Can:
        return self.rules.can.get(self.jobs.name_of("workload", job), Can.ALL)

    def lost(self, account: Account, stay: Stay) -> float:
        """Work that has to be done again, or is added, because the interval ended so."""
        costs, can = self.rules.costs, self.bears(stay.job)
        saves, resizes, sleeps = (bool(can & what) for what in (Can.CHECKPOINT, Can.RESIZE, Can.SUSPEND))
        bears = {
            "failed": False,
            "lost": saves,
            "migrated": saves,
            "resized": saves and resizes,
            "preempted": saves or sleeps,
        }
        added = 0.0
        if stay.end == "preempted":
            workload = self.jobs.name_of("workload", stay.job)
            added = price(costs.preempt, workload, self.jobs.gpus.item(stay.job))
        if not bears.get(stay.end, True):
            return max(account.done, added)
        if stay.end == "lost" and costs.checkpoint_every_s:
            return max(account.done, 0.0) % costs.checkpoint_every_s
        return added

    def forgone(self, account: Account, before: Stay | None, stay: Stay) -> float:
        """Work that it loses as it begins, since it cannot go on here."""
        if before is None or before.end not in {"preempted", "lost"}:
            return 0.0
        can, same = self.bears(stay.job), len(before.devices) == len(stay.devices)
        if can & Can.CHECKPOINT:
            return account.done if not same and not can & Can.RESIZE else 0.0
        same = same and self.nodes(before) == self.nodes(stay)
        asleep = same and not self.was_away(self.nodes(before), before.end_s, stay.start_s)
        return 0.0 if asleep else account.done

    def _of_sums(self, job: int, account: Account) -> Iterator[str]:
        """The row of the table against what the intervals add up to."""
        row, stays = self.rows[job], self.of_job[job]
        begun = [
            stay
            for before, stay in zip([None, *stays], stays, strict=False)
            if before is None or before.end not in GOES_ON
        ]
        held_s = math.fsum(stay.end_s - stay.start_s for stay in stays)
        own: dict[str, float | None] = {
            "start_s": stays[0].start_s if stays else None,
            "run_s": held_s,
            "service_gpu_s": math.fsum(
                (stay.end_s - stay.start_s) * len(stay.devices) * stay.share for stay in stays
            ),
            "starts": len(begun),
            "preemptions": sum(stay.end == "preempted" for stay in stays),
            "migrations": sum(stay.end == "migrated" for stay in stays),
            "resizes": sum(stay.end == "resized" for stay in stays),
            "failures": sum(stay.end == "failed" for stay in stays),
            "submit_s": self.jobs.submit_s.item(job),
        }
        if not self.is_unclear(job):
            own["overhead_s"] = account.overhead_s
            own["lost_s"] = account.lost_s
            if row["state"] == "FAILED" and stays and stays[-1].end == "failed":
                own["lost_s"] -= account.lost_at_last  # nobody does that again
        if row["finish_s"] is not None:
            own["waiting_s"] = row["finish_s"] - self.jobs.submit_s.item(job) - held_s
        begin_s, befores = self.begin_s(job), self.jobs.after.get(job, ())
        if befores or not math.isnan(self.trace.truth.held_s.item(job)):
            own["eligible_s"] = begin_s if begin_s < math.inf else None
        for column, value in own.items():
            said = row[column]
            same = (
                said is value
                if said is None or value is None
                else abs(said - value) <= NEAR * (1 + len(stays))
            )
            if not same:
                yield f"{self.name(job)}: {column} is {said}, adds up to {value}"

    def _of_state(self, job: int, account: Account) -> Iterator[str]:
        row, stays, who = self.rows[job], self.of_job[job], self.name(job)
        state, last = row["state"], stays[-1] if stays else None
        word = {"COMPLETED": "finished", "FAILED": "failed", "CANCELLED": "cancelled"}.get(state)
        if state == "REJECTED" and stays:
            yield f"{who}: refused, and held something"
        if state == "RUNNING":
            yield f"{who}: runs when the run is over"
        if word is not None and state != "CANCELLED" and (last is None or last.end != word):
            yield f"{who}: {state}, and its last interval {last}"
        if word is not None and last is not None and last.end == word and row["finish_s"] != last.end_s:
            yield f"{who}: finish {row['finish_s']}, last held something at {last.end_s}"
        if word is None and last is not None and last.end not in WAITS_AGAIN:
            yield f"{who}: {state}, and its last interval ended {last.end}"
        is_own = self.trace.truth.outcome.item(job) == Outcome.CANCELLED or bool(row["why"])
        if state == "CANCELLED" and not is_own and self.jobs.group_rule.item(job) != GroupRule.FIRST:
            yield f"{who}: cancelled by nobody"

    # -- failures and groups ---------------------------------------------------------------------------

    def _of_retries(self) -> Iterator[str]:
        """After each failure: given up or not, and when the next attempt began."""
        expected = NaiveRetries(self.trace, self.rules.retries)
        moments = sorted(
            (stay.end_s, stay.job, place)
            for job, stays in enumerate(self.of_job)
            for place, stay in enumerate(stays)
            if stay.end in {"failed", "finished", "cancelled"}
        )
        for moment, job, place in moments:
            stay, runs = self.of_job[job][place], self.trace.truth.failures.get(job, ())
            if self.is_timed_out(stay):
                continue
            if stay.end != "failed" or expected.failed[job] >= len(runs):
                if not (stay.end == "cancelled" and self._is_stopped(stay)):
                    expected.end(job, stay.end == "failed")
                continue
            pause_s, rest = expected.fail(job), self.of_job[job][place + 1 :]
            who, is_last = f"{self.name(job)} after its failure at {moment:g} s", not rest
            if pause_s is None and (rest or self.rows[job]["state"] != "FAILED"):
                yield f"{who}: is to be given up, is {self.rows[job]['state']}"
            if pause_s is not None and is_last and self.rows[job]["state"] == "FAILED":
                yield f"{who}: is to be tried again after {pause_s:g} s"
            if pause_s is not None and rest and rest[0].start_s < moment + pause_s - NEAR:
                yield f"{who}: is to pause {pause_s:g} s, starts at {rest[0].start_s:g} s"

    def _of_groups(self) -> Iterator[str]:
        """The first of a group to complete ends the others that are there."""
        jobs = self.jobs
        members = defaultdict[int, list[int]](list)
        for job, group in enumerate(jobs.group.tolist()):
            if group >= 0 and jobs.group_rule.item(job) == GroupRule.FIRST:
                members[group].append(job)
        for group in members.values():
            ends = [self.rows[job]["finish_s"] for job in group if self.rows[job]["state"] == "COMPLETED"]
            for job in group:
                row = self.rows[job]
                finish_s = math.inf if row["finish_s"] is None else row["finish_s"]
                over = [end for end in ends if row["submit_s"] < end < finish_s]
                if over and row["state"] != "REJECTED":
                    yield f"{self.name(job)}: there after another of its group completed at {min(over):g} s"
                is_own = self.trace.truth.outcome.item(job) == Outcome.CANCELLED or bool(row["why"])
                if row["state"] == "CANCELLED" and finish_s not in ends and not is_own:
                    yield f"{self.name(job)}: cancelled when nobody of its group completed"


class NaiveRetries:
    """How often who is tried again: the table of docs/systems/philly.md, looked up in all that has been."""

    def __init__(self, trace: Trace, said: str) -> None:
        self.trace = trace
        self.adaptive, self.most = said == "adaptive", math.inf
        if said and not self.adaptive:
            self.most = int(said)
        self.failed: dict[int, int] = defaultdict(int)
        self.tries: list[tuple[str, int, str, str | None]] = []
        """User, job, what an attempt failed of, and what the next one did: None is that it did not fail."""

    def user(self, job: int) -> str:
        return self.trace.jobs.name_of("tenant", job)

    def signature(self, job: int, attempt: int) -> str:
        names = self.trace.truth.signatures.get(job, ())
        return names[attempt] if attempt < len(names) else ""

    @staticmethod
    def kind(signature: str) -> str:
        if signature in INFRASTRUCTURE:
            return "infrastructure"
        return "unknown" if signature in {"", "no signature"} else "user"

    def note(self, job: int, attempt: int, then: str | None) -> None:
        self.tries.append((self.user(job), job, self.signature(job, attempt), then))

    def end(self, job: int, in_vain: bool) -> None:
        """The last attempt has ended as the trace says."""
        failed = self.failed[job]
        if failed:
            self.note(job, failed - 1, self.signature(job, failed) if in_vain else None)

    def fail(self, job: int) -> float | None:
        """One more attempt has failed: seconds until the next may begin; None if there is none."""
        attempt = self.failed[job]
        self.failed[job] += 1
        names = [self.signature(job, n) for n in range(attempt + 1)]
        if not self.adaptive:
            return 0.0 if attempt + 1 <= self.most else None
        if attempt:
            self.note(job, attempt - 1, names[-1])
        last = names[-1]
        if self.is_vain(job, last) or (last and names[-3:] == [last] * 3):
            return None
        if last == "incorrect inputs":
            return 0.0 if names.count(last) <= 1 else None
        alike = [s for s in names if self.kind(s) == self.kind(last) and s != "incorrect inputs"]
        if len(alike) > {"user": 0, "unknown": 1, "infrastructure": 5}[self.kind(last)]:
            return None
        return 60.0 * 2 ** (len(alike) - 1) if self.kind(last) == "infrastructure" else 0.0

    def is_vain(self, job: int, signature: str) -> bool:
        """True if a retry did not cure it for three other jobs of the user, or for three other users."""
        if not signature or self.kind(signature) == "infrastructure":
            return False
        told = [one for one in self.tries if one[2] == signature and one[3] != ""]
        cured = {user for user, _, _, then in told if then != signature}
        vain = [(user, other) for user, other, _, then in told if then == signature]
        user = self.user(job)
        if user in cured:
            return False
        own = {other for owner, other in vain if owner == user and other != job}
        strangers = {owner for owner, _ in vain if owner != user}
        return len(own) >= 3 or (not cured and len(strangers) >= 3)


def of_policies(name: str) -> Mapping[str, bool]:
    """What the policy `name` may do that the tables do not show."""
    base = name.partition(":")[0]
    inner = "gandiva" in name
    return {"in_memory": inner, "measures": base == "prerun" or "profile_nodes" in name}
