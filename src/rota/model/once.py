"""Refuses two equal keys in one place: JSON and YAML readers silently keep the last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any

import yaml

from rota.errors import InputError, brief

_Pairs = list[tuple[str, Any]]
_TWICE = "{} is given twice in one place"


def json_once(text: str, file: object) -> Any:
    """The value of a JSON text; InputError if an object in it has a key twice, else as `json.loads`."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except _TwiceError as twice:
        row = _row_of_the_first(text)
        raise InputError.at(_TWICE.format(brief(twice.key)), file=file, row=row) from None


class _TwiceError(Exception):
    """An object has this key twice."""

    def __init__(self, key: str) -> None:
        self.key = key


def _object(pairs: _Pairs) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _TwiceError(next(key for place, key in enumerate(keys) if key in keys[:place]))
    return made


def _row_of_the_first(text: str) -> int | None:
    """Where the first object begins that has a key twice; this way of reading is slow."""
    begins = list[int]()

    class Reader(json.JSONDecoder):
        def __init__(self) -> None:
            super().__init__(object_pairs_hook=_object)
            inner: Any = self.parse_object  # type: ignore[has-type]
            self.parse_object = lambda at, *rest: self._noting(inner, at, *rest)
            self.scan_once = py_make_scanner(self)

        @staticmethod
        def _noting(inner: Any, at: tuple[str, int], *rest: Any) -> Any:
            try:
                return inner(at, *rest)
            except _TwiceError:
                begins.append(at[1])
                raise

    with suppress(_TwiceError, RecursionError):
        Reader().decode(text)
    return text.count("\n", 0, begins[0]) + 1 if begins else None


def refuse_twice(tree: yaml.Node | None, file: object) -> None:
    """InputError if a mapping in a tree of YAML has a key twice."""
    for mapping in _mappings(tree, set()):
        seen: set[str] = set()
        for key, _ in mapping.value:
            if isinstance(key, yaml.ScalarNode) and str(key.value) in seen:
                row = key.start_mark.line + 1
                raise InputError.at(_TWICE.format(str(key.value)), file=file, row=row)
            seen.add(str(key.value))


def _mappings(node: yaml.Node | None, met: set[int]) -> Iterator[yaml.MappingNode]:
    """Every mapping in the tree, each once though aliases may lead to it again."""
    if node is None or id(node) in met or not isinstance(node, yaml.CollectionNode):
        return
    met.add(id(node))
    if isinstance(node, yaml.MappingNode):
        yield node
    for child in node.value:
        yield from _mappings(child[1] if isinstance(child, tuple) else child, met)
