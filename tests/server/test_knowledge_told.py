"""Knowledge told to a policy process row by row is put together again there."""

from __future__ import annotations

import numpy as np

from rota.knowledge.needs import Knowledge, Known, Provenance
from rota.server.policy.provider_messages import KnowledgeHeard, KnowledgeTold


def test_news_of_some_rows_changes_those_alone() -> None:
    """Read-only as the policy sees it, and yet what follows is written into it."""
    told, heard = KnowledgeTold(), KnowledgeHeard()
    for values in ([5.0, 7.0, np.nan], [5.0, 9.0, np.nan], [5.0, 9.0, 4.0]):
        known = {Knowledge.DURATION: Known(np.array(values), Provenance.USER)}
        heard.learn(told.news(known, {Knowledge.DURATION}, 3))
        column = heard.known[Knowledge.DURATION].values
        assert isinstance(column, np.ndarray)
        np.testing.assert_array_equal(column, values)
        assert not column.flags.writeable
