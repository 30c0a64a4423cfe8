"""How the winner comes into force on a live cluster."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from rota.knowledge.needs import Knowledge, Provenance
from rota.knowledge.registry import ORDER, Where, kinds
from rota.reports.advice.candidates import reads_durations
from rota.reports.advice.trials import DURATION
from rota.scheduler.policy import PolicySpec


@dataclass(frozen=True)
class Adoption:
    """The lines that let a policy decide."""

    set_line: str
    """Empty if no live cluster can run it."""
    shadow_line: str
    """Beside the present policy, without acting."""
    knowledge_line: str
    """What has to be told when the controller starts; empty if its defaults do."""
    refused: str = ""
    """Why there is no line."""


def adoption(spec: PolicySpec, knowledge: Mapping[str, str]) -> Adoption:
    """The lines for `spec`, which was told what `knowledge` says."""
    lacks = sorted(kind.value for kind in spec.make().needs - kinds(Where.LIVE))
    if lacks:
        why = f"{spec} needs {', '.join(lacks)}, which nobody provides on a live cluster"
        return Adoption("", "", "", why)
    name = shlex.quote(str(spec))
    return Adoption(f"rota policy set {name}", f"rota policy shadow {name}", _knowledge(spec, knowledge))


def _knowledge(spec: PolicySpec, knowledge: Mapping[str, str]) -> str:
    """`rota up --knowledge duration=predicted` where the live default is another source."""
    source = knowledge.get(DURATION, "")
    is_default = source == ORDER[Where.LIVE][0].value
    possible = source == Provenance.PREDICTED.value and Knowledge.DURATION in kinds(Where.LIVE)
    if not reads_durations(spec) or is_default or not possible:
        return ""
    return f"rota up --knowledge {DURATION}={source}"
