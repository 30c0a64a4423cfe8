"""Turns options, as people write them, into the setting of a run."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from rota.errors import InputError
from rota.knowledge.needs import Knowledge, Provenance
from rota.knowledge.registry import Where, parse_sources, source_of
from rota.model.grants import Can
from rota.worlds.simulated.abilities import parse_can
from rota.worlds.simulated.answers import UserAnswers, parse_answers
from rota.worlds.simulated.autoscale import Autoscale
from rota.worlds.simulated.costs import Costs, parse_costs
from rota.worlds.simulated.limits import TimeLimits, limits_of
from rota.worlds.simulated.retries import Retries, parse_retries
from rota.worlds.simulated.run import Setting
from rota.worlds.simulated.semantics import Semantics
from rota.worlds.simulated.semantics import semantics as semantics_named
from rota.worlds.simulated.speed import SpeedModel


def make_setting(
    *,
    semantics: str | Semantics = "exact",
    costs: str | Costs | None = None,
    knowledge: str | Mapping[str, str] | None = None,
    speed: SpeedModel | None = None,
    retries: int | str | Retries | None = None,
    observation_noise: float = 0.0,
    can: str | Mapping[str, Can] | None = None,
    seed: int = 0,
    accept: str | UserAnswers | None = None,
    limits: str | TimeLimits = TimeLimits.IGNORE,
    autoscale: Autoscale | None = None,
    asked: Mapping[str, object] | None = None,
) -> Setting:
    """The setting that these options describe.  Raises InputError, which names the one that is wrong."""
    if not 0.0 <= observation_noise < 1.0:
        raise InputError.at(
            f"{observation_noise:g} is no relative error",
            field="--observation-noise",
            expected="0, or a number below 1 such as 0.1",
        )
    return Setting(
        semantics=semantics if isinstance(semantics, Semantics) else semantics_named(semantics),
        costs=parse_costs(costs) if isinstance(costs, str) else costs or Costs(),
        speed=speed,
        knowledge=parse_knowledge(knowledge),
        retries=retries if isinstance(retries, Retries) else parse_retries(retries),
        observation_noise=observation_noise,
        can=parse_can(can) if isinstance(can, str) else can or {},
        answers=parse_answers(accept) if isinstance(accept, str) else accept or UserAnswers(),
        limits=limits_of(limits),
        autoscale=autoscale,
        asked=asked or {},
        seed=seed,
    )


def with_history(
    knowledge: Mapping[str, str], service_history: str | PathLike[str] | None
) -> Mapping[str, str]:
    """`knowledge` with a file of GPU-seconds of past jobs.  Raises InputError if it has a source of them."""
    if service_history is None:
        return knowledge
    kind = Knowledge.SERVICE_HISTORY.value
    if kind in knowledge:
        raise InputError.at(
            f"{kind} comes from {knowledge[kind]} already",
            field="--service-history",
            expected="one of the two",
        )
    return {**knowledge, kind: f"{Provenance.MEASURED.value}:{service_history}"}


def parse_knowledge(given: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """Kinds of knowledge and their sources: `duration=user`."""
    if isinstance(given, str):
        return parse_sources(given, Where.SIMULATED)
    for kind, source in (given or {}).items():
        source_of(kind, source, Where.SIMULATED)
    return given or {}
