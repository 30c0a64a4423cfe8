"""Problems as Gavel's objectives see them, made by hand, and their answers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from rota.model.grants import Grant
from rota.model.tenants import Tenants
from rota.stages.round_demand import RoundDemand
from rota.systems.gavel.entries import entries
from rota.systems.gavel.system import Gavel, GavelObjective, TieRule

TIES = [TieRule.SUM, TieRule.VERTEX, TieRule.INTERIOR]
TWO = [[4, 1], [2, 1]]


def asked(
    objective,
    rates,
    *,
    gpus=None,
    capacity=(1, 1),
    pairs=None,
    tenants=(),
    own=None,
    runs=None,
    policy=Gavel,
    **known,
):
    """The problem of an objective; `known` are columns of the problem and parameters of the policy.

    `runs` has the type of GPU on which jobs run at present, `policy` is the class that asks.
    """
    rates = np.array(rates, dtype=float)
    jobs = len(rates)
    kind = type(policy().parameters)
    names = {field for field in kind.__dataclass_fields__ if field in known}
    asking = policy(
        kind(
            objective=GavelObjective(objective),
            pairs=pairs is not None,
            **{name: known.pop(name) for name in names},
        )
    )
    gpus = np.ones(jobs) if gpus is None else np.array(gpus, dtype=float)
    rows = np.arange(jobs)
    demand = RoundDemand(rows, gpus, rates, np.array(capacity, dtype=float), pairs)
    weights = np.array(known.setdefault("weights", np.ones(jobs)), dtype=float)
    types = ("v100", "p100", "k80")[: rates.shape[1]]
    cluster = SimpleNamespace(tenants=Tenants.of(*tenants), type_names=types)
    table = SimpleNamespace(ids=[str(row) for row in rows])
    cluster.device_type = np.arange(len(types))
    grants = {row: Grant(row, (kind,)) for row, kind in (runs or {}).items()}
    snapshot = SimpleNamespace(seed=0, cluster=cluster, jobs=SimpleNamespace(table=table), grants=grants)
    problem = asking.problem(snapshot, demand, {} if own is None else own)
    problem.__dict__["entries"] = entries(demand, problem.seen, weights[:, None])
    for name, values in known.items():
        problem.__dict__[name] = values if name == "tenants" else np.array(values, dtype=float)
    return problem


def answer(*args, policy=Gavel, **known):
    """Members and fractions of the answer, after a check that no job is promised what is not there."""
    problem = asked(*args, policy=policy, **known)
    shares = policy.objectives[GavelObjective(args[0])](problem)
    members, x = shares.members, shares.fractions
    spent = np.zeros(len(problem.rows))
    for (one, other), time in zip(members.tolist(), x.sum(axis=1), strict=True):
        spent[one] += time
        if other >= 0:
            spent[other] += time
    assert (x >= 0.0).all()
    assert (spent <= 1.0 + 1e-6).all()
    assert (problem.gpus[members[:, 0]] @ x <= problem.capacity * (1.0 + 1e-6) + 1e-9).all()
    return shares


def obtained(shares, rates):
    """Work per second of each job that shares with nobody."""
    return (shares.fractions * np.array(rates, dtype=float)).sum(axis=1)
