"""Pages of the systems: each has one, its examples run, and whatever it names is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from play import finishes, play, starts
from rota.cli.app import app
from rota.cli.catalogue import entries
from rota.traces.generate import generate
from tiers import first

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "systems"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
IMPLEMENTED = {one.name: ROOT / one.page for one in entries() if one.page}
EXAMPLES = re.compile(
    r"^\| policy \| cluster \| jobs \| (ends|starts) \| why \|\n\|[-|]+\|\n((?:\|.*\|\n)+)", re.MULTILINE
)
OUTCOME = {"ends": finishes, "starts": starts}


def examples(text: str) -> list[tuple[str, list[str]]]:
    """Rows of the tables of examples in `text`, each with what its fourth column is about."""
    tables = EXAMPLES.findall(text)
    assert len(tables) == text.count("\n| policy | cluster | jobs |"), "a table that is not read"
    return [
        (about, [cell.strip().strip("`") for cell in line.strip("|").split(" | ")])
        for about, body in tables
        for line in body.splitlines()
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if EXAMPLES.search(page.read_text("utf-8"))], ids=lambda path: path.stem
)
def test_examples(page: Path) -> None:
    """Each row of a table of examples comes out as the page says; jobs it leaves out may end anywhere."""
    for about, (policy, cluster, jobs, outcome, why) in examples(page.read_text("utf-8")):
        said = {job: float(seconds) for job, seconds in re.findall(r"(\w+) ([\d.]+)", outcome)}
        assert said, "an example without an outcome"
        came = OUTCOME[about](play(policy, jobs, cluster))
        assert came == pytest.approx(came | said), f"{policy}: {jobs}: {why}"


def commands(text: str) -> list[str]:
    """The commands of the blocks of `text` that begin with the jobs they need."""
    blocks = re.findall(r"```sh\n(rota trace generate .*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


@pytest.mark.soak
@pytest.mark.parametrize("jobs", first(1, {"few jobs": 6, "as it stands": None}))
@pytest.mark.parametrize("name", sorted(IMPLEMENTED))
def test_commands(name: str, jobs: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of each page runs as it is printed, from the root of the sources, on files of its own."""
    text = IMPLEMENTED[name].read_text("utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for file, body in re.findall(r"```yaml\n# (\w+\.yaml): .*?\n(.*?)```", text, re.DOTALL):
        (tmp_path / file).write_text(body, "utf-8")
    monkeypatch.chdir(tmp_path)
    typed = commands(text)
    assert any(line.startswith("rota simulate ") for line in typed)
    for line in typed:
        words = line
        if jobs is not None:
            words = re.sub(r"--jobs \d+ --load [\d.]+", f"--jobs {jobs} --days 1", line)
            words = words.replace("--at 1d", "--at 1h").replace("--runs 10", "--runs 2")
            words = words.replace("rota simulate ", "rota simulate --workers 1 ")  # no process to be started
        done = CliRunner().invoke(app, shlex.split(words)[1:])
        assert done.exit_code == 0, f"{words}\n{done.output}"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "```yaml\n# cluster.yaml" in page.read_text("utf-8")],
    ids=lambda p: p.stem,
)
def test_tenants_of_an_example_have_jobs(page: Path) -> None:
    """Cells and quotas of tenants of whom the generated jobs are not would show nothing."""
    text = page.read_text("utf-8")
    body = re.findall(r"```yaml\n# cluster.yaml: .*?\n(.*?)```", text, re.DOTALL)[0]
    owners = set(re.findall(r"(?:- path|\bvc): \"?(\w+)", body))
    submitted = generate(400, seed=2, days=1).jobs
    assert owners
    assert owners <= {path.partition("/")[0] for path in submitted.tenant_names}


@pytest.mark.parametrize("name", IMPLEMENTED)
def test_every_system_has_a_page(name: str) -> None:
    """It links to the generated facts, and says what was checked and when the system is of use."""
    text = IMPLEMENTED[name].read_text("utf-8")
    assert f"(../systems.md#{name})" in text
    for heading in ("What it does", "Algorithm", "Worked examples", "Checked", "When to use it"):
        assert f"\n## {heading}\n" in text, heading


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_pages_say_what_is_not_implemented(page: Path) -> None:
    planned = "\n**Not implemented yet.**" in page.read_text("utf-8")
    assert planned == (page not in IMPLEMENTED.values())


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_named_tests_exist(page: Path) -> None:
    for file, function in re.findall(r"(tests/[\w/]+\.py)::(\w+)", page.read_text("utf-8")):
        assert f"def {function}(" in (ROOT / file).read_text("utf-8"), f"{file}::{function}"


def test_every_page_is_listed() -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (FOLDER / "README.md").read_text("utf-8"))
    assert sorted(listed) == [page.name for page in PAGES]


def test_references_lead_to_pages() -> None:
    """Heads of policies, pages and tests name no page of a system that is not there."""
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *ROOT.glob("*.md")]
    texts += (ROOT / "docs").rglob("*.md")
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts
        for name in re.findall(r"\bsystems/(?!NAME|index\.md)([\w-]+\.md)", path.read_text("utf-8"))
        if not (FOLDER / name).exists()
    }
    assert missing == set()
