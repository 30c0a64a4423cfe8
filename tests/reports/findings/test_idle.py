"""No user is said to leave GPUs idle without evidence: what the counters of a job must say for that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_studies import trace_of

from rota.model.trace import Trace
from rota.reports.findings.studies import Analysis, study
from rota.reports.usage.busy import utilisation_of
from rota.reports.usage.gpu_hours import usage_of
from rota.reports.usage.of_trace import held_of
from rota.traces import read
from shared_data import ROOT, needs_shared

JOBS = 20
BUSY = {"gpu_utilisation": 1.6, "gpu_memory_gib": 30.0, "energy_j": 9e5, "cpu_s": 36000.0, "memory_gib": 9.0}
ZERO = {"gpu_utilisation": 0.0, "gpu_memory_gib": 0.0, "energy_j": 0.0, "cpu_s": 30000.0, "memory_gib": 8.0}


def site(**used: float) -> Trace:
    """Two users with twenty jobs of two GPUs and two hours each; each job of the second `used` that."""
    jobs = [(10000.0 * i, 10000.0 * i, 10000.0 * i + 7200, 2) for i in range(2 * JOBS)]
    trace = trace_of(*jobs, tenant=[i % 2 for i in range(2 * JOBS)], tenant_names=("ann", "bob"))
    usage = {id: dict(used if row % 2 else BUSY) for row, id in enumerate(trace.jobs.ids)}
    return replace(trace, facts={"usage": usage})


def accused(analysis: Analysis) -> dict[str, str]:
    return {one.subject: one.certainty for one in analysis.faults if one.key == "idle_user"}


def uncollected(analysis: Analysis) -> object:
    (finding,) = [one for one in analysis.findings if one.key == "use_not_collected"] or [None]
    return finding.numbers["by_user"] if finding is not None else {}


# what each of bob's jobs used, how sure it is that his GPUs idled, and for how many use was not collected
@pytest.mark.parametrize(
    ("used", "certainty", "unknown"),
    [
        pytest.param(ZERO, None, JOBS, id="all zero while the CPUs worked"),
        pytest.param(ZERO | {"energy_j": 9e5}, None, JOBS, id="the node's energy was metered"),
        pytest.param({"gpu_utilisation": 0.0}, None, JOBS, id="nothing else is known"),
        pytest.param({"gpu_utilisation": 0.0, "cpu_s": 0.0, "memory_gib": 0.0}, None, JOBS, id="nothing"),
        pytest.param(ZERO | {"gpu_memory_gib": 1.0, "cpu_s": 2.0}, "sure", 0, id="memory, no use, no CPU"),
        pytest.param(ZERO | {"gpu_memory_gib": 1.0}, "sure", 0, id="memory taken, no use"),
        pytest.param(ZERO | {"gpu_utilisation": 0.02}, "sure", 0, id="hardly any use"),
        pytest.param(ZERO | {"cpu_s": 2.0}, "likely", 0, id="neither GPUs nor CPUs did anything"),
        pytest.param({"gpu_utilisation": 0.0, "cpu_s": 2.0}, "likely", 0, id="use and CPU time alone"),
        pytest.param(BUSY, None, 0, id="busy"),
        pytest.param({"cpu_s": 30000.0}, None, 0, id="no figure of use at all"),
    ],
)
def test_what_is_evidence(used: dict[str, float], certainty: str | None, unknown: int) -> None:
    analysis = study(site(**used))
    assert accused(analysis) == ({"bob": certainty} if certainty else {})
    assert uncollected(analysis) == ({"bob": unknown} if unknown else {})


def test_use_that_was_not_collected_is_in_no_mean() -> None:
    """Ann's GPUs were busy 80 % of the time; of bob's nothing is known, in usage as well."""
    trace = site(**ZERO)
    busy, _ = utilisation_of(trace)
    assert busy[0] == pytest.approx(0.8)
    total = usage_of(held_of(trace)).total
    assert total.measured_gpu_hours == pytest.approx(total.gpu_hours / 2)
    assert total.idle_gpu_hours == pytest.approx(0.2 * total.gpu_hours / 2)


@needs_shared
def test_a_site_where_use_is_collected_for_some() -> None:
    analysis = study(read(ROOT / "inputs" / "usage_not_collected.sacct"))
    assert accused(analysis) == {"vis/u8": "sure"}
    assert uncollected(analysis) == {"bio/u7": 20}
    (finding,) = [one for one in analysis.findings if one.key == "use_not_collected"]
    assert finding.sentence.startswith("Use was not collected for 20 jobs of 1 user")
    assert "bio/u7 for 20 of 20" in finding.note
