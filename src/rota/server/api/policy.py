"""The policy: which one decides, which one runs in its shadow, what another one would do."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query
from starlette.responses import Response

from rota.server.api.forms import PolicyChoice, Question
from rota.server.api.problems import refusals
from rota.server.api.route_parts import Admin, AskedPolicies, Person, answer
from rota.wire.views import DecisionView, PolicyView, WhatIf

router = APIRouter(prefix="/v1", tags=["policy"], responses=refusals())
ChoiceBody = Annotated[PolicyChoice, Body(examples=[{"policy": "tiresias"}])]
QuestionBody = Annotated[Question, Body(examples=[{"policies": ["fifo", "srtf"], "gpus": 16}])]


@router.get("/policy", response_model=PolicyView)
def policy(policies: AskedPolicies, who: Person) -> Response:
    """Say which policy decides, since when and by whom."""
    return answer(policies.policy())


@router.get("/policy/decisions", response_model=list[DecisionView])
def decisions(
    policies: AskedPolicies, who: Person, limit: Annotated[int, Query(ge=1, le=10_000)] = 500
) -> Response:
    """List the newest decisions, oldest first: how long each took, and what came of it."""
    return answer(policies.decisions(limit))


@router.put("/policy", response_model=PolicyView)
def set_policy(choice: ChoiceBody, policies: AskedPolicies, who: Admin) -> Response:
    """Let another policy decide from now on.  Admins only."""
    return answer(policies.set_policy(who, choice.policy))


@router.put("/policy/shadow", response_model=PolicyView)
def set_shadow(choice: ChoiceBody, policies: AskedPolicies, who: Admin) -> Response:
    """Run a policy beside the real one without acting.  Admins only."""
    return answer(policies.shadow(who, choice.policy))


@router.delete("/policy/shadow", response_model=PolicyView)
def end_shadow(policies: AskedPolicies, who: Admin) -> Response:
    """Run no shadow any more.  Admins only."""
    return answer(policies.shadow(who, None))


@router.post("/whatif", response_model=WhatIf)
def whatif(question: QuestionBody, policies: AskedPolicies, who: Person) -> Response:
    """Predict start and finish of the live jobs under each of some policies; may take seconds."""
    return answer(policies.whatif(question))
