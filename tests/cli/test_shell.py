"""What is printed is shown as it is: no brackets are styles, and what others have said moves no cursor."""

from __future__ import annotations

import json

import pytest

from rota.cli.app import _complain
from rota.cli.live.tables import warn
from rota.cli.shell import console, json_text

EVIL = "\x1b]0;pwn\x07\x9b31m\u202eevil\u2028\x08\r"
"""Sets a title and colours, turns letters round, goes back."""


@pytest.mark.parametrize(
    "text", ["/data/[/b]", "/data/q[red]/x", "job :smile: [bold]", "[link=http://x]y[/link]"]
)
def test_brackets_and_colons_are_shown_as_they_are(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    console().print(f"  state  {text}")
    assert capsys.readouterr().out == f"  state  {text}\n"


def test_a_table_shows_them_too(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    table = Table("name", box=None)
    table.add_row("team[/a]")
    console().print(table)
    assert "team[/a]" in capsys.readouterr().out


def test_what_others_have_said_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    warn(f"job 3 ended: cancelled, {EVIL}")
    _complain(f"first line\nno: {EVIL}")
    said = capsys.readouterr().err
    assert all(letter.isprintable() or letter == "\n" for letter in said), ascii(said)
    assert said.startswith("rota: job 3 ended: cancelled,")
    assert "rota: first line\nno:" in said
    assert json_text({"text": EVIL}).isprintable()
    assert json.loads(json_text({"text": EVIL})) == {"text": EVIL}
