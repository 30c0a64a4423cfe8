"""The text that a user gives for one property of a job, as fields of a `JobSpec`.

Options of the command line, keys of a job file and `#ROTA` lines in a script have the same names (with `-` or
`_`) and the same values, and are all read here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from rota.client.times import parse_moment
from rota.errors import InputError
from rota.model.job_columns import COLUMNS, JobColumn, Option, words_of
from rota.model.units import parse_duration, parse_memory_gib
from rota.wire.job import JobSpec, check_new

Fields = dict[str, Any]
"""Some fields of a `JobSpec` by name."""
Parser = Callable[[str, str], Fields]
"""(text, name of the option or key for messages) -> fields."""

YES, NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")
_IN_UNITS = {"memory": " in GiB", "duration": " in seconds"}
_TYPED = {
    "grace_s": "grace in seconds",
    "idle_after_s": "idle_after in seconds",
    "notice_s": "notice in seconds",
    "notice_signal": "notice",
    "begin_s": "begin",
} | {
    column.spec_field: column.option.name + _IN_UNITS.get(column.option.form, "")
    for column in COLUMNS
    if column.option and not column.option.form.endswith(" range")
}
"""Names for messages of fields that have another name on the command line."""
_NAMES = "letters, digits and _ . @ : + / -"
_PATTERNS = {
    "notice_signal": "USR1, USR2, HUP, INT, WINCH, URG or CONT",
    "array": "1-20, 1,3,7, 0-100:10 or 1-20%4",
}


def read_fields(name: str, text: str, field: str) -> Fields:
    """Fields that `name` = `text` sets. Raises InputError for an unknown name and for a wrong value."""
    parser = PARSERS.get(name.replace("-", "_"))
    if parser is None:
        raise unknown_name(f"{name!r} is nothing a job has", name, field, PARSERS)
    return parser(text.strip(), field)


def unknown_name(problem: str, name: str, field: str, known: Iterable[str]) -> InputError:
    """The error for a `name` that is not known, with the name that was probably meant."""
    names = sorted(known)
    near = get_close_matches(name.replace("-", "_"), names, n=1)
    if near:
        return InputError.at(f"{problem}; did you mean {near[0]!r}?", field=field)
    return InputError.at(problem, field=field, expected=", ".join(names))


def merge(*layers: Mapping[str, Any]) -> Fields:
    """Fields of all layers; where several set a field, the last layer wins. Environments are joined.

    A layer that sets `gpus` also replaces the range of GPUs of earlier layers.
    """
    merged: Fields = {}
    for layer in layers:
        if "gpus" in layer:
            merged = {name: value for name, value in merged.items() if name not in ("gpus_min", "gpus_max")}
        env = {**merged.get("env", {}), **layer.get("env", {})}
        merged |= layer
        if env:
            merged["env"] = env
    return merged


def make_spec(fields: Mapping[str, Any]) -> JobSpec:
    """Return the job with these fields. Raises InputError for the first problem."""
    whole = dict(fields)
    if "gpus" not in whole and whole.get("gpus_min") is not None:
        whole["gpus"] = whole["gpus_min"]
    try:
        spec = JobSpec.model_validate(whole)
        check_new(spec)
    except ValidationError as error:
        raise InputError(_sentence(error)) from None
    except ValueError as error:
        raise InputError(str(error)) from None
    return spec


def check_fields(fields: Mapping[str, Any]) -> None:
    """Raise InputError for the first of these values that is not allowed in any job."""
    make_spec({"command": ["true"], **fields})


def _sentence(error: ValidationError) -> str:
    """The first problem of a validation, as a sentence."""
    first = error.errors(include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    where = ".".join(str(part) for part in first["loc"])
    if not where:
        return message
    if first["type"] in ("missing", "too_short"):
        return f"the job has no {where}"
    if first["type"] == "string_pattern_mismatch":
        message = f"expected {_PATTERNS.get(where, _NAMES)}"
    else:
        message = message[:1].lower() + message[1:]
    return f"{_TYPED.get(where, where)}={repr(first['input'])[:80]} will not do: {message}"


def _text(name: str) -> Parser:
    return lambda text, field: {name: text}


def _idle_after(text: str, field: str) -> Fields:
    """Read a duration, or `never`."""
    return {"idle_after_s": 0.0 if text.lower() == "never" else parse_duration(text, field)}


def _number(name: str, kind: type[int] | type[float]) -> Parser:
    def parse(text: str, field: str) -> Fields:
        try:
            return {name: kind(text)}
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
            raise InputError.at(f"{text!r} is no number", field=field, expected=expected) from None

    return parse


def _flag(name: str) -> Parser:
    def parse(text: str, field: str) -> Fields:
        if text.lower() not in YES + NO:
            raise InputError.at(f"{text!r} is neither", field=field, expected="yes or no")
        return {name: text.lower() in YES}

    return parse


def _duration(name: str) -> Parser:
    return lambda text, field: {name: parse_duration(text, field)}


def _moment(name: str) -> Parser:
    return lambda text, field: {name: parse_moment(text, field)}


def _memory(name: str) -> Parser:
    return lambda text, field: {name: parse_memory_gib(text, field)}


def _choice(name: str, *choices: str) -> Parser:
    def parse(text: str, field: str) -> Fields:
        if text not in choices:
            raise InputError.at(f"{text!r} is none of them", field=field, expected=" or ".join(choices))
        return {name: text}

    return parse


def _gpus(text: str, field: str) -> Fields:
    """Read `2`, or a range such as `1:4`."""
    if ":" in text:
        low_high = _gpus_range(text, field)
        return {"gpus": low_high["gpus_min"], **low_high}
    if not text.isdecimal():
        expected = "how many, such as 2, or a range, such as 1:4"
        if text.replace(".", "", 1).isdecimal():
            expected += "; --share is the part of each"
        raise InputError.at(f"{text!r} is no number of GPUs", field=field, expected=expected)
    return {"gpus": int(text)}


def _gpus_range(text: str, field: str) -> Fields:
    low, colon, high = text.partition(":")
    if not (colon and low.isdecimal() and high.isdecimal() and int(low) <= int(high)):
        raise InputError.at(
            f"{text!r} is no range", field=field, expected="FEWEST:MOST, such as 1:4; gpu_type names a type"
        )
    return {"gpus_min": int(low), "gpus_max": int(high)}


def _batch_range(text: str, field: str) -> Fields:
    low, _, high = text.partition(":")
    try:
        return {"batch_min": float(low), "batch_max": float(high)}
    except ValueError:
        expected = "FEWEST:MOST, such as 128:4096"
        raise InputError.at(f"{text!r} is no range", field=field, expected=expected) from None


def _deadlines(text: str, field: str) -> Fields:
    """Read deadlines and what each is worth: `+2h=10,+4h=5`."""
    several = []
    for part in text.split(","):
        moment, _, value = part.partition("=")
        try:
            worth = float(value)
        except ValueError:
            expected = "MOMENT=VALUE, such as +2h=10,+4h=5"
            raise InputError.at(f"{part.strip()!r} is no deadline", field=field, expected=expected) from None
        several.append({"at_s": parse_moment(moment.strip(), field), "value": worth})
    return {"deadlines": several}


def _gpu_types(text: str, field: str) -> Fields:
    types = [part.strip() for part in text.split(",") if part.strip()]
    if not types:
        raise InputError.at(f"{text!r} names no type", field=field, expected="A100 or A100,H100")
    return {"gpu_types": types}


def _nodes(text: str, field: str) -> Fields:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not all(_NODE.fullmatch(name) for name in names) or not names:
        raise InputError.at(f"{text!r} names no nodes", field=field, expected="n1,n2 or !n3")
    return {"node_set": "|".join(names)}


def _excluded(text: str, field: str) -> Fields:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not all(_NODE.fullmatch(f"!{name}") for name in names) or not names:
        raise InputError.at(f"{text!r} names no nodes", field=field, expected="n1,n2")
    return {"exclude_nodes": names}


_NODE = re.compile(r"!?[A-Za-z0-9_.@:+/-]+")


def after(text: str, field: str) -> list[dict[str, str]]:
    """Read `17`, `17:any`, `17:ok,18_3:failed` as dictionaries for `After`."""
    parents = []
    for part in text.split(","):
        job, _, when = part.strip().partition(":")
        if not job or when not in ("", "ok", "any", "failed"):
            expected = "JOB, JOB:ok, JOB:any or JOB:failed"
            raise InputError.at(f"{part!r} names no job to wait for", field=field, expected=expected)
        parents.append({"job": job, "when": when or "ok"})
    return parents


def notice(text: str, field: str) -> Fields:
    """Read `USR1@60s`, a signal 60 s before SIGTERM; `60s` only writes the notice file."""
    signal, at, ahead = text.rpartition("@")
    if not at and text and text[0].isalpha():
        signal, ahead = text, "60s"
    return {"notice_signal": signal.upper().removeprefix("SIG"), "notice_s": parse_duration(ahead, field)}


def environment(text: str, field: str, caller: Mapping[str, str]) -> tuple[str, str]:
    """Name and value of `K=V`, or of `K`, whose value is that of the caller."""
    name, equals, value = text.partition("=")
    if not name or (not equals and name not in caller):
        problem = f"{text!r} sets nothing" if not name else f"{name!r} is not set here"
        raise InputError.at(
            problem, field=field, expected="NAME=VALUE, or the NAME of a variable that is set"
        )
    return name, value if equals else caller[name]


def _form_of(column: JobColumn, option: Option) -> Parser:
    """The parser of the option that sets `column`."""
    if column.words:
        return _choice(column.spec_field, *words_of(column.words))
    return _SPECIAL[option.form] if option.form in _SPECIAL else _FORMS[option.form](column.spec_field)


_SPECIAL: dict[str, Parser] = {
    "gpus": _gpus,
    "gpus range": _gpus_range,
    "batch range": _batch_range,
    "types": _gpu_types,
    "deadlines": _deadlines,
    "nodes": _nodes,
}
_FORMS: dict[str, Callable[[str], Parser]] = {
    "text": _text,
    "whole": lambda name: _number(name, int),
    "number": lambda name: _number(name, float),
    "moment": _moment,
    "duration": _duration,
    "memory": _memory,
}
PARSERS: dict[str, Parser] = {
    "name": _text("name"),
    **{column.option.name: _form_of(column, column.option) for column in COLUMNS if column.option},
    "begin": _moment("begin_s"),
    "after": lambda text, field: {"after": after(text, field)},
    "array": _text("array"),
    "exclude_node": _excluded,
    "ranks": _choice("ranks", "gpu", "node"),
    "workdir": _text("workdir"),
    "output": _text("output"),
    "error": _text("error"),
    "output_limit": lambda text, field: {"output_limit_gib": parse_memory_gib(text, field)},
    "grace": _duration("grace_s"),
    "notice": notice,
    "requeue_code": _number("requeue_code", int),
    "retries": _number("retries", int),
    "user_retries": _number("user_retries", int),
    "trial": _flag("trial"),
    "accept_later_deadline": _flag("accept_later_deadline"),
    "idle_after": _idle_after,
    "preemptible": _flag("preemptible"),
    "checkpoint": _choice("checkpoint", "auto", "own", "none"),
    "self_fence": _flag("self_fence"),
    "hold": _flag("hold"),
    "comment": _text("comment"),
}
"""Parser of each property, by its name in files; the command line has dashes instead of underscores."""
