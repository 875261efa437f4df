"""The official schemas, read from the folder that DOVETAIL_SPEC names."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

NOT_RUN = (
    "NOT RUN: the revisions were not compared with the official schemas. "
    "Set DOVETAIL_SPEC to a folder that holds <revision>/schema.json."
)


class Official:
    """One revision's schema."""

    def __init__(self, path: Path) -> None:
        self.document: dict[str, Any] = json.loads(path.read_text())
        self.key = "definitions" if "definitions" in self.document else "$defs"
        self.definitions: dict[str, Any] = self.document[self.key]
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def resolve(self, schema: Any) -> Any:
        while "$ref" in schema:
            schema = self.definitions[schema["$ref"].rsplit("/", 1)[-1]]
        return schema

    def at(self, path: str) -> Any:
        """The schema of a definition, or of a property within one: `CompleteRequest.params.argument`."""
        first, *rest = path.split(".")
        schema = self.resolve(self.definitions[first])
        for name in rest:
            schema = self.resolve(schema["properties"][name])
        return schema

    def has(self, path: str) -> bool:
        try:
            self.at(path)
        except KeyError:
            return False
        return True

    def properties(self, schema: Any) -> frozenset[str]:
        """The names of all properties, those of alternatives and of parts included."""
        schema = self.resolve(schema)
        names = set(schema.get("properties", ()))
        for part in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
            names |= self.properties(part)
        return frozenset(names)

    def members(self, union: str) -> dict[str, str]:
        """Method to definition, for a union such as ClientRequest; empty where the revision has none."""
        schema = self.definitions.get(union)
        if schema is None:
            return {}
        members = schema.get("anyOf") or [schema]
        if "anyOf" not in schema and "$ref" not in schema:
            # A union of one is written out in full; find the definition it stands for.
            method = schema["properties"]["method"]["const"]
            same = [name for name, item in self.definitions.items() if name != union and _method(item) == method]
            return {method: same[0]}
        names = [member["$ref"].rsplit("/", 1)[-1] for member in members]
        return {_method(self.definitions[name]): name for name in names}

    def problems(self, definition: str, instance: Any) -> list[str]:
        validator = self._validators.get(definition)
        if validator is None:
            schema = {
                "$schema": self.document["$schema"],
                "$ref": f"#/{self.key}/{definition}",
                self.key: self.definitions,
            }
            validator = self._validators[definition] = jsonschema_rs.validator_for(schema)
        return [
            f"{'/'.join(map(str, error.instance_path))}: {error.message}" for error in validator.iter_errors(instance)
        ]


def _method(definition: Any) -> Any:
    return definition.get("properties", {}).get("method", {}).get("const")


@cache
def _read(path: Path) -> Official:
    return Official(path)


def official(revision: str) -> Official:
    """The schema of a revision; without the folder the test says loudly that it did not run."""
    folder = os.environ.get("DOVETAIL_SPEC")
    if not folder:
        print(NOT_RUN)
        pytest.skip(NOT_RUN)
    return _read(Path(folder) / revision / "schema.json")
