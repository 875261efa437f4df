"""Prompts and the messages they give."""

import msgspec

from .base import PageResult, Result, RetriedParams
from .capabilities import Icon
from .content import Content, Role
from .serialization import Value


class PromptArgument(Value):
    """An argument that a prompt takes."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Value):
    """A prompt as a list names it."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None


class PromptMessage(Value):
    """One message of a prompt."""

    role: Role
    content: Content


class ListPromptsResult(PageResult):
    """One page of prompts."""

    prompts: list[Prompt] = msgspec.field(default_factory=list[Prompt])


class GetPromptParams(RetriedParams):
    """Params of `prompts/get`."""

    name: str
    arguments: dict[str, str] | None = None


class GetPromptResult(Result):
    """The messages of a prompt."""

    messages: list[PromptMessage] = msgspec.field(default_factory=list[PromptMessage])
    description: str | None = None
