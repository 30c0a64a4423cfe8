"""The policy protocol and the registry that lists every published system."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any, Protocol, TypeVar

from rota.errors import InputError, PolicyError, RotaError, words_of
from rota.knowledge.needs import Knowledge
from rota.model.tenants import Between
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.former_names import todays_name
from rota.scheduler.meant_policy import no_such_policy
from rota.scheduler.own_modules import import_policies
from rota.scheduler.parameters import parse_parameters
from rota.scheduler.registering import begins_anew, check_entry, kinds_of
from rota.scheduler.snapshot import Snapshot


class Policy(Protocol):
    """A function from the present state of the cluster to the desired one."""

    @property
    def needs(self) -> frozenset[Knowledge]:
        """Knowledge that it requires; a run without it is refused."""
        ...

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        """What each job should hold now.  `memory` is `{}` at first; the decision carries the new one."""
        ...


class Lever(StrEnum):
    """What a policy may do to a job besides starting it."""

    PREEMPT = "preempt"
    MIGRATE = "migrate"
    SHARE = "share"
    RESIZE = "resize"
    RESERVE = "reserve"
    REJECT = "reject"
    SCALE = "scale"  # of the cluster: the number of its nodes


def whole_policy(policy: Policy, name: str) -> Policy:
    """`policy`, called `name`, if it has all that a policy needs; PolicyError says what is missing."""
    if not hasattr(policy, "needs"):
        raise PolicyError(
            f"policy {name!r} has no `needs`; expected what it must be told, frozenset() for nothing"
        )
    if not callable(getattr(policy, "decide", None)):
        raise PolicyError(f"policy {name!r} has no method `decide`; expected decide(snapshot, memory)")
    kinds_of(policy.needs, Knowledge, f"policy {name!r} has needs")
    kinds_of(getattr(policy, "levers", frozenset()), Lever, f"policy {name!r} has levers")
    return policy


def levers_of(policy: Policy) -> frozenset[Lever]:
    """What `policy` may do to a job besides starting it: anything, if it does not say."""
    return frozenset(getattr(policy, "levers", Lever))


class Status(StrEnum):
    """How far a policy is checked."""

    WORKING = "working"  # worked examples of its card and, where there are some, reference results
    PROBE = "probe"  # real but small: shows that the interface carries it
    BOUND = "bound"  # no system: a floor or a ceiling to compare with


Parameters = Any
"""A frozen dataclass with the paper's names, units and defaults."""
When = bool | Callable[[Parameters], bool]
"""Whether a fact holds: always, or for the variants with such parameters."""
_Kind = TypeVar("_Kind", Knowledge, Lever)
Facts = Iterable[_Kind] | Mapping[_Kind, When]
"""Facts that hold for all variants, or facts with their conditions."""


@dataclass(frozen=True)
class System:
    """One registered policy with the facts about it.

    `needs`, `levers` and `heeds_priority` say what holds for any variant; a policy made with parameters
    knows what holds for it.
    """

    name: str
    summary: str
    """One line, without a full stop."""
    paper: str
    needs_when: Mapping[Knowledge, When]
    levers_when: Mapping[Lever, When]
    heeds_priority_when: When
    heeds_deadlines_when: When
    heeds_groups_when: When
    heeds_kind_when: When
    heeds_weight_when: When
    promises_when: When
    between_when: Between | Callable[[Parameters], Between]
    status: Status
    make: Callable[..., Policy]
    parameters: type[Parameters]
    rotates: bool
    """True if jobs take turns by design, so that something moves while nothing happens."""
    work_conserving: bool
    """True if it never leaves a GPU idle that a waiting job could use for long: every job ends."""

    @property
    def needs(self) -> frozenset[Knowledge]:
        """Knowledge that some variant requires."""
        return frozenset(self.needs_when)

    @property
    def levers(self) -> frozenset[Lever]:
        """What some variant may do to a job besides starting it."""
        return frozenset(self.levers_when)

    def needs_of(self, parameters: Parameters) -> frozenset[Knowledge]:
        """Knowledge that the variant with these parameters requires."""
        return frozenset(kind for kind, when in self.needs_when.items() if _holds(when, parameters))

    def levers_of(self, parameters: Parameters) -> frozenset[Lever]:
        """What the variant with these parameters may do to a job besides starting it."""
        return frozenset(lever for lever, when in self.levers_when.items() if _holds(when, parameters))

    @property
    def heeds_priority(self) -> bool:
        """True if some variant puts jobs of a higher priority before others."""
        return bool(self.heeds_priority_when)

    def between_of(self, parameters: Parameters) -> Between:
        """How the variant with these parameters divides the cluster between tenants."""
        return self.between_when if isinstance(self.between_when, Between) else self.between_when(parameters)


def _holds(when: When, parameters: Parameters) -> bool:
    return when if isinstance(when, bool) else when(parameters)


