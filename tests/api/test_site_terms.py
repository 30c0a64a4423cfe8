"""A site's own history is replayed with predicted durations and stated costs, other traces with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rota

BARE = "job_id,submit_s,duration_s,gpus,limit_s\na,0,100,2,500\nb,10,50,4,500\nc,20,30,4,500\nd,25,300,1,\n"
SEEN = (
    "job_id,submit_s,start_s,duration_s,gpus,limit_s\na,0,0,100,2,500\nb,10,10,50,4,500\nc,20,100,30,4,500\n"
)
SWF = (
    "; Version: 2\n"
    "1 0 0 100 2 -1 -1 2 500 -1 1 1 1 1 1 1 -1 -1\n"
    "2 10 90 50 4 -1 -1 4 500 -1 1 1 1 1 1 1 -1 -1\n"
)
AT_COST = {"preemptions": "1m 10s", "migrations": "1m 10s", "resizes": "1m 10s", "restarts": "1m 10s"}
FREE = dict.fromkeys(AT_COST, "")


def terms(text: str, tmp_path: Path, name: str = "jobs.csv", **options: Any) -> tuple[str, dict[str, str]]:
    """Who told `srtf` durations, and what its stops cost."""
    (tmp_path / name).write_text(text)
    result = rota.simulate(tmp_path / name, cluster="1x4", policies=["srtf"], **options)
    provenance: Any = result["srtf"].provenance
    return provenance["knowledge"]["duration"], provenance["stops"]


@pytest.mark.parametrize(
    ("text", "name", "options", "expected"),
    [
        (SEEN, "jobs.csv", {}, ("predicted", AT_COST)),
        (SWF, "site.swf", {}, ("predicted", AT_COST)),
        (BARE, "jobs.csv", {}, ("oracle", FREE)),
        (SEEN, "jobs.csv", {"ideal": True}, ("oracle", FREE)),
        (SEEN, "jobs.csv", {"knowledge": "duration=oracle"}, ("oracle", AT_COST)),
        (SEEN, "jobs.csv", {"knowledge": "duration=user"}, ("user", AT_COST)),
        (SEEN, "jobs.csv", {"costs": ""}, ("predicted", FREE)),
        (SEEN, "jobs.csv", {"costs": "restore=5s"}, ("predicted", dict.fromkeys(AT_COST, "5s"))),
        (
            SEEN,
            "jobs.csv",
            {"ideal": True, "costs": "migrate=5s"},
            ("oracle", FREE | {"migrations": "5s", "resizes": "5s"}),
        ),
        (BARE, "jobs.csv", {"knowledge": "duration=predicted"}, ("predicted", FREE)),
    ],
)
def test_terms(
    text: str, name: str, options: dict[str, Any], expected: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    """By whether the trace recorded starts, and by what is said."""
    assert terms(text, tmp_path, name, **options) == expected


def test_what_is_taken_for_granted_is_said(tmp_path: Path) -> None:
    (tmp_path / "seen.csv").write_text(SEEN)
    result = rota.simulate(tmp_path / "seen.csv", cluster="1x4", policies=["srtf"])
    said = [one for one in result.remarks if "own history" in one]
    assert said == [
        "Recorded starts make this a site's own history: durations are predicted from earlier jobs of the "
        "same group or tenant, and a preemption costs 1m 10s (checkpoint=10s,restore=60s). --knowledge and "
        "--costs say otherwise; --ideal is true durations and free stops."
    ]
    told = "srtf was told durations predicted from earlier jobs of the same group or tenant"
    assert any(one.startswith(told) for one in result.terms)
    assert told in result.table()
    assert told in result._repr_html_()
    assert told in str(result.to_dict()["terms"])
    assert told in result.report(tmp_path / "out").read_text()
    ideal = rota.simulate(tmp_path / "seen.csv", cluster="1x4", policies=["srtf"], ideal=True)
    assert not [one for one in ideal.remarks if "own history" in one]


def test_the_sites_own_policy_is_told_what_users_stated(tmp_path: Path) -> None:
    """Also where it is named as one of the policies, which is not to change what the calibration says."""
    (tmp_path / "seen.csv").write_text(SEEN)
    easy = "fifo:backfill=easy"
    for policies in (["srtf"], ["srtf", easy]):
        result = rota.simulate(tmp_path / "seen.csv", cluster="1x4", policies=policies, site_policy=easy)
        assert result[easy].provenance["knowledge"] == {"duration": "user"}
        assert result["srtf"].provenance["knowledge"] == {"duration": "predicted"}


def test_a_run_is_repeated_from_its_record(tmp_path: Path) -> None:
    (tmp_path / "seen.csv").write_text(SEEN)
    for options in ({}, {"ideal": True}, {"costs": ""}):
        first = rota.simulate(tmp_path / "seen.csv", cluster="1x4", policies=["srtf"], **options)["srtf"]
        said: Any = first.provenance.get("options", {})
        again = rota.simulate(tmp_path / "seen.csv", cluster="1x4", policies=["srtf"], **said)["srtf"]
        assert again.provenance["stops"] == first.provenance["stops"]
        assert again.provenance["knowledge"] == first.provenance["knowledge"]
