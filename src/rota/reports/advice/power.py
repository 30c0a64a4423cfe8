"""What GPUs draw, as the operator says: watts of a busy GPU and of an idle one, by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from rota.errors import InputError
from rota.model.cluster import Cluster
from rota.model.columns import Floats
from rota.reports.occupancy import closed_intervals, node_types
from rota.reports.sample import Sample

EXPECTED = "BUSY:IDLE watts such as 300:60, by type A100=400:60,V100=300:50"


@dataclass(frozen=True)
class Power:
    """Watts that a GPU draws more when it is held than when it is idle."""

    by_type: Mapping[str, float]
    """By GPU type of the cluster."""

    def joules(self, sample: Sample) -> Floats:
        """What each job drew above idle GPUs; NaN for a job that has not ended."""
        held = closed_intervals(sample.record).select("job", "start_s", "end_s", "gpus", "share", "nodes")
        watts = np.array([self.by_type[name] for name in node_types(sample.record)])
        each = held.with_columns(
            seconds=pl.col("end_s") - pl.col("start_s"),
            # Where a record does not say which devices a job held, they are taken to be a mean of all.
            node=pl.when(pl.col("nodes").list.len() > 0).then(pl.col("nodes")),
        )
        known = each.filter(pl.col("node").is_not_null()).explode("node")
        blind = each.filter(pl.col("node").is_null())
        drawn = np.zeros(len(sample.record.jobs))
        amount = known["seconds"].to_numpy() * known["share"].to_numpy()
        np.add.at(drawn, known["job"].to_numpy(), amount * watts[known["node"].to_numpy().astype(np.int64)])
        amount = blind["seconds"].to_numpy() * blind["share"].to_numpy() * blind["gpus"].to_numpy()
        np.add.at(drawn, blind["job"].to_numpy(), amount * (watts.mean() if len(watts) else 0.0))
        return np.where(sample.finished, drawn[sample.rows], np.nan)


def parse_power(text: str, cluster: Cluster) -> Power:
    """`300:60` for all GPUs, `A100=400:60,V100=300:50` by type; InputError if a type is left out."""
    above: dict[str, float] = {}
    for part in (part.strip() for part in text.split(",")):
        name, _, watts = part.rpartition("=")
        busy, colon, idle = watts.partition(":")
        try:
            draws = float(busy), float(idle)
            if not colon or not 0.0 <= draws[1] < draws[0] < float("inf"):
                raise ValueError
        except ValueError:
            raise InputError.at(f"{part!r} is no power", field="--power", expected=EXPECTED) from None
        above[name.strip().casefold()] = draws[0] - draws[1]
    types = {name: above.get(name.casefold(), above.get("")) for name in cluster.type_names}
    missing = next((name for name, watts in types.items() if watts is None), None)
    if missing is not None:
        raise InputError.at(f"says nothing of {missing}", field="--power", expected=EXPECTED)
    return Power({name: watts for name, watts in types.items() if watts is not None})
