"""Policies that reproduce published code where it departs from its paper, named PAPER@SOURCE."""

from __future__ import annotations

from collections.abc import Mapping

_ARTIFACTS = "rota.published.artifacts"
POLICIES: Mapping[str, str] = {
    "chronus@authors": f"{_ARTIFACTS}.chronus.system",
    "elasticflow@authors": f"{_ARTIFACTS}.elasticflow.system",
    "gandiva@elasticflow": f"{_ARTIFACTS}.gandiva.system",
    "gandiva@tiresias": f"{_ARTIFACTS}.gandiva.system",
    "gavel@authors": f"{_ARTIFACTS}.gavel.system",
    "gavel@sia": f"{_ARTIFACTS}.gavel.system",
    "optimus@pollux": f"{_ARTIFACTS}.optimus.system",
    "pollux@authors": f"{_ARTIFACTS}.pollux.system",
    "shockwave@authors": f"{_ARTIFACTS}.shockwave.system",
    "sia@authors": f"{_ARTIFACTS}.sia.system",
    "sia@fixed": f"{_ARTIFACTS}.sia.system",
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
    "gandiva": {
        "paper": "gandiva",
        "tiresias": "gandiva@tiresias",
        "elasticflow": "gandiva@elasticflow",
    },
    "shockwave": {"paper": "shockwave", "artifact": "shockwave@authors"},
    "srsf": {"paper": "srsf", "artifact": "srsf@tiresias"},
    "synergy": {"paper": "synergy", "artifact": "synergy@authors"},
    "themis": {"paper": "themis", "artifact": "themis@elasticflow"},
    "gavel": {"paper": "gavel", "artifact": "gavel@authors", "sia": "gavel@sia"},
    "optimus": {"paper": "optimus", "artifact": "optimus@pollux"},
    "pollux": {"paper": "pollux", "artifact": "pollux@authors"},
    "sia": {"paper": "sia", "artifact": "sia@authors", "fixed": "sia@fixed"},
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
_OF_GANDIVA = frozenset(
    {"quantum", "switch", "packing", "pack_gain", "head_room", "migration", "defrag", "noise", "grow"}
    | {"grow_after"}
)
FORMER_PARAMETERS: Mapping[str, frozenset[str]] = {
    "gandiva@elasticflow": _OF_GANDIVA,
    "gandiva@tiresias": _OF_GANDIVA,
    "optimus@pollux": frozenset({"interval_s", "event_driven", "young_factor", "restart_s"}),
    "pollux@authors": frozenset({"patience", "batch_gain"}),
    "tiresias": frozenset({"quantum"}),
}
"""By policy: parameters once accepted without effect, with those of published code or of its paper."""
FORMER_DEFAULTS: Mapping[str, Mapping[str, str]] = {"sia@fixed": {"power": "-0.5"}}
"""By policy: the value of a parameter under the former name, where its default differs now."""
FORMER_VALUES: Mapping[str, frozenset[str]] = {
    "gavel": frozenset({"tie=mode"}),
    "gavel@authors": frozenset({"tie=mode"}),
    "gavel@sia": frozenset({"tie=mode"}),
    "shockwave": frozenset({"predictor=mode"}),
    "shockwave@authors": frozenset({"predictor=mode"}),
}
"""By policy: values that meant the default, and have no name any more."""
