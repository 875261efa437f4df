"""Rules, and the policy that they form: allow, ask or deny."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec

from dovetail.policy.inspection.invisible_chars import show_hidden
from dovetail.protocol.errors import LocalError
from dovetail.types.bounded_dict import BoundedDict
from dovetail.types.tools import ToolAnnotations

from .actions import Action, ActionKind, Decision, Verdict
from .conditions import Condition, all_hold, any_holds
from .globs import glob_matches

Hint: TypeAlias = Literal["read_only", "destructive", "idempotent", "open_world"]

HINTS: Mapping[Hint, bool] = MappingProxyType(
    {"read_only": False, "destructive": True, "idempotent": False, "open_world": True}
)
"""Defaults of annotations (schema, ToolAnnotations)."""

_SUBJECTS: Mapping[str, str] = MappingProxyType(
    {
        "launch": "the start of",
        "tool": "any tool of",
        "prompt": "any prompt of",
        "resource": "any resource of",
        "sampling": "questions to a model by",
        "sampling-answer": "a model's answers to",
        "context": "more of the conversation for",
        "elicitation": "questions to the user by",
        "roots": "folders named to",
        "definition": "changed definitions of",
        "*": "everything of",
    }
)
Names: TypeAlias = str | tuple[str, ...]
"""A pattern with `*` and `?`, or several of which one has to match."""

_VERBS: Mapping[Verdict, str] = MappingProxyType({"allow": "allow", "ask": "ask about", "deny": "deny"})


class Rule(msgspec.Struct, frozen=True, dict=True):
    """One rule: a verdict, and what it is about. What is not named may be anything.

    A rule without `kind` is about tools, but a `deny` that names nothing of a tool is about everything. A rule that
    allows and looks at what a server says of its tool holds for trusted servers only (tools, "Tool": annotations are
    untrusted unless the server is trusted).
    """

    verdict: Verdict
    server: str = "*"
    tool: str | None = None
    """A pattern for names of tools, with `*` and `?`."""
    kind: ActionKind | Literal["*"] | None = None
    name: str | None = None
    """A pattern for what else has a name: prompts, and the URIs of resources."""
    arguments: dict[str, Condition] = {}
    """Conditions by JSON pointer or dotted name. To allow, all must hold; to ask or deny, of each place any value."""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    trusted: bool | None = None
    principal: Names | None = None
    """Patterns for the authenticated callers that it is about."""
    group: Names | None = None
    """Patterns for the groups of callers that it is about."""
    not_group: Names | None = None
    """Patterns for groups whose members it is not about; for rules that ask or deny."""
    definition: str | None = None
    """SHA-256 of the only definition that it is about."""
    launch: str | None = None
    """`LaunchSpec.digest` of the only program that it is about."""
    origin: str = "code"
    """The file and line that it stands in."""

    def __post_init__(self) -> None:
        if self.tool is not None and (self.name is not None or self.kind not in (None, "tool")):
            raise LocalError("A rule with `tool` is about tools: leave out `kind` and `name`")
        if self.about not in ("tool",) and (self.arguments or self.hints):
            raise LocalError(f"A rule about {self.about!r} cannot look at arguments or annotations, which tools have")
        if self.not_group is not None and self.verdict == "allow":
            raise LocalError("A rule with `not_group` asks or denies: to allow, name the `group` that may")

    @functools.cached_property
    def about(self) -> ActionKind | Literal["*"]:
        """The kind of action that it is about."""
        if self.kind is not None:
            return self.kind
        wide = self.verdict == "deny" and self.tool is None and not self.arguments and not self.hints
        return "*" if wide and self.name is None else "tool"

    @functools.cached_property
    def hints(self) -> dict[Hint, bool]:
        """The annotations that it requires."""
        wanted: dict[Hint, bool] = {}
        for hint in HINTS:
            value: bool | None = getattr(self, hint)
            if value is not None:
                wanted[hint] = value
        return wanted

    @functools.cached_property
    def denies_all(self) -> bool:
        """True if it denies all actions of its kind at its server, whatever their names and definitions are."""
        subject = (self.tool, self.name)
        narrow = self.arguments or self.hints or self.definition or self.launch or self.trusted is not None
        return self.verdict == "deny" and not narrow and all(pattern in (None, "*") for pattern in subject)

    def matches(self, action: Action) -> bool:
        """True if it is about this action."""
        return self.matches_subject(action) and self.matches_call(action)

    def matches_subject(self, action: Action) -> bool:
        """True if it is about this action, as far as all calls of a tool are alike."""
        pattern = self.tool if self.tool is not None else self.name
        return (
            self.about in ("*", action.kind)
            and glob_matches(self.server, action.server)
            and (pattern is None or glob_matches(pattern, action.name))
            and self.trusted in (None, action.trusted)
            and self.definition in (None, action.definition)
            and self.launch in (None, action.launch)
            and self._fits_caller(action)
        )

    def _fits_caller(self, action: Action) -> bool:
        if self.principal is not None and (
            action.principal is None or not _any_matches(self.principal, (action.principal,))
        ):
            return False
        if self.group is not None and not _any_matches(self.group, action.groups):
            return False
        return self.not_group is None or not _any_matches(self.not_group, action.groups)

    def matches_call(self, action: Action) -> bool:
        """True if annotations and arguments are such as it is about."""
        return self._fits_hints(action) and (not self.arguments or self._fits_arguments(action.arguments))

    def _fits_arguments(self, arguments: dict[str, Any]) -> bool:
        hold = all_hold if self.verdict == "allow" else any_holds
        return all(hold(condition, arguments, place) for place, condition in self.arguments.items())

    def _fits_hints(self, action: Action) -> bool:
        wanted = self.hints
        if not wanted:
            return True
        if action.trusted:
            said = hints_of(action.annotations)
            return all(said[hint] is value for hint, value in wanted.items())
        if self.verdict == "allow":
            return False
        # A server that nobody trusts is believed the worse of what it says and of what holds if it says nothing.
        return all(value is HINTS[hint] or _said(action.annotations, hint) is value for hint, value in wanted.items())

    def __str__(self) -> str:
        return self._text

    @functools.cached_property
    def _text(self) -> str:
        return f"{self.sentence()} ({self.origin})"

    def sentence(self) -> str:
        """The rule in words."""
        # A project's rules are written by others, and stand in the question that a user is asked.
        return show_hidden(" ".join([_VERBS[self.verdict], self._subject(), *self._conditions()]))

    def _subject(self) -> str:
        about = self.about
        pattern = self.tool if self.tool is not None else self.name
        subject = _SUBJECTS[about]
        if pattern not in (None, "*"):
            subject = f"{about} {pattern} of"
        trust = {None: "", True: "trusted ", False: "untrusted "}[self.trusted]
        return f"{subject} any {trust}server" if self.server == "*" else f"{subject} {trust}{self.server}"

    def _conditions(self) -> list[str]:
        conditions = [f"it is {'' if value else 'not '}{hint.replace('_', '-')}" for hint, value in self.hints.items()]
        conditions += [f"{place} {condition}" for place, condition in self.arguments.items()]
        callers = (("", self.principal), ("in the group ", self.group), ("not in the group ", self.not_group))
        conditions += [f"the caller is {words}{_shown_names(names)}" for words, names in callers if names is not None]
        if self.definition is not None:
            conditions.append("its definition has not changed")
        if self.launch is not None and self.definition is None:
            conditions.append("the server is started as it was")
        return ["if", " and ".join(conditions)] if conditions else []


DEFAULTS: tuple[Rule, ...] = (
    Rule("allow", tool="*", read_only=True, trusted=True, origin="default"),
    Rule("ask", tool="*", origin="default"),
    Rule("allow", kind="prompt", origin="default"),
    Rule("allow", kind="resource", origin="default"),
    Rule("ask", kind="*", origin="default"),
)
"""Default rules, after all others: the user picks prompts and resources, so these are allowed; all else is asked."""

MAX_SUBJECTS = 1_000
"""Tools and other subjects of actions whose rules a policy remembers."""

_STRICTNESS: Mapping[Verdict, int] = MappingProxyType({"allow": 0, "ask": 1, "deny": 2})


class Policy:
    """Rules in their order; a matching `deny` always wins, else the first that matches says it.

    `Policy()` has the built-in defaults only. It is immutable.
    """

    __slots__ = ("_by_subject", "_rules", "looks_at_definitions", "looks_at_groups")

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = tuple(rules)
        self.looks_at_definitions = any(rule.definition is not None or rule.hints for rule in self._rules)
        """True if a decision may depend on the definition of a tool, and not on its name alone."""
        self.looks_at_groups = any(rule.group is not None or rule.not_group is not None for rule in self._rules)
        """True if a decision may depend on the groups of the caller."""
        self._by_subject = BoundedDict[tuple[object, ...], tuple[Rule, ...]](MAX_SUBJECTS)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Those that were given; the defaults come after them."""
        return self._rules

    def decide(self, action: Action, answers: Iterable[Rule] = ()) -> Decision:
        """Decide on an action; `answers` are earlier answers of the user (`SavedAnswers.answers`), and come first."""
        first: Rule | None = None
        for rule in (*(each for each in answers if each.matches_subject(action)), *self._about(action)):
            if (first is None or rule.verdict == "deny") and rule.matches_call(action):
                if rule.verdict == "deny":
                    return Decision("deny", str(rule))
                first = rule
        if first is None:  # the last default matches everything; without it nothing is allowed
            return Decision("deny", "deny what no rule is about (default)")
        return Decision(first.verdict, str(first))

    def always_denies(self, action: Action) -> bool:
        """True if an action is denied whatever its arguments are."""
        return any(
            rule.verdict == "deny" and not rule.arguments and rule.matches_call(action) for rule in self._about(action)
        )

    def denies_server(self, server: str, principal: str | None, groups: frozenset[str]) -> bool:
        """True if a caller may use nothing of a server, whatever it offers."""
        kinds: tuple[ActionKind, ...] = ("tool", "prompt", "resource")
        actions = [Action(kind=kind, server=server, principal=principal, groups=groups) for kind in kinds]
        return all(any(rule.denies_all and rule.matches_subject(action) for rule in self._rules) for action in actions)

    def _about(self, action: Action) -> tuple[Rule, ...]:
        """The rules whose subject is that of the action; remembered, since one tool is called again and again."""
        subject = (
            *(action.kind, action.server, action.name, action.trusted, action.definition, action.launch),
            *(action.principal, action.groups),
        )
        rules = self._by_subject.get(subject)
        if rules is None:
            rules = tuple(rule for rule in (*self._rules, *DEFAULTS) if rule.matches_subject(action))
            self._by_subject[subject] = rules
        return rules


def stricter(one: Verdict, other: Verdict) -> Verdict:
    """The stricter of two verdicts."""
    return one if _STRICTNESS[one] >= _STRICTNESS[other] else other


def hints_of(annotations: ToolAnnotations | None) -> dict[Hint, bool]:
    """Annotations of a tool, with the defaults where it has none.

    Only a tool that changes something can destroy anything or do it twice (schema, ToolAnnotations).
    """
    hints: dict[Hint, bool] = {}
    for hint, default in HINTS.items():
        said = _said(annotations, hint)
        hints[hint] = default if said is None else said
    if hints["read_only"]:
        hints["destructive"], hints["idempotent"] = False, True
    return hints


def _any_matches(patterns: Names, texts: Iterable[str]) -> bool:
    several = (patterns,) if isinstance(patterns, str) else patterns
    return any(glob_matches(pattern, text) for text in texts for pattern in several)


def _shown_names(names: Names) -> str:
    return names if isinstance(names, str) else " or ".join(names)


def _said(annotations: ToolAnnotations | None, hint: Hint) -> bool | None:
    return None if annotations is None else getattr(annotations, f"{hint}_hint")
