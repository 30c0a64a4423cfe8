"""`rota figure`: a chart of runs in a folder as a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import rota
from rota.cli.app import app
from rota.reports.shown import DRAWINGS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = rota.generate(60, seed=1, load=0.9, cluster="1x8")
    folder = tmp_path_factory.mktemp("runs")
    rota.simulate(trace, cluster="1x8", policies=["fifo", "srtf"]).write(folder)
    return folder


def test_a_chart_for_a_paper(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    for ending, begins in ((".pdf", b"%PDF-"), (".png", b"\x89PNG"), (".svg", b"<svg")):
        path = tmp_path / f"jct{ending}"
        words = [
            "figure",
            str(folder),
            "completion",
            "--out",
            str(path),
            "--width",
            "84mm",
            "--style",
            "print",
        ]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert path.read_bytes().startswith(begins)


def test_the_part_that_is_looked_at_is_shaded_around(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "queue.svg"
    done = CliRunner().invoke(
        app, ["figure", str(folder), "queue", "--out", str(path), "--measure", "10%:90%"]
    )
    assert done.exit_code == 0, done.output
    assert 'class="unmeasured"' in path.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["waits", "--out", "a.svg"], f"there is no figure 'waits'; expected one of {', '.join(DRAWINGS)}"),
        (["nodes", "--out", "a.svg"], "nothing to draw for the figure 'nodes'"),
        (
            ["queue", "--out", "a.jpg"],
            "a.jpg: a figure cannot be written so; expected a name that ends in",
        ),
        (["queue", "--out", "a.svg", "--width", "wide"], "--width: 'wide' is not a length"),
        (["queue", "--out", "a.svg", "--height", "1"], "--height: 1 in is too small"),
        (
            ["queue", "--out", "a.svg", "--style", "neon"],
            "--style: 'neon' is no style; expected one of",
        ),
        (["queue", "--out", "a.png", "--dpi", "1"], "--dpi: 1 is too few"),
        (["queue"], "missing option '--out'"),
    ],
)
def test_what_is_refused(
    folder: Path, words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["figure", str(folder), *words])
    assert done.exit_code == 2
    assert told in done.output
    assert not list(tmp_path.iterdir())


def test_every_name_and_style_stands_in_the_help() -> None:
    said = CliRunner().invoke(app, ["figure", "--help"]).output
    assert all(name in said for name in DRAWINGS)
    assert all(style in said for style in ("light", "dark", "print"))
