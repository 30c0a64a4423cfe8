"""`benchmarks/estimates.py`: one sentence for what is typed wrongly, a line where nobody waits."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "estimates.py"
pytestmark = pytest.mark.slow


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *words], cwd=folder, capture_output=True, text=True)


def main() -> None:
    runpy.run_path(str(SCRIPT), run_name="__main__")


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    lines = ["submit_s,gpus,duration_s", *(f"{60 * n},1,10" for n in range(20))]
    (tmp_path / "jobs.csv").write_text("\n".join(lines) + "\n")
    return "jobs.csv"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nofile.csv=1x1", "nofile.csv: no such file"),
        ("jobs.csv", "'jobs.csv' names no cluster; expected TRACE=CLUSTER such as jobs.csv=12x8"),
        ("jobs.csv=1y1", "--cluster: '1y1' does not describe nodes"),
        ("jobs.csv=1x1 --policy nosuch", "there is no policy 'nosuch'"),
        ("jobs.csv=1x1 --moments 0", "--moments and --samples are 1 or more"),
        ("jobs.csv=1x1 --policy fifo --json none/x.json", "--json: "),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_wrong_words(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *words.split()])
    with pytest.raises(SystemExit, match=r"^2$"):
        main()
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"estimates.py: error: {sentence}")


@pytest.mark.soak
def test_nobody_waits(jobs: str, tmp_path: Path) -> None:
    done = run(f"{jobs}=1x1", "--policy", "fifo", "--moments", "3", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "jobs.csv on 1x1 under fifo: nobody waited at these moments\n"
