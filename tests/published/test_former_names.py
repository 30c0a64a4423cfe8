"""Names that published code had before it had names of its own are still read."""

from __future__ import annotations

import pytest

from rota.published import FORMER_MODES, POLICIES
from rota.scheduler.policy import parse_policy


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("gavel:aware=no,mode=artifact", "gavel@authors:aware=no"),
        ("gavel:mode=sia", "gavel@sia"),
        ("optimus:mode=artifact,interval_s=300", "optimus@pollux"),
        ("pollux:mode=paper", "pollux"),
        ("pollux:mode=artifact,patience=3,p=0", "pollux@authors:p=0"),
        ("sia:mode=fixed,power=0.5", "sia@fixed:power=0.5"),
        ("tiresias:mode=artifact,quantum=60", "tiresias@authors:quantum=60"),
        ("tiresias:quantum=60", "tiresias"),
    ],
)
def test_former_names(former: str, name: str) -> None:
    """Parameters without an effect there are left out."""
    assert str(parse_policy(former)) == name


def test_every_former_mode_names_a_policy() -> None:
    named = {name for modes in FORMER_MODES.values() for name in modes.values() if "@" in name}
    assert named == set(POLICIES)
