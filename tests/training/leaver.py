"""leaver.py STEP SCRIPT ...: runs SCRIPT and tells it to leave when it has done STEP steps (0: never)."""

from __future__ import annotations

import os
import runpy
import sys
from typing import Any

from rota.training import gate, protocol

stop, script = int(sys.argv[1]), sys.argv[2]
sys.argv = sys.argv[2:]
step = gate.StepGate.step


def step_and_tell(self: gate.StepGate, loss: Any = None, samples: float = 0.0) -> None:
    if self.step_count + 1 == stop:
        protocol.command(os.environ["ROTA_TRAINING_DIR"], protocol.Directive("leave"))
    step(self, loss, samples)


gate.StepGate.step = step_and_tell  # type: ignore[method-assign]
runpy.run_path(script, run_name="__main__")
