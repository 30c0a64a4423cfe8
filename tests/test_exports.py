"""The public names: each is there, documented, and no other."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rota


@pytest.mark.parametrize("name", rota.__all__)
def test_public_name(name: str) -> None:
    assert name in dir(rota)
    value = getattr(rota, name)
    assert isinstance(value, str) or value.__doc__, f"rota.{name} has no docstring"


def test_all_is_exactly_what_is_public() -> None:
    assert sorted(rota.__all__) == sorted([*rota._HOME, "__version__"])


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        rota.simulat  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
def test_import_is_light() -> None:
    """`import rota` loads none of the libraries it may need later."""
    probe = "import sys, rota; print(*{'numpy', 'polars', 'scipy', 'rich', 'yaml'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stdout == "\n"
