"""Library for user programs that can be paused, moved and resized: standard library, and torch if present.

import rota.training as rota

job = rota.attach(model=model, optimizer=optimizer, sampler=sampler)
for epoch in job.epochs(10):
    for batch in loader:
        ...
        job.step(loss=loss, samples=len(batch))
"""

from __future__ import annotations

from rota.training.checkpoint import CheckpointError, Checkpoints, Voided
from rota.training.environment import Environment
from rota.training.host_limits import Limits, limits
from rota.training.loop import Job, attach
from rota.training.protocol import LEAVE_CODE, VERSION, VOID_CODE
from rota.training.sampler import Sampler
from rota.training.torch_state import ddp

__all__ = [
    "LEAVE_CODE",
    "VERSION",
    "VOID_CODE",
    "CheckpointError",
    "Checkpoints",
    "Environment",
    "Job",
    "Limits",
    "Sampler",
    "Voided",
    "attach",
    "ddp",
    "limits",
]
