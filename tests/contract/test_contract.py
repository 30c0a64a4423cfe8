"""Every registered policy keeps the contract, and so do its variants."""

from __future__ import annotations

import pytest

from rota.scheduler.policy import systems
from rota.testing import PROPERTIES, Property, check_property, subject_of, variants

DEFAULTS = list(systems())
VARIANTS = [variant for name in systems() for variant in variants(name)[1:]]


@pytest.mark.parametrize("policy", DEFAULTS)
@pytest.mark.parametrize("prop", PROPERTIES, ids=str)
def test_policy(policy: str, prop: Property) -> None:
    check_property(subject_of(policy), prop)


@pytest.mark.parametrize("policy", VARIANTS)
@pytest.mark.parametrize("prop", PROPERTIES, ids=str)
def test_variant(policy: str, prop: Property) -> None:
    check_property(subject_of(policy), prop, seeds=(6, 7))


@pytest.mark.slow
@pytest.mark.parametrize("policy", DEFAULTS + VARIANTS)
@pytest.mark.parametrize("prop", PROPERTIES, ids=str)
def test_policy_deeply(policy: str, prop: Property) -> None:
    check_property(subject_of(policy), prop, seeds=range(100, 140))
