"""Prompts and their messages."""

import msgspec

from .base import PageResult, Result, RetriedParams
from .capabilities import Icon
from .content import Content, Role
from .serialization import Value


class PromptArgument(Value):
    """An argument of a prompt."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Value):
    """The definition of a prompt, as `prompts/list` returns it."""

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
    """Result of `prompts/get`."""

    messages: list[PromptMessage] = msgspec.field(default_factory=list[PromptMessage])
    description: str | None = None
