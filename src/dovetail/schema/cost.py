"""Cost limits of JSON Schemas: size, depth, references and the validation work they can cause.

A short schema can cause exponential work: a chain of definitions, each referring twice to the next. The work along
one path into a value is therefore counted before a schema is compiled. Recursive definitions count once, since the
validator remembers the places it has visited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from dovetail.types.errors import LocalError

MAX_DEPTH = 100
MAX_NODES = 20_000
MAX_CHAIN = 200
MAX_WORK = 1_000_000

_BUNDLED = ("http://json-schema.org/", "https://json-schema.org/")
_HERE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_ARRAY = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_OBJECT = ("patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames")
_MAPS = frozenset({"dependentSchemas", "dependencies", "patternProperties"})
_REFS = ("$ref", "$dynamicRef", "$recursiveRef")


def schema_cost(schema: dict[str, Any]) -> int:
    """The number of subschemas that apply along one path into a value, at most.

    Raises LocalError for a schema that is too large, refers outside itself or asks for too much work.
    """
    _measure(schema)
    return _WorkCounter(schema).of(schema, schema, 0)


def count_values(value: object, limit: int) -> int:
    """The number of values inside a value, counted up to a limit."""
    seen = 0
    stack: list[Any] = [value]
    while stack and seen <= limit:
        item = stack.pop()
        seen += 1
        if isinstance(item, dict):
            stack.extend(cast("dict[str, Any]", item).values())
        elif isinstance(item, (list, tuple)):
            stack.extend(cast("list[Any]", item))
    return seen


def _measure(schema: dict[str, Any]) -> None:
    seen = 0
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(cast("dict[str, Any]", item).values())
            elif isinstance(item, list):
                below.extend(cast("list[Any]", item))
        seen += len(level)
        if seen > MAX_NODES:
            raise LocalError(f"the schema is too large: it has more than {MAX_NODES} parts")
        level = below
        if not level:
            return
    raise LocalError(f"the schema is nested deeper than {MAX_DEPTH} levels")


class _WorkCounter:
    """Counts the work of a document, each definition once."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._known: dict[int, int] = {}
        self._active: set[int] = set()
        self._named: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._index(document)

    def of(self, node: Any, root: dict[str, Any], chain: int) -> int:
        """The work of a subschema, whose references are relative to a root."""
        if not isinstance(node, dict):
            return 1
        schema = cast("dict[str, Any]", node)
        key = id(schema)
        if key in self._known:
            return self._known[key]
        if key in self._active:
            return 1
        if chain > MAX_CHAIN:
            raise LocalError(f"the schema's references form a chain of more than {MAX_CHAIN}")
        root = schema if isinstance(schema.get("$id"), str) else root
        self._active.add(key)
        total = 1 + sum(self.of(sub, root, chain + 1) for word in _HERE for sub in _under(schema, word))
        for word in _REFS:
            if isinstance(schema.get(word), str):
                total += self._referred(schema[word], root, chain)
        array = sum(self.of(sub, root, chain + 1) for word in _ARRAY for sub in _under(schema, word))
        others = sum(self.of(sub, root, chain + 1) for word in _OBJECT for sub in _under(schema, word))
        named = [self.of(sub, root, chain + 1) for sub in _values(schema.get("properties"))]
        total += max(array, others + max(named, default=0))
        self._active.discard(key)
        if total > MAX_WORK:
            raise LocalError("the schema is too costly: its references multiply")
        self._known[key] = total
        return total

    def _referred(self, ref: str, root: dict[str, Any], chain: int) -> int:
        if ref.startswith(_BUNDLED):
            return 1
        target, base = self._find(ref, root)
        return self.of(target, base, chain + 1)

    def _find(self, ref: str, root: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        from urllib.parse import unquote, urljoin

        base, _, fragment = ref.partition("#")
        if base:
            full = urljoin(str(root.get("$id", "")), base)
            resource = self._named.get(base) or self._named.get(full)
            if resource is None:
                raise LocalError(f"the schema refers outside itself, which is not followed: {ref}")
            root = resource[0]
        if not fragment:
            return root, root
        if not fragment.startswith("/"):
            return self._named.get("#" + fragment, (root, root))
        node: Any = root
        for step in unquote(fragment[1:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = cast("dict[str, Any]", node).get(name)
            elif isinstance(node, list) and name.isdecimal():
                items = cast("list[Any]", node)
                node = items[int(name)] if int(name) < len(items) else None
            else:
                node = None
        if node is None:
            raise LocalError(f"the schema refers to nothing: {ref}")
        return node, root

    def _index(self, document: dict[str, Any]) -> None:
        """Index the named subschemas: resources by `$id`, other places by anchors."""
        from urllib.parse import urljoin

        stack: list[tuple[Any, dict[str, Any]]] = [(document, document)]
        while stack:
            node, root = stack.pop()
            if isinstance(node, dict):
                schema = cast("dict[str, Any]", node)
                name = schema.get("$id")
                if isinstance(name, str):
                    outer = str(root.get("$id", "")) if root is not schema else ""
                    root = schema
                    self._named[name.rstrip("#")] = (schema, schema)
                    self._named[urljoin(outer, name).rstrip("#")] = (schema, schema)
                for word in ("$anchor", "$dynamicAnchor"):
                    if isinstance(schema.get(word), str):
                        self._named["#" + schema[word]] = (schema, root)
                stack.extend((sub, root) for sub in schema.values())
            elif isinstance(node, list):
                stack.extend((sub, root) for sub in cast("list[Any]", node))


def _under(schema: dict[str, Any], word: str) -> Iterator[Any]:
    """The subschemas that a keyword holds: one, a list, or a map of them."""
    value = schema.get(word)
    if isinstance(value, list):
        yield from cast("list[Any]", value)
    elif isinstance(value, dict) and word in _MAPS:
        yield from cast("dict[str, Any]", value).values()
    elif isinstance(value, dict):
        yield cast("dict[str, Any]", value)


def _values(node: Any) -> list[Any]:
    return list(cast("dict[str, Any]", node).values()) if isinstance(node, dict) else []
