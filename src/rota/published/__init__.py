"""Policies that reproduce published code where it departs from its paper, named PAPER@SOURCE."""

from __future__ import annotations

from collections.abc import Mapping

_ARTIFACTS = "rota.published.artifacts"
POLICIES: Mapping[str, str] = {
    "gavel@authors": f"{_ARTIFACTS}.gavel.system",
    "gavel@sia": f"{_ARTIFACTS}.gavel.system",
    "pollux@authors": f"{_ARTIFACTS}.pollux.system",
    "tiresias@authors": f"{_ARTIFACTS}.tiresias.system",
    "tiresias@elasticflow": f"{_ARTIFACTS}.tiresias.system",
    "tiresias@pollux": f"{_ARTIFACTS}.tiresias.system",
}
"""The module that registers each of them.  SOURCE is `authors` for code of the paper's own authors, else the
system in whose repository the code stands."""
FORMER_MODES: Mapping[str, Mapping[str, str]] = {
    "gavel": {"paper": "gavel", "artifact": "gavel@authors", "sia": "gavel@sia"},
    "pollux": {"paper": "pollux", "artifact": "pollux@authors"},
    "tiresias": {
        "paper": "tiresias",
        "artifact": "tiresias@authors",
        "elasticflow": "tiresias@elasticflow",
        "pollux": "tiresias@pollux",
    },
}
"""By paper: what `mode=MODE` of its policy named until these policies had names of their own.

Live clusters and fidelity cases have such names on record.
"""
FORMER_PARAMETERS: Mapping[str, frozenset[str]] = {"tiresias": frozenset({"quantum"})}
"""By paper: parameters that only published code reads; its policy took them as well, without effect."""
