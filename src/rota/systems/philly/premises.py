"""What Philly works out once for a cluster, its table of jobs and the nodes that are there."""

from __future__ import annotations

from rota.model.cluster import Cluster
from rota.model.jobs import JobTable
from rota.systems.philly.kinds import Kinds
from rota.systems.philly.locality import Domains
from rota.systems.philly.parameters import PhillyParameters
from rota.systems.philly.quota import VirtualClusterQuotas
from rota.table.free import mask_of


class Premises:
    """What follows from the cluster, the table of jobs and who is `down`: lost, or closed to new grants."""

    def __init__(self, cluster: Cluster, jobs: JobTable, p: PhillyParameters, down: list[int]) -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.down = down
        self.up = ~mask_of(down)
        """Mask of the nodes where attempts look."""
        self.domains = Domains(cluster, p.domain)
        self.clusters = VirtualClusterQuotas(cluster, jobs)
        hosts = jobs.cpus.any() and cluster.node_cpus.any()
        hosts |= jobs.memory_gib.any() and cluster.node_memory_gib.any()
        caps = any(tenant.hard for tenant in cluster.tenants.by_path.values())
        self.sleeps = not (p.dedicated or hosts or caps)
        """True if the candidate nodes of an attempt depend on nothing but free GPUs."""
        self.kinds = Kinds(cluster, self.domains, self.sleeps and not p.migrate, self.up)
        """Where jobs move, each decision may move one: nobody sleeps because others' GPUs are too few."""