def _facts(given: Facts[_Kind], kind: type[_Kind], whose: str) -> dict[_Kind, When]:
    if isinstance(given, Mapping):
        kinds_of(given, kind, whose)
        return dict(given)
    return dict.fromkeys(kinds_of(given if isinstance(given, str) else tuple(given), kind, whose), True)


_SYSTEMS: dict[str, System] = {}
AT = "@"
"""Separates the paper's system and the code's source in the name of what reproduces published code."""
_T = TypeVar("_T", bound=Callable[..., Any])
_Fact = TypeVar("_Fact")


@dataclass(frozen=True)
class NoParameters:
    """For policies that have none."""


def register(
    name: str,
    summary: str,
    *,
    paper: str = "",
    needs: Facts[Knowledge] = (),
    levers: Facts[Lever] = (),
    status: Status = Status.WORKING,
    parameters: type[Parameters] = NoParameters,
    rotates: bool = False,
    work_conserving: bool = True,
    heeds_priority: When = False,
    heeds_deadlines: When = False,
    heeds_groups: When = False,
    heeds_kind: When = False,
    heeds_weight: When = False,
    promises: When = False,
    between: Between | Callable[[Any], Between] = Between.NOTHING,
) -> Callable[[_T], _T]:
    """Register a policy class; it is built as `cls(parameters)`, or `cls()` if it has none.

    What it needs and which levers it uses are declared here only.  A fact that depends on parameters
    comes with its condition: `needs={Knowledge.DURATION: lambda p: p.backfill}`.  Instances, which keep
    their parameters as `self.parameters`, get `needs`, `levers`, `between` and what they heed from it.
    """

    def enter(cls: _T) -> _T:
        if not cls.__module__.startswith("rota."):
            check_entry(name, cls, parameters, _modules())
        else:
            begins_anew(cls)
        if name in _SYSTEMS and _SYSTEMS[name].make is not cls:
            raise InputError(f"two policies are named {name!r}; names must be unique")
        _SYSTEMS[name] = System(
            name=name,
            summary=summary,
            paper=paper,
            needs_when=_facts(needs, Knowledge, f"policy {name!r} is registered with needs"),
            levers_when=_facts(levers, Lever, f"policy {name!r} is registered with levers"),
            heeds_priority_when=heeds_priority,
            heeds_deadlines_when=heeds_deadlines,
            heeds_groups_when=heeds_groups,
            heeds_kind_when=heeds_kind,
            heeds_weight_when=heeds_weight,
            promises_when=promises,
            between_when=between,
            status=status,
            make=cls,
            parameters=parameters,
            rotates=rotates,
            work_conserving=work_conserving,
        )
        _tell(cls, _SYSTEMS[name])
        return cls

    return enter


def _tell(cls: Any, entry: System) -> None:
    """Make instances of `cls` answer what `entry` says of their parameters, computed on first use."""

    def tell(name: str, fact: Callable[[Parameters], Any]) -> None:
        told = cached_property(lambda policy: fact(getattr(policy, "parameters", NoParameters())))
        told.__set_name__(cls, name)
        setattr(cls, name, told)

    cls.registered_name = entry.name
    tell("needs", entry.needs_of)
    tell("levers", entry.levers_of)
    tell("between", entry.between_of)
    tell("heeds_deadlines", lambda parameters: _holds(entry.heeds_deadlines_when, parameters))
    tell("heeds_groups", lambda parameters: _holds(entry.heeds_groups_when, parameters))


def systems() -> dict[str, System]:
    """All registered policies by name: Rota's own, then those of packages and of the user's files.

    Policies that reproduce published code are listed apart, by `published`.
    """
    for module in _own_modules().values():
        import_module(module)
    import_policies()
    for entry in entry_points(group="rota.policies"):
        entry.load()
    return {name: one for name, one in sorted(_SYSTEMS.items()) if AT not in name}


def published() -> dict[str, System]:
    """Policies that reproduce published code where it departs from its paper, by name: `PAPER@SOURCE`."""
    modules: Mapping[str, str] = import_module("rota.published").POLICIES
    for module in modules.values():
        import_module(module)
    return {name: _SYSTEMS[name] for name in sorted(modules)}


def system(name: str) -> System:
    """The registered policy `name`; the others are loaded only if no module has this name."""
    if name not in _SYSTEMS and (module := _modules().get(name)):
        import_module(module)
    if name not in _SYSTEMS:
        known = {**systems(), **published()}
        if name not in known:
            raise no_such_policy(name, known)
    return _SYSTEMS[name]


def policy_names() -> list[str]:
    """Names of all policies as far as they are known without loading any of Rota's or of a package.

    Policies that reproduce published code are not included: `rota systems` lists them apart.
    """
    import_policies()
    names = {*_SYSTEMS, *_own_modules(), *(entry.name for entry in entry_points(group="rota.policies"))}
    return sorted(name for name in names if AT not in name)


def _own_modules() -> dict[str, str]:
    """The module that registers each of Rota's own systems: `system` in the folder of its name."""
    folders = iter_modules(import_module("rota.systems").__path__)
    return {one.name: f"rota.systems.{one.name}.system" for one in folders}


