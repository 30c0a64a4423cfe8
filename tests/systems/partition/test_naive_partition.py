"""Virtual clusters with nodes of their own, written once more from the page: each is a cluster by itself.

The page (docs/systems/partition.md): a unit serves the tenants named after it and those below them, by the
longest name; to its policy it is the whole cluster; what it could never hold is refused, and so is whose
tenant has no unit.  The twin plays each unit apart, with its nodes numbered from 0 and its clock of its own,
and never puts anything together: that a decision of one unit does not touch another, nor comes at another
moment because of it, is what is compared.  Hard quotas hold along the path of a tenant; one that a unit's
nodes imply is none.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from naive_rebuild import (
    Device,
    Live,
    NaiveQueue,
    NaiveRebuild,
    NaiveSrsf,
    NaiveSrtf,
    Site,
    Span,
    costs_of,
    joined,
    site_of,
    stays,
    trace_of_site,
)
from play import play
from rota.model.cluster import Cluster, NodeShape
from rota.model.tenants import Tenant, Tenants
from rota.worlds.simulated.run import Setting
from tiers import seed_ranges

KINDS = ["plain", "costs", "types", "quotas", "nodes"]
PATHS = ("a", "a/x", "a/x/deep", "ab", "b", "b/y", "nobody")
UNITS = ("a", "b", "a/x", "ab")
"""One may be named after a tenant below another's, and names may begin alike."""


@dataclass(frozen=True)
class Parted:
    """A site whose nodes belong to units, and whose tenants are numbers of `PATHS`."""

    site: Site
    unit: tuple[str, ...]
    """Of each node."""
    quotas: dict[str, int]
    """Hard ones."""

    def unit_of(self, job: int) -> str:
        """Where the job belongs: the longest of the names that its tenant's begins with."""
        parts = PATHS[self.site.wants[job].tenant].split("/")
        own = ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
        return next((name for name in own if name in self.unit), "")


def parted_of(seed: int, kind: str) -> Parted:
    draw = random.Random(f"parted {kind} {seed}")
    sites = [site_of(seed + 7919 * turn, kind) for turn in range(2)]
    nodes = sorted((node for site in sites for node in site.nodes), key=lambda node: node[0])
    wants = sorted((want for site in sites for want in site.wants), key=lambda want: want.submit_s)
    wants = [replace(want, tenant=draw.choice([0, 0, 1, 2, 3, 4, 4, 5, 6])) for want in wants]
    names = draw.sample(UNITS, k=draw.randint(1, 3))
    unit = tuple(draw.choice(names) for _ in nodes)
    site = replace(sites[0], nodes=nodes, wants=wants, caps=())
    quotas = dict[str, int]()
    if kind == "quotas":
        quotas = {path: draw.randint(1, 6) for path in PATHS if draw.random() < 0.4}
        quotas = {path: most for path, most in quotas.items() if len(units_under(path, unit)) < 2}
    return Parted(site, unit, quotas)


def units_under(path: str, unit: tuple[str, ...]) -> set[str]:
    """Units whose jobs count against a quota of `path`: for several of them there is no such quota."""
    under = {name for name in unit if (name + "/").startswith(path + "/")}
    parts = path.split("/")
    above = ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return under | {next((name for name in above if name in unit), path)}


# -- one unit by itself ----------------------------------------------------------------------------


class Unit(NaiveRebuild):
    """A cluster with quotas along the paths of its tenants."""

    quotas: dict[str, int]

    def quotas_of(self, job: int) -> list[str]:
        path = PATHS[self.wants[job].tenant] + "/"
        return [own for own in self.quotas if path.startswith(own + "/")]

    def counts(self) -> bool:
        return not self.quotas and super().counts()

    def fits_quota(self, job: int, held: dict[int, tuple[Device, ...]]) -> bool:
        for own in self.quotas_of(job):
            used = sum(len(devices) for other, devices in held.items() if own in self.quotas_of(other))
            if used + self.wants[job].gpus > self.quotas[own]:
                return False
        return True

    def is_possible(self, job: int) -> bool:
        most = min((self.quotas[own] for own in self.quotas_of(job)), default=math.inf)
        if self.site.placement == "one_node":  # drawn for the whole: no node of its unit may be as large
            most = min(most, max(size for _, size, _ in self.site.nodes))
        return super().is_possible(job) and self.wants[job].gpus <= most


class Fifo(NaiveQueue, Unit):
    pass


class FifoSkip(Fifo):
    skips = True


class Sjf(Fifo):
    def key(self, one: Live) -> Any:
        return self.wants[one.job].run_s


class Srtf(NaiveSrtf, Unit):
    pass


class Srsf(NaiveSrsf, Unit):
    pass


def apart(parted: Parted, inner: type[Unit]) -> list[list[Span]]:
    """Each unit played as a cluster of its own; the nodes are numbered as in the whole."""
    site, spans = parted.site, list[list[Span]]([] for _ in parted.site.wants)
    for name in sorted({*parted.unit}):
        nodes = [node for node, unit in enumerate(parted.unit) if unit == name]
        jobs = [job for job in range(len(site.wants)) if parted.unit_of(job) == name]
        own = replace(
            site, nodes=[site.nodes[node] for node in nodes], wants=[site.wants[job] for job in jobs]
        )
        twin = inner(own)
        gpus = sum(size for _, size, _ in own.nodes)
        twin.quotas = {
            path: most
            for path, most in parted.quotas.items()
            if name in units_under(path, parted.unit)
            and (most < gpus or (path != name and path.startswith(name + "/")))
        }
        for job, of_job in zip(jobs, twin.play(), strict=True):
            spans[job] = [
                (start_s, end_s, tuple(nodes[node] for node in held)) for start_s, end_s, held in of_job
            ]
    return joined(spans)


def of_house(policy: str, parted: Parted) -> list[list[Span]]:
    site = parted.site
    shapes = [
        NodeShape(1, size, f"T{kind}", levels={"vc": unit})
        for (kind, size, _), unit in zip(site.nodes, parted.unit, strict=True)
    ]
    owners = [Tenant(path, float(most), hard=True) for path, most in parted.quotas.items()]
    cluster = Cluster.build(shapes, Tenants.of(*owners) if owners else None)
    return joined(stays(play(policy, trace_of_site(site, PATHS), cluster, Setting(costs=costs_of(site)))))


INNER = [
    ("fifo[placement={}]", Fifo),
    ("fifo[skip=yes,placement={}]", FifoSkip),
    ("sjf[placement={}]", Sjf),
    ("srtf[placement={}]", Srtf),
    ("srsf[placement={}]", Srsf),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("policy", "inner"), INNER)
@pytest.mark.parametrize("seeds", seed_ranges(2, 20, 400), ids=str)
def test_every_stay(policy: str, inner: type[Unit], kind: str, seeds: range) -> None:
    for seed in seeds:
        parted = parted_of(seed, kind)
        name = f"partition:policy={policy.format(parted.site.placement)}"
        assert of_house(name, parted) == apart(parted, inner), seed
