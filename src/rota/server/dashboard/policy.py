"""The page Policy: which one decides and how fast, what its shadow would do; changing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from rota.errors import InputError
from rota.knowledge.registry import Where, kinds
from rota.model.words import BASES, duration
from rota.scheduler.parameters import ParameterTold, parameters_told
from rota.scheduler.policy import PolicySpec, parse_policy, policy_names, system
from rota.server.api.forms import JobFilter, Question
from rota.server.api.route_parts import Admin, AskedJobs, AskedPolicies, Person
from rota.server.api.services import JobsService, PoliciesService
from rota.server.dashboard.futures import FutureChart, charts
from rota.server.dashboard.responses import HEADERS, fragment, now_of, page
from rota.wire.views import PolicyView, WhatIf

router = APIRouter(include_in_schema=False)
DECISIONS = 500
LIVE = ("PENDING", "OFFERED", "RUNNING", "SUSPENDED")
MOST_JOBS = 2000
"""Most jobs for which the charts know tenant and name."""
Text = Annotated[str, Query(min_length=1, max_length=1024, pattern=r"^[^\x00]+$")]


@dataclass(frozen=True)
class PolicyPage:
    """What the page shows."""

    view: PolicyView
    summary: str
    paper: str
    parameters: Sequence[tuple[ParameterTold, str]]
    """Each with its value now."""


@dataclass(frozen=True)
class Ahead:
    """The future of the live jobs under another policy, beside the one in force."""

    policy: str
    answer: WhatIf
    lines: Sequence[tuple[str, str, str, str]]
    """Measure, now, then, and `better`, `worse` or nothing."""
    charts: Sequence[FutureChart]
    basis: str = ""
    """Sources of the durations: `3 from time limits, 2 guessed`."""


def policy_page(policies: PoliciesService) -> PolicyPage:
    """As it is now."""
    view = policies.policy()
    spec = parse_policy(view.policy)
    entry = system(spec.name)
    view.shadow_would = once(view.shadow_would)
    return PolicyPage(view, entry.summary, entry.paper, parameters_of(spec))


def once(sentences: Sequence[str]) -> list[str]:
    """`30s ago: would start 8`, each act with its latest moment."""
    newest: dict[str, str] = {}
    for sentence in sentences:
        newest.setdefault(sentence.partition(": ")[2], sentence)
    return list(newest.values())


def parameters_of(spec: PolicySpec) -> list[tuple[ParameterTold, str]]:
    """The parameters of a policy with their values."""
    told = parameters_told(system(spec.name).parameters)
    return [(one, spec.options.get(one.name, one.default)) for one in told]


@cache
def able() -> tuple[str, ...]:
    """Policies that can run on a live cluster as they are."""
    names = []
    for name in policy_names():
        try:
            needs = parse_policy(name).make().needs
        except InputError:  # it has a parameter that must be given
            continue
        if needs <= kinds(Where.LIVE):
            names.append(name)
    return tuple(names)


# -- looking ahead -----------------------------------------------------------------------------------

MEASURES = (
    ("mean_wait_s", "Mean wait"),
    ("mean_jct_s", "Mean time to completion"),
    ("makespan_s", "Until all are done"),
    ("preemptions", "Preemptions"),
)


def ahead_of(policies: PoliciesService, jobs: JobsService, policy: str, now_s: float) -> Ahead:
    """Decisions that the policy would make; InputError with its sentence if it cannot decide here."""
    spec = str(parse_policy(policy))
    answer = policies.whatif(Question(policies=[spec]))
    known = {one.id: one for one in jobs.jobs(JobFilter(state=LIVE, limit=MOST_JOBS))}
    basis = ", ".join(f"{number} {BASES.get(source, source)}" for source, number in answer.basis.items())
    return Ahead(spec, answer, lines_of(answer.summary), charts(answer, known, now_s), basis)


_TELLING = 0.05
"""Predictions that differ by a smaller part of the larger are neither better nor worse."""


def lines_of(summary: Sequence[dict[str, Any]]) -> list[tuple[str, str, str, str]]:
    """The measures side by side; smaller is better in all of them."""
    if not summary:
        return []
    now, then = summary[0], summary[-1]
    lines = []
    for name, title in MEASURES:
        before, after = now.get(name), then.get(name)
        told = [
            "–" if value is None else duration(value) if name.endswith("_s") else f"{round(value, 1):g}"
            for value in (before, after)
        ]
        mark = ""
        if before is not None and after is not None and abs(after - before) > _TELLING * max(before, after):
            mark = "better" if after < before else "worse"
        lines.append((title, told[0], told[1], mark))
    return lines


def times(policies: PoliciesService) -> dict[str, Any]:
    """How long decisions took: what `series.js` draws."""
    decisions = policies.decisions(DECISIONS)
    late = [one.took_ms if one.late else None for one in decisions]
    took = [round(one.took_ms, 3) for one in decisions]
    series: list[dict[str, Any]] = [{"name": "time of a decision", "values": took, "dots": True}]
    if any(value is not None for value in late):
        series.append({"name": "late or failed", "values": late, "dots": True})
    return {"times": [one.at_s for one in decisions], "series": series, "unit": "ms", "log": True}


# -- routes ------------------------------------------------------------------------------------------


@router.get("/policy")
def show(request: Request, policies: AskedPolicies, who: Person) -> Response:
    """The page."""
    return page(request, "policy.html", shown=policy_page(policies), able=able())


@router.get("/policy/now")
def now(request: Request, policies: AskedPolicies, who: Person) -> Response:
    """What changes of it."""
    return fragment(request, "policy_now.html", shown=policy_page(policies))


@router.get("/policy/times")
def decision_times(policies: AskedPolicies, who: Person) -> Response:
    """The curve of decision times."""
    return JSONResponse(times(policies), headers=HEADERS)


@router.get("/policy/ahead")
def look_ahead(
    request: Request, policies: AskedPolicies, jobs: AskedJobs, who: Person, policy: Text
) -> Response:
    """What another policy would do with the live jobs; may take seconds."""
    ahead = ahead_of(policies, jobs, policy, now_of(request))
    return fragment(request, "policy_ahead.html", ahead=ahead, now=policies.policy().policy)


@router.put("/policy")
def swap(policies: AskedPolicies, who: Admin, policy: Text) -> Response:
    """Let another policy decide; it is tried upon the present moment first."""
    view = policies.set_policy(who, policy)
    return PlainTextResponse(" ".join([f"{view.policy} decides now.", *view.warnings]), headers=HEADERS)


@router.put("/policy/shadow")
def set_shadow(policies: AskedPolicies, who: Admin, policy: Text) -> Response:
    """Let a policy watch from now on."""
    return PlainTextResponse(f"{policies.shadow(who, policy).shadow} watches now", headers=HEADERS)


@router.delete("/policy/shadow")
def end_shadow(policies: AskedPolicies, who: Admin) -> Response:
    """No shadow any more."""
    policies.shadow(who, None)
    return PlainTextResponse("The shadow has ended", headers=HEADERS)
