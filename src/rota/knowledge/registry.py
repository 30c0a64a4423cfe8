"""Registry of the sources of knowledge: every provider, with the facts about it.

A provider is a function of a `Setup`, or a class that is built from one, under the decorator `provides`.
Packages outside add theirs by an entry point of the group `rota.knowledge`, or by calling `provides`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import TypeVar

from rota.errors import InputError
from rota.knowledge.needs import Knowledge, Provenance, Provider
from rota.model.cluster import Cluster
from rota.model.jobs import JobTable, Truth


class Where(StrEnum):
    """Worlds in which a provider can be used."""

    SIMULATED = "simulated"
    LIVE = "live"


BOTH = frozenset(Where)
ORDER: Mapping[Where, tuple[Provenance, ...]] = {
    Where.SIMULATED: (
        Provenance.ORACLE, Provenance.ASSUMED, Provenance.PREDICTED, Provenance.MEASURED, Provenance.USER,
        Provenance.NOISY
    ),
    Where.LIVE: (Provenance.USER, Provenance.MEASURED, Provenance.PREDICTED, Provenance.ASSUMED),
}  # fmt: skip
"""The first available source is the default: the truth in a simulation, the best informed one live."""
Past = Sequence[tuple[str, str, Sequence[float]]]
"""Tenant, group, and seconds run by completed jobs."""


@dataclass(frozen=True)
class Setup:
    """What providers begin with."""

    jobs: JobTable
    cluster: Cluster
    truth: Truth | None = None
    """What jobs will do; only a simulation knows."""
    offered: Mapping[Knowledge, Provider] = field(default_factory=dict)
    """What the speed model of a simulation is made of."""
    past: Past = ()
    """Jobs that completed before the run."""
    origin: str = ""
    """Where the jobs come from, for messages."""
    seed: int = 0
    """The seed of all random draws of a provider."""


Make = Callable[..., Provider | None]


@dataclass(frozen=True)
class Source:
    """One registered provider of one kind."""

    kind: Knowledge
    provenance: Provenance
    where: frozenset[Where]
    summary: str
    """One line for people, without a full stop."""
    needs: str
    """Options of the command line that it requires; empty if it requires none."""
    argument: str
    """What may follow its name after a colon, such as FILE; empty for nothing."""
    make: Make
    """Makes the provider for a setup and an argument if it takes one; None if it is not available there."""


_SOURCES: dict[tuple[Knowledge, Provenance], list[Source]] = {}
_M = TypeVar("_M", bound=Make)


def provides(
    kind: Knowledge,
    provenance: Provenance,
    summary: str,
    *,
    where: Iterable[Where] = BOTH,
    needs: str = "",
    argument: str = "",
) -> Callable[[_M], _M]:
    """Register the decorated provider of `kind`: a function of a setup, and of the argument if it takes one.

    Raises InputError if one of the same kind and provenance is registered already.
    """

    def enter(make: _M) -> _M:
        source = Source(kind, provenance, frozenset(where), summary, needs, argument, make)
        same = _SOURCES.setdefault((kind, provenance), [])
        if any(other.where & source.where for other in same):
            raise InputError(f"two providers are named {kind}={provenance}; one kind has one of each source")
        same.append(source)
        return make

    return enter


def sources(where: Where) -> list[Source]:
    """All registered providers that can be used there, by kind, the default of each kind first."""
    _load()
    order = ORDER[where]
    there = [one for same in _SOURCES.values() for one in same if where in one.where]
    return sorted(there, key=lambda one: (list(Knowledge).index(one.kind), order.index(one.provenance)))


@cache
def _load() -> None:
    """Import all modules that register providers: Rota's own, then those of installed packages."""
    for module in iter_modules(import_module("rota.knowledge").__path__):
        import_module(f"rota.knowledge.{module.name}")
    for entry in entry_points(group="rota.knowledge"):
        entry.load()


def kinds(where: Where) -> frozenset[Knowledge]:
    """Kinds that some provider supplies there."""
    return frozenset(source.kind for source in sources(where))


def source_of(kind: str, text: str, where: Where) -> Source:
    """The provider that `--knowledge KIND=TEXT` names; InputError lists those available."""
    there = sources(where)
    names = list(dict.fromkeys(source.kind.value for source in there))
    if kind not in names:
        raise InputError.at(
            f"nobody provides {kind!r} in a {where} world",
            field="--knowledge",
            expected=f"one of {', '.join(names)}",
        )
    name, colon, argument = text.partition(":")
    own = [source for source in there if source.kind == kind]
    for source in own:
        if source.provenance == name:
            if colon and not source.argument:
                raise InputError.at(f"{kind}={name} takes no {argument!r}", field="--knowledge")
            return source
    raise InputError.at(
        f"{kind}={text}: {name!r} is no source of it", field="--knowledge", expected=_either(own)
    )


