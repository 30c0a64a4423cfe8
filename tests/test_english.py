"""Plain English: idioms that a stranger stumbles over only become fewer, in the source and on the pages.

`python tests/test_english.py` prints the present counts in the form of `CEILINGS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VERBS = (
    "waits?|waited|runs?|ran|holds?|held|stands?|stood|stays?|joins?|joined|leaves?|left|comes?|came|goes|went"
    "|keeps?|kept|loses?|lost|gives? way|gave way|grows?|shrinks?|moves?|moved|starts?|started|ends?|ended"
    "|fits?|bears?|claims?|claimed|would|did not|does not|lies|gains?|gets?|got|needs?|takes?|took"
    "|(?:is|are|was|were|has|have) (?:a|an|no|not|been|it|the|all|to|ahead|alike|alone|first|behind|done"
    "|in|on|there|left|served|moved|new|preempted|stopped|held|placed|resized|packed|urgent|due|next|late|longer)"
)
"""Verbs that follow a *who* of jobs; a *who* of people (write, ask, read, own, see, type) may stay."""
PATTERNS = {
    "nobody": r"\b(?:no|some|every|any)body\b",  # no job, a job, every job; no user, a user
    "who": rf"\bwho (?:{VERBS})\b(?![^.\n]*\?)",  # a job that ...
    "whoever": r"\b(?:whoever|whom|whomever)\b",  # any job that ...; which
    "so many": r"\bso (?:many|much|long)\b(?!(?: [\w`%-]+){0,4} (?:that|as)\b)",  # the number, the seconds
    "is told": r"\b(?:is|are|was|were|be|been|being) told\b(?! apart)|\btold of\b",  # receives, knows, gets
    "anew": r"\banew\b",  # again
}
"""What not to write, with what to write instead; a space is any white space, case does not matter."""
CEILINGS = {
    "src": {"nobody": 39, "who": 7, "whoever": 7, "so many": 6, "is told": 16, "anew": 5},
    "docs": {"nobody": 3, "who": 4, "whoever": 0, "so many": 1, "is told": 3, "anew": 0},
}
"""The most hits of each pattern.  Ceilings only fall: write the lower count here when there is one."""
PROSE = re.compile(
    r'"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])*'|(#[^\n]*(?:\n[ \t]*#[^\n]*)*)",
    re.DOTALL,
)
"""Strings (docstrings among them) and comments of a Python file; lines of comment in a row are one."""


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """First line and text of each piece of prose: a page as a whole, strings and comments of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, text
        return
    for piece in PROSE.finditer(text):
        is_comment = piece[1] is not None
        said = re.sub(r"(?m)^[ \t]*#", _blanks, piece[0]) if is_comment else piece[0]
        yield text.count("\n", 0, piece.start()) + 1, said


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])


def places(files: list[Path], pattern: str) -> list[str]:
    """Every hit as `file:line: text`."""
    wanted = re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT)}:{line + text.count(chr(10), 0, hit.start())}: {' '.join(hit[0].split())}"
        for path in files
        for line, text in prose(path)
        for hit in wanted.finditer(text)
    ]


def files_of(part: str) -> list[Path]:
    if part == "src":
        return sorted((ROOT / "src").rglob("*.py"))
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("part", CEILINGS)
@pytest.mark.parametrize("name", PATTERNS)
def test_an_idiom_becomes_no_more_frequent(part: str, name: str) -> None:
    there = places(files_of(part), PATTERNS[name])
    assert len(there) <= CEILINGS[part][name], "\n".join(there)


@pytest.mark.parametrize(
    ("name", "text", "hits"),
    [
        ("nobody", "Nobody waits.", 1),
        ("who", "A job who waits for others; who\nruns", 2),
        ("who", "the user who submitted it, whoever wrote it, and who may ask", 0),
        ("who", "Who waits under `philly`, and why?", 0),
        ("whoever", "whom it does not name", 1),
        ("so many", "a round of so many seconds", 1),
        ("so many", "so many jobs that a page holds none; so long as it runs", 0),
        ("is told", "what policies are told", 1),
        ("is told", "The user told the agent; they can't be told apart", 0),
        ("anew", "begins anew", 1),
    ],
)
def test_patterns_hit_what_they_should(name: str, text: str, hits: int) -> None:
    assert len(re.findall(PATTERNS[name].replace(" ", r"\s+"), text, re.IGNORECASE)) == hits


def test_prose_of_a_module_is_its_strings_and_comments(tmp_path: Path) -> None:
    module = tmp_path / "a.py"
    module.write_text('"""Docs."""\nanew = 1  # Of so\n# many.\nx = "some #text"\n')
    assert [(line, " ".join(text.split())) for line, text in prose(module)] == [
        (1, '"""Docs."""'),
        (2, "Of so many."),
        (4, '"some #text"'),
    ]


if __name__ == "__main__":
    for part in CEILINGS:
        counts = {name: len(places(files_of(part), pattern)) for name, pattern in PATTERNS.items()}
        print(f'    "{part}": {counts},'.replace("'", '"'))
