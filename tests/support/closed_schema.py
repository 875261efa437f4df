"""The official schemas with additional properties forbidden: a field that a revision does not define is an error."""

import copy
import os
from functools import cache
from pathlib import Path
from typing import Any

from tests.protocol.revisions.official import Official

OPEN_PROPERTIES = frozenset({"_meta", "inputSchema", "outputSchema", "data"})
"""Places where anybody may put fields of their own: metadata, JSON Schemas, the data of errors."""

EVERYWHERE = {"ClientCapabilities": "extensions", "ServerCapabilities": "extensions"}
"""Fields that Dovetail sends on every revision."""

EXTENDED = {"SubscriptionFilter": "taskIds"}
"""Fields that the tasks extension adds: a list of texts each."""

FORGOTTEN = {"StringSchema": "pattern"}
"""Fields that a page shows (2025-11-25 client/elicitation) and no schema has; who does not know them loses nothing."""


class ClosedSchema(Official):
    """One revision's schema, and the same closed.

    `problems` holds a message against a definition as published, `strict_problems` against the closed one.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.closed = Official(path)
        for name, definition in self.closed.definitions.items():
            if not name.endswith("MetaObject"):
                self.closed.definitions[name] = self._close(definition)
        for name, field in EVERYWHERE.items():
            self.closed.definitions[name]["properties"].setdefault(field, _ANY_OBJECTS)
        for name, field in EXTENDED.items():
            if name in self.closed.definitions:
                self.closed.definitions[name]["properties"][field] = {"type": "array", "items": {"type": "string"}}
        for name, field in FORGOTTEN.items():
            properties = self.closed.definitions.get(name, {}).get("properties", {})
            if "default" in properties:
                properties.setdefault(field, {"type": "string"})
        if "ElicitResult" in self.closed.definitions:
            self._allow_fractions(self.closed.definitions["ElicitResult"]["properties"]["content"])
        for name in self._named("Request") + self._named("Notification"):
            self._allow_meta(self.closed.definitions[name])
        self._codes = self._definitions_of_codes()

    def strict_problems(self, definition: str, instance: Any) -> list[str]:
        """What is wrong with an instance, fields that the definition does not know included."""
        return self.closed.problems(definition, instance)

    def requires(self, definition: str, field: str) -> bool:
        return field in self.at(definition).get("required", ())

    def describes(self, definition: str, field: str) -> bool:
        return field in self.at(definition).get("properties", {})

    def result_of(self, request: str) -> str:
        """The definition of the result that answers a request."""
        name = request.removesuffix("Request") + "Result"
        return name if name in self.definitions else "EmptyResult"

    def error_of(self, code: int) -> str | None:
        """The definition of the whole error answer with this code, where the revision has one."""
        return self._codes.get(code)

    def _close(self, node: Any, *, within: str = "") -> Any:
        """A copy of a schema in which objects with named properties have no others."""
        if isinstance(node, list):
            return [self._close(item) for item in node]
        if not isinstance(node, dict) or within in OPEN_PROPERTIES:
            return copy.deepcopy(node)
        if "allOf" in node:
            return self._close(self._merged(node))
        closed: dict[str, Any] = {}
        for key, item in node.items():
            if key == "properties":
                closed[key] = {name: self._close(part, within=name) for name, part in item.items()}
            else:
                closed[key] = self._close(item)
        if "properties" in node and (node["properties"] or "additionalProperties" not in node):
            closed["additionalProperties"] = False
        return closed

    def _merged(self, node: dict[str, Any]) -> dict[str, Any]:
        """The parts of an `allOf` as one object: closed each by itself, they would refuse each other."""
        merged: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
        for part in node["allOf"]:
            part = self.resolve(part)
            merged["properties"] |= part.get("properties", {})
            merged["required"] += [name for name in part.get("required", []) if name not in merged["required"]]
        return merged

    def _allow_meta(self, definition: dict[str, Any]) -> None:
        """Every request and notification may carry `_meta`, also where its own definition leaves it out."""
        params = self.closed.resolve(definition.get("properties", {}).get("params", {}))
        for branch in params.get("anyOf", [params]):
            branch = self.closed.resolve(branch)
            if "properties" in branch:
                branch["properties"].setdefault("_meta", {"type": "object"})

    def _allow_fractions(self, content: dict[str, Any]) -> None:
        """A form may ask for a number, so it may be answered with one: the schemas took it for an integer."""
        values = content["additionalProperties"]
        for branch in values.get("anyOf", [values]):
            if isinstance(branch["type"], list):
                branch["type"] = ["number" if name == "integer" else name for name in branch["type"]]

    def _named(self, ending: str) -> list[str]:
        return [name for name in self.definitions if name.endswith(ending)]

    def _definitions_of_codes(self) -> dict[int, str]:
        codes: dict[int, str] = {}
        for name in self._named("Error"):
            error = self.closed.definitions[name].get("properties", {}).get("error", {})
            code = error.get("properties", {}).get("code", {}).get("const")
            if code is not None:
                codes[code] = name
        return codes


_ANY_OBJECTS = {"type": "object", "additionalProperties": {"type": "object"}}


def spec_folder() -> Path | None:
    """The folder of official schemas, if there is one to compare with."""
    folder = os.environ.get("DOVETAIL_SPEC")
    return Path(folder) if folder else None


@cache
def closed_schema(folder: Path, revision: str) -> ClosedSchema:
    return ClosedSchema(folder / revision / "schema.json")
