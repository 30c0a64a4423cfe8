"""What callers send besides job specifications and agents' reports; unknown fields are refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rota.server.tenants.settings import MOST_UNITS
from rota.wire.job import Due, Gpus, JobSpec, Name, Seconds
from rota.wire.numbers import Batch, Unix
from rota.wire.views import JobView, UserView

Plain = Annotated[str, Field(max_length=1024, pattern=r"^[^\x00]*$")]
"""A sentence for the record; no NUL, which not every database can hold."""


def _policies(schema: dict[str, Any]) -> None:
    """Which policies there are, by name or with parameters: which of these a policy has, it says itself."""
    from rota.scheduler.policy import policy_names  # loads what a caller of forms need not

    names = policy_names()
    schema.pop("pattern", None)
    schema["anyOf"] = [{"enum": names}, {"pattern": rf"^({'|'.join(names)}):[a-z_]+=[^\x00]*$"}]


PolicyText = Annotated[
    str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00]+$", json_schema_extra=_policies)
]
"""A policy as the command line takes it: `tiresias`, `las:levels=2`."""
Account = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_.@+-]*$")]
UserName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]*$")]


MOST_MORE_GPUS = 16_384
"""Devices by which a question may change the cluster: with more it would not be answered in time."""


class RequestForm(BaseModel):
    """Base of what callers send."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TableFormat(StrEnum):
    """How a table is written."""

    JSON = "json"
    CSV = "csv"


class Verb(StrEnum):
    """What can be done to a job."""

    CANCEL = "cancel"
    HOLD = "hold"
    RELEASE = "release"
    SUSPEND = "suspend"
    RESUME = "resume"
    REQUEUE = "requeue"
    ACCEPT = "accept"


class Submission(RequestForm):
    """One job, or an array of them."""

    spec: JobSpec
    key: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")] | None = None
    """Chosen by the caller: sent again with the same key, nothing is submitted twice."""

    @field_validator("spec")
    @classmethod
    def _check_workdir(cls, spec: JobSpec) -> JobSpec:
        """Not a rule of `JobSpec`: the client completes one, and what is on record stays readable."""
        if spec.workdir and not spec.workdir.startswith("/"):
            raise ValueError(
                f"workdir {spec.workdir!r} is relative; expected an absolute path such as /data, or none"
            )
        return spec


class Submitted(BaseModel):
    """The jobs that a submission made, or had made before under the same key."""

    jobs: list[JobView]
    warnings: list[str] = []
    """What of it has no effect, as sentences."""
    answers: bool = False
    """True if the policy in force answers deadlines: by a promise, an offer or a refusal, or by none."""


class Act(RequestForm):
    """Why, for the record."""

    reason: Plain = ""
    force: bool = False
    """Without grace: SIGKILL at once."""


class JobChange(RequestForm):
    """New values of a job that has not ended; fields left out stay, `null` takes a limit away."""

    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = 0
    time_s: Seconds | None = None
    deadline_s: Unix | None = None
    name: Name = ""
    comment: Plain = ""
    gpus: Gpus = 1
    """A job that runs on a number that will not do any more leaves by its checkpoint and starts again; one
    that saves nothing is refused."""
    gpus_min: Gpus | None = None
    gpus_max: Gpus | None = None
    begin_s: Unix | None = None
    weight: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0
    deadlines: Annotated[list[Due], Field(max_length=100)] = []
    batch_min: Batch | None = None
    batch_max: Batch | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_fixed(cls, said: Any) -> Any:
        """What was asked for once and for all, in a sentence that says so."""
        fixed = JobSpec.model_fields.keys() - cls.model_fields.keys()
        named = sorted(fixed & said.keys()) if isinstance(said, dict) else []
        if named:
            raise ValueError(f"{named[0]} cannot be changed; cancel the job and submit it again")
        return said

    def changes(self) -> dict[str, Any]:
        """Only what the caller named."""
        return self.model_dump(exclude_unset=True)


class Reason(RequestForm):
    """Why, for the record."""

    reason: Plain = ""


class PolicyChoice(RequestForm):
    """A policy by name, with its parameters."""

    policy: PolicyText


