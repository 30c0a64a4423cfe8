"""The terminal table against golden files; ROTA_BLESS=1 rewrites them."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from report_toys import four_policies, record

import rota
from rota.errors import InputError
from rota.model.record import Record
from rota.reports.calibration import calibration
from rota.reports.compare import compare
from rota.reports.comparison_table import comparison_text
from rota.reports.summary import summarise
from rota.reports.window import parse_window
from rota.reports.wording import change_words, factor_words
from rota.traces.registry import find
from rota.traces.source import TraceSource

GOLDEN = Path(__file__).parent / "golden"


def runs() -> list[Record]:
    return four_policies(120, (8,) * 4, span_s=86_400.0, mean_s=7200.0)


def seeds() -> list[Record]:
    return [
        r
        for seed in (1, 2, 3)
        for r in four_policies(60, (8,) * 4, span_s=43_200.0, mean_s=7200.0, seed=seed)
    ]


def with_observed() -> list[Record]:
    fifo, *rest = runs()
    observed = replace(fifo, policy="observed", observed=True)
    return [observed, *rest]


def cut_short() -> list[Record]:
    """The second policy leaves a job running and rejects one."""
    first, second, *_ = runs()
    lost = {5: "RUNNING", 7: "REJECTED"}
    row = pl.col("job")
    jobs = second.jobs.with_columns(
        state=row.replace_strict(lost, default=pl.col("state")),
        finish_s=pl.when(~row.is_in(list(lost))).then("finish_s"),
    )
    return [first, replace(second, jobs=jobs)]


CASES = {
    "wide": (runs, 150, None, None),
    "medium": (runs, 100, "sjf", None),
    "narrow": (runs, 50, None, None),
    "window": (runs, 100, None, "10%:90%"),
    "seeds": (seeds, 150, None, None),
    "observed": (with_observed, 120, None, None),
    "cut_short": (cut_short, 120, None, None),
}


@pytest.mark.parametrize("name", CASES)
def test_table(name: str) -> None:
    make, width, baseline, window = CASES[name]
    records = make()
    parsed = parse_window(window) if window else None
    comparison = compare([summarise(record, parsed) for record in records], baseline)
    line = calibration(records, "sjf") if name == "observed" else None
    text = comparison_text(comparison, width, line)
    golden = GOLDEN / f"table_{name}.txt"
    if os.environ.get("ROTA_BLESS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= width


def test_who_finished_less_is_not_the_best() -> None:
    """Leaving out a job lowers the mean of those left; that wins no prize."""
    comparison = compare([summarise(record) for record in cut_short()])
    first, second = comparison.lines
    assert second.cells["mean_jct_s"].value < first.cells["mean_jct_s"].value
    assert second.partial
    assert not any(cell.best for cell in second.cells.values())


def test_bounds_stand_beside_the_policies() -> None:
    """A bound beats everybody: it takes no star, no policy loses one to it, and it is no default baseline."""
    first, second, *_ = runs()
    bound = replace(second, policy="bound:srtf_relaxed")
    comparison = compare([summarise(record) for record in (bound, first, second)])
    of = {line.policy: line for line in comparison.lines}
    assert comparison.baseline == first.policy
    assert [line.policy for line in comparison.contenders] == [first.policy, second.policy]
    assert not any(cell.best for cell in of[bound.policy].cells.values())
    names = (first.policy, second.policy)
    stars = [{key for key, cell in of[name].cells.items() if cell.best} for name in names]
    alone = compare([summarise(record) for record in (first, second)])
    assert stars == [{key for key, cell in line.cells.items() if cell.best} for line in alone.lines]
    assert "Bounds are not ranked." in comparison_text(comparison, 150)
    assert "Bounds" not in comparison_text(alone, 150)


@pytest.mark.parametrize(
    ("ratio", "short", "sentence"),
    [
        # ratio  in a table       in a sentence
        (None, "–", "–"),
        (0.0, "−100%", "100% shorter"),
        (0.0036, "280x shorter", "280x shorter"),
        (0.07, "14x shorter", "14x shorter"),
        (0.12, "−88%", "8.3x shorter"),
        (0.62, "−38%", "38% shorter"),
        (0.958, "−4.2%", "4.2% shorter"),
        (1.0001, "same", "same"),
        (1.042, "+4.2%", "4.2% longer"),
        (2.61, "+161%", "2.6x longer"),
        (999.0, "1,000x longer", "1,000x longer"),
        (12345.0, "over 1,000x longer", "over 1,000x longer"),
        (1e-6, "over 1,000x shorter", "over 1,000x shorter"),
    ],
)
def test_changes_in_words(ratio: float | None, short: str, sentence: str) -> None:
    assert (change_words(ratio), factor_words(ratio)) == (short, sentence)


def test_changes_of_amounts_are_less_or_more() -> None:
    assert (change_words(0.01, "gpu_s"), factor_words(3.0, "times")) == ("100x less", "3x more")


def test_nothing_is_a_multiple_of_residue() -> None:
    """A wait of a nanosecond is none; whatever it is compared with."""
    tiny, much = (
        record([{"submit_s": 0.0, "start_s": 0.0, "finish_s": 9.0, "waiting_s": s, "gpus": 1}], policy=name)
        for name, s in (("tiny", 1e-9), ("much", 60.0))
    )
    text = comparison_text(compare([summarise(much), summarise(tiny)]), 150)
    assert "0s −100%" in text
    assert "x longer" not in comparison_text(compare([summarise(tiny), summarise(much)]), 150)


def test_an_unknown_baseline_is_named() -> None:
    with pytest.raises(InputError, match=r"'nosuch'.*expected one of fifo"):
        compare([summarise(runs()[0])], "nosuch")


def _run(policy: str, finish_s: float, observed: bool = False) -> Record:
    row = {"submit_s": 0.0, "start_s": 10.0, "finish_s": finish_s, "gpus": 8}
    interval = {"job": 0, "start_s": 10.0, "end_s": finish_s, "devices": list(range(8))}
    return record([row], [interval], policy=policy, observed=observed)


OBSERVED, SITE = _run("observed", 100.0, observed=True), _run("fifo", 110.0)
CALIBRATIONS = [
    # records            site     says
    ([OBSERVED, SITE], "fifo", "mean JCT 1m 50s against 1m 40s"),
    ([OBSERVED, SITE], None, "is not named"),
    ([OBSERVED, SITE], "las", "'las' was not simulated"),
    ([SITE], "fifo", "no recorded starts to compare with"),
]


# mean waiting of the replay, observed, and the verdict
@pytest.mark.parametrize(
    ("ours_s", "seen_s", "says"),
    [
        (0.0, 0.0, "waits about as long as your jobs did"),
        (55.0, 0.0, "waits about as long as your jobs did"),
        (900.0, 1000.0, "waits about as long as your jobs did"),
        (320.0, 1000.0, "waits 3.1x less than your jobs did, so what is gained over observed is overstated"),
        (700.0, 1000.0, "waits 30% less than your jobs did.* Try --cluster with the site's real nodes"),
        (0.0, 1000.0, "waits 100% less than your jobs did"),
        (3000.0, 1000.0, "waits 3x longer than your jobs did, .* Try a larger --cluster"),
        (3000.0, 0.0, "waits where your jobs did not"),
    ],
)
def test_the_verdict_of_a_calibration(ours_s: float, seen_s: float, says: str) -> None:
    row = {"submit_s": 0.0, "start_s": 10.0, "finish_s": 100.0, "gpus": 8}
    site = record([row | {"waiting_s": ours_s}], [], policy="fifo")
    happened = record([row | {"waiting_s": seen_s}], [], policy="observed", observed=True)
    assert re.search(says, calibration([happened, site], "fifo").text)


@pytest.mark.parametrize("policy", ["fifo", "fifo:skip=yes"])
@pytest.mark.parametrize("ours_s", [100.0, 9000.0])
def test_what_was_replayed_is_not_advised(policy: str, ours_s: float) -> None:
    row = {"submit_s": 0.0, "start_s": 10.0, "finish_s": 100.0, "gpus": 8}
    site = record([row | {"waiting_s": ours_s}], [], policy=policy)
    happened = record([row | {"waiting_s": 1000.0}], [], policy="observed", observed=True)
    assert f"--site-policy {policy}." not in calibration([happened, site], policy).text


def test_a_calibration_compares_the_jobs_that_really_ran() -> None:
    """Who gave up waiting at the site has no wait to compare that of the replay with."""
    ran = {"submit_s": 0.0, "start_s": 10.0, "finish_s": 100.0, "gpus": 8, "waiting_s": 100.0}
    gave_up = {"submit_s": 0.0, "state": "CANCELLED", "gpus": 8}
    waited = gave_up | {"start_s": 90_000.0, "finish_s": 90_000.0, "waiting_s": 90_000.0}
    happened = record([ran, gave_up], [], policy="observed", observed=True)
    site = record([ran, waited], [], policy="fifo")
    calibrated = calibration([happened, site], "fifo")
    assert calibrated.agrees
    assert calibrated.errors is not None
    assert calibrated.errors["mean_jct_s"] == 0


def test_nothing_is_calibrated_by_jobs_that_never_ended() -> None:
    """The replay is not to blame if the trace has starts alone: it finished its jobs."""
    row = {"submit_s": 0.0, "start_s": 10.0, "gpus": 8}
    happened = record([row | {"state": "RUNNING"}], [], policy="observed", observed=True)
    site = record([row | {"finish_s": 100.0, "waiting_s": 10.0}], [], policy="fifo")
    calibrated = calibration([happened, site], "fifo")
    assert calibrated.text.startswith("Uncalibrated: of no job is recorded")
    assert not calibrated.calibrated


@pytest.mark.parametrize(("records", "site", "says"), CALIBRATIONS)
def test_calibration(records: list[Record], site: str | None, says: str) -> None:
    found = calibration(records, site)
    assert found.calibrated == (says.startswith("mean"))
    assert re.search(says, found.text)
    if found.errors:
        assert found.errors["mean_jct_s"] == pytest.approx(0.1)


def test_one_policy_is_compared_with_nothing() -> None:
    alone = comparison_text(compare([summarise(record([], policy="fifo"))]), 100)
    assert "against" not in alone
    assert "*" not in alone


def test_changes_against_what_was_observed_are_over_the_jobs_it_knows() -> None:
    """Of one of three jobs no start is recorded: it makes the policy's mean, and no change."""
    trace = read_text_of("a,0,1,100,50\nb,0,1,100,50\nc,0,1,90000,\n")
    results = rota.simulate(trace, cluster="1x8", policies="fifo", site_policy="fifo")
    lines = {line.policy: line for line in results.comparison.lines}
    assert lines["fifo"].cells["mean_jct_s"].value == pytest.approx(90200 / 3)
    assert lines["observed"].cells["mean_jct_s"].value == 150
    assert lines["observed"].cells["mean_jct_s"].ratio == pytest.approx(1.5)
    assert "observed: its means, and changes between it and the policies, are over the 2 jobs" in " ".join(
        results.table(200).split()
    )
    assert any("When 1 of 3 jobs that ran did so is not recorded" in remark for remark in results.remarks)


def test_whole_observations_need_no_word() -> None:
    results = rota.simulate(
        read_text_of("a,0,1,100,50\nb,0,1,100,50\n"), cluster="1x8", policies="fifo", site_policy="fifo"
    )
    assert results.comparison.shared_jobs == 0
    assert "its means" not in results.table(200)


def read_text_of(rows: str) -> rota.Trace:
    text = f"job_id,submit_s,gpus,duration_s,start_s\n{rows}"
    source = TraceSource("jobs.csv", text.encode())
    return find(source, None).read(source)
