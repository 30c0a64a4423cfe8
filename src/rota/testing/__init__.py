"""The contract every policy keeps, for your own policies too.

    from rota.testing import policy_contract
    test_mine = policy_contract(MyPolicy)          # a pytest test, one case per property

    from rota.testing import check_policy
    check_policy("fifo:skip=yes")                  # the same without pytest

`python -m rota.testing fifo --seed 17` repeats one scene from the command line.
"""

from rota.testing.contract import check_policy, check_property, policy_contract
from rota.testing.properties import PROPERTIES
from rota.testing.scenes import Scene, make_scene
from rota.testing.sentences import Property
from rota.testing.subject import ContractError, Subject, subject_of, variants

__all__ = [
    "PROPERTIES",
    "ContractError",
    "Property",
    "Scene",
    "Subject",
    "check_policy",
    "check_property",
    "make_scene",
    "policy_contract",
    "subject_of",
    "variants",
]
