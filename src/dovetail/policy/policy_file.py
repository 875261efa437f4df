"""Rules in files: the user's own, and a project's, which may only make things stricter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

import msgspec

from dovetail.protocol.errors import LocalError
from dovetail.userdata.folders import user_folder
from dovetail.userdata.private_file import FileUnusable, read_file

from .actions import ActionKind, Verdict
from .conditions import Condition, Equals, Like, OneOf, Outside, Under
from .rules import Names, Policy, Rule

FILE = "policy.toml"
"""In the user's folder."""
PROJECT_FILE = "mcp.policy.toml"
"""Beside a project's configuration."""

_HEADER = re.compile(r"\s*\[\[\s*rules\s*\]\]\s*(?:#.*)?")


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    verdict: Verdict
    server: str = "*"
    tool: str | None = None
    kind: ActionKind | Literal["*"] | None = None
    name: str | None = None
    arguments: dict[str, Any] = {}
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    trusted: bool | None = None
    principal: Names | None = None
    group: Names | None = None
    not_group: Names | None = None


def build_policy(
    given: Policy | Mapping[str, Any] | None = None, *, folder: Path | None = None, project: Path | None = None
) -> Policy:
    """The policy of a program: a project's file first, since it can only tighten, then the user's, then what is given.

    `folder` is the user's folder, and `project` the folder of the configuration. A file that is not there says nothing.
    """
    rules = given.rules if isinstance(given, Policy) else () if given is None else read_rules(given)
    own = load_rules((folder or user_folder()) / FILE)
    tighter = () if project is None else load_project_rules(project / PROJECT_FILE)
    return Policy((*tighter, *own, *rules))


def read_rules(source: Mapping[str, Any], origin: str = "code") -> tuple[Rule, ...]:
    """The rules of a mapping as it stands in a file: `{"rules": [{"verdict": "deny", "tool": "delete_*"}]}`."""
    return tuple(_rule(item, origin, f"{origin}: rule {n}") for n, item in enumerate(_items(source, origin), 1))


def load_policy(path: Path) -> Policy:
    """The policy of one file, which must be there; its rules name the file without its folder.

    It is for programs that tell their callers which rule refuses a request.
    """
    if not path.is_file():
        raise LocalError(f"There is no policy file {path}")
    return Policy(
        msgspec.structs.replace(rule, origin=path.name + rule.origin.removeprefix(str(path)))
        for rule in load_rules(path)
    )


def load_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a TOML file, each with its line; none if there is no such file."""
    import tomllib

    try:
        content = read_file(path)
        if content is None:
            return ()
        text = content.decode()
        source = tomllib.loads(text)
    except FileUnusable as problem:
        raise LocalError(str(problem)) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise LocalError(f"{path} is no TOML: {problem}") from None
    items = _items(source, str(path))
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines, 1) if _HEADER.fullmatch(line)]
    if len(heads) != len(items):  # written in another way than `[[rules]]`
        return tuple(_rule(item, f"{path}, rule {n}", f"{path}, rule {n}") for n, item in enumerate(items, 1))
    ends = [*heads[1:], len(lines) + 1]
    return tuple(
        _rule(item, f"{path}:{head}", f"{path}:{_culprit(item, lines, head, end)}")
        for item, head, end in zip(items, heads, ends, strict=False)
    )


def load_project_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a project's file; one that allows something is an error, since a project cannot let itself in."""
    rules = load_rules(path)
    for rule in rules:
        if rule.verdict == "allow":
            raise LocalError(
                f"{rule.origin}: a project's rules may only ask or deny;"
                f" put what you want to allow into {user_folder() / FILE}"
            )
    return rules


def _items(source: Mapping[str, Any], origin: str) -> list[Any]:
    unknown = sorted(source.keys() - {"rules"})
    if unknown:
        raise LocalError(f"{origin}: there is no {unknown[0]!r} in a policy; it has a list of `rules`")
    items = source.get("rules", [])
    if not isinstance(items, (list, tuple)):
        raise LocalError(f"{origin}: `rules` is a list; write each rule below a line [[rules]]")
    return list(cast("list[Any]", items))


def _rule(item: object, origin: str, place: str) -> Rule:
    if isinstance(item, Rule):
        return item
    try:
        fields = msgspec.convert(item, _Fields)
        values = msgspec.structs.asdict(fields)
        values["arguments"] = {key: _condition(key, value) for key, value in fields.arguments.items()}
        return Rule(**values, origin=origin)
    except (msgspec.ValidationError, LocalError, ValueError) as problem:
        raise LocalError(f"{place}: {problem}") from None


def _condition(place: str, value: object) -> Condition:
    if not isinstance(value, Mapping):
        return Equals(value)
    stated = cast("Mapping[str, Any]", value)
    if len(stated) != 1:
        raise ValueError(f"the argument {place!r} has {len(stated)} conditions; it takes one of {_KNOWN}")
    word, wanted = next(iter(stated.items()))
    if word not in _CONDITIONS:
        raise ValueError(f"the argument {place!r} cannot be tested with {word!r}; there are {_KNOWN}")
    kind, field = _CONDITIONS[word]
    try:
        return msgspec.convert({"type": word, field: wanted}, kind)
    except msgspec.ValidationError as problem:
        raise ValueError(f"the argument {place!r}, {word}: {problem}") from None


_CONDITIONS: Mapping[str, tuple[type[Condition], str]] = MappingProxyType(
    {
        "equals": (Equals, "value"),
        "one_of": (OneOf, "values"),
        "like": (Like, "pattern"),
        "under": (Under, "folder"),
        "outside": (Outside, "folder"),
    }
)
_KNOWN = ", ".join(_CONDITIONS)


def _culprit(item: object, lines: list[str], head: int, end: int) -> int:
    """The line of the first field that is wrong by itself, for a message; else that of the rule."""
    if not isinstance(item, dict):
        return head
    for name, value in cast("dict[str, Any]", item).items():
        try:
            _rule({"verdict": "deny", name: value} if name != "verdict" else {name: value}, "", "")
        except LocalError:
            wanted = re.compile(rf"\s*[\"']?{re.escape(name)}\b")
            return next((number for number in range(head + 1, end) if wanted.match(lines[number - 1])), head)
    return head
