"""Options that none of the chosen policies reads: a comparison says so, instead of passing over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

import numpy as np

from rota.api.site_terms import is_own_history
from rota.knowledge.needs import Knowledge
from rota.model.record import Record
from rota.model.trace import Trace
from rota.reports.confidence import FEWEST_JOBS
from rota.scheduler.policy import Lever, Policy, PolicySpec
from rota.scheduler.reads import Reads
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.limits import TimeLimits
from rota.worlds.simulated.measured_costs import MeasuredCosts

STOPS = frozenset({Lever.PREEMPT, Lever.MIGRATE, Lever.RESIZE, Lever.SHARE})
"""What asks of a running job that it can do something."""
TOLD = frozenset({Knowledge.DURATION, Knowledge.SERVICE_HISTORY})
"""What nobody learns by watching jobs run."""


def unread_remarks(
    policies: Sequence[PolicySpec | Policy],
    knowledge: Mapping[str, str],
    given: Mapping[str, object],
) -> Iterator[str]:
    """What was given (`knowledge` by kind, other options by name) and changes nothing under `policies`."""
    named = _named(policies)
    if not named:
        return
    who = ", ".join(name for name, _ in named)
    reads = Reads.of(policy for _, policy in named)
    needs, levers = reads.needs, reads.levers
    for kind in sorted(set(knowledge) - needs):
        option = f"--knowledge {kind}={knowledge[kind]}"
        if kind == Knowledge.SERVICE_HISTORY:
            option = f"--service-history {knowledge[kind].partition(':')[2]}"
        yield f"{option} has no effect: {who} {_verb(named, 'reads')} no {kind}."
    if given.get("elastic") and not reads.sizes:
        yield f"--elastic has no effect: {who} {_verb(named, 'gives')} each job the GPUs that it asks for."
    if given.get("accept") and not reads.offers:
        yield f"--accept has no effect: {who} {_verb(named, 'offers')} nobody a later deadline."
    packs = Lever.SHARE in levers or {Knowledge.PAIRS, Knowledge.UTILISATION} & needs
    if given.get("pairs") and not packs:
        yield f"--pairs has no effect: {who} {_verb(named, 'puts')} no two jobs on one GPU."
    # Rates relative to a job alone slow the jobs down that share; whom to pair is told in iterations.
    deaf = [] if given.get("throughput") else [one for one in named if Knowledge.PAIRS in one[1].needs]
    if given.get("pairs") and deaf:
        names = ", ".join(name for name, _ in deaf)
        yield f"--pairs has no effect on {names}: it pairs jobs by the pairs of a --throughput file."
    if given.get("can") and not given.get("faults") and not STOPS & levers:
        yield f"--can has no effect: {who} {_verb(named, 'stops')} nobody who runs."
    if given.get("observation_noise") and not (needs - TOLD or levers - {Lever.PREEMPT, Lever.RESERVE}):
        yield f"--observation-noise has no effect: {who} {_verb(named, 'watches')} nobody who runs."


def unread_costs(
    policies: Sequence[PolicySpec | Policy], costs: Costs, trace: Trace, *, loses_nodes: bool
) -> Iterator[str]:
    """Of `costs` that no run can bear; `loses_nodes` says whether the cluster may shrink under the jobs."""
    named, none = _named(policies), Costs()
    if not named or isinstance(costs, MeasuredCosts):
        return
    given = [one.name for one in fields(none) if getattr(costs, one.name) != getattr(none, one.name)]
    who, levers = ", ".join(name for name, _ in named), Reads.of(policy for _, policy in named).levers
    moves = bool({Lever.MIGRATE, Lever.RESIZE} & levers)
    again = Lever.PREEMPT in levers or moves or loses_nodes or bool(trace.truth.failures)
    stops = f"{who} {_verb(named, 'stops')} nobody who runs"
    unread = {
        stops: set() if again else {"checkpoint", "restore", "migrate", "prepare", "resize", "preempt"},
        f"{who} {_verb(named, 'moves')} nobody who runs": set() if moves else {"migrate", "prepare"},
        f"{who} {_verb(named, 'changes')} nobody's number of GPUs": set()
        if Lever.RESIZE in levers
        else {"resize"},
        f"{who} {_verb(named, 'preempts')} nobody": set() if Lever.PREEMPT in levers else {"preempt"},
        "no node is lost (`--faults`)": set() if loses_nodes else {"checkpoint_every_s"},
    }
    for why, kinds in unread.items():
        names = [name.removesuffix("_s") for name in given if name in kinds]
        given = [name for name in given if name not in kinds]
        if names:
            has = "has" if len(names) == 1 else "have"
            yield f"--costs {' and '.join(names)} {has} no effect: {why}."


def unread_failures(trace: Trace, failures: bool, retries: object, faults: object) -> Iterator[str]:
    """Of what was said of failing attempts where the trace recorded none."""
    if trace.truth.failures:
        return
    if not failures:
        yield "--no-failures has no effect: the trace records no failing attempts."
    elif retries is not None and not faults:
        yield f"--retries {retries} has no effect: the trace records no failing attempts."


def unread_ideal(trace: Trace, ideal: bool) -> Iterator[str]:
    """Of ideal terms where they are the default."""
    if ideal and not is_own_history(trace):
        yield "--ideal has no effect: true durations and free stops are what is taken for this trace anyway."


def unread_limits(trace: Trace, limits: TimeLimits) -> Iterator[str]:
    """Of limits that are to be enforced where nobody stated any."""
    if limits is TimeLimits.ENFORCE and np.isnan(trace.jobs.limit_s).all():
        yield "--limits enforce has no effect: no job states how long it may run (limit_s)."


def unread_seeds(records: Sequence[Record], seeds: int) -> Iterator[str]:
    """Of several seeds for policies in whose runs nothing is drawn, which ran once."""
    runs = Counter(record.policy for record in records if record.ranked)
    once = [policy for policy, count in runs.items() if count == 1]
    if seeds < 2 or not once:
        return
    whose = "" if len(once) == len(runs) else f" on {', '.join(once)}"
    where = "here" if not whose else "in these runs" if len(once) > 1 else "in its run"
    each = "it" if len(runs) == 1 or (whose and len(once) == 1) else "each policy"
    yield (
        f"--seeds {seeds} has no effect{whose}: nothing is drawn {where}, so that {each} ran once; "
        "--confidence says how firm the numbers are."
    )


def unread_confidence(trace: Trace, confidence: bool) -> Iterator[str]:
    """Of intervals where there are too few jobs to cut into blocks."""
    if confidence and len(trace) < FEWEST_JOBS:
        yield f"--confidence has no effect: fewer than {FEWEST_JOBS} jobs are no basis."


def unread_site_policy(named: str | None) -> list[str]:
    """Of a site's policy that was named although nothing can be calibrated with it."""
    return (
        [f"--site-policy {named} has no effect: no recorded start is there to calibrate with."]
        if named
        else []
    )


def _named(policies: Sequence[PolicySpec | Policy]) -> list[tuple[str, Policy]]:
    """Each of them with what people call it."""
    return [(str(p), p.make()) if isinstance(p, PolicySpec) else (type(p).__name__, p) for p in policies]


def _verb(named: Sequence[object], one: str) -> str:
    return one if len(named) == 1 else one.removesuffix("es" if one.endswith("ches") else "s")
