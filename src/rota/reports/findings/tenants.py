"""What each tenant's jobs went through: waiting against running, its middle and its tail."""

from __future__ import annotations

import numpy as np

from rota.model.units import format_duration
from rota.reports.finding import Bars, Finding, Remedy, Replay, Said
from rota.reports.findings.history import JobHistory
from rota.reports.wording import two_digits

STUDY = "tenants"
LEAST_JOBS = 20
"""Of fewer jobs a tail says nothing."""
_SHORTEST_S = 60.0
"""Waits are compared in no finer grain: two seconds against one is no unfairness."""
_FAIR = Remedy(
    *("themis", "systems/themis.md", "evens out how much later tenants finish than alone on their share"),
    replay=Replay("themis"),
    metric="max_rho",
)
_SHARES = Remedy("gandiva_fair", "systems/gandiva_fair.md", "gives every user a share of the GPU time")


def study(history: JobHistory) -> Said:
    """How far apart tenants are in the mean and at the tail of their waits."""
    what = "what each tenant's jobs went through"
    if not history.starts:
        return Said.gap(STUDY, what, "the start of each job")
    # One account says nothing of fairness: then its users are compared.
    who = history.tenant if len(history.tenant.names) > 1 else history.user
    wait_s = history.waits_s
    known = history.dated
    of = {
        name: wait_s[own]
        for code, name in enumerate(who.names)
        for own in [known & (who.code == code)]
        if int(own.sum()) >= LEAST_JOBS
    }
    if len(of) < 2:
        needs = f"two tenants (Account, User) with at least {LEAST_JOBS} jobs that started"
        return Said.gap(STUDY, what, needs)
    means = {name: float(waits.mean()) for name, waits in of.items()}
    tails = {name: float(np.percentile(waits, 95)) for name, waits in of.items()}
    worst, best = max(means, key=lambda name: means[name]), min(means, key=lambda name: means[name])
    longest = max(tails, key=lambda name: tails[name])
    apart = max(means[worst], _SHORTEST_S) / max(means[best], _SHORTEST_S)
    low, high, tail = (format_duration(of) for of in (means[best], means[worst], tails[longest]))
    if apart >= 1.2:
        of_tail = (
            f"; the longest tail is that of {longest}, where one job in twenty waited more than {tail}"
            if tails[longest] >= _SHORTEST_S
            else ""
        )
        sentence = f"Jobs of {worst} waited {high} on average once eligible, those of {best} {low}{of_tail}."
    else:
        sentence = f"Tenants waited alike: between {low} and {high} on average once eligible."
    ranked = sorted(of, key=lambda name: (-means[name], name))
    rows = [
        (name, (means[name],), f"{format_duration(means[name])}, 95%: {format_duration(tails[name])}")
        for name in ranked
    ]
    figure = Bars.of(
        "Mean wait once eligible, by tenant", "And the wait that one job in twenty passes.", rows
    )
    return Said.one(
        Finding(
            *("tenant_spread", STUDY, sentence, apart, "ratio"),
            numbers={"mean_s": means, "p95_s": tails, "jobs": {name: len(of[name]) for name in of}},
            figure=figure if any(tails.values()) else None,
            note=f"Means differ by a factor of {two_digits(apart)}." if apart >= 1.2 else "",
            remedies=(_FAIR, _SHARES) if apart >= 2.0 else (),
        )
    )