_TENANT_NAME = "[A-Za-z0-9_@:+-][A-Za-z0-9_.@:+-]*"
_TENANT_PATH = f"^{_TENANT_NAME}(/{_TENANT_NAME})*$"
TenantPath = Annotated[str, Field(min_length=1, max_length=128, pattern=_TENANT_PATH)]
_QUOTA = {"type": "number", "minimum": 0, "maximum": 1e6}
_CELL = {
    "type": "object",
    "required": ["level"],
    "properties": {
        "level": {"type": "string", "minLength": 1, "maxLength": 128},
        "count": {"type": "integer", "minimum": 1, "maximum": MOST_UNITS},
        "type": {"type": "string", "maxLength": 128},
        "gpus": {"type": "integer", "minimum": 0, "maximum": MOST_UNITS},
        "at": {"type": "string", "maxLength": 128},
    },
    "additionalProperties": False,
}
_TENANT = {
    "properties": {
        "quota": _QUOTA,
        "hard": {"type": "boolean"},
        "weight": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e6},
        "quota_by_type": {"type": "object", "additionalProperties": _QUOTA},
        "cells": {"type": "array", "items": _CELL},
    },
    "additionalProperties": False,
}
"""What `rota.server.tenants.settings` reads, as far as a schema can say it: cells must also be there."""
TenantSettings = Annotated[dict[str, Any], Field(json_schema_extra=_TENANT)]


class TenantsMove(RequestForm):
    """Quotas, weights and cells by path, in place of those in force."""

    tenants: Annotated[
        dict[TenantPath, TenantSettings],
        Field(
            max_length=10_000,
            json_schema_extra={"propertyNames": {"pattern": _TENANT_PATH, "maxLength": 128}},
        ),
    ]
    """As in the configuration: {vision: {quota: 32, hard: true, weight: 2, cells: [...]}}."""
    dry_run: bool = False
    """Only say what would come of it."""
    yes: bool = False
    """Also if jobs would be worse off by it."""


class Question(RequestForm):
    """What if these policies ran from now on, on as many more devices."""

    policies: Annotated[list[PolicyText], Field(min_length=1, max_length=8)]
    gpus: Annotated[int, Field(ge=-MOST_MORE_GPUS, le=MOST_MORE_GPUS)] = 0
    """More devices than now, or fewer."""
    duration: Literal["user", "predicted", "history"] = "user"
    """The source of durations; those that it does not know are sampled from the tenant's history."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


class NewUser(RequestForm):
    """A user to be, with the tenant whose jobs are theirs too."""

    name: UserName
    admin: bool = False
    tenant: Name = ""
    """The user's own name if empty."""
    account: Account = ""
    """The machine's account that the user's commands run as, and that may call over the UNIX socket."""
    viewer: bool = False
    """May look at everything that people see, and at the jobs of the tenant; changes nothing."""


class UserToken(BaseModel):
    """A user with a new token, which is shown only now."""

    user: UserView
    token: str
    warnings: list[str] = []
    """Why the user cannot submit jobs, or where those cannot start, as sentences."""


class JoinRequest(RequestForm):
    """How long machines may join with a token."""

    lifetime_s: Annotated[float, Field(gt=0, le=366 * 86400.0, allow_inf_nan=False)] = 3600.0


class JoinToken(BaseModel):
    """Lets agents join until `expires_s`, in Unix seconds."""

    token: str
    expires_s: float


class Ok(BaseModel):
    """Done; nothing else to say."""

    ok: bool = True


class Health(BaseModel):
    """All that a caller without a token may know."""

    ok: bool
    error: str = ""
    """What keeps the controller from working, as a sentence; empty if it is well."""
    version: str
    protocol: int
    """Of what agents say to this controller, and it to them."""
    now_s: float
    """Unix seconds by the cluster's clock."""


class Problem(BaseModel):
    """Why a call was refused."""

    error: str
    """One sentence."""


MOST_LISTED = 1000
"""Jobs in one answer; there are more behind its first one (`before`)."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; empty means all."""

    state: tuple[str, ...] = ()
    """Slurm's words, upper case."""
    tenant: str = ""
    """The tenant and those below it."""
    user: str = ""
    name: str = ""
    limit: int = 1000
    """Most jobs listed, the newest ones."""
    since_s: float | None = None
    """Submitted, or ended, at this Unix time or later."""
    before: str = ""
    """Only jobs submitted before the one with this id."""


MOST_ENDED = 10_000
"""Jobs in one answer about the past."""


@dataclass(frozen=True, slots=True)
class EndedFilter:
    """Which jobs that are over to list; empty means all."""

    state: tuple[str, ...] = ()
    """Slurm's words, upper case."""
    tenant: str = ""
    """The tenant and those below it."""
    user: str = ""
    limit: int = MOST_ENDED
    """Most jobs listed, those that ended last."""
    since_s: float | None = None
    """Ended at this Unix time or later."""
    until_s: float | None = None
    """Ended at this Unix time or earlier."""


@dataclass(frozen=True, slots=True)
class LogRequest:
    """A piece of one rank's log."""

    attempt: int | None = None
    """The newest if None."""
    rank: int = 0
    offset: int = 0
    """Bytes from the start, or from the end if negative."""
    limit: int = 65536
    """Bytes at most."""
    wait_s: float = 0.0
    """Seconds to wait for something to be there at `offset`."""
