"""`python -m rota.testing POLICY [--seed N] [--only SENTENCE]`: hold a policy to the contract.

POLICY is a name with parameters as on the command line of `rota`, or `module:Class`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rota.errors import InputError, RotaError
from rota.model.units import plural
from rota.scheduler.policy import systems
from rota.testing.contract import SEEDS, check_policy
from rota.testing.subject import ContractError


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if the contract holds, 1 if it is broken."""
    parser = argparse.ArgumentParser(prog="python -m rota.testing", description=__doc__)
    parser.add_argument("policy")
    parser.add_argument("--seed", type=int, help="one scene only")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="number of scenes")
    parser.add_argument("--only", default="", help="one property only, by its sentence or the start of it")
    given = parser.parse_args(arguments)
    seeds = range(given.seeds) if given.seed is None else [given.seed]
    try:
        check_policy(_policy(given.policy), seeds=seeds, only=given.only)
    except (ContractError, RotaError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{given.policy} keeps the contract in {plural(len(seeds), 'scene')}")
    return 0


def _policy(text: str) -> Any:
    """A registered name, or the class behind `module:Class`; InputError if there is none."""
    module, _, name = text.partition(":")
    if module in systems() or not name or "=" in name:
        return text
    try:
        policy: Any = import_module(module)
        for part in name.split("."):
            policy = getattr(policy, part)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{text}: {error}; expected a policy's name or MODULE:CLASS") from error
    return policy


if __name__ == "__main__":
    sys.exit(main())