def _modules() -> dict[str, str]:
    """The module that registers each policy of Rota's, published code included."""
    return {**_own_modules(), **import_module("rota.published").POLICIES}


@dataclass(frozen=True)
class PolicySpec:
    """A policy by name with the parameters that differ from the defaults."""

    name: str
    options: Mapping[str, str]

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.name}:{options}" if options else self.name

    def make(self) -> Policy:
        """A fresh instance."""
        entry = system(self.name)
        if entry.parameters is NoParameters:
            if self.options:
                raise InputError(f"policy {self.name!r} has no parameters; got {next(iter(self.options))!r}")
            return self._made(entry)
        return self._made(entry, parse_parameters(entry.name, entry.parameters, self.options))

    def _made(self, entry: System, *parameters: Parameters) -> Policy:
        try:
            return whole_policy(entry.make(*parameters), self.name)
        except RotaError:
            raise
        except Exception as error:  # whatever a constructor does
            why = words_of(error, entry.make.__module__)
            raise PolicyError(f"policy {str(self)!r} cannot be made: {why}") from error

    def _fact(self, of: Callable[[System, Parameters], _Fact]) -> _Fact:
        """A registered fact, evaluated for this variant."""
        entry = system(self.name)
        return of(entry, parse_parameters(entry.name, entry.parameters, self.options))

    def _is_so(self, when: Callable[[System], When]) -> bool:
        """True if a fact with condition `when` holds for this variant."""
        return self._fact(lambda entry, parameters: _holds(when(entry), parameters))

    @property
    def heeds_priority(self) -> bool:
        """True if this variant puts jobs of a higher priority before others."""
        return self._is_so(lambda entry: entry.heeds_priority_when)

    @property
    def levers(self) -> frozenset[Lever]:
        """What this variant may do to jobs."""
        return self._fact(System.levers_of)

    @property
    def heeds_deadlines(self) -> bool:
        """True if this variant looks at deadlines."""
        return self._is_so(lambda entry: entry.heeds_deadlines_when)

    @property
    def heeds_kind(self) -> bool:
        """True if this variant treats jobs of one kind differently from those of another."""
        return self._is_so(lambda entry: entry.heeds_kind_when)

    @property
    def heeds_weight(self) -> bool:
        """True if this variant gives jobs of a larger weight more."""
        return self._is_so(lambda entry: entry.heeds_weight_when)

    @property
    def between(self) -> Between:
        """How this variant divides the cluster between tenants."""
        return self._fact(System.between_of)

    @property
    def promises(self) -> bool:
        """True if this variant says which deadlines it will keep."""
        return self._is_so(lambda entry: entry.promises_when)


def called(policy: PolicySpec | Policy) -> str:
    """The name of a policy in a record: as on the command line; of an instance its `name`, or its class."""
    if isinstance(policy, PolicySpec):
        return str(policy)
    name = getattr(policy, "name", None)
    return name if isinstance(name, str) and name.strip() else type(policy).__name__


def parse_policy(text: str) -> PolicySpec:
    """`tiresias` or `tiresias:limits=3200,promote=2` as a spec; names are checked, values too.

    A value that is a policy has its parameters in brackets: `partition:by=vc,policy=fifo[skip=yes]`.
    """
    name, _, tail = text.strip().partition(":")
    options: dict[str, str] = {}
    for part in filter(None, _COMMA.split(tail)):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise InputError(
                f"policy {text!r}: {part!r} is not a parameter; expected NAME:key=value,key=value"
            )
        if key.strip() in options:
            raise InputError(f"policy {text!r} sets {key.strip()!r} twice; expected each parameter once")
        options[key.strip()] = value.strip()
    spec = PolicySpec(*todays_name(name, options))
    entry = system(spec.name)
    parse_parameters(entry.name, entry.parameters, spec.options)
    return spec


def parse_inner(text: str) -> PolicySpec:
    """The policy inside another one's parameter: `fifo` or `fifo[skip=yes]`."""
    name, bracket, tail = text.partition("[")
    if bracket and not tail.endswith("]"):
        raise InputError(f"policy {text!r} has no closing bracket; expected NAME[key=value,key=value]")
    return parse_policy(f"{name}:{tail[:-1]}" if bracket else name)


_COMMA = re.compile(r",(?![^\[]*\])")
"""A comma that is not inside brackets."""


def split_policies(text: str) -> list[str]:
    """`tiresias:promote=2,limits=3200,srtf` as policies: a part `key=value` belongs to the one before it."""
    policies: list[str] = []
    for part in (part.strip() for part in _COMMA.split(text)):
        if "=" in part and ":" not in part.partition("=")[0] and policies:
            policies[-1] += ("," if ":" in policies[-1] else ":") + part
        elif part:
            policies.append(part)
    if not policies:
        raise InputError.at(f"{text!r} names no policy", field="--policy", expected="NAME:key=value,NAME")
    return policies
