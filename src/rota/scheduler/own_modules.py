"""The user's own policies that no package registers: modules and files that a variable names.

Every process that looks a policy up imports them: the command line, workers of a simulation, a controller
and the processes in which its policies decide.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from rota.errors import InputError, words_of

MODULES = "ROTA_POLICY_MODULES"
"""Environment variable: modules on the path, or Python files, that register policies; joined by commas."""


def import_policies() -> None:
    """Import the modules of `ROTA_POLICY_MODULES`; InputError names one that cannot be imported."""
    for name in filter(None, (part.strip() for part in os.environ.get(MODULES, "").split(","))):
        try:
            _import(name)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # whatever a module of a user does while it is imported
            raise InputError(
                f"{MODULES}: module {name!r} cannot be imported: {words_of(error, Path(name).stem)}; "
                "expected a module on Python's path, or a file that ends with .py"
            ) from error


def _import(name: str) -> None:
    """Import a module, or a file as the module of its name, by which pickled objects are found again."""
    if not name.endswith(".py"):
        import_module(name)
        return
    file = Path(name).expanduser().resolve()
    if not file.is_file():
        raise InputError(f"{MODULES}: there is no file {file}; expected one that registers policies")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    source = getattr(import_module(file.stem), "__file__", None)
    if source is None or Path(source).resolve() != file:
        other = source or file.stem
        raise InputError(f"{MODULES}: {file} has the name of another module, {other}; expected its own")
