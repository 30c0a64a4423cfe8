"""Sentences that are written for a terminal, on a page."""

from __future__ import annotations

import pytest

from rota.reports.html import told


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
