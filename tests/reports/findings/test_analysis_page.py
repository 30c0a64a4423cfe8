"""The page of an analysis: whole, self-contained, and safe."""

from __future__ import annotations

from test_studies import trace_of

from rota.reports.findings.page import render
from rota.reports.findings.studies import study


def test_page_says_all_findings_and_loads_nothing() -> None:
    name = "<script>alert(1)</script>"
    trace = trace_of(
        *((i, i + 30 * (i % 3), i + 500, 1 + i % 4) for i in range(60)),
        tenant=[i % 2 for i in range(60)],
        tenant_names=(name, "b"),
    )
    analysis = study(trace)
    page = render(analysis)
    assert all(finding.sentence.split("<")[0][:40] in page for finding in analysis.findings)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page
