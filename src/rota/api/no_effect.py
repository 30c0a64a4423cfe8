"""Remarks about options without effect under the chosen policies, on this trace, or with other options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

import numpy as np

from rota.api.run_options import OPTIONS, RunOptions
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

Policies = Sequence[PolicySpec | Policy]
STOPS = frozenset({Lever.PREEMPT, Lever.MIGRATE, Lever.RESIZE, Lever.SHARE})
"""Levers that ask something of a running job."""
PAIRING = frozenset({Knowledge.PAIRS, Knowledge.UTILISATION})
"""Knowledge that policies use to put jobs on one GPU."""
TOLD = frozenset({Knowledge.DURATION, Knowledge.SERVICE_HISTORY})
"""Knowledge that does not come from watching jobs run."""


class PolicyEffects:
    """What some policy of several does; `RunOption.read_by` names these properties."""

    def __init__(self, policies: Policies, *, loses_nodes: bool) -> None:
        self.named = _named(policies)
        reads = Reads.of(policy for _, policy in self.named)
        self.needs, self.levers = reads.needs, reads.levers
        self.resizes, self.offers = reads.sizes, reads.offers
        self.stops = loses_nodes or bool(STOPS & reads.levers)
        self.packs = Lever.SHARE in reads.levers or bool(PAIRING & reads.needs)
        self.observes = bool(reads.needs - TOLD or reads.levers - {Lever.PREEMPT, Lever.RESERVE})

    def clause(self, does: str) -> str:
        """`fifo stops no running job`, and `fifo, sjf stop no running job` of several."""
        verb, _, rest = does.partition(" ")
        if len(self.named) > 1:
            verb = verb.removesuffix("s")
        return f"{', '.join(name for name, _ in self.named)} {verb} {rest}"


def unread_remarks(
    policies: Policies, knowledge: Mapping[str, str], given: Mapping[str, object]
) -> Iterator[str]:
    """Options of `given`, by name, and sources of `knowledge`, by kind, that none of `policies` reads."""
    effects = PolicyEffects(policies, loses_nodes=bool(given.get("faults")))
    if not effects.named:
        return
    for kind in sorted(set(knowledge) - effects.needs):
        option = f"--knowledge {kind}={knowledge[kind]}"
        if kind == Knowledge.SERVICE_HISTORY:
            option = f"--service-history {knowledge[kind].partition(':')[2]}"
        yield f"{option} has no effect: {effects.clause(f'reads no {kind}')}."
    for name, one in OPTIONS.items():
        if one.read_by and given.get(name) and not getattr(effects, one.read_by):
            yield f"{one.option} has no effect: {effects.clause(one.unread)}."
    # Rates relative to a job alone slow down jobs that share; pairing takes the table's iterations.
    deaf = [name for name, policy in effects.named if Knowledge.PAIRS in policy.needs]
    if given.get("pairs") and deaf and not given.get("throughput"):
        yield f"--pairs has no effect on {', '.join(deaf)}: it pairs jobs by those of a --throughput file."


def no_effect_remarks(
    options: RunOptions,
    trace: Trace,
    policies: Policies,
    costs: Costs,
    records: Sequence[Record],
    *,
    shows_observed: bool,
) -> Iterator[str]:
    """Options without effect on `trace` or with other options.

    `costs` are what stops of `policies` cost, `records` the runs; `shows_observed` is true if recorded starts
    are shown.
    """
    if options.costs:
        yield from _costs_remarks(options, trace, policies, costs)
    if options.ideal and not is_own_history(trace):
        yield "--ideal has no effect: true durations and free stops are what is taken for this trace anyway."
    if not trace.truth.failures:
        why = "has no effect: the trace records no failing attempts."
        if not options.failures:
            yield f"--no-failures {why}"
        elif options.retries is not None and not options.faults:
            yield f"--retries {options.retries} {why}"
    if options.limits == TimeLimits.ENFORCE and np.isnan(trace.jobs.limit_s).all():
        yield "--limits enforce has no effect: no job states how long it may run (limit_s)."
    yield from _seeds_remarks(records, options.seeds)
    if options.confidence and len(trace) < FEWEST_JOBS:
        yield f"--confidence has no effect: fewer than {FEWEST_JOBS} jobs are no basis."
    if options.site_policy and not shows_observed:
        why = "no recorded start is there to calibrate with"
        yield f"--site-policy {options.site_policy} has no effect: {why}."


def _costs_remarks(options: RunOptions, trace: Trace, policies: Policies, costs: Costs) -> Iterator[str]:
    """Parts of `costs` that no run can incur."""
    loses_nodes = bool(options.faults or options.autoscale)
    effects, none = PolicyEffects(policies, loses_nodes=loses_nodes), Costs()
    if not effects.named or isinstance(costs, MeasuredCosts):
        return
    given = [one.name for one in fields(none) if getattr(costs, one.name) != getattr(none, one.name)]
    levers = effects.levers
    moves = bool({Lever.MIGRATE, Lever.RESIZE} & levers)
    fails = options.failures and bool(trace.truth.failures)
    again = Lever.PREEMPT in levers or moves or loses_nodes or fails
    unread = {
        effects.clause("stops no running job"): set()
        if again
        else {"checkpoint", "restore", "migrate", "prepare", "resize", "preempt"},
        effects.clause("moves no running job"): set() if moves else {"migrate", "prepare"},
        effects.clause("changes no job's number of GPUs"): set() if Lever.RESIZE in levers else {"resize"},
        effects.clause("preempts no job"): set() if Lever.PREEMPT in levers else {"preempt"},
        "no node is lost (`--faults`)": set() if loses_nodes else {"checkpoint_every_s"},
    }
    for why, kinds in unread.items():
        names = [name.removesuffix("_s") for name in given if name in kinds]
        given = [name for name in given if name not in kinds]
        if names:
            has = "has" if len(names) == 1 else "have"
            yield f"--costs {' and '.join(names)} {has} no effect: {why}."


def _seeds_remarks(records: Sequence[Record], seeds: int) -> Iterator[str]:
    """The policies that ran once in spite of several seeds, since their runs draw nothing."""
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


def _named(policies: Policies) -> list[tuple[str, Policy]]:
    """Each policy with its name."""
    return [(str(p), p.make()) if isinstance(p, PolicySpec) else (type(p).__name__, p) for p in policies]
