"""Runs on disk: what is written is what is read."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from report_toys import four_policies, record

from rota.errors import InputError
from rota.model.atomic import replacing
from rota.model.record import Record
from rota.reports.files import folder_name, load, save, write_results

NAMES = [
    # policy                          folder
    ("fifo", "fifo"),
    ("fifo:backfill=easy", "fifo~backfill=easy"),
    ("hived:vc=a/b", "hived~vc=a%2Fb"),
    ("a~b", "a%7Eb"),
    ("fifo,las+srtf", "fifo,las+srtf"),
]


@pytest.mark.parametrize(("policy", "folder"), NAMES)
def test_folder_name(policy: str, folder: str) -> None:
    assert folder_name(policy) == folder


@pytest.mark.parametrize("policy", ["..", ".", "", "../../etc/passwd", "x" * 400, "a\0b", "é" * 80])
def test_folder_names_stay_inside_and_short(policy: str, tmp_path: Path) -> None:
    name = folder_name(policy)
    assert name
    assert (tmp_path / name).resolve().parent == tmp_path.resolve()
    assert len(name) <= 120
    (tmp_path / name).mkdir()


def test_different_policies_have_different_folders() -> None:
    policies = ["a:b", "a~b", "a%7Eb", "a/b", "a b", ".a", "%a", "a", "..a", "x" * 300, "x" * 301]
    assert len({folder_name(policy) for policy in policies}) == len(policies)


def _same(a: Record, b: Record) -> bool:
    facts = ("policy", "cluster", "engine_seconds", "decisions", "provenance", "counts", "observed")
    tables = a.jobs.equals(b.jobs) and a.intervals.equals(b.intervals)
    return tables and all(getattr(a, name) == getattr(b, name) for name in facts)


def test_round_trip_in_order(tmp_path: Path) -> None:
    runs = four_policies(40, (8,) * 4, span_s=40_000.0, mean_s=3000.0)[::-1]
    runs[0] = replace(runs[0], observed=True, counts={"events": 17})
    write_results(runs, tmp_path, csv=True)
    back = load(tmp_path)
    assert [run.policy for run in back] == [run.policy for run in runs]
    assert all(_same(a, b) for a, b in zip(runs, back, strict=True))
    assert sorted(path.name for path in (tmp_path / "sjf").iterdir()) == [
        "intervals.csv",
        "intervals.parquet",
        "jobs.csv",
        "jobs.parquet",
        "summary.json",
    ]
    assert (tmp_path / "report.html").is_file()
    assert not list(tmp_path.rglob("*.part"))


def test_seeds_of_one_policy_do_not_overwrite_each_other(tmp_path: Path) -> None:
    run = record([{"submit_s": 0.0, "gpus": 1, "state": "PENDING"}])
    runs = [replace(run, provenance={"seed": seed}) for seed in (1, 2, 2)]
    folders = write_results(runs, tmp_path)
    assert [folder.name for folder in folders] == ["fifo~seed=1", "fifo~seed=2", "fifo~seed=2#2"]
    assert len(load(tmp_path)) == 3


def test_summary_is_strict_json(tmp_path: Path) -> None:
    save(replace(record([]), engine_seconds=float("nan")), tmp_path)
    text = (tmp_path / "summary.json").read_text()

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    assert json.loads(text, parse_constant=refuse)["mean_jct_s"] is None


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as partial:
            partial.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_full_disk_is_an_error_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer of tables has errors of its own; the command line knows those of files."""

    def full(*_: object, **__: object) -> None:
        raise pl.exceptions.ComputeError("No space left on device (os error 28)")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(OSError, match=r"jobs\.parquet: cannot be written \(No space left on device"):
        save(record([]), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fails", ["policy2/jobs.parquet", "policy2/summary.json", "report.html"])
@pytest.mark.parametrize("there", [False, True])
def test_what_cannot_be_written_whole_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, there: bool
) -> None:
    """Results of before are kept, new ones leave nothing; the sentence names the file that found no room."""
    folder = tmp_path / "out"
    records = [replace(record([]), policy=name) for name in ("policy1", "policy2")]
    if there:
        write_results([replace(one, decisions=7) for one in records], folder)
    before = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    write = Path.write_text

    def full(path: Path, *_: object, **__: object) -> int:
        if fails.rpartition("/")[2] in path.name and fails.rpartition("/")[0] in str(path.parent):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, *_, **__)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", lambda _, path: full(path, "table"))
    with pytest.raises(OSError, match="No space left") as caught:
        write_results(records, folder)
    assert caught.value.filename == str(folder / fails)
    assert {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()} == before
    assert folder.exists() == there


def test_files_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """They do not know when jobs were eligible to start."""
    save(record([{"submit_s": 0.0, "gpus": 1, "state": "PENDING"}]), tmp_path)
    path = tmp_path / "jobs.parquet"
    pl.read_parquet(path).drop("eligible_s").write_parquet(path)
    assert load(tmp_path)[0].jobs["eligible_s"].to_list() == [None]


BROKEN = [
    # what is done to the folder                                             the message
    (lambda d: (d / "summary.json").unlink(), "no results here"),
    (lambda d: (d / "summary.json").write_text("{}"), "not a summary of a run"),
    (lambda d: (d / "summary.json").write_text("{"), "not a summary of a run"),
    (lambda d: (d / "jobs.parquet").unlink(), "jobs.parquet: cannot be read"),
    (lambda d: (d / "jobs.parquet").write_text("x"), "jobs.parquet: cannot be read"),
    (lambda d: pl.DataFrame({"job": [1]}).write_parquet(d / "jobs.parquet"), "column 'job_id': is missing"),
]


@pytest.mark.parametrize(("spoil", "message"), BROKEN)
def test_a_broken_folder_is_named(spoil, message, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    save(record([]), tmp_path)
    spoil(tmp_path)
    with pytest.raises(InputError, match=message):
        load(tmp_path)
