"""What Prometheus reads: counters and histograms of this process, gauges taken when it asks.

Names are `rota_…` in base units.  Jobs appear by tenant, never one by one.  Every object has a registry of
its own, so that several controllers in one process (tests) do not mix.  Any thread may call any method.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST
DECISION_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
START_S = (
    0.05,
    0.1,
    0.15,
    0.25,
    0.5,
    1,
    5,
    15,
    60,
    300,
    900,
    3600,
    4 * 3600,
    12 * 3600,
    24 * 3600,
    72 * 3600,
)
REQUEST_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0)


@dataclass(frozen=True, slots=True)
class Gauges:
    """Present values for the metrics page; jobs are counted by tenant."""

    pending: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    suspended: dict[str, int] = field(default_factory=dict)
    gpus: float = 0.0
    gpus_allocated: float = 0.0
    nodes: dict[str, int] = field(default_factory=dict)
    """By state: up, drained, draining, lost."""
    disk_free_bytes: dict[str, int] = field(default_factory=dict)
    """Of the disk with its agent's folder, by node."""
    kept_bytes: dict[str, int] = field(default_factory=dict)
    """What ended jobs take there, by node."""


class Metrics:
    """Counters and histograms that the controller keeps; lost when it restarts, as Prometheus expects."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        own = self.registry
        self.decisions = Counter(
            "rota_decisions", "Decisions by what became of them.", ["outcome"], registry=own
        )
        """`outcome`: applied, late, failed, refused."""
        self.decision_seconds = Histogram(
            "rota_decision_seconds",
            "From asking the policy to its decision.",
            buckets=DECISION_S,
            registry=own,
        )
        self.submit_to_start_seconds = Histogram(
            "rota_submit_to_start_seconds",
            "From the submission of a job to its first process.",
            buckets=START_S,
            registry=own,
        )
        self.preemptions = Counter(
            "rota_preemptions", "Running jobs that had to give up devices.", ["reason"], registry=own
        )
        self.attempts_lost = Counter(
            "rota_attempts_lost", "Attempts that ended by the infrastructure's fault.", registry=own
        )
        self.requests = Counter(
            "rota_api_requests", "Answered calls of the API.", ["method", "route", "status"], registry=own
        )
        self.request_seconds = Histogram(
            "rota_api_request_seconds",
            "From a call to its answer, waiting on purpose included.",
            ["route"],
            buckets=REQUEST_S,
            registry=own,
        )

        self._answers: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def answered(self, method: str, route: str, status: int, took_s: float) -> None:
        """A call was answered; `route` is as the API's description has it."""
        key = method, route, status
        known = self._answers.get(key)
        if known is None:
            counter, histogram = (
                self.requests.labels(method, route, str(status)),
                self.request_seconds.labels(route),
            )
            known = self._answers[key] = counter, histogram
        known[0].inc()
        known[1].observe(took_s)

    def exposition(self, now: Gauges) -> bytes:
        """The page, with `now` as its gauges; of type `CONTENT_TYPE`."""
        return generate_latest(_Page(self.registry, now))


class _Page(Collector):
    """The registry's metrics, then the gauges of one moment."""

    def __init__(self, registry: CollectorRegistry, now: Gauges) -> None:
        self._registry = registry
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Everything on the page."""
        yield from self._registry.collect()
        now = self._now
        for state, by_tenant in (
            ("pending", now.pending),
            ("running", now.running),
            ("suspended", now.suspended),
        ):
            jobs = GaugeMetricFamily(f"rota_{state}_jobs", f"Jobs that are {state}.", labels=["tenant"])
            for tenant, count in sorted(by_tenant.items()):
                jobs.add_metric([tenant], count)
            yield jobs
        nodes = GaugeMetricFamily("rota_nodes", "Nodes by state.", labels=["state"])
        for state, count in sorted(now.nodes.items()):
            nodes.add_metric([state], count)
        yield nodes
        for name, help, by_node in (
            ("rota_disk_free_bytes", "Free on the disk of the node's agent.", now.disk_free_bytes),
            ("rota_kept_bytes", "What ended jobs take of that disk.", now.kept_bytes),
        ):
            disks = GaugeMetricFamily(name, help, labels=["node"])
            for node, size in sorted(by_node.items()):
                disks.add_metric([node], size)
            yield disks
        yield GaugeMetricFamily("rota_gpus", "Devices of the cluster.", value=now.gpus)
        yield GaugeMetricFamily("rota_gpus_allocated", "Devices granted to jobs.", value=now.gpus_allocated)
