"""docs/headlines.md is what its script would print, but for the figures that it measures."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rota.scheduler.policy import parse_policy, split_policies
from rota.traces import read
from shared_data import ROOT, needs_shared

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("headlines", BENCHMARKS / "headlines.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


def test_the_page_is_the_scripts(script: ModuleType) -> None:
    """Claims, notes, rows, commands and what cannot be shown are the script's; figures are the page's."""
    text = script.PAGE.read_text()
    found = script.sections(text)
    assert script.page(found) == text
    assert list(found) == [*(headline.id for headline in script.HEADLINES), "What the data cannot show"]
    for headline in script.HEADLINES:
        section = found[headline.id]
        assert section.startswith("\n".join(script.head(headline))), headline.id
        rows = re.findall(r"^\| (?!on )(.+?) \|", section, re.MULTILINE)
        assert rows == [setting.name for setting in headline.settings], headline.id
        typed = [command for setting in headline.settings for command in script.commands(headline, setting)]
        assert re.findall(r"^rota .*$", section, re.MULTILINE) == typed, headline.id


def test_verdicts_on_the_page_follow_from_its_factors(script: ModuleType) -> None:
    for headline in script.HEADLINES:
        section = script.sections(script.PAGE.read_text())[headline.id]
        rows = [line for line in section.splitlines() if re.match(r"\| (?!on )", line)]
        for line in rows:
            *_, factor, _, said = (cell.strip() for cell in line.strip("| ").split("|"))
            near = script.verdict(float(factor), headline.factor, headline.near)
            edge = abs(abs(float(factor) - 1) - script.SAME) < 0.006  # the page has two decimals
            assert said == near or edge, (headline.id, line)


@pytest.mark.parametrize(
    ("measured", "claimed", "near", "says"),
    [
        (2.4, 2.4, False, "yes"),
        (2.2, 2.4, False, "yes"),
        (1.5, 2.4, False, "yes, less"),
        (1.01, 2.4, False, "no difference"),
        (0.5, 2.4, False, "the other way round"),
        (1.5, 1.0, False, "yes"),
        (0.9, 1.0, True, "near, or better"),
        (0.5, 1.0, True, "not near"),
    ],
)
def test_verdicts(script: ModuleType, measured: float, claimed: float, near: bool, says: str) -> None:
    assert script.verdict(measured, claimed, near) == says


def test_every_policy_on_it_is_one(script: ModuleType) -> None:
    for headline in script.HEADLINES:
        if headline.id != script.RETRIES:
            specs = [str(parse_policy(name)) for name in split_policies(",".join(headline.policies))]
            assert specs == headline.policies, headline.id


@needs_shared
@pytest.mark.shared
def test_every_file_on_it_is_there_and_read(script: ModuleType, tmp_path: Path) -> None:
    files = {
        word.replace("$DATA", str(ROOT))
        for headline in script.HEADLINES
        for setting in headline.settings
        for word in shlex.split(setting.command)
        if word.startswith("$DATA")
    }
    traces = [file for file in files if "throughput" not in file]
    assert all(Path(file).is_file() for file in files)
    assert all(len(read(file)) > 50 for file in traces)


@needs_shared
@pytest.mark.shared
def test_files_that_are_made_are_read(script: ModuleType, tmp_path: Path) -> None:
    from rota.knowledge.pairs_file import read_pairs
    from rota.model.cluster_file import load_cluster

    script.prepare("pairs.csv pods.csv nodes.yaml", ROOT, tmp_path)
    assert len(read_pairs(tmp_path / "pairs.csv").pairs) > 100
    trace, cluster = read(tmp_path / "pods.csv"), load_cluster(tmp_path / "nodes.yaml")
    assert {trace.jobs.name_of("tenant", row) for row in range(len(trace))} <= {"gpu", "cpu", "memory"}
    assert (trace.jobs.gpu_share < 1).any()
    assert 1500 < cluster.gpus < 2600
