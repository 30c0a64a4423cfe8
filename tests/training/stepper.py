"""stepper.py STEPS PACE_S: a plain loop that logs `step time batch` to STEP_LOG.RANK; no torch, no NumPy.

It ends before that as soon as there is a file STEP_LOG.RANK.end.
"""

from __future__ import annotations

import os
import random
import sys
import time

import rota.training as rota

state = {"numbers": []}
job = rota.attach(state=state, batch_size=8, checkpoint_every_s=None)
log = open(f"{os.environ['STEP_LOG']}.{job.rank}", "a", buffering=1, encoding="utf-8")  # noqa: SIM115
for step in job.steps(int(sys.argv[1])):
    if os.path.exists(f"{log.name}.end"):
        job.finish()
        break
    time.sleep(float(sys.argv[2]) * (1 + job.rank))
    state["numbers"].append(random.random())
    print(step, time.monotonic(), job.batch_size, file=log)
    job.step(loss=1.0, samples=job.local_batch_size)
print(state["numbers"])
