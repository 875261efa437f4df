"""A question for the person at the client, and what counts as an answer to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec

from dovetail.protocol.errors import INVALID_PARAMS, DovetailError, LocalError, ProtocolError
from dovetail.types.capabilities import Implementation
from dovetail.types.client_features import ElicitParams, ElicitResult

Mode: TypeAlias = Literal["form", "url"]

ElicitAnswer: TypeAlias = "Mapping[str, Any] | ElicitResult | Literal['accept', 'decline', 'cancel'] | None"
OnElicit: TypeAlias = "Callable[[Elicitation], ElicitAnswer | Awaitable[ElicitAnswer]]"


class Elicitation(msgspec.Struct, frozen=True):
    """What a server asks a person: to fill in a form, or to go to a page.

    Show who asks. Of a page show the whole URL, and open it only with the person's consent, where neither
    the client nor a model can look in (elicitation, "Safe URL Handling"); Dovetail opens nothing.
    """

    message: str
    mode: Mode
    schema: dict[str, Any] | None = None
    """The form: a JSON Schema of a flat object."""
    url: str | None = None
    server: Implementation | None = None
    """Who asks, as the server says itself; not verified."""
    id: str | None = None
    """What the server calls a visit to a page, where the revision has such ids."""

    @property
    def host(self) -> str | None:
        """The host that the page is on, without what may stand before and after it to mislead."""
        return None if self.url is None else _host(self.url)

    @property
    def defaults(self) -> dict[str, Any]:
        """What to fill the form with at first."""
        return self.filled({})

    def filled(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The content with the defaults of the fields that it leaves out."""
        if self.schema is None or not _is_plain(self.schema):
            return dict(content)
        from dovetail.schema.forms import fill_defaults

        return fill_defaults(self.schema, dict(content))

    def problems(self, content: Mapping[str, Any]) -> list[str]:
        """What is wrong with the content of a form, in words; nothing if it fits."""
        if self.schema is None:
            return []
        if _is_plain(self.schema):
            from dovetail.schema.forms import problems

            return problems(self.schema, dict(content))
        from dovetail.schema.validation import compile_schema

        validator = compile_schema(self.schema)
        return [] if validator.is_valid(dict(content)) else validator.problems(dict(content))


def read_elicitation(params: ElicitParams, server: Implementation | None) -> Elicitation:
    """The question that a server asks; one that nobody could answer safely is −32602."""
    if params.mode != "url":
        return Elicitation(params.message, "form", _form(params.requested_schema), None, server)
    if not is_web_address(params.url):
        raise ProtocolError(INVALID_PARAMS, f"Only http and https URLs can be opened, not {params.url!r}")
    return Elicitation(params.message, "url", None, params.url, server, params.elicitation_id)


def read_elicitation_result(question: Elicitation, answer: object) -> ElicitResult:
    """What `on_elicit` gave, as the answer to send; what cannot be one is a `LocalError`."""
    if answer is None:
        return ElicitResult("decline")
    if isinstance(answer, str) and answer in ("accept", "decline", "cancel"):
        answer = ElicitResult(answer)
    elif isinstance(answer, Mapping) and question.mode == "form":
        answer = ElicitResult("accept", dict(cast("Mapping[str, Any]", answer)))
    if not isinstance(answer, ElicitResult):
        # The content of a form is no consent to open a page, so for a page it must be said.
        wanted = "the content of the form as a dict" if question.mode == "form" else '"accept"'
        raise LocalError(f'on_elicit returns {wanted}, None to decline, or "cancel"; not {answer!r}')
    if answer.action != "accept":
        return ElicitResult(answer.action, meta=answer.meta)
    if question.mode == "url":
        return ElicitResult("accept", meta=answer.meta)
    content = question.filled(answer.content or {})
    if problems := question.problems(content):
        raise LocalError(f"What on_elicit returned does not fit the form: {'; '.join(problems)}")
    return ElicitResult("accept", content, meta=answer.meta)


def is_web_address(url: str | None) -> bool:
    """Whether a URL is one of http or https with a host, and with nothing that could hide another."""
    return url is not None and url.isprintable() and " " not in url and _host(url) is not None


def _host(url: str) -> str | None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return (parts.hostname or None) if parts.scheme in ("http", "https") else None
    except ValueError:
        return None


def _is_plain(schema: dict[str, Any]) -> bool:
    """Whether a form is one that the protocol knows; others are shown and checked all the same."""
    from dovetail.schema.form_check import check_form

    try:
        check_form(schema)
    except DovetailError:
        return False
    return True


def _form(schema: dict[str, Any] | None) -> dict[str, Any]:
    """The form in the words of the newest revision; one that has no such words stays as it is."""
    from dovetail.schema.forms import flat_form

    if schema is None:
        raise ProtocolError(INVALID_PARAMS, "A question by form needs a requestedSchema")
    try:
        return flat_form(schema)
    except LocalError:
        from dovetail.schema.validation import compile_schema

    try:
        compile_schema(schema)
    except LocalError as problem:
        raise ProtocolError(INVALID_PARAMS, f"requestedSchema cannot be used: {problem}") from problem
    return schema
