"""The numbers of a report once more, from docs/metrics.md: moment by moment and job by job."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from book_scenes import BookScene
from rota.model.record import Record
from rota.reports.sample import Sample
from rota.reports.summary import summarise
from rota.reports.waits import AGAIN, FIRST, HELD, split
from rota.reports.window import parse_window
from tiers import first

Row = dict[str, Any]


class NaiveReport:
    """One run, or a window of it; a stretch in which nothing changes is looked at once."""

    def __init__(self, record: Record, window: tuple[float, float] | None) -> None:
        self.all: list[Row] = list(record.jobs.iter_rows(named=True))
        self.stays: list[Row] = list(record.intervals.iter_rows(named=True))
        self.sizes: list[int] = list(record.cluster["node_gpus"])  # type: ignore[call-overload]
        submits = [job["submit_s"] for job in self.all]
        self.begin_s, self.end_s = window or self.span(submits)
        self.jobs = [job for job in self.all if self.begin_s <= job["submit_s"] <= self.end_s]
        self.over = [job for job in self.jobs if self.is_over(job)]

    def span(self, submits: list[float]) -> tuple[float, float]:
        """To the last submission, or over the whole run if that is sooner than the median job takes."""
        durations = [job["duration_s"] for job in self.all if job["duration_s"] is not None]
        if max(submits) - min(submits) > median(durations):
            return min(submits), max(submits)
        ends = [stay["end_s"] for stay in self.stays]
        ends += [job["finish_s"] for job in self.all if job["finish_s"] is not None]
        return min(submits), max([*submits, *ends])

    # -- moment by moment --------------------------------------------------------------------------

    def pieces(self) -> Iterator[tuple[float, float, list[Row]]]:
        """Begin, length, and who holds something, of each stretch in which nothing changes."""
        moments = {self.begin_s, self.end_s}
        for row in (*self.stays, *self.all):
            moments |= {
                row[name]
                for name in ("start_s", "end_s", "submit_s", "finish_s")
                if row.get(name) is not None
            }
        inside = sorted(moment for moment in moments if self.begin_s <= moment <= self.end_s)
        for start_s, end_s in pairwise(inside):
            yield (
                start_s,
                end_s - start_s,
                [s for s in self.stays if s["start_s"] <= start_s and end_s <= s["end_s"]],
            )

    def granted(self, held: list[Row]) -> float:
        """GPUs times shares; a device counts once at most."""
        claims: dict[int, float] = {}
        for stay in held:
            for device in stay["devices"]:
                claims[device] = claims.get(device, 0.0) + stay["share"]
        return sum(min(claim, 1.0) for claim in claims.values())

    def utilisation(self) -> float | None:
        there = sum(self.sizes) * (self.end_s - self.begin_s)
        used = math.fsum(length * self.granted(held) for _, length, held in self.pieces())
        return used / there if there else None

    def fragmentation(self) -> float | None:
        free_gpu_s = stranded_gpu_s = 0.0
        for start_s, length, held in self.pieces():
            holders = {stay["job"] for stay in held}
            if not any(self.waits(job, start_s, holders) for job in self.all):
                continue
            busy = {
                (node, device)
                for stay in held
                for node, device in zip(stay["nodes"], stay["devices"], strict=True)
            }
            for node, size in enumerate(self.sizes):
                here = sum(at == node for at, _ in busy)
                free_gpu_s += length * (size - here)
                stranded_gpu_s += length * (size - here) * (here > 0)
        return stranded_gpu_s / free_gpu_s if free_gpu_s else None

    @staticmethod
    def waits(job: Row, at_s: float, holders: set[int]) -> bool:
        finish_s = math.inf if job["finish_s"] is None else job["finish_s"]
        return job["state"] != "REJECTED" and job["submit_s"] <= at_s < finish_s and job["job"] not in holders

    def is_over(self, job: Row) -> bool:
        """It ran and ended; who was cancelled before there was work for it did not."""
        ended = job["start_s"] is not None and job["finish_s"] is not None
        return ended and (job["state"] != "CANCELLED" or self.of_stays(job)[0] > 0)

    # -- job by job --------------------------------------------------------------------------------

    def jct_s(self) -> list[float]:
        return [job["finish_s"] - job["submit_s"] for job in self.over]

    def of_stays(self, job: Row) -> tuple[float, float]:
        """Seconds in which it held something, and GPU-seconds."""
        mine = [stay for stay in self.stays if stay["job"] == job["job"]]
        seconds = [stay["end_s"] - stay["start_s"] for stay in mine]
        gpu_s = [s * len(stay["devices"]) * stay["share"] for s, stay in zip(seconds, mine, strict=True)]
        return math.fsum(seconds), math.fsum(gpu_s)

    def gpu_s(self, column: str) -> float:
        """Seconds of that column times the GPUs held on average."""
        total = 0.0
        for job in self.jobs:
            held_s, gpu_s = self.of_stays(job)
            total += job[column] * gpu_s / held_s if held_s else 0.0
        return total

    def slowdown(self) -> list[float]:
        return [
            max(jct / max(job["duration_s"], 10.0), 1.0)
            for job, jct in zip(self.over, self.jct_s(), strict=True)
        ]

    def rho(self) -> list[float]:
        tenants, gpus = len({job["tenant"] for job in self.jobs}), sum(self.sizes)
        return [
            jct / (job["duration_s"] * max(1.0, job["gpus"] * job["gpu_share"] * tenants / gpus))
            for job, jct in zip(self.over, self.jct_s(), strict=True)
            if job["gpus"] and job["duration_s"] > 0
        ]

    def rho_present(self) -> list[float]:
        """By the mean number of jobs there were in the life of each."""
        ratios, gpus = [], sum(self.sizes)
        for job, jct in zip(self.over, self.jct_s(), strict=True):
            if not job["gpus"] or not job["duration_s"]:
                continue
            lives = [
                (other["submit_s"], math.inf if other["finish_s"] is None else other["finish_s"])
                for other in self.all
            ]
            both = [max(0.0, min(end, job["finish_s"]) - max(begin, job["submit_s"])) for begin, end in lives]
            ratios.append(jct / (job["duration_s"] * max(1.0, math.fsum(both) / jct / gpus)))
        return ratios

    def values(self) -> dict[str, float | None]:
        granted = math.fsum(self.of_stays(job)[1] for job in self.jobs)
        wasted = self.gpu_s("overhead_s") + self.gpu_s("lost_s")
        states = [job["state"] for job in self.jobs]
        due = [job for job in self.jobs if job["deadline_s"] is not None]
        met = [job for job in due if job["state"] == "COMPLETED" and job["finish_s"] <= job["deadline_s"]]
        finishes, begins = ([job[name] for job in self.over] for name in ("finish_s", "submit_s"))
        return {
            "jobs": len(self.jobs),
            "finished": len(self.over),
            "failed": states.count("FAILED"),
            "cancelled": states.count("CANCELLED"),
            "rejected": states.count("REJECTED"),
            "unfinished": states.count("PENDING") + states.count("RUNNING"),
            "makespan_s": max(finishes) - min(begins) if self.over else None,
            "utilisation": self.utilisation(),
            "fragmentation": self.fragmentation(),
            "granted_gpu_s": granted,
            "overhead_gpu_s": self.gpu_s("overhead_s"),
            "lost_gpu_s": self.gpu_s("lost_s"),
            "goodput": (granted - wasted) / granted if granted else None,
            "failures": sum(stay["end"] == "failed" for stay in self.stays if self.counts(stay)),
            "preemptions": sum(stay["end"] == "preempted" for stay in self.stays if self.counts(stay)),
            "max_rho": max(self.rho(), default=None),
            "max_rho_present": max(self.rho_present(), default=None),
            "deadlines": len(due),
            "deadlines_met": len(met),
            **self.spread("jct_s", self.jct_s()),
            **self.spread("delay_s", [job["start_s"] - job["submit_s"] for job in self.over]),
            **self.spread(
                "waiting_s",
                [jct - self.of_stays(job)[0] for job, jct in zip(self.over, self.jct_s(), strict=True)],
            ),
            **self.spread("slowdown", self.slowdown()),
            **self.spread("rho", self.rho()),
        }

    def split(self) -> dict[str, float]:
        """Mean waiting while held, before the first start, and between two stays."""
        held = first_wait = again = 0.0
        for job in self.over:
            mine = sorted((s["start_s"], s["end_s"]) for s in self.stays if s["job"] == job["job"])
            eligible_s = job["submit_s"] if job["eligible_s"] is None else job["eligible_s"]
            held += eligible_s - job["submit_s"]
            first_wait += job["start_s"] - eligible_s
            again += math.fsum(later[0] - sooner[1] for sooner, later in pairwise(mine))
            again += job["finish_s"] - mine[-1][1]  # who is cancelled while it waits
        return {
            HELD: held / len(self.over),
            FIRST: first_wait / len(self.over),
            AGAIN: again / len(self.over),
        }

    def counts(self, stay: Row) -> bool:
        return any(job["job"] == stay["job"] for job in self.jobs)

    @staticmethod
    def spread(name: str, values: list[float]) -> dict[str, float | None]:
        """Mean and percentiles, linearly between ranks."""
        keys = [f"{which}_{name}" for which in ("mean", "p50", "p90", "p99")]
        if not values:
            return dict.fromkeys(keys)
        ordered, parts = sorted(values), list[float | None]()
        for part in (0.5, 0.9, 0.99):
            rank = part * (len(ordered) - 1)
            low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
            parts.append(low + (high - low) * (rank - math.floor(rank)))
        return dict(zip(keys, [math.fsum(values) / len(values), *parts], strict=True))


def are_near(one: float | None, other: float | None) -> bool:
    """The same but for rounding, or neither there."""
    return one is other if one is None or other is None else abs(one - other) <= 1e-5 + 1e-6 * abs(other)


@pytest.mark.parametrize("window", [None, "20%:80%"])
@pytest.mark.parametrize("policy", ["fifo:skip=yes", "tiresias:limits=60/300", "gandiva"])
@pytest.mark.parametrize("seeds", first(1, [range(4), range(4, 150)]), ids=str)
def test_every_number(policy: str, window: str | None, seeds: range) -> None:
    for seed in seeds:
        record = BookScene(seed, rich=seed % 2 == 1).play(policy)
        summary = summarise(record, parse_window(window) if window else None)
        edges = (summary.span.start_s, summary.span.end_s) if window else None
        expected = NaiveReport(record, edges).values()
        wrong = {key: (summary[key], own) for key, own in expected.items() if not are_near(summary[key], own)}
        assert wrong == {}, seed


@pytest.mark.parametrize("seeds", first(1, [range(6), range(6, 150)]), ids=str)
def test_every_part_of_the_waiting(seeds: range) -> None:
    for seed in seeds:
        record = BookScene(seed, rich=seed % 2 == 1).play("tiresias:limits=60/300")
        report = NaiveReport(record, None)
        if report.over:
            assert split(Sample.of(record)) == pytest.approx(report.split(), abs=1e-5), seed
