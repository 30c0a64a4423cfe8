"""What a live cluster forbids every policy: thrashing, and stopping jobs that must not be stopped."""

from __future__ import annotations

from functools import partial

from rota.scheduler.guard.live_rules import Gentle, LostWork, MinimumRun, NoPreemption, together
from rota.scheduler.loop import Rules
from rota.worlds.live.preemption import to_redo
from rota.worlds.live.world import LiveWorld


def rules_in_force(world: LiveWorld, min_run_s: float, *, is_new: bool) -> Rules:
    """The rules of `world`; no job is preempted before it has run for `min_run_s` seconds.

    A policy that `is_new` has not decided yet: its first decision stops no job.
    """

    def fixed() -> set[int]:
        live = world.live
        return {row for row in live.state.grants if row in live and not live[row].spec.preemptible}

    rules: list[Rules] = [
        NoPreemption(fixed),  # first: what passes with time is no reason where nothing will
        LostWork(partial(to_redo, world.live)),
        MinimumRun(min_run_s, world.began_s),
    ]
    if is_new:
        rules.append(Gentle())
    return together(*rules)
