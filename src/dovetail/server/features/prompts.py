"""Prompts: what a client sees of one, and how it is filled in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypedDict, Unpack, cast

from dovetail.protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, LocalError, ProtocolError
from dovetail.server.context import RequestContext
from dovetail.server.invocation import Invocation
from dovetail.server.signatures.signature import Argument, BadArguments, TextBinding, prompt_binding
from dovetail.types.capabilities import Icon
from dovetail.types.client_features import InputRequired
from dovetail.types.content import Content, Text
from dovetail.types.prompts import GetPromptResult, Prompt, PromptArgument, PromptMessage

from .invoke import run_handler


class PromptOptions(TypedDict, total=False):
    """Options of a prompt besides its function."""

    name: str
    title: str
    description: str
    arguments: Sequence[PromptArgument]
    """The arguments, instead of the parameters of the function."""
    icons: Iterable[Icon]
    meta: dict[str, Any]


class RegisteredPrompt:
    """A function that makes the messages of a prompt."""

    def __init__(self, function: Callable[..., Any], binding: TextBinding, definition: Prompt) -> None:
        self.function = function
        self.binding = binding
        self.definition = definition

    async def get(self, invocation: Invocation, arguments: dict[str, Any]) -> GetPromptResult | InputRequired:
        """Fill the prompt in; missing or wrong arguments are −32602 (prompts, "Error Handling")."""
        name = self.definition.name
        try:
            values = self.binding.bind(arguments)
        except BadArguments as problem:
            raise ProtocolError(INVALID_PARAMS, f"Invalid arguments for prompt {name!r}: {problem}") from problem
        value = await run_handler(self.function, self.binding, values, invocation, f"Prompt {name!r}")
        if isinstance(value, (GetPromptResult, InputRequired)):
            return value
        items = list(cast("Sequence[Any]", value)) if isinstance(value, (list, tuple)) else [value]
        return GetPromptResult([_message(item, name) for item in items], description=self.definition.description)


def make_prompt(function: Callable[..., Any], **options: Unpack[PromptOptions]) -> RegisteredPrompt:
    """Look at a function once and make it a prompt."""
    if unknown := options.keys() - PromptOptions.__annotations__.keys():
        from dovetail.server.other_names import PROMPT_OPTIONS, unknown_options

        raise LocalError(unknown_options("A prompt", unknown, PROMPT_OPTIONS, PromptOptions.__annotations__))
    name = options.get("name") or getattr(function, "__name__", None)
    if not name or name == "<lambda>":
        raise LocalError("A prompt needs a name: give name=… for a lambda or a callable object")
    declared = options.get("arguments")
    if declared is None:
        binding = prompt_binding(function, RequestContext, options.get("description"))
        arguments = [PromptArgument(one.name, one.title, one.description, one.required) for one in binding.arguments]
    else:
        arguments = list(declared)
        fields = [Argument(one.name, one.description, bool(one.required), one.title) for one in arguments]
        binding = prompt_binding(function, RequestContext, options.get("description"), fields)
    icons = options.get("icons")
    definition = Prompt(
        name,
        title=options.get("title"),
        description=binding.description,
        arguments=arguments or None,
        icons=list(icons) if icons else None,
        meta=options.get("meta"),
    )
    return RegisteredPrompt(function, binding, definition)


def _message(item: Any, name: str) -> PromptMessage:
    if isinstance(item, PromptMessage):
        return item
    if isinstance(item, str):
        return PromptMessage("user", Text(item))
    if isinstance(item, Content):
        return PromptMessage("user", item)
    raise ProtocolError(
        INTERNAL_ERROR,
        f"Prompt {name!r} returned {type(item).__name__}; it may return str, content or messages",
    )