def make_provider(kind: Knowledge, setup: Setup, where: Where, chosen: str = "") -> Provider | None:
    """The provider of `kind` that `chosen` names, or the default; None if there is none.

    Raises InputError if the chosen one is not available in this setup.
    """
    if not chosen:
        made = (_made(source, setup, "") for source in sources(where) if source.kind is kind)
        return next((provider for provider in made if provider is not None), None)
    source = source_of(kind, chosen, where)
    provider = _made(source, setup, chosen.partition(":")[2])
    if provider is None:
        raise InputError.at(
            f"{kind}={chosen} does not stand here",
            field="--knowledge",
            expected=source.needs or source.argument or "another source",
        )
    return provider


def _made(source: Source, setup: Setup, argument: str) -> Provider | None:
    return source.make(setup, argument) if source.argument else source.make(setup)


def parse_sources(text: str, where: Where) -> dict[str, str]:
    """The sources by kind in `duration=user,scaling=measured`; each is checked."""
    chosen: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        kind, equals, source = (piece.strip() for piece in part.partition("="))
        if not equals or not source:
            raise InputError.at(
                f"{part!r} names no source", field="--knowledge", expected="KIND=SOURCE,KIND=SOURCE"
            )
        if kind in chosen:
            raise InputError.at(f"sets {kind!r} twice", field="--knowledge", expected="each kind once")
        source_of(kind, source, where)
        chosen[kind] = source
    return chosen


def help_text(where: Where) -> str:
    """The choices there are, for the help of a command: `duration=oracle (default), user or predicted`."""
    by_kind: dict[Knowledge, list[Source]] = {}
    for source in sources(where):
        by_kind.setdefault(source.kind, []).append(source)
    choices = [f"{kind}={_either(own, mark=True)}" for kind, own in by_kind.items() if len(own) > 1]
    return "; ".join(choices) + "."


def _either(own: Sequence[Source], *, mark: bool = False) -> str:
    """`oracle (default), user or predicted`."""
    names = [source.provenance.value + f"[:{source.argument}]" * bool(source.argument) for source in own]
    if mark:
        names[0] += " (default)"
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def offered(kind: Knowledge) -> Callable[[Setup], Provider | None]:
    """The truth that a speed model is made of, if it is made of this kind."""

    def truth(setup: Setup) -> Provider | None:
        return setup.offered.get(kind)

    return truth


_OFFERED: Mapping[Knowledge, tuple[str, str]] = {
    Knowledge.THROUGHPUT: ("the rates of the world: equal on all types without a table", ""),
    Knowledge.SCALING: ("the rates of the world: in proportion to GPUs in one of fixed durations", ""),
    Knowledge.GOODPUT: ("the profiles of the world", "a goodput speed model"),
    Knowledge.PAIRS: ("the pair rates of the world", "a speed model with pairs"),
    Knowledge.PLACEMENT: ("the slowdowns of the world by level", "a speed model with slowdowns by level"),
    Knowledge.HOSTS: ("the sensitivity to cores and memory of the world", "a speed model of hosts"),
    Knowledge.SERVERS: ("the speeds of the world by servers", "a speed model with parameter servers"),
    Knowledge.REGIMES: ("the regimes of the world", "a speed model with regimes"),
    Knowledge.UTILISATION: ("the utilisation of the world", "a speed model with interference"),
}
for _kind, (_summary, _needs) in _OFFERED.items():
    provides(_kind, Provenance.ORACLE, _summary, where={Where.SIMULATED}, needs=_needs)(offered(_kind))


def all_sources() -> list[tuple[Source, frozenset[Where]]]:
    """Every registered provider, with the worlds in which it goes before all others of its kind."""
    stands = {where: sources(where) for where in Where}
    first = {(where, source.kind): source for where in Where for source in reversed(stands[where])}
    each = sorted({id(s): s for there in stands.values() for s in there}.values(), key=_place)
    return [(s, frozenset(where for where in s.where if first[where, s.kind] is s)) for s in each]


def _place(source: Source) -> tuple[int, int]:
    return list(Knowledge).index(source.kind), list(Provenance).index(source.provenance)
