"""What it costs to tell a policy process how fast each job is on how many GPUs.

    python benchmarks/knowledge.py [--rows 8192] [--gpus 640] [--classes 300]

Two forms of the same knowledge: a column with every rate of every job, and a table with a class for each
job and a curve for each class.  Printed are the bytes that provider, controller and policy process hold,
and the time of one decision upon which nothing has changed: the wall clock's best of twenty.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from rota.knowledge.needs import Knowledge, Known, Provenance, Table
from rota.knowledge.scaling import curves_of
from rota.server.policy.provider_messages import KnowledgeTold

COPIES = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--gpus", type=int, default=640)
    parser.add_argument("--classes", type=int, default=300)
    args = parser.parse_args()
    random = np.random.default_rng(0)
    rates = np.cumsum(random.random((args.classes, args.gpus + 1)), axis=1)
    curve = random.integers(0, args.classes, args.rows)
    table = Table({"curve": curve, "unit": np.ones(args.rows)}, {"rates": rates})
    column = curves_of(table, np.arange(args.rows), args.gpus)
    print(f"{args.rows} rows, {args.gpus + 1} numbers of GPUs, {args.classes} classes")
    for name, values in (
        ("a rate for each job and number of GPUs", column),
        ("a curve for each class", table),
    ):
        known = {Knowledge.SCALING: Known(values, Provenance.MEASURED)}
        arrays = [*table.by_row.values(), rates] if values is table else [column]
        mib = sum(array.nbytes for array in arrays) / 2**20
        took_ms = min(_told_ms(known, args.rows) for _ in range(4))
        print(f"{name:40} {mib:8.2f} MiB x {COPIES}   {took_ms:8.3f} ms a decision")


def _told_ms(known: dict[Knowledge, Known], rows: int) -> float:
    """Milliseconds to see that nothing is new, best of five."""
    told = KnowledgeTold()
    told.news(known, set(known), rows)
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        assert not told.news(known, set(known), rows)
        best = min(best, time.perf_counter() - began)
    return best * 1000.0


if __name__ == "__main__":
    main()
