"""Optimus — predict when jobs will have converged, and give GPUs to the job that saves most time.

Paper     Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
          EuroSys 2018
Decides   number of GPUs and of parameter servers (CPUs), order, placement, preemption
Needs     how long each job still needs (from its losses so far), and its speed by number of GPUs, or by
          parameter servers and workers
Idea      1. Every job gets its least, in order of arrival, so that no job starves.
          2. One more unit, a worker or a server, saves a job Q / f - Q / f' seconds, Q being its work left
             and f its speed; the job that saves most for the unit's part of the cluster gets it, until
             no job saves anything.
          3. Of jobs whose losses say little yet the saving counts for a little less.
          4. Small jobs are placed first, each on the fewest servers that hold it in equal parts.
          All of this is repeated every ten minutes; a job whose number stays the same keeps its place.
Departs   A worker is a GPU, a server some CPUs of the grant: they lie as the GPUs do, and a server may count
          in parts on two nodes.  More or fewer servers alone are no restart.  A job whose workload has no
          speeds by servers reduces gradients among its workers; where no job has any, a unit is a GPU and
          divides nothing.  Slow workers are not replaced, and which server holds which parameters is left to
          the program.  A resize that saves less than it costs is left out (ours); sizes between which a job
          must jump are compared by saving per GPU (ours).  A job about which nothing is known is taken to
          need the mean of the others (ours).  The cluster is assumed to have one type.  The baseline
          in Pollux' simulator is `optimus@pollux`.
Checked   systems/optimus.md, worked examples 1 to 3
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rota.errors import InputError
from rota.knowledge.needs import Knowledge
from rota.scheduler.decision import Decision, Memory
from rota.scheduler.policy import Lever, register
from rota.scheduler.snapshot import Snapshot
from rota.systems.optimus.policy import MarginalSavings

PAPER = "EuroSys 2018"


@dataclass(frozen=True)
class OptimusParameters:
    """Parameters of `optimus`."""

    interval_s: float = 600.0
    """T: seconds between two decisions."""
    event_driven: bool = False
    """Decide when jobs come and go as well."""
    young_factor: float = 0.95
    """Weight of the saving of a job with fewer than ten losses."""
    restart_s: float = 30.0
    """A resize that saves less than this is left out."""

    def __post_init__(self) -> None:
        for name, least, most in (
            ("interval_s", 1.0, math.inf),
            ("young_factor", 0.0, 1.0),
            ("restart_s", 0.0, math.inf),
        ):
            value = getattr(self, name)
            if not least <= value <= most or value == math.inf:
                above = f"{least:g} to {most:g}" if most < math.inf else f"{least:g} or more"
                raise InputError(f"policy 'optimus': {name}={value:g}; expected {above}")


@register(
    "optimus",
    "Most time saved by one more GPU, from predicted convergence and speed",
    paper=PAPER,
    needs={Knowledge.SCALING, Knowledge.CONVERGENCE, Knowledge.SERVERS},
    levers={Lever.PREEMPT, Lever.RESIZE, Lever.MIGRATE},
    parameters=OptimusParameters,
    work_conserving=False,
)
class Optimus:
    """Marginal savings of time."""

    def __init__(self, parameters: OptimusParameters | None = None) -> None:
        self.parameters = p = parameters or OptimusParameters()
        self.inner = MarginalSavings(p.interval_s, p.young_factor, p.restart_s, event_driven=p.event_driven)

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision:
        return self.inner.decide(snapshot, memory)
