"""The rules that the guard holds every decision to, each with a code by which tests and reports name it."""

from __future__ import annotations

import math
from typing import NamedTuple

from rota.table.state import State

RULES = {
    "named-twice": "a job is named once in a decision",
    "not-live": "only submitted jobs that have not ended are granted, preempted or ended",
    "not-running": "only running jobs are preempted",
    "not-waiting": "only waiting jobs are refused or made an offer",
    "no-device": "a grant names devices that exist, a CPU job's grant a node",
    "device-twice": "a grant names a device once",
    "unhealthy": "no grant on a lost device or node",
    "gang": "a gang is whole or absent",
    "size": "a job gets a number of GPUs it can use",
    "type": "a job runs on a GPU type it accepts",
    "node-set": "a job runs on nodes that will do for it, by their names and labels",
    "share": "a share is above 0 and at most 1; less than the whole only with a role",
    "oversubscribed": "shares on a device sum to at most 1, opportunistic ones aside",
    "alone": "a job alone on a device shares it with nobody",
    "memory": "device memory is never oversubscribed",
    "cpu": "CPU and memory of a node are never oversubscribed",
    "quota": "a hard quota is never exceeded",
    "reserved": "a reserved device is granted to nobody else",
    "offer": "an offer is of a deadline to come, is valid for a while, and answers one that was asked for",
    "lever": "a policy pulls the levers that it declares",
    "reservation": "a reservation keeps existing devices, each for one live job",
}


class Breach(NamedTuple):
    """One rule broken by one job."""

    rule: str
    job: int
    message: str
    until_s: float = math.nan
    """Moment from which it would be none, if time alone cures it; NaN otherwise."""


def breach(state: State, rule: str, row: int, what: str) -> Breach:
    """`what` the decision does with job `row`, in words that follow its name."""
    return Breach(rule, row, f"job {name_of(state, row)} {what}; rule: {RULES[rule]}")


def name_of(state: State, row: int) -> str:
    """The id of job `row`, or the number itself where there is no such job."""
    ids = state.jobs.ids  # one for each job; in a live cluster the columns have room for more
    return ids[row] if 0 <= row < len(ids) else str(row)
