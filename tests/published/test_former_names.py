"""Names that live clusters and fidelity cases have on record are read as today's, with one line of notice."""

from __future__ import annotations

import logging

import pytest

from rota.published import FORMER_MODES, FORMER_PARAMETERS, POLICIES
from rota.scheduler import former_names
from rota.scheduler.policy import parse_policy, published, systems


@pytest.mark.parametrize(
    ("former", "todays"),
    [
        ("tiresias:mode=artifact,limits=4/8", "tiresias@authors:limits=4/8"),
        ("tiresias:limits=57600,mode=pollux", "tiresias@pollux:limits=57600"),
        ("tiresias:mode=paper,promote=2", "tiresias:promote=2"),
        ("tiresias:quantum=60,promote=2", "tiresias:promote=2"),
        ("themis:mode=artifact", "themis@elasticflow"),
        ("gandiva:mode=tiresias", "gandiva@tiresias"),
        ("gandiva:mode=elasticflow,packing=no", "gandiva@elasticflow"),
        ("gavel:aware=no,mode=artifact", "gavel@authors:aware=no"),
        ("gavel:mode=sia", "gavel@sia"),
        ("optimus:mode=artifact,interval_s=300", "optimus@pollux"),
        ("pollux:mode=paper", "pollux"),
        ("pollux:mode=artifact,patience=3,p=0", "pollux@authors:p=0"),
        ("sia:mode=fixed,power=0.5", "sia@fixed:power=0.5"),
        ("sia:mode=fixed", "sia@fixed:power=-0.5"),
        ("gavel:tie=mode,aware=no", "gavel:aware=no"),
        ("gavel:mode=artifact,tie=mode", "gavel@authors"),
        ("shockwave:predictor=mode", "shockwave"),
        ("synergy:policy=las[quantum=7200],mode=artifact", "synergy@authors:policy=las[quantum=7200]"),
    ],
)
def test_former_names_are_read(former: str, todays: str) -> None:
    assert str(parse_policy(former)) == todays


def test_each_is_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    former_names._note_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        parse_policy("srsf:mode=artifact")
        parse_policy("srsf:mode=artifact")
    assert caplog.messages == ["policy 'srsf:mode=artifact' is called 'srsf@tiresias' now"]


def test_every_name_leads_somewhere() -> None:
    """Published code is listed apart from the papers' policies; former names lead to policies that exist."""
    own, code = systems(), published()
    assert not own.keys() & code.keys()
    assert {name.partition("@")[0] for name in code} <= own.keys()
    assert {one for modes in FORMER_MODES.values() for one in modes.values()} <= {*own, *POLICIES}
    assert FORMER_PARAMETERS.keys() <= {*own, *code}
