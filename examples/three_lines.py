"""A complete comparison: a trace, a cluster, two policies; tables, summaries and a report in `out/`."""

import rota

trace = rota.generate(1000, seed=7, load=0.9, cluster=32)  # or the name of a file
result = rota.simulate(trace, cluster="4x8:V100", policies=["srtf", "fifo"])
print(result.table(width=90))
print(result.report("out/"))
