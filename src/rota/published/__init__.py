"""Policies that reproduce published code where it departs from its paper, named PAPER@SOURCE."""

from __future__ import annotations

from collections.abc import Mapping

_ARTIFACTS = "rota.published.artifacts"
POLICIES: Mapping[str, str] = {
    "chronus@authors": f"{_ARTIFACTS}.chronus.system",
    "elasticflow@authors": f"{_ARTIFACTS}.elasticflow.system",
    "shockwave@authors": f"{_ARTIFACTS}.shockwave.system",
    "srsf@tiresias": f"{_ARTIFACTS}.srsf.system",
    "synergy@authors": f"{_ARTIFACTS}.synergy.system",
    "themis@elasticflow": f"{_ARTIFACTS}.themis.system",
    "tiresias@authors": f"{_ARTIFACTS}.tiresias.system",
    "tiresias@elasticflow": f"{_ARTIFACTS}.tiresias.system",
    "tiresias@pollux": f"{_ARTIFACTS}.tiresias.system",
}
"""The module that registers each of them.  SOURCE is `authors` for code of the paper's own authors, else the
system in whose repository the code stands."""
FORMER_MODES: Mapping[str, Mapping[str, str]] = {
    "chronus": {"paper": "chronus", "artifact": "chronus@authors"},
    "elasticflow": {"paper": "elasticflow", "artifact": "elasticflow@authors"},
    "shockwave": {"paper": "shockwave", "artifact": "shockwave@authors"},
    "srsf": {"paper": "srsf", "artifact": "srsf@tiresias"},
    "synergy": {"paper": "synergy", "artifact": "synergy@authors"},
    "themis": {"paper": "themis", "artifact": "themis@elasticflow"},
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
