"""The Python API; the command line calls nothing else.

    import rota
    result = rota.simulate("trace.csv", cluster="80x8:V100", policies=["tiresias", "srtf", "fifo"])
    result.report("out/")

analyze    what a trace says of the cluster that made it (`rota.api.analyzing`)
simulate   replay a trace under several policies
results    what came out: records, summaries, comparison, files
moments    one moment of a run, kept in a file and decided again
forecast   what would become of the jobs of a moment, under its policy and under others
estimate   when one of them would start
futures    the forks of a moment on which both stand
"""

from __future__ import annotations

from rota.api.comparing import simulate
from rota.api.moments import replay, snapshot
from rota.api.results import Results

__all__ = ["Results", "replay", "simulate", "snapshot"]
