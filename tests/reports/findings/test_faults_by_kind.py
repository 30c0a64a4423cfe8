"""Faults of one kind stand together, and go out as a table and as a text for each user."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from test_planted_faults import trace_of

from rota.reports.finding import LIKELY, SURE, Bar, Finding, NamedJob
from rota.reports.findings import fault_files
from rota.reports.findings.faults import IN_FULL, grouped
from rota.reports.findings.page import render
from rota.reports.findings.studies import Analysis, study
from sacct_site import FAULTS, Site, dump


def named_job(number: int) -> NamedJob:
    return NamedJob(str(number), "train", "gpu", "2026-03-02 10:00", 2, 7200.0, 4.0, "completed")


def idle(name: str, jobs: int = 2, certainty: str = SURE) -> Finding:
    return Finding(
        *("idle_user", "utilisation", f"{name} held GPUs that did nothing.", 4.0 * jobs, "GPU-hours"),
        fault=True,
        subject=name,
        user=name,
        certainty=certainty,
        evidence="memory was taken",
        bar=Bar(name, (4.0 * jobs, 1.0), "most"),
        jobs=tuple(named_job(i) for i in range(jobs)),
        note="Idle: below the threshold.",
    )


MANY = [idle(f"grp/u{i:02d}", 40 - i, LIKELY if i % 2 else SURE) for i in range(31)]


@pytest.fixture(scope="module")
def site() -> Analysis:
    return study(trace_of(dump(3, FAULTS, Site(jobs=350, days=6))))


def test_faults_stand_by_kind_with_one_figure(site: Analysis) -> None:
    (group,) = grouped(MANY)
    assert (len(group.worst), len(group.others)) == (IN_FULL, 21)
    assert group.summary.startswith(
        "31 findings (16 of them sure, the others likely): 40 jobs, 160 GPU-hours"
    )
    assert group.note == "Idle: below the threshold."
    assert group.figure is not None
    assert len(group.figure.rows) == 12
    assert [one.about.key for one in site.groups] == [
        "idle_user",
        "failing_array",
        "wrong_partition",
        "over_asked_limits",
    ]


def test_the_page_shows_the_worst_in_full_and_all_in_a_table(site: Analysis) -> None:
    page = render(replace(site, findings=tuple(MANY)))
    assert page.count("Idle GPU-hours by user") == 1
    assert page.count("held GPUs that did nothing.") == IN_FULL
    assert page.count("Idle: below the threshold.") == 1
    table = page.split('<table class="cards">')[1].split("</table>")[0]
    assert table.count("<tr>") == 1 + len(MANY)
    assert "findings.csv" in page
    assert "findings.csv" not in render(replace(site, findings=()))


def test_the_table_has_every_job_of_every_fault(site: Analysis) -> None:
    rows = list(csv.DictReader(io.StringIO(fault_files.csv_text(site.faults))))
    assert [row["subject"] for row in rows] == [one.subject for one in site.faults]
    for row, finding in zip(rows, site.faults, strict=True):
        assert row["job_ids"].split() == [job.id for job in finding.jobs]
        assert (row["user"], row["certainty"], int(row["jobs"])) == (
            finding.user,
            finding.certainty,
            len(finding.jobs),
        )


def test_each_user_has_a_text_that_is_ready_to_send(site: Analysis) -> None:
    texts = fault_files.texts(site.faults, "sacct.txt")
    assert set(texts) == {"nlp-idler.txt", "vision-carl.txt", "bio-wendy.txt", "bio-greta.txt"}
    by_user = {one.user: one for one in site.faults}
    for user, finding in by_user.items():
        text = texts[f"{user.replace('/', '-')}.txt"]
        assert text.startswith(f"{fault_files.HEAD}{user}\n")
        assert finding.sentence in text
        assert f"How sure this is: {finding.certainty}" in text
        lines = [line.split()[0] for line in text.splitlines() if line and line[0].isdigit() and "  " in line]
        assert lines == [job.id for job in finding.jobs]
        assert not any(other in text for other in by_user if other != user), "it names no other user"


def test_users_whose_names_make_one_file_name_have_two_files() -> None:
    texts = fault_files.texts([idle("a/b"), idle("a-b"), idle("../../etc/x"), idle("A b")], "s")
    assert len(texts) == 4
    assert not any("/" in name or name.startswith(".") for name in texts)


def test_texts_of_an_earlier_run_are_removed_and_nothing_else(tmp_path: Path) -> None:
    fault_files.write([idle("ann"), idle("bob")], "s", tmp_path)
    (tmp_path / "findings" / "mine.txt").write_text("notes\n")
    fault_files.write([idle("bob")], "s", tmp_path)
    assert sorted(path.name for path in (tmp_path / "findings").iterdir()) == ["bob.txt", "mine.txt"]
    fault_files.write([], "s", tmp_path / "findings")
    assert (tmp_path / "findings" / "findings.csv").read_text().count("\n") == 1


def test_a_cell_is_no_formula() -> None:
    (row,) = csv.DictReader(io.StringIO(fault_files.csv_text([idle("=cmd")])))
    assert row["user"] == "'=cmd"
