"""Warns of plans that stop jobs earlier than a live cluster allows, wherever a policy is chosen."""

from __future__ import annotations

import math

from rota.errors import InputError
from rota.model.units import format_duration
from rota.scheduler.parameters import parse_parameters
from rota.scheduler.policy import PolicySpec, parse_policy, system


def plans_too_early(policy: str, min_run_s: float) -> list[str]:
    """Warnings that promises of `policy`, or of one inside it, count on GPUs that `min_run_s` protects.

    None if they do not, or if the policy is unknown here.
    """
    try:
        keeps_s = _keeps_begun_s(parse_policy(policy))
    except InputError:  # one that only the policy's process can load
        return []
    if keeps_s >= min_run_s:
        return []
    runs = format_duration(min_run_s).replace(" ", "")
    return [
        f"plans of {policy} may count on GPUs of jobs that have run for less than {runs} (min_run), which "
        f"keep them until then: min_run_s={min_run_s:g} of elasticflow makes it reckon with that"
    ]


def _keeps_begun_s(spec: PolicySpec) -> float:
    """Seconds for which promises spare a job that has just begun: a parameter of the policy or one inside it.

    Infinite for a policy whose promises do not rest on stopping any job.
    """
    entry = system(spec.name)
    parameters = parse_parameters(entry.name, entry.parameters, spec.options)
    inner = getattr(parameters, "inner", None)
    if isinstance(inner, PolicySpec):
        return _keeps_begun_s(inner)
    return float(getattr(parameters, "min_run_s", math.inf))
