"""Decisions of the user that are kept in their folder: saved answers, accepted warnings, switched-off tools."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from dovetail.userdata.folders import user_folder

from .actions import Action, ActionKind
from .approval_questions import Remember
from .definitions import Definition
from .rules import Rule
from .user_file import UserFile

ANSWERS_FILE = "answers.json"

Said: TypeAlias = Literal["allow", "deny"]
_Key: TypeAlias = tuple[str, str, str]


class SavedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to one kind of question.

    A yes is bound to the definition of the tool and to the launch of the server: whatever of them changes, the user
    is asked again. A no is bound to the launch alone.
    """

    verdict: Said
    kind: ActionKind
    server: str
    name: str = ""
    definition: str | None = None
    launch: str | None = None

    def rule(self, origin: str) -> Rule:
        """The answer as a rule for the action that it was found for."""
        named = self.name if self.name else None
        tool, other = (named, None) if self.kind == "tool" else (None, named)
        return Rule(
            self.verdict,
            server=self.server,
            kind=self.kind,
            tool=tool,
            name=other,
            definition=self.definition,
            launch=self.launch,
            origin=origin,
        )


class SavedAnswers:
    """Answers for the session, in memory, and for always, in the user's folder, where all programs share them."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = UserFile((folder or user_folder()) / ANSWERS_FILE, list[SavedAnswer], [])
        self._session: dict[_Key, tuple[SavedAnswer, ...]] = {}
        self._indexed: tuple[list[SavedAnswer], dict[_Key, tuple[SavedAnswer, ...]]] = ([], {})

    def answers(self, action: Action) -> tuple[Rule, ...]:
        """Answers to such an action as rules for `Policy.decide`: for the session first, then for always."""
        key = (action.kind, action.server, action.name)
        session, always = self._session.get(key, ()), self._always().get(key, ())
        if not session and not always:
            return ()
        return (
            *(answer.rule("answered for this session") for answer in session),
            *(answer.rule("answered for always") for answer in always),
        )

    def remember(self, action: Action, verdict: Said, hold: Remember) -> Remember:
        """Keep an answer; how long it is kept in fact.

        A yes to a tool whose definition or launch is not known holds for the session at most.
        """
        unbound = verdict == "allow" and (action.launch is None or (action.kind == "tool" and not action.definition))
        kept: Remember = "session" if hold == "always" and unbound else hold
        answer = SavedAnswer(
            verdict=verdict,
            kind=action.kind,
            server=action.server,
            name=action.name,
            definition=action.definition if verdict == "allow" else None,
            launch=action.launch,
        )
        if kept == "session":
            key = (answer.kind, answer.server, answer.name)
            self._session[key] = (answer, *(other for other in self._session.get(key, ()) if not _meets(other, answer)))
        elif kept == "always":
            self._file.change(lambda known: [answer, *(other for other in known if not _meets(other, answer))])
        return kept

    def forget(self, server: str, name: str | None = None) -> None:
        """Take back what was said of a server, or of one of its tools."""

        def stays(answer: SavedAnswer) -> bool:
            return answer.server != server or (name is not None and answer.name != name)

        self._session = _index(answer for kept in self._session.values() for answer in kept if stays(answer))
        self._file.change(lambda known: [answer for answer in known if stays(answer)])

    def all(self) -> list[Rule]:
        """Everything that is remembered, as rules: for the session first, then for always."""
        session = [answer for kept in self._session.values() for answer in kept]
        return [
            *(answer.rule("answered for this session") for answer in session),
            *(answer.rule("answered for always") for answer in self.always()),
        ]

    def always(self) -> list[SavedAnswer]:
        """Everything that holds for always."""
        return list(self._file.read())

    def _always(self) -> dict[_Key, tuple[SavedAnswer, ...]]:
        known = self._file.read()
        if self._indexed[0] is not known:
            self._indexed = (known, _index(known))
        return self._indexed[1]


def _index(answers: Iterable[SavedAnswer]) -> dict[_Key, tuple[SavedAnswer, ...]]:
    by_subject: dict[_Key, tuple[SavedAnswer, ...]] = {}
    for answer in answers:
        key = (answer.kind, answer.server, answer.name)
        by_subject[key] = (*by_subject.get(key, ()), answer)
    return by_subject


def _meets(one: SavedAnswer, other: SavedAnswer) -> bool:
    """True if one takes the place of the other: about the same thing of the same server."""
    return (one.kind, one.server, one.name, one.launch) == (other.kind, other.server, other.name, other.launch)


ACCEPTED_FILE = "accepted.json"

_Accepted: TypeAlias = dict[str, list[str]]


class AcceptedWarnings:
    """Digests by server, in the user's folder: a lockfile that came with a project vouches for nothing odd."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = UserFile[_Accepted]((folder or user_folder()) / ACCEPTED_FILE, _Accepted, {})

    def has(self, server: str, definition: Definition) -> bool:
        """True if a user has looked at this very definition and said yes."""
        return definition.digest in self._file.read().get(server, ())

    def add(self, server: str, definition: Definition) -> None:
        """Take note of a user's yes."""
        self._file.change(
            lambda known: {**known, server: sorted({*known.get(server, ()), definition.digest})},
        )


SWITCHES_FILE = "switched_off.json"

_Off: TypeAlias = dict[str, list[str]]


class ToolSwitches:
    """The tools that a user has switched off, by server; in the user's folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._file = UserFile[_Off]((folder or user_folder()) / SWITCHES_FILE, _Off, {})

    def is_on(self, server: str, tool: str) -> bool:
        """True if a tool may be offered."""
        return tool not in self._file.read().get(server, ())

    def turn_on(self, server: str, tool: str) -> None:
        """Offer a tool again."""
        self._file.change(lambda off: _with(off, server, {*off.get(server, ())} - {tool}))

    def turn_off(self, server: str, tool: str) -> None:
        """Offer a tool no longer."""
        self._file.change(lambda off: _with(off, server, {*off.get(server, ()), tool}))


def _with(off: _Off, server: str, tools: set[str]) -> _Off:
    return {key: kept for key, kept in {**off, server: sorted(tools)}.items() if kept}
