"""docs/analyze.md says what the code does, and its example prints what it shows."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from shell_play import rota

import rota as package
from rota.reports.findings.thresholds import Thresholds

PAGE = (Path(__file__).parents[2] / "docs" / "analyze.md").read_text(encoding="utf-8")
SOURCE = Path(package.__file__).parent / "reports" / "findings"


def test_every_threshold_stands_there_with_its_value() -> None:
    for one in fields(Thresholds):
        said = re.search(rf"`{one.name}`[^`|]*?([0-9.]+)", PAGE)
        assert said is not None, one.name
        assert float(said[1]) == one.default, one.name


def test_every_kind_of_finding_stands_there() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCE.glob("*.py"))
    keys = set(re.findall(r"[*]\(\"(\w+)\", STUDY", source)) | set(
        re.findall(r"Finding\(\"(\w+)\", STUDY", source)
    )
    assert len(keys) > 20
    assert {key for key in keys if f"`{key}`" not in PAGE} == set()


@pytest.mark.soak
def test_the_example_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = re.findall(r"^\$ rota (.*)\n((?:(?!\$ ).*\n)*)", example, re.MULTILINE)
    assert len(commands) == 2
    for words, shown in commands:
        assert rota(*words.split()).out.strip() == shown.strip()
