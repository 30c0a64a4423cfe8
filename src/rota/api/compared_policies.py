"""The policies and bounds of a comparison, and the one against which changes are shown."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import cast

from rota.arguments import shown
from rota.bounds import NAMES, PREFIX
from rota.errors import InputError
from rota.scheduler.policy import Policy, PolicySpec, called, parse_policy, split_policies

Policies = str | PolicySpec | Policy | Sequence[str | PolicySpec | Policy]


def chosen_policies(policies: Policies) -> tuple[list[PolicySpec | Policy], list[str]]:
    """Policies as specs or instances, and names of bounds.  Raises InputError for a name given twice."""
    listed: list[str | PolicySpec | Policy] = []
    several = isinstance(policies, Sequence) and not isinstance(policies, str)
    for policy in cast(Sequence[str | PolicySpec | Policy], policies if several else [policies]):
        _check_policy(policy)
        listed += split_policies(policy) if isinstance(policy, str) else [policy]
    bounds = [_check_bound(one) for one in listed if isinstance(one, str) and one.startswith(PREFIX)]
    specs = [
        parse_policy(one) if isinstance(one, str) else one
        for one in listed
        if not (isinstance(one, str) and one.startswith(PREFIX))
    ]
    if not listed:
        raise InputError.at("no policy is named", field="--policy", expected="names such as fifo,srtf")
    names = [*bounds, *map(called, specs)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        is_text = any(isinstance(spec, PolicySpec) and str(spec) == twice for spec in specs)
        expected = "each policy once" if is_text or twice in bounds else "instances with a `name` each"
        raise InputError.at(f"{twice!r} is named twice", field="--policy", expected=expected)
    return specs, bounds


def check_baseline(
    baseline: str | None, specs: Sequence[PolicySpec | Policy], bounds: Sequence[str]
) -> str | None:
    """The baseline by the name that records have.  Raises InputError if it is none of the policies."""
    if baseline is None:
        return None
    names = [*map(called, specs), *bounds]
    name = baseline if baseline in names else str(parse_policy(baseline))
    if name not in names:
        raise InputError.at(
            f"{baseline!r} is not among the policies",
            field="--baseline",
            expected=f"one of {', '.join(names)}",
        )
    return name


def _check_policy(policy: object) -> None:
    if isinstance(policy, type):
        raise InputError.at(
            f"{policy.__name__} is a class", argument="policies", expected=f"an instance, {policy.__name__}()"
        )
    if not isinstance(policy, str | PolicySpec) and not hasattr(policy, "decide"):
        expected = "names such as 'tiresias' (`rota systems` lists them), or instances of policies"
        raise InputError.at(f"{shown(policy)} is no policy", argument="policies", expected=expected)


def _check_bound(name: str) -> str:
    if name not in NAMES:
        close = get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(NAMES)}"
        raise InputError(f"there is no bound {name!r}; {hint}")
    return name
