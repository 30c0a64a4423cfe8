"""Headline results of the papers that public data can show, and those that it cannot: docs/headlines.md.

    python benchmarks/headlines.py --data ../shared --write docs/headlines.md [--only tiresias-fifo,easy]

Each headline is a paper's comparison of two policies, on traces of other clusters.  Every figure comes from a
`rota` command that the page prints; $DATA is the folder of --data, and files without a folder are made by the
command before.  With --only the other headlines stay as the page has them.  A verdict compares the measured
factor with the claimed one (`verdict`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from headline_claims import CANNOT, HEADLINES, METRICS, RETRIES, Headline, Setting
from headline_files import prepare

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "headlines.md"
SAME = 0.02
"""Factors nearer to 1 than this are no difference."""
NEAR = 1 / 1.2
"""A factor of at least this is near."""
AS_LARGE = 0.9
"""A factor of at least this part of the claimed one is as large."""


def verdict(measured: float, claimed: float, near: bool = False) -> str:
    """The verdict of a measured factor on a claim; `near` claims are judged by `NEAR`."""
    if near:
        return "near, or better" if measured >= NEAR else "not near"
    if abs(measured - 1.0) <= SAME:
        return "no difference"
    if measured < 1.0:
        return "the other way round"
    if claimed == 1.0:
        return "yes"
    return "yes" if measured >= AS_LARGE * claimed else "yes, less"


# -- running ----------------------------------------------------------------------------------------


def commands(headline: Headline, setting: Setting) -> list[str]:
    """What is typed for one row, `rota` and $DATA included."""
    before = [f"rota {setting.before}"] if setting.before else []
    if headline.id == RETRIES:
        words = {"blind": "3", "adaptive": "adaptive"}
        return before + [
            f"rota simulate {setting.command} --policy philly --retries {words[name]}"
            for name in headline.policies
        ]
    names = ",".join(sorted(headline.policies))  # two headlines may look at one run
    return [*before, f"rota simulate {setting.command} --policy {names}"]


Runs = dict[str, tuple[list[Any], float]]
"""By commands: the runs in their results, and the seconds of CPU they took."""


def run(command: str, data: Path, folder: Path) -> dict[str, Any]:
    """The result of a `rota simulate`; empty for another command."""
    words = [word.replace("$DATA", str(data.absolute())) for word in shlex.split(command)[1:]]
    simulates = words[0] == "simulate"
    words += ["--json", "--workers", "1"] if simulates else []
    done = subprocess.run(
        [str(Path(sys.executable).parent / "rota"), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command}\n{done.stderr}")
    return json.loads(done.stdout) if simulates else {}


def results(headline: Headline, setting: Setting, data: Path, done: Runs) -> tuple[list[Any], float]:
    """What its commands gave, and the seconds of CPU they took; nothing runs twice."""
    typed = "\n".join(commands(headline, setting))
    if typed not in done:
        with tempfile.TemporaryDirectory() as folder:
            prepare(setting.command, data, Path(folder))
            began = _children_s()
            found = [run(command, data, Path(folder)) for command in typed.splitlines()]
            done[typed] = [one for result in found if result for one in result["runs"]], _children_s() - began
    return done[typed]


def means(headline: Headline, runs: list[Any]) -> list[float]:
    """The metric under each policy, in the order of `Headline.policies`."""
    if headline.id == RETRIES:
        return [float(one[headline.metric]) for one in runs]
    found = {one["policy"]: float(one[headline.metric]) for one in runs if not one["observed"]}
    return [found[name] for name in headline.policies]


def measured(headline: Headline, data: Path, done: Runs) -> list[str]:
    """The section of the page: claim, table, commands."""
    lines = head(headline)
    names = [f"`{name}`" for name in headline.policies]
    lines += [
        "| on | " + " | ".join(names) + " | factor | claimed | verdict |",
        "|---|" + "---:|" * (len(names) + 2) + "---|",
    ]
    total_s = 0.0
    for setting in headline.settings:
        runs, cpu_s = results(headline, setting, data, done)
        values, total_s = means(headline, runs), total_s + cpu_s
        factor = values[0] / values[1] if values[1] else float("inf")
        claimed = "—" if headline.factor == 1.0 else f"{headline.factor:g}"
        cells = [
            setting.name,
            *map(_hours, values),
            f"{factor:.2f}",
            claimed,
            verdict(factor, headline.factor, headline.near),
        ]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    typed = [command for setting in headline.settings for command in commands(headline, setting)]
    lines += ["", f"{total_s:.0f} s of CPU:", "", "```bash", *typed]
    return [*lines, "```", ""]


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:,.0f} h" if hours >= 1000 else f"{hours:.3g} h"


def head(headline: Headline) -> list[str]:
    """What the page says of a headline before it is measured."""
    lines = [
        f"## {headline.id}",
        "",
        f"{headline.paper}: {headline.claim}.  Compared: {METRICS[headline.metric]}.",
    ]
    return [*lines, *([headline.note] if headline.note else []), ""]


# -- the page ---------------------------------------------------------------------------------------

TITLE = """# Headline results

