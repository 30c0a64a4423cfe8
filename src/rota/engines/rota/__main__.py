"""`python -m rota.engines.rota`: the agent as a process of its own, started by `rota up`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from pathlib import Path

from rota.engines.rota.main import Options, run
from rota.errors import RotaError


def main() -> int:
    """Run an agent until SIGTERM; on failure write one sentence to standard error."""
    parser = argparse.ArgumentParser(prog="rota-agent")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--controller", required=True)
    parser.add_argument("--devices", default="auto")
    parser.add_argument("--node", default="")
    parser.add_argument("--address", default="")
    parser.add_argument("--checkpoints", type=Path)
    parser.add_argument("--suspend-memory-gib", type=float)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return run(
            Options(
                home=given.home,
                controller=given.controller,
                join_token=os.environ.get("ROTA_JOIN_TOKEN", ""),
                devices=given.devices,
                node=given.node,
                address=given.address,
                checkpoints=given.checkpoints,
                suspend_memory_gib=given.suspend_memory_gib,
            )
        )
    except RotaError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
