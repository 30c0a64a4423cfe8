"""Metrics have the names, units and labels that a newcomer expects, and no job has a line of its own."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from rota.server.metrics import Gauges, Metrics

LABELS = {"tenant", "node", "state", "outcome", "reason", "method", "route", "status", "le"}


def page(metrics: Metrics, now: Gauges | None = None) -> dict[tuple[str, str], float]:
    """Sample by name and labels."""
    text = metrics.exposition(now or Gauges()).decode()
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_counters_and_histograms() -> None:
    metrics = Metrics()
    metrics.decisions.labels("applied").inc()
    metrics.decision_seconds.observe(0.003)
    metrics.submit_to_start_seconds.observe(0.12)
    metrics.preemptions.labels("priority").inc(2)
    metrics.attempts_lost.inc()
    metrics.requests.labels("GET", "/v1/jobs", "200").inc()
    samples = page(metrics)
    assert samples["rota_decisions_total", "applied"] == 1
    assert samples["rota_decision_seconds_bucket", "0.0025"] == 0
    assert samples["rota_decision_seconds_bucket", "0.005"] == 1
    assert samples["rota_submit_to_start_seconds_sum", ""] == 0.12
    assert samples["rota_preemptions_total", "priority"] == 2
    assert samples["rota_attempts_lost_total", ""] == 1
    assert samples["rota_api_requests_total", "GET,/v1/jobs,200"] == 1


def test_gauges() -> None:
    now = Gauges(
        pending={"vision": 3, 'a"b\n': 1},
        running={"vision": 1},
        suspended={},
        gpus=8,
        gpus_allocated=1.5,
        nodes={"up": 2},
        disk_free_bytes={"n0": 7 * 2**30},
        kept_bytes={"n0": 5},
    )
    samples = page(Metrics(), now)
    assert samples["rota_pending_jobs", "vision"] == 3
    assert samples["rota_pending_jobs", 'a"b\n'] == 1
    assert samples["rota_running_jobs", "vision"] == 1
    assert (samples["rota_gpus", ""], samples["rota_gpus_allocated", ""]) == (8, 1.5)
    assert samples["rota_nodes", "up"] == 2
    assert (samples["rota_disk_free_bytes", "n0"], samples["rota_kept_bytes", "n0"]) == (7 * 2**30, 5)


def test_names() -> None:
    """All begin with rota_, have help, and end in a base unit where they have one."""
    text = Metrics().exposition(Gauges()).decode()
    families = list(text_string_to_metric_families(text))
    assert len(families) >= 13
    for family in families:
        assert family.name.startswith("rota_")
        assert family.documentation.endswith(".") or family.name.endswith("_created")
        assert not any(word in family.name for word in ("milli", "_ms", "_mib", "_minutes"))
        assert family.type != "histogram" or family.name.endswith("_seconds")
        assert {label for sample in family.samples for label in sample.labels} <= LABELS


def test_each_has_its_own_registry() -> None:
    one, other = Metrics(), Metrics()
    one.attempts_lost.inc()
    assert page(one)["rota_attempts_lost_total", ""] == 1
    assert page(other)["rota_attempts_lost_total", ""] == 0