Which headline results of the papers do public traces show?  Each table makes a paper's comparison on other
clusters and jobs than the paper's.  The factor is the first figure divided by the second.

| verdict | factor |
|---|---|
| yes | at least nine tenths of the claim |
| yes, less | the same direction |
| no difference | less than 2 % |
| the other way round | the other direction |
| near, or better | within a fifth |

`make headlines` (`benchmarks/headlines.py`) prints this page and runs every command on it.  `DATA` is the
folder of the public traces; `headline_files.py` makes `pairs.csv`, `nodes.yaml` and `pods.csv` from them.
"""


def sections(text: str) -> dict[str, str]:
    """The sections of a page by their heading."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0].strip(): "## " + part for part in parts}


def overview(measurements: dict[str, str]) -> str:
    """A table of the verdicts of all headlines."""
    lines = ["| headline | claimed by | verdicts |", "|---|---|---|"]
    for headline in HEADLINES:
        rows = re.findall(r"^\| (?!on ).*\| ([^|]+) \|$", measurements[headline.id], re.MULTILINE)
        lines.append(f"| [{headline.id}](#{headline.id}) | {headline.paper} | {'; '.join(rows)} |")
    return "\n".join(lines) + "\n"


def page(measurements: dict[str, str]) -> str:
    """The page: verdicts, a section for each headline, and what cannot be shown."""
    body = "\n".join(measurements[headline.id].rstrip() + "\n" for headline in HEADLINES)
    rows = "\n".join(f"| {claim} | {reason} |" for claim, reason in CANNOT)
    cannot = f"## What the data cannot show\n\n| claim | why |\n|---|---|\n{rows}\n"
    return f"{TITLE}\n{overview(measurements)}\n{body}\n{cannot}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=Path(os.environ.get("ROTA_SHARED", ROOT.parent / "shared"))
    )
    parser.add_argument("--only", default="", help="ids of headlines, joined by commas")
    parser.add_argument("--write", type=Path, default=None, metavar="PAGE")
    arguments = parser.parse_args()
    if not (arguments.data / "data").is_dir():
        raise SystemExit(f"no public traces at {arguments.data}; name their folder with --data")
    known = [headline.id for headline in HEADLINES]
    wanted = arguments.only.split(",") if arguments.only else known
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise SystemExit(f"there is no headline {unknown[0]!r}; expected some of {', '.join(known)}")
    done: Runs = {}
    kept = sections(PAGE.read_text()) if PAGE.is_file() else {}
    for headline in HEADLINES:
        if headline.id in wanted:
            kept[headline.id] = "\n".join(measured(headline, arguments.data, done))
    missing = sorted(set(known) - set(kept))
    if missing:
        raise SystemExit(f"{', '.join(missing)}: not on the page yet; measure them too")
    text = page(kept)
    if arguments.write:
        arguments.write.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
