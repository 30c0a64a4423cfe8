"""Options that none of the chosen policies reads: a comparison says so, instead of passing over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rota.knowledge.needs import Knowledge
from rota.scheduler.policy import Lever, Policy, PolicySpec, levers_of

SIZES = frozenset({Knowledge.SCALING, Knowledge.GOODPUT})
"""Who reads these may start a job on another number of GPUs without resizing it later."""


def unread_remarks(
    policies: Sequence[PolicySpec | Policy],
    knowledge: Mapping[str, str],
    given: Mapping[str, object],
) -> Iterator[str]:
    """What was given (`knowledge` by kind, other options by name) and changes nothing under `policies`."""
    named = [(str(p), p.make()) if isinstance(p, PolicySpec) else (type(p).__name__, p) for p in policies]
    if not named:
        return
    who = ", ".join(name for name, _ in named)
    reads = frozenset[Knowledge]().union(*(policy.needs for _, policy in named))
    levers = frozenset[Lever]().union(*(levers_of(policy) for _, policy in named))
    for kind in sorted(set(knowledge) - reads):
        yield f"--knowledge {kind}={knowledge[kind]} has no effect: {who} {_verb(named, 'reads')} no {kind}."
    if given["elastic"] and Lever.RESIZE not in levers and not SIZES & reads:
        yield f"--elastic has no effect: {who} {_verb(named, 'gives')} each job the GPUs that it asks for."
    if given["accept"] and Lever.REJECT not in levers:
        yield f"--accept has no effect: {who} {_verb(named, 'offers')} nobody a later deadline."
    if given["pairs"] and Lever.SHARE not in levers and not {Knowledge.PAIRS, Knowledge.UTILISATION} & reads:
        yield f"--pairs has no effect: {who} {_verb(named, 'puts')} no two jobs on one GPU."


def unread_site_policy(named: str | None) -> list[str]:
    """Of a site's policy that was named although nothing can be calibrated with it."""
    return (
        [f"--site-policy {named} has no effect: no recorded start is there to calibrate with."]
        if named
        else []
    )


def _verb(named: Sequence[object], one: str) -> str:
    return one if len(named) == 1 else one.removesuffix("s")
