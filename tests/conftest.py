"""For every test that draws examples, alone or with all the others.

Examples are derived from the test's own name (`derandomize`), so that a failure repeats by itself, and none
has to come within some milliseconds.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("rota", derandomize=True, deadline=None, database=None)
settings.load_profile("rota")
