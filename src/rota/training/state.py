"""The state of a program as one tree, taken from its objects and restored into them, with random numbers.

An object takes part if it has `state_dict` and `load_state_dict` (models, optimizers, schedulers, samplers,
scalers, or your own), if it is a dict (filled in place), or if it is a list or tuple of such. torch and NumPy
are used if the program has imported them; this module does not import them.
"""

from __future__ import annotations

import io
import pickle
import random
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rota.training.checkpoint import Summing


def plain(one: Any) -> Any:
    """The object whose state counts: a model without its data-parallel wrapper, which any size can load."""
    while type(one).__name__ in ("DistributedDataParallel", "DataParallel"):
        one = one.module
    return one


def check(name: str, one: Any) -> None:
    """Raise TypeError if `one` cannot take part."""
    one = plain(one)
    if isinstance(one, (list, tuple)):
        for number, part in enumerate(one):
            check(f"{name}[{number}]", part)
    elif not isinstance(one, dict) and not (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
        raise TypeError(
            f"{name}={type(one).__name__}: give a dict, or an object with state_dict() and load_state_dict()"
        )


def take(one: Any) -> Any:
    """The object's state; tensors and dicts are not copied, so use it before the next step."""
    one = plain(one)
    if isinstance(one, (list, tuple)):
        return [take(part) for part in one]
    return one if isinstance(one, dict) else one.state_dict()


def give(name: str, one: Any, state: Any) -> None:
    """Put an earlier state into the object, in place. ValueError if it does not fit."""
    one = plain(one)
    if isinstance(one, (list, tuple)):
        if len(one) != len(state):
            raise ValueError(f"{name}: the checkpoint has {len(state)} parts, this program {len(one)}")
        for number, part in enumerate(one):
            give(f"{name}[{number}]", part, state[number])
    elif isinstance(one, dict):
        one.clear()
        one.update(state)
    else:
        one.load_state_dict(state)


def random_states() -> dict[str, Any]:
    """States of the global generators this program can draw from; reading them draws nothing."""
    states: dict[str, Any] = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        states["numpy"] = numpy.random.get_state()
    if torch is not None:
        states["torch"] = torch.get_rng_state()
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def set_random_states(states: dict[str, Any]) -> None:
    """Continue from these states; generators of libraries this program has not imported are left out."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    random.setstate(states["python"])
    if numpy is not None and "numpy" in states:
        numpy.random.set_state(states["numpy"])
    if torch is not None and "torch" in states:
        torch.set_rng_state(states["torch"])
        cuda = states.get("cuda", ())
        if cuda and torch.cuda.is_available() and torch.cuda.device_count() == len(cuda):
            torch.cuda.set_rng_state_all(cuda)


def set_random_seeds(seed: int) -> None:
    """Seed for numbers that no rank has drawn: for a rank whose own states are in no checkpoint."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    if torch is not None:
        torch.manual_seed(seed % 2**63)


def dump(tree: Any, file: Summing) -> None:
    """Write a tree: by torch if the program has imported it, otherwise by pickle."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.save(tree, file)
    else:
        pickle.dump(tree, file, protocol=5)


def load(path: Path) -> Any:
    """Read a tree, with tensors in host memory.

    It is a pickle: as trustworthy as the checkpoint folder, which belongs to the job's own user.
    """
    with open(path, "rb") as file:
        head = file.read(2)
    if head == b"PK":  # torch's form is a zip file
        import torch

        return torch.load(path, map_location="cpu", weights_only=False)
    with open(path, "rb") as file:
        return pickle.load(file)


def packed(tree: Any) -> bytes:
    """A tree as bytes, for other ranks."""
    buffer = io.BytesIO()
    pickle.dump(tree, buffer, protocol=5)
    return buffer.getvalue()
