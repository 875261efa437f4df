"""Requests to the client as values: elicitation, sampling and roots, with the capabilities that they need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, Unpack

import msgspec

from dovetail.protocol.errors import LocalError, MissingCapability
from dovetail.protocol.revisions.revision import Revision
from dovetail.schema.forms import fit_form
from dovetail.types.capabilities import ClientCapabilities
from dovetail.types.client_features import (
    CreateMessageParams,
    ElicitParams,
    ElicitRequest,
    ElicitResult,
    InputRequired,
    ModelHint,
    ModelPreferences,
    RootsRequest,
    SamplingMessage,
    SamplingRequest,
    ToolChoice,
)
from dovetail.types.content import SamplingContent, Text
from dovetail.types.tools import Tool

from .forms import form_for

if TYPE_CHECKING:
    from dovetail.server.invocation import Invocation

    from .forms import Form

_PAGE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\x00-\x1f\x7f/?#][^\s\x00-\x1f\x7f]*\Z")

T_co = TypeVar("T_co", covariant=True)

Prompt = str | SamplingContent | Sequence[SamplingMessage | SamplingContent | str]


class SampleOptions(TypedDict, total=False):
    """Options of a sampling request besides the prompt."""

    system: str
    temperature: float
    stop: Sequence[str]
    tools: Sequence[Tool]
    tool_choice: Literal["auto", "required", "none"]
    models: Sequence[str]
    """Names, or parts of names, of models that would do, best first."""
    cost: float
    """Priority of a low price, from 0 to 1; `speed` and `intelligence` likewise."""
    speed: float
    intelligence: float
    include_context: Literal["none", "thisServer", "allServers"]
    metadata: dict[str, Any]


class Answer(msgspec.Struct, Generic[T_co], frozen=True):
    """The user's answer to an elicitation: whether it was accepted and, if so, the form as an instance of its type."""

    action: Literal["accept", "decline", "cancel"]
    content: Any = None
    id: str | None = None
    """The elicitation id of a page, where the revision has such ids."""

    @property
    def accepted(self) -> bool:
        """True if the user accepted."""
        return self.action == "accept"

    @property
    def data(self) -> T_co:
        """The accepted form; raises LocalError if the user did not accept, so look at `accepted` first."""
        if self.action != "accept":
            verb = "declined" if self.action == "decline" else "cancelled"
            raise LocalError(f"There is no data, because the user {verb}: look at answer.accepted first")
        return self.content


