"""Secrets that stand in the values of a server: taken out, with an input in their place."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, cast

import msgspec

from dovetail.text.redact import is_secret, redact_text

_SECTIONS = ("env", "headers")
_SCHEME = re.compile(r"((?:bearer|basic|token)\s+)(?=\S)", re.IGNORECASE)
_OPTION = re.compile(r"--?([A-Za-z][\w-]*)(=.*)?")


class ExtractedSecret(msgspec.Struct, frozen=True):
    """One value that was taken out."""

    where: str
    """Such as `env.API_KEY`."""
    id: str
    value: str

    def declaration(self, key: str) -> dict[str, Any]:
        """The input for a file that asks for it."""
        return secret_input(self.id, f"{self.where.partition('.')[2]} of {key}")


def secret_input(id: str, description: str) -> dict[str, Any]:
    """An input of a file whose value is not to be seen."""
    return {"type": "promptString", "id": id, "description": description, "password": True}


def extract_secrets(
    key: str, server: Mapping[str, Any], used: Collection[str]
) -> tuple[dict[str, Any], list[ExtractedSecret]]:
    """A server with an input in place of each value that looks like a secret; ids that are in use are left alone."""
    hidden: list[ExtractedSecret] = []
    changed = dict(server)
    for section in _SECTIONS:
        values = server.get(section)
        if not isinstance(values, dict):
            continue
        pairs = dict(cast("dict[str, Any]", values))
        for name, value in pairs.items():
            if not isinstance(value, str) or not looks_secret(name, value):
                continue
            scheme = match[1] if (match := _SCHEME.match(value)) else ""
            id = free_id(f"{key}-{name}", [*used, *(each.id for each in hidden)])
            hidden.append(ExtractedSecret(f"{section}.{name}", id, value[len(scheme) :]))
            pairs[name] = f"{scheme}${{input:{id}}}"
        changed[section] = pairs
    return changed, hidden


def looks_secret(name: str, value: str) -> bool:
    """True if a value is better not written down; one with a `${…}` in it says where it comes from already."""
    return bool(value.strip()) and "${" not in value and (is_secret(name) or redact_text(value) != value)


def secrets_left_in_file(server: Mapping[str, Any]) -> list[str]:
    """Arguments and addresses that look like secrets; they stay, since they are no place for one to begin with."""
    given: object = server.get("args")
    words = [str(word) for word in cast("list[object]", given)] if isinstance(given, list) else []
    places: list[str] = []
    for index, word in enumerate(words):
        option = _OPTION.fullmatch(words[index - 1]) if index else None
        name = option[1] if option is not None and option[2] is None else ""
        if looks_secret(name, word):
            places.append(f"args.{index}")
    url = server.get("url")
    return [*places, "url"] if isinstance(url, str) and looks_secret("", url) else places


def free_id(wish: str, used: Collection[str]) -> str:
    """An id like the one that is wished for, which nobody has."""
    plain = re.sub(r"[^a-z0-9]+", "-", wish.lower()).strip("-") or "secret"
    name, number = plain, 1
    while name in used:
        number += 1
        name = f"{plain}-{number}"
    return name
