"""Scripted answers to elicitation, sampling and roots requests in tests."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import msgspec

from dovetail.client.elicitation import Elicitation
from dovetail.protocol.errors import LocalError
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, ElicitResult, SamplingMessage
from dovetail.types.content import Text

if TYPE_CHECKING:
    import re

    from dovetail.client.elicitation import ElicitAnswer
    from dovetail.client.roots import RootLike

Kind: TypeAlias = Literal["elicit", "sample", "roots"]
Match: TypeAlias = "str | re.Pattern[str] | None"
"""Matches the text of a request: a substring, a regular expression, or None for any."""

ElicitReply: TypeAlias = "ElicitAnswer | Exception | Callable[[Elicitation], ElicitAnswer | Awaitable[ElicitAnswer]]"
SampleAnswer: TypeAlias = "str | CreateMessageResult"
SampleReply: TypeAlias = (
    "SampleAnswer | Exception | Callable[[CreateMessageParams], SampleAnswer | Awaitable[SampleAnswer]]"
)

KINDS: tuple[Kind, ...] = ("elicit", "sample", "roots")


class UnexpectedQuestion(AssertionError):
    """The script has no answer to a request, or the answer does not fit the form."""


class AnsweredRequest(msgspec.Struct, frozen=True):
    """A request of the server, and its answer."""

    kind: Kind
    text: str
    """The message of an elicitation, or all text of a sampling request."""
    question: Elicitation | CreateMessageParams | None = None
    answer: Any = None


class _ScriptedAnswer:
    """An answer that has not been used up."""

    def __init__(self, kind: Kind, match: Match, reply: Any, times: int | None) -> None:
        self.kind = kind
        self.match = match
        self.reply = reply
        self.left = times

    def fits(self, kind: Kind, text: str) -> bool:
        if self.kind != kind or self.left == 0:
            return False
        if self.match is None:
            return True
        return self.match in text if isinstance(self.match, str) else self.match.search(text) is not None

    def __str__(self) -> str:
        said = "anything" if self.match is None else repr(getattr(self.match, "pattern", self.match))
        more = "" if self.left == 1 else f" ({self.left} times)"
        return f"{self.kind} {said}{more}"


class Script:
    """Answers requests of a server: `Client(server, **script.options)`.

    A request takes the first unused answer that matches it.
    """

    def __init__(self, can: Collection[Kind] = KINDS) -> None:
        """`can` are the capabilities that the client declares."""
        if unknown := set(can) - set(KINDS):
            raise LocalError(f"A script can {', '.join(KINDS)}, not {', '.join(sorted(unknown))}")
        self._can = frozenset(can)
        self._entries: list[_ScriptedAnswer] = []
        self._roots: list[RootLike] = []
        self.asked: list[AnsweredRequest] = []
        """The requests, in order."""
        self.problems: list[str] = []
        """Requests without a fitting answer."""

    def elicit(self, asks: Match, answer: ElicitReply = "accept", *, times: int | None = 1) -> Self:
        """Answer a form with its content, a page with "accept", either with "decline" or "cancel".

        A function takes the request and returns such an answer; an exception is raised. `times=None`
        answers any number of requests, also none.
        """
        return self._add("elicit", asks, answer, times)

    def sample(self, asks: Match, answer: SampleReply, *, times: int | None = 1) -> Self:
        """Answer a sampling request; `Refused("no")` refuses it."""
        return self._add("sample", asks, answer, times)

    def roots(self, *roots: RootLike) -> Self:
        """Set the roots."""
        self._roots = list(roots)
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The options of `Client` that connect it to this script."""
        options: dict[str, Any] = {
            "elicit": {"on_elicit": self._on_elicit},
            "sample": {"on_sample": self._on_sample, "sample_tools": True},
            "roots": {"roots": self._on_roots},
        }
        return {name: value for kind in KINDS if kind in self._can for name, value in options[kind].items()}

    @property
    def unused(self) -> list[str]:
        """Descriptions of unused answers."""
        return [str(entry) for entry in self._entries if entry.left]

    def check(self) -> None:
        """Fail unless every answer was used and every request answered."""
        problems = [*self.problems, *(f"Nobody asked for this answer: {entry}" for entry in self.unused)]
        if problems:
            raise UnexpectedQuestion("\n".join([*problems, *_answered_text(self.asked)]))

    def _add(self, kind: Kind, match: Match, reply: Any, times: int | None) -> Self:
        if kind not in self._can:
            raise LocalError(f"This script was made without {kind!r}, so nobody will ask for it")
        self._entries.append(_ScriptedAnswer(kind, match, reply, times))
        return self

    async def _on_elicit(self, question: Elicitation) -> ElicitAnswer:
        text = question.message if question.url is None else f"{question.message}\n{question.url}"
        answer = await self._reply("elicit", text, question)
        content = answer.content if isinstance(answer, ElicitResult) else answer
        if isinstance(content, Mapping) and question.mode == "form":
            fields = cast("Mapping[str, Any]", content)
            if problems := question.problems(question.filled(fields)):
                raise self._problem(f"The answer to {text!r} does not fit its form: {'; '.join(problems)}")
        self.asked.append(AnsweredRequest("elicit", question.message, question, answer))
        return answer

    async def _on_sample(self, params: CreateMessageParams) -> SampleAnswer:
        text = "\n".join(_texts(params.messages))
        answer = await self._reply("sample", text, params)
        self.asked.append(AnsweredRequest("sample", text, params, answer))
        return answer

    async def _on_roots(self) -> list[RootLike]:
        self.asked.append(AnsweredRequest("roots", "", None, list(self._roots)))
        return self._roots

    async def _reply(self, kind: Kind, text: str, question: Any) -> Any:
        entry = next((entry for entry in self._entries if entry.fits(kind, text)), None)
        if entry is None:
            left = ", ".join(self.unused) or "none"
            raise self._problem(f"The script has no answer to {kind} {text!r}; answers left: {left}")
        if entry.left is not None:
            entry.left -= 1
        reply = entry.reply
        if isinstance(reply, Exception):
            self.asked.append(AnsweredRequest(kind, text, question, reply))
            raise reply
        if callable(reply):
            reply = reply(question)
            if inspect.isawaitable(reply):
                reply = await reply
        return reply

    def _problem(self, text: str) -> UnexpectedQuestion:
        self.problems.append(text)
        return UnexpectedQuestion(text)


def _texts(messages: Iterable[SamplingMessage]) -> Iterable[str]:
    for message in messages:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        yield from (block.text for block in blocks if isinstance(block, Text))


def _answered_text(asked: list[AnsweredRequest]) -> list[str]:
    if not asked:
        return ["Nothing was answered."]
    return ["Answered so far:", *(f"  {one.kind} {one.text!r}: {one.answer!r}" for one in asked)]
