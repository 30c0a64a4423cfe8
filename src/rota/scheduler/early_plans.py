"""Plans that stop jobs earlier than a live cluster lets them: said wherever a policy is chosen."""

from __future__ import annotations

import math

from rota.errors import InputError
from rota.model.units import format_duration
from rota.scheduler.parameters import parse_parameters
from rota.scheduler.policy import PolicySpec, parse_policy, system


def plans_too_early(policy: str, min_run_s: float) -> list[str]:
    """That promises of `policy`, or of one inside it, count on GPUs which `min_run_s` leaves to their jobs.

    Nothing if they do not, or if nobody here knows the policy.
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
    """For how long promises leave alone who has just begun: a parameter of the policy, or of one inside it.

    Infinite for one that promises nothing on the strength of stopping anybody.
    """
    entry = system(spec.name)
    parameters = parse_parameters(entry.name, entry.parameters, spec.options)
    inner = getattr(parameters, "inner", None)
    if isinstance(inner, PolicySpec):
        return _keeps_begun_s(inner)
    return float(getattr(parameters, "min_run_s", math.inf))