class ClientRequests:
    """Makes requests to the client as values; raises `MissingCapability` where the client has not declared it."""

    def __init__(self, revision: Revision, capabilities: ClientCapabilities) -> None:
        self._revision = revision
        self._capabilities = capabilities

    def elicit(self, message: str, form: type | dict[str, Any] | None = None) -> ElicitRequest:
        """Ask the user to fill in a form."""
        self._check_elicitation("form")
        schema = fit_form(form_for(form).schema, self._revision)
        return ElicitRequest(ElicitParams(message, schema, mode="form"))

    def elicit_url(self, message: str, url: str, elicitation_id: str | None = None) -> ElicitRequest:
        """Ask the user to open a page; what happens there does not pass through the client."""
        self._check_elicitation("url")
        check_page(url)
        return ElicitRequest(ElicitParams(message, mode="url", url=url, elicitation_id=elicitation_id))

    def sample(self, prompt: Prompt, *, max_tokens: int, **options: Unpack[SampleOptions]) -> SamplingRequest:
        """Ask the client's model."""
        if unknown := options.keys() - SampleOptions.__annotations__.keys():
            from dovetail.server.other_names import SAMPLE_OPTIONS, unknown_options

            raise LocalError(unknown_options("ctx.sample", unknown, SAMPLE_OPTIONS))
        tools = options.get("tools")
        self._check_sampling(with_tools=bool(tools))
        stop, choice = options.get("stop"), options.get("tool_choice")
        params = CreateMessageParams(
            _messages(prompt),
            max_tokens,
            system_prompt=options.get("system"),
            temperature=options.get("temperature"),
            stop_sequences=list(stop) if stop else None,
            model_preferences=_preferences(options),
            include_context=options.get("include_context"),
            tools=list(tools) if tools else None,
            tool_choice=ToolChoice(choice) if choice else None,
            metadata=options.get("metadata"),
        )
        return SamplingRequest(params)

    def roots(self) -> RootsRequest:
        """Ask where the server may work."""
        self._check_roots()
        return RootsRequest()

    def check(self, asked: InputRequired) -> None:
        """Raise for a question that the client has not declared it can answer (mrtr, "Server Requirements")."""
        for question in (asked.requests or {}).values():
            if isinstance(question, ElicitRequest):
                self._check_elicitation(question.params.mode or "form")
                if question.params.mode == "url":
                    check_page(question.params.url)
            elif isinstance(question, SamplingRequest):
                self._check_sampling(with_tools=bool(question.params.tools))
            else:
                self._check_roots()

    def _check_elicitation(self, mode: Literal["form", "url"]) -> None:
        if self._revision.form == "absent":
            raise MissingCapability("elicitation", {"elicitation": {}}, revision=self._revision.name)
        can = self._capabilities.elicitation
        if mode == "form":
            if can is None or (can.form is None and can.url is not None):
                raise MissingCapability("elicitation", {"elicitation": {"form": {}}})
        elif "url" not in self._revision.known["ElicitParams"]:
            raise MissingCapability("elicitation by URL", {"elicitation": {"url": {}}}, revision=self._revision.name)
        elif can is None or can.url is None:
            raise MissingCapability("elicitation by URL", {"elicitation": {"url": {}}})

    def _check_sampling(self, *, with_tools: bool) -> None:
        can = self._capabilities.sampling
        if can is None:
            raise MissingCapability("sampling", {"sampling": {}})
        if with_tools and can.tools is None:
            raise MissingCapability("sampling with tools", {"sampling": {"tools": {}}})

    def _check_roots(self) -> None:
        if self._capabilities.roots is None:
            raise MissingCapability("roots", {"roots": {}})


async def elicit_form(
    invocation: Invocation, message: str, form: type | dict[str, Any] | None, key: str | None
) -> Answer[Any]:
    """The user's answer to a form."""
    result = await invocation.ask(invocation.client_requests.elicit(message, form), key)
    assert isinstance(result, ElicitResult)
    return answer_of(result, form_for(form))


def answer_of(result: ElicitResult, form: Form | None, elicitation_id: str | None = None) -> Answer[Any]:
    """The user's answer with its data as the type that the form was made from."""
    if result.action != "accept" or form is None:
        return Answer(result.action, id=elicitation_id)
    return Answer(result.action, form.load(result.content or {}))


def _preferences(options: SampleOptions) -> ModelPreferences | None:
    models = options.get("models")
    preferences = ModelPreferences(
        hints=[ModelHint(name) for name in models] if models else None,
        cost_priority=options.get("cost"),
        speed_priority=options.get("speed"),
        intelligence_priority=options.get("intelligence"),
    )
    return None if preferences == ModelPreferences() else preferences


def check_page(url: str | None) -> None:
    """Refuse what is no address of a page (client/elicitation, "URL Mode Elicitation Requests")."""
    if url is None or not _PAGE.match(url):
        raise LocalError(
            f"{url!r} is no page to send a user to: that takes a whole URL, as in 'https://example.com/login'"
        )


def _messages(prompt: Prompt) -> list[SamplingMessage]:
    if isinstance(prompt, str | SamplingContent):
        return [_message(prompt)]
    return [_message(item) for item in prompt]


def _message(item: SamplingMessage | SamplingContent | str) -> SamplingMessage:
    if isinstance(item, SamplingMessage):
        return item
    return SamplingMessage("user", Text(item) if isinstance(item, str) else item)
