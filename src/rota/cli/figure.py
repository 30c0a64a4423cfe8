"""The figure of the README: `python -m rota.cli.figure out/demo docs/figures/demo-jct.svg`."""

from __future__ import annotations

import sys
from pathlib import Path

from rota.model.atomic import replacing
from rota.reports.figures import figure_jct_cdf
from rota.reports.files import load


def write(results: Path, path: Path) -> None:
    """Draw the completion times of the runs in the folder `results` as an SVG file."""
    with replacing(path) as partial:
        partial.write_text(figure_jct_cdf(load(results)), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
