"""Pages printed from the code: `python -m rota.cli.pages docs README.md`; `make docs` calls this.

docs/cli.md                    the help of every command
docs/systems.md                every policy with its head and parameters
docs/knowledge.md              what policies can know, and from which source
docs/jobs.md, docs/traces.md   the columns of a job, between two markers (`job_pages`)
README.md                      the table of systems, between its two markers
src/rota/*/README.md           the files of each room, where it has two markers (`rooms`)
src/rota/cli/systems.json      what `rota systems` prints (`system_index`)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import typer

import rota
from rota.bounds import SUMMARIES
from rota.cli import job_pages, rooms, system_index
from rota.cli.app import app
from rota.cli.catalogue import entries, published_entries
from rota.cli.system_index import NEEDS_TOLD, Entry
from rota.errors import InputError
from rota.knowledge.needs import FORMS, Knowledge
from rota.knowledge.registry import Source, Where, all_sources

BEGIN, END = "<!-- systems: printed by `make docs` -->", "<!-- end of systems -->"

_CLI_HEAD = """\
# The command line

The help of every command, printed by `make docs`.

Results go to standard output, messages and progress bars to standard error.
Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted.
"""
_KNOWLEDGE_HEAD = """\
# Knowledge

What policies can know of jobs beyond what they ask for, and from which source; `make docs` prints this page
from the providers in `src/rota/knowledge`.

- A policy lists the kinds of knowledge it reads.  `--knowledge KIND=SOURCE` selects the source of a kind, and
  every result names the sources used.
- The table of sources marks the defaults.  For a site's own history (`sacct`, PBS, SWF or Rota's own table,
  with recorded starts) durations are predicted unless `--ideal` is given.
- A column has a value, or a row of values, for each job.  A table has columns by job and arrays that jobs
  share, such as a curve for each class.  Neither contains jobs that are not submitted yet.
- Other packages add providers by an entry point of the group `rota.knowledge`: it loads a module that
  registers them with `rota.knowledge.registry.provides`.
"""
_SYSTEMS_HEAD = """\
# Systems

All registered policies, printed by `make docs` from the files in `src/rota/systems`.

- *working*: checked against worked examples and, where available, the authors' results
- *probe*: real but small
- *bound*: not a system but a lower or upper limit to compare with
"""


_PUBLISHED_HEAD = """\
# Published code

Policies that reproduce published code where it departs from its paper: `PAPER@SOURCE`.  SOURCE is `authors`
for code of the paper's own authors, else the system in whose repository the code stands.  They are for
comparisons with published numbers ([fidelity](fidelity.md)); on a cluster use the paper's policy.
"""


def cli_page() -> str:
    """The text of `docs/cli.md`."""
    return "\n".join([_CLI_HEAD, *_help_of(typer.main.get_command(app), "rota")])


def _help_of(command: Any, path: str) -> list[str]:
    """A section per command, groups before what is in them."""
    context = command.make_context(path, [], resilient_parsing=True, terminal_width=98, max_content_width=98)
    sections = [f"## `{path}`\n\n```text\n{command.get_help(context).rstrip()}\n```\n"]
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        sections += _help_of(command.get_command(context, name), f"{path} {name}")
    return sections


def own() -> list[Entry]:
    """Rota's own systems, whatever else is installed."""
    return [one for one in entries() if one.module.startswith("rota.")]


def systems_page() -> str:
    """The text of `docs/systems.md`."""
    papers, code = ([_section(one) for one in group] for group in (own(), published_entries()))
    return "\n".join([_SYSTEMS_HEAD, *papers, _PUBLISHED_HEAD, *code])


def knowledge_page() -> str:
    """The text of `docs/knowledge.md`."""
    lines = [_KNOWLEDGE_HEAD, "## Kinds", "", "| kind | form |", "|---|---|"]
    lines += [f"| `{kind}` | {_cell(FORMS[kind])} |" for kind in Knowledge]
    lines += ["", "## Sources", ""]
    lines += ["| kind | source | what it provides | simulated | live | needs |", "|---|---|---|---|---|---|"]
    lines += [_source_line(source, defaults) for source, defaults in all_sources() if _is_own(source)]
    return "\n".join([*lines, ""])


def _is_own(source: Source) -> bool:
    return source.make.__module__.startswith("rota.")


def _source_line(source: Source, defaults: frozenset[Where]) -> str:
    name = source.provenance.value + (f":{source.argument}" if source.argument else "")
    stands = ["default" if w in defaults else "yes" if w in source.where else "" for w in Where]
    cells = [f"`{source.kind}`", f"`{name}`", _cell(source.summary), *stands, _cell(source.needs)]
    return "| " + " | ".join(cells) + " |"


def _section(one: Entry) -> str:
    lines = [f"## `{one.name}`", "", f"{one.summary}.", ""]
    for key, text in one.facts().items():
        first, *rest = _with_links(text).split("\n")
        lines.append(f"- **{key}**: {first}" if not rest else f"- **{key}**:")
        if rest:
            lines += [f"  {point}" for point in (first, *rest)]
    lines.append("")
    if one.parameters:
        lines += ["| parameter | default | values | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{p.name}` | `{p.default}` | {_cell(p.values)} | {_cell(p.meaning)} |" for p in one.parameters
        ]
        lines.append("")
    return "\n".join(lines)


def _with_links(text: str) -> str:
    """Names of pages, as heads of files write them (`docs/fidelity.md`, `systems/drf.md`), as links."""
    return re.sub(r"\b(?:docs/)?((?:systems/)?[\w-]+\.md)\b", r"[\1](\1)", text)


def systems_table() -> str:
    """The table of the README, and how to read it."""
    rows = ["| policy | what it does | needs to know | status |", "|---|---|---|---|"]
    for one in own():
        cells = one.summary, one.needs_line(), one.status
        rows.append(f"| [`{one.name}`](docs/systems.md#{one.name}) | " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join([*rows, "", NEEDS_TOLD])


def with_table(text: str) -> str:
    """`text` with a fresh table of systems between the markers."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InputError(f"the page has no place for the table; expected {BEGIN} and {END}, once each")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{systems_table()}\n{END}{after}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def write(docs: Path, readme: Path) -> None:
    """Write all of them."""
    (docs / "cli.md").write_text(cli_page(), encoding="utf-8")
    (docs / "knowledge.md").write_text(knowledge_page(), encoding="utf-8")
    (docs / "systems.md").write_text(systems_page(), encoding="utf-8")
    for page, text in job_pages.pages(docs).items():
        page.write_text(text, encoding="utf-8")
    readme.write_text(with_table(readme.read_text(encoding="utf-8")), encoding="utf-8")
    system_index.INDEX.write_text(
        system_index.written(own(), published_entries(), SUMMARIES), encoding="utf-8"
    )
    rooms.write(Path(rota.__file__).parent)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
