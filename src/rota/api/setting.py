"""From words, as people type them, to the setting of a run."""

from __future__ import annotations

from collections.abc import Mapping

from rota.errors import InputError
from rota.model.options import parse_options
from rota.scheduler.needs import Knowledge
from rota.worlds.simulated.costs import Costs, parse_costs
from rota.worlds.simulated.providers import check_choice
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
    retries: int | None = None,
    seed: int = 0,
) -> Setting:
    """The setting that these words describe; InputError names the one that is wrong."""
    if retries is not None and retries < 0:
        raise InputError.at(f"{retries} is below 0", field="--retries", expected="0 or more")
    return Setting(
        semantics=semantics if isinstance(semantics, Semantics) else semantics_named(semantics),
        costs=parse_costs(costs) if isinstance(costs, str) else costs or Costs(),
        speed=speed,
        knowledge=parse_knowledge(knowledge),
        retries=retries,
        seed=seed,
    )


def parse_knowledge(given: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """Kinds of knowledge and their sources: `duration=user`."""
    if isinstance(given, str):
        kinds = [kind.value for kind in Knowledge]
        given = parse_options(given, field="--knowledge", known=kinds)
    for kind, source in (given or {}).items():
        check_choice(kind, source)
    return given or {}
