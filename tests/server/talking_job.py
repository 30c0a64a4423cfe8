"""What the tests of the Job page run: ranks that train a little and talk a lot.  Standard library only."""

from __future__ import annotations

import math
import os
import sys
import time

import rota.training as rota

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
seconds, pause = float(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
state = {"step": 0}
job = rota.attach(state=state, batch_size=32 * ranks)
print(f"rank {rank} of {ranks} begins <script>document.title='taken'</script> \x1b[31mred\x1b[0m", flush=True)
until = time.monotonic() + seconds
for step in job.steps(10**6):
    if time.monotonic() > until:
        break
    time.sleep(pause)
    loss = 4.0 * math.exp(-step / 150) + 0.1 * math.sin(step / 7) + 0.4
    job.step(loss=loss, samples=32)
    if step % 20 == 0:
        print(f"rank {rank} step {step} loss {loss:.3f}", flush=True)
print(f"rank {rank} is done", flush=True)
