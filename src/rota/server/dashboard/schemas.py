"""Schemas of the API in words: the values, the fields, an example."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Schema = Mapping[str, Any]
DEEPEST = 4
"""How far examples go into forms within forms."""
MOST_WORDS = 12
"""Values of an enumeration that are listed."""
_KINDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
_LEAST = {"integer": 0, "number": 0.0, "string": "", "boolean": False, "null": None}


@dataclass(frozen=True)
class TextPiece:
    """A stretch of text about a type; with the name of a form, where that is described."""

    text: str
    form: str = ""


@dataclass(frozen=True)
class Field:
    """One field of a form, or one parameter of a call."""

    name: str
    pieces: Sequence[TextPiece]
    is_required: bool = False
    default: str = ""
    words: str = ""
    place: str = ""
    """`path`, `query`; empty for fields."""


def pieces_of(schema: Schema) -> list[TextPiece]:
    """Possible values in words: `list of JobView`, `text or null`, `whole number from 1 to 10`."""
    if "$ref" in schema:
        name = form_of(schema)
        return [TextPiece(name, name)]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _joined([pieces_of(one) for one in schema[key]], " or ")
    if "allOf" in schema:
        return _joined([pieces_of(one) for one in schema["allOf"]], " and ")
    if "const" in schema:
        return [TextPiece(json.dumps(schema["const"]))]
    if "enum" in schema:
        listed = [one if isinstance(one, str) else json.dumps(one) for one in schema["enum"]]
        more = [f"{len(listed) - MOST_WORDS} more"] if len(listed) > MOST_WORDS else []
        return [TextPiece(" | ".join(listed[:MOST_WORDS] + more))]
    kind = schema.get("type")
    if kind == "array":
        return [TextPiece("list of "), *pieces_of(schema.get("items", {}))]
    if kind == "object":
        values = schema.get("additionalProperties")
        return (
            [TextPiece("object of "), *pieces_of(values)]
            if isinstance(values, Mapping)
            else [TextPiece("object")]
        )
    if kind == "null":
        return [TextPiece("null")]
    return [TextPiece(_KINDS.get(str(kind), "anything") + _bounds(schema))]


def _joined(several: Sequence[Sequence[TextPiece]], word: str) -> list[TextPiece]:
    kept: list[Sequence[TextPiece]] = []
    for one in several:
        if one not in kept:
            kept.append(one)
    return [piece for i, one in enumerate(kept) for piece in ([TextPiece(word)] * (i > 0) + list(one))]


def _bounds(schema: Schema) -> str:
    """` from 1 to 10`, ` of at most 128 letters`."""
    low, high = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    parts = []
    if low is not None:
        parts.append(f" from {low:g}")
    elif above is not None:
        parts.append(f" above {above:g}")
    if high is not None:
        parts.append(f" to {high:g}")
    if "maxLength" in schema:
        parts.append(f" of at most {schema['maxLength']:,} letters")
    return "".join(parts)


def fields_of(schema: Schema) -> list[Field]:
    """The fields of a form, in its order."""
    required = set(schema.get("required", ()))
    return [
        Field(
            name=name,
            pieces=pieces_of(one),
            is_required=name in required,
            default=json.dumps(one["default"]) if one.get("default") not in (None, "", [], {}) else "",
            words=" ".join(str(one.get("description", "")).split()),
        )
        for name, one in schema.get("properties", {}).items()
    ]


def form_of(schema: Schema) -> str:
    """The name of the form that a reference means."""
    return str(schema["$ref"]).rpartition("/")[2]


def example_of(schema: Schema, forms: Mapping[str, Schema], depth: int = 0) -> Any:
    """A value that fits, as small as can be: required fields only."""
    if "$ref" in schema:
        return {} if depth > DEEPEST else example_of(forms[form_of(schema)], forms, depth + 1)
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return example_of(schema[key][0], forms, depth)
    kind = schema.get("type")
    if kind == "array":
        return []
    if kind == "object" or "properties" in schema:
        required = schema.get("required", ())
        return {name: example_of(schema["properties"][name], forms, depth + 1) for name in required}
    return schema.get("minimum", _LEAST.get(str(kind)))
