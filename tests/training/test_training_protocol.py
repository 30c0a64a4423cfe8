"""The files between programs and agents: what a job may do to them must not hurt its agent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rota.training import protocol
from rota.training.page import PAGE, Page
from rota.training.protocol import Directive


def test_both_ways_to_the_page_show_the_same(tmp_path: Path) -> None:
    protocol.prepare(tmp_path)
    mapped = Page(tmp_path)
    sequence = protocol.command(tmp_path, Directive("pause"))
    assert mapped.sequence == sequence == 1
    through_file = Page(tmp_path, mapped=False)
    through_file.agree(sequence, 41)
    assert mapped.agreed() == through_file.agreed() == (1, 41)
    mapped.judge(1, 2)
    assert through_file.verdict(1) == 2
    mapped.close()
    through_file.close()


def test_a_page_cut_short_is_an_error_and_no_death(tmp_path: Path) -> None:
    """A mapping of it would end the agent by SIGBUS."""
    protocol.prepare(tmp_path)
    page = Page(tmp_path, mapped=False)
    os.truncate(tmp_path / PAGE, 0)
    with pytest.raises(OSError, match="cut short"):
        _ = page.sequence
    page.close()
    assert protocol.command(tmp_path, Directive("pause")) == 1, "the next one mends it"
