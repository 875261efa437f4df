"""Elicitation: a server's question to the user, and the answers that `on_elicit` may give."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from dovetail.protocol.errors import INVALID_PARAMS, LocalError, ProtocolError
from dovetail.types.capabilities import Implementation
from dovetail.types.client_features import ElicitParams, ElicitResult

if TYPE_CHECKING:
    from dovetail.schema.forms import CompiledForm

Mode: TypeAlias = Literal["form", "url"]

ElicitAnswer: TypeAlias = "Mapping[str, Any] | ElicitResult | Literal['accept', 'decline', 'cancel'] | None"
OnElicit: TypeAlias = "Callable[[Elicitation], ElicitAnswer | Awaitable[ElicitAnswer]]"


class Elicitation(msgspec.Struct, frozen=True, dict=True):
    """A server's question to the user: to fill in a form, or to open a page.

    Show the user which server asks. Of a page show the whole URL, and open it only with the user's consent, where
    neither the client nor a model can look in (elicitation, "Safe URL Handling"); Dovetail opens nothing.
    """

    message: str
    mode: Mode
    schema: dict[str, Any] | None = None
    """The form: a JSON Schema of a flat object."""
    url: str | None = None
    server: Implementation | None = None
    """The server, as it describes itself; not verified."""
    id: str | None = None
    """The server's id of a URL elicitation, where the revision has such ids."""

    @property
    def host(self) -> str | None:
        """The host of the page, without the parts of a URL that may mislead."""
        return None if self.url is None else _host(self.url)

    @property
    def defaults(self) -> dict[str, Any]:
        """The content that the form begins with."""
        return self.filled({})

    def filled(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The content with the defaults of the fields that it leaves out."""
        form = self._form
        return dict(content) if form is None else form.fill_defaults(dict(content))

    def problems(self, content: Mapping[str, Any]) -> list[str]:
        """The reasons why the content does not fit the form, a sentence each; empty if it fits."""
        form = self._form
        return [] if form is None else form.problems(dict(content))

    @functools.cached_property
    def _form(self) -> CompiledForm | None:
        """The form, checked and compiled once; a property, since callers may make an `Elicitation` themselves."""
        if self.schema is None:
            return None
        from dovetail.schema.forms import read_form

        return read_form(self.schema)


def read_elicitation(params: ElicitParams, server: Implementation | None) -> Elicitation:
    """The question in a server's request; −32602 for one that no user could answer safely."""
    if params.mode == "url":
        if not is_web_address(params.url):
            raise ProtocolError(INVALID_PARAMS, f"Only http and https URLs can be opened, not {params.url!r}")
        return Elicitation(params.message, "url", None, params.url, server, params.elicitation_id)
    if params.requested_schema is None:
        raise ProtocolError(INVALID_PARAMS, "A question by form needs a requestedSchema")
    from dovetail.schema.forms import read_form

    try:
        form = read_form(params.requested_schema)
    except LocalError as problem:
        raise ProtocolError(INVALID_PARAMS, f"requestedSchema cannot be used: {problem}") from problem
    elicitation = Elicitation(params.message, "form", form.schema, None, server)
    vars(elicitation)["_form"] = form  # compiled already
    return elicitation


def read_elicitation_result(elicitation: Elicitation, answer: object) -> ElicitResult:
    """The result to send for what `on_elicit` returned; `LocalError` for what cannot be one."""
    if answer is None:
        return ElicitResult("decline")
    if isinstance(answer, str) and answer in ("accept", "decline", "cancel"):
        answer = ElicitResult(answer)
    elif isinstance(answer, Mapping) and elicitation.mode == "form":
        answer = ElicitResult("accept", dict(cast("Mapping[str, Any]", answer)))
    if not isinstance(answer, ElicitResult):
        # The content of a form is no consent to open a page: for a page, consent has to be explicit.
        wanted = "the content of the form as a dict" if elicitation.mode == "form" else '"accept"'
        raise LocalError(f'on_elicit returns {wanted}, None to decline, or "cancel"; not {answer!r}')
    if answer.action != "accept":
        return ElicitResult(answer.action, meta=answer.meta)
    if elicitation.mode == "url":
        return ElicitResult("accept", meta=answer.meta)
    content = elicitation.filled(answer.content or {})
    if problems := elicitation.problems(content):
        raise LocalError(f"What on_elicit returned does not fit the form: {'; '.join(problems)}")
    return ElicitResult("accept", content, meta=answer.meta)


def is_web_address(url: str | None) -> bool:
    """True if a URL is one of http or https with a host, without characters that could hide another."""
    return url is not None and url.isprintable() and " " not in url and _host(url) is not None


def _host(url: str) -> str | None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return (parts.hostname or None) if parts.scheme in ("http", "https") else None
    except ValueError:
        return None
