"""Sentences that are written for a terminal, on a page."""

from __future__ import annotations

import pytest

from rota.reports.name_breaks import breakable, loose
from rota.reports.page import told


@pytest.mark.parametrize(
    ("sentence", "page"),
    [
        ("Nothing to type.", "Nothing to type."),
        ("Try --site-policy fifo.", 'Try <code class="option">--site-policy</code> fifo.'),
        ("`labels` say it", "<code>labels</code> say it"),
        ("`rota up --policy srtf` does", "<code>rota up --policy srtf</code> does"),
        ("a--b and a job <x> of 'ann'", "a--b and a job &lt;x&gt; of &#39;ann&#39;"),
        ("<b>`<i>`</b>", "&lt;b&gt;<code>&lt;i&gt;</code>&lt;/b&gt;"),
    ],
)
def test_what_is_to_be_typed_is_code(sentence: str, page: str) -> None:
    assert str(told(sentence)) == page


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("srtf", "srtf"),
        ("fifo:skip=yes", "fifo:<wbr>skip=<wbr>yes"),
        (
            "tiresias:limits=1000/2000,promote=2.5",
            "tiresias:<wbr>limits=<wbr>1000/<wbr>2000,<wbr>promote=<wbr>2.5",
        ),
        ("lab/<b>_x", "lab/<wbr>&lt;b&gt;_<wbr>x"),
        ("a::b//", "a::<wbr>b//"),
    ],
)
def test_a_name_is_broken_between_its_parts(name: str, page: str) -> None:
    kind = "name short" if len(name) <= 20 else "name"
    assert str(breakable(name)) == f'<span class="{kind}">{page}</span>'
    assert loose(name).count("\u200b") == page.count("<wbr>")
    assert loose(name).replace("\u200b", "") == name
