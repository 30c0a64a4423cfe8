"""The files shown in docs/speeds.md are read by what it says reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.knowledge.goodput_file import read_goodputs
from rota.knowledge.hosts_file import read_hosts
from rota.knowledge.pairs_file import read_pairs
from rota.knowledge.regimes_file import stated_regimes
from rota.knowledge.servers_file import read_servers
from rota.knowledge.step_tables_file import read_epochs, read_times
from rota.knowledge.throughput_file import read_throughputs

PAGE = Path(__file__).parents[2] / "docs" / "speeds.md"
EXAMPLES = re.findall(r"```(?:csv|json) (\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
READERS: dict[str, Callable[[Path], object]] = {
    "throughput": read_throughputs,
    "goodput": read_goodputs,
    "step_times": read_times,
    "epochs": read_epochs,
    "hosts": read_hosts,
    "servers": read_servers,
    "pairs": read_pairs,
    "regimes": stated_regimes,
}


def test_every_form_is_shown() -> None:
    assert {kind for kind, _ in EXAMPLES} == set(READERS)


@pytest.mark.parametrize(("kind", "text"), EXAMPLES, ids=[kind for kind, _ in EXAMPLES])
def test_examples_are_read(kind: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "table").write_text(text)
    assert READERS[kind](tmp_path / "table")
