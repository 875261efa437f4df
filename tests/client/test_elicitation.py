"""Questions for a person, and what counts as an answer."""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.client.elicitation import Elicitation, is_web_address, read_elicitation, read_elicitation_result
from dovetail.protocol.errors import INVALID_PARAMS, LocalError, ProtocolError
from dovetail.schema import forms
from dovetail.types.capabilities import Implementation
from dovetail.types.client_features import ElicitParams, ElicitResult

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "days": {"type": "integer", "default": 3},
    },
    "required": ["name"],
}
NESTED = {
    "type": "object",
    "properties": {"who": {"type": "object", "properties": {"name": {"type": "string"}}}},
    "required": ["who"],
}
SERVER = Implementation("asker", "1")


def form(schema: dict[str, Any] = FORM) -> Elicitation:
    return read_elicitation(ElicitParams("Who?", schema), SERVER)


def page(url: str = "https://example.com/in") -> Elicitation:
    return read_elicitation(ElicitParams("Sign in", mode="url", url=url, elicitation_id="7"), SERVER)


class TestReading:
    @pytest.mark.parametrize("mode", [None, "form"])
    def test_a_form_says_who_asks_what(self, mode: Any):
        question = read_elicitation(ElicitParams("Who?", FORM, mode), SERVER)
        assert (question.message, question.mode, question.schema) == ("Who?", "form", FORM)
        assert (question.server, question.url, question.host) == (SERVER, None, None)
        assert question.defaults == {"days": 3}

    def test_a_page_says_where_it_is(self):
        question = page("https://good.example@evil.example:8000/x?y#z")
        assert (question.mode, question.id, question.schema) == ("url", "7", None)
        assert question.url == "https://good.example@evil.example:8000/x?y#z"
        assert question.host == "evil.example"
        assert question.problems({"any": 1}) == []

    @pytest.mark.parametrize(
        "url",
        [
            None, "", "example.com", "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "https://",
            "https:///x", "ftp://h/", "https://a b/", "https://h/\u202egnp", "https://h/\n", "https://[x",
            "http:h",
        ],
    )  # fmt: skip
    def test_only_web_pages_can_be_opened(self, url: str | None):
        assert not is_web_address(url)
        with pytest.raises(ProtocolError, match="Only http and https") as refusal:
            read_elicitation(ElicitParams("x", mode="url", url=url), None)
        assert refusal.value.code == INVALID_PARAMS

    def test_a_form_without_a_schema_is_refused(self):
        with pytest.raises(ProtocolError, match="needs a requestedSchema"):
            read_elicitation(ElicitParams("x"), None)

    def test_a_schema_that_cannot_be_used_is_refused(self):
        with pytest.raises(ProtocolError, match="requestedSchema cannot be used"):
            form({"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}})

    def test_generated_forms_are_written_as_forms_are(self):
        schema = {
            "type": "object",
            "properties": {"nick": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}},
            "required": ["nick"],
        }
        question = form(schema)
        assert question.schema is not None
        assert question.schema["properties"]["nick"]["type"] == "string"
        assert question.problems({}) == []

    def test_a_form_that_is_not_flat_is_asked_all_the_same(self):
        question = form(NESTED)
        assert question.schema == NESTED
        assert question.defaults == {}
        assert question.problems({"who": {"name": "Ann"}}) == []
        assert question.problems({"who": {"name": 5}})


class TestAnswers:
    def test_content_accepts_and_gets_the_defaults(self):
        assert read_elicitation_result(form(), {"name": "Ann"}) == ElicitResult("accept", {"name": "Ann", "days": 3})
        assert read_elicitation_result(form(), ElicitResult("accept", {"name": "Ann", "days": 1})).content == {
            "name": "Ann",
            "days": 1,
        }

    def test_a_word_accepts_a_form_that_needs_nothing(self):
        question = form({"type": "object", "properties": {"sure": {"type": "boolean", "default": True}}})
        assert read_elicitation_result(question, "accept") == ElicitResult("accept", {"sure": True})
        assert read_elicitation_result(question, {}) == ElicitResult("accept", {"sure": True})

    @pytest.mark.parametrize("question", [form(), page()])
    @pytest.mark.parametrize(
        ("answer", "action"),
        [
            (None, "decline"),
            ("decline", "decline"),
            ("cancel", "cancel"),
            (ElicitResult("decline", {"name": "x"}), "decline"),
            (ElicitResult("cancel"), "cancel"),
        ],
    )
    def test_saying_no_sends_no_content(self, question: Elicitation, answer: Any, action: Any):
        assert read_elicitation_result(question, answer) == ElicitResult(action)

    @pytest.mark.parametrize("answer", ["accept", ElicitResult("accept"), ElicitResult("accept", {"a": 1})])
    def test_consent_to_a_page_has_no_content(self, answer: Any):
        assert read_elicitation_result(page(), answer) == ElicitResult("accept")

    @pytest.mark.parametrize("answer", [{}, {"name": "Ann"}, True, "yes"])
    def test_consent_to_a_page_must_be_said(self, answer: Any):
        with pytest.raises(LocalError, match='on_elicit returns "accept"'):
            read_elicitation_result(page(), answer)

    @pytest.mark.parametrize("answer", [True, 5, "yes", ["name"]])
    def test_what_is_no_answer_is_the_callers_error(self, answer: Any):
        with pytest.raises(LocalError, match="content of the form as a dict"):
            read_elicitation_result(form(), answer)

    @pytest.mark.parametrize("content", [{}, {"name": "A"}, {"name": 5}, {"name": "Ann", "days": "x"}, {"nam": "Ann"}])
    def test_what_does_not_fit_the_form_is_not_sent(self, content: Any):
        assert form().problems(form().filled(content))
        with pytest.raises(LocalError, match="does not fit the form"):
            read_elicitation_result(form(), content)


def recording(function: Callable[..., Any], schemas: list[object]) -> Callable[..., Any]:
    def record(schema: object, **options: Any) -> Any:
        schemas.append(schema)
        return function(schema, **options)

    return record


class TestWork:
    @pytest.mark.parametrize("schema", [FORM, NESTED])
    def test_a_form_is_checked_and_compiled_once(self, schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
        checked: list[object] = []
        compiled: list[object] = []
        monkeypatch.setattr(forms, "flat_form", recording(forms.flat_form, checked))
        monkeypatch.setattr(forms, "compile_schema", recording(forms.compile_schema, compiled))
        question = form(schema)
        content: dict[str, Any] = {"name": "Ann"} if schema is FORM else {"who": {"name": "Ann"}}
        for _ in range(3):
            question.problems(question.filled(content))
            read_elicitation_result(question, {**question.defaults, **content})
        assert (len(checked), len(compiled)) == (1, 1)
