"""Translation between revisions, with values."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from dovetail.protocol.bridge import (
    can_be_asked,
    capabilities_key,
    forwarded_meta,
    missing_servers,
    relayed_capabilities,
    retry_params,
    rewrite_ui_meta,
    rewrite_uris,
    translate_error,
    translate_result,
)
from dovetail.protocol.errors import InvalidAnswer, NotFound, OutcomeUnknown, RemoteError
from dovetail.protocol.revisions import NEWEST, REVISIONS
from dovetail.types.capabilities import ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability
from dovetail.types.client_features import ElicitResult, InputRequired
from dovetail.types.tools import CallToolResult

OLD = REVISIONS["2025-06-18"]
FIRST = REVISIONS["2024-11-05"]
NEW = NEWEST


class TestMetadata:
    def test_trace_context_and_keys_of_applications_travel_on(self) -> None:
        meta = {"traceparent": "00-1", "com.example/tenant": "a"}
        assert forwarded_meta({"_meta": meta}) == meta

    def test_what_belongs_to_one_hop_stays_there(self) -> None:
        meta = {
            "progressToken": 1,
            "io.modelcontextprotocol/clientInfo": {},
            "io.modelcontextprotocol/logLevel": "info",
        }
        assert forwarded_meta({"_meta": meta}) == {}

    def test_a_request_without_metadata_has_none(self) -> None:
        assert forwarded_meta({}) == {}


class TestCapabilities:
    def test_only_what_the_client_declared_and_can_be_relayed_is_declared(self) -> None:
        client = ClientCapabilities(
            sampling=SamplingCapability(tools={}), extensions={"com.example/x": {}}, experimental={"y": {}}
        )
        assert relayed_capabilities(client) == ClientCapabilities(sampling=SamplingCapability(tools={}))

    def test_roots_may_change(self) -> None:
        declared = relayed_capabilities(ClientCapabilities(roots=RootsCapability()))
        assert declared.roots == RootsCapability(list_changed=True)

    def test_equal_capabilities_have_one_key(self) -> None:
        form = ClientCapabilities(elicitation=ElicitationCapability(form={}))
        assert capabilities_key(form) == capabilities_key(ClientCapabilities(elicitation=ElicitationCapability({})))
        assert capabilities_key(form) != capabilities_key(ClientCapabilities())

    def test_a_client_without_capabilities_cannot_be_asked(self) -> None:
        assert not can_be_asked(ClientCapabilities())
        assert can_be_asked(ClientCapabilities(roots=RootsCapability()))


class TestResults:
    def test_a_result_for_the_same_revision_is_passed_on_as_text(self) -> None:
        raw = b'{"content":[{"type":"text","text":"x"}],  "later": 1}'
        assert translate_result("tools/call", raw, OLD, OLD) is raw

    def test_a_result_of_the_handshake_era_gets_the_fields_of_the_envelope_era(self) -> None:
        raw = b'{"content":[]}'
        assert _json(translate_result("tools/call", raw, OLD, NEW)) == {"resultType": "complete", "content": []}

    def test_a_cacheable_result_gets_private_hints(self) -> None:
        read = translate_result("resources/read", b'{"contents":[]}', OLD, NEW)
        assert _json(read) == {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "contents": []}

    @pytest.mark.parametrize(
        "forged", [{"resultType": "input_required"}, {"cacheScope": "public", "ttlMs": 10**9}, {"resultType": 5}]
    )
    def test_a_server_of_the_handshake_era_cannot_set_the_fields_of_the_other_era(self, forged: dict[str, Any]) -> None:
        raw = json.dumps({**forged, "contents": []}).encode()
        read = translate_result("resources/read", raw, OLD, NEW)
        assert _json(read) == {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "contents": []}
        assert isinstance(read, bytes)
        assert read.count(b"cacheScope") == read.count(b"resultType") == 1

    def test_a_result_that_all_may_share_is_private_behind_a_gateway(self) -> None:
        raw = b'{"resultType":"complete","ttlMs":5,"cacheScope":"public","contents":[]}'
        assert _json(translate_result("resources/read", raw, NEW, NEW))["cacheScope"] == "private"

    def test_an_empty_result_stays_an_object(self) -> None:
        assert _json(translate_result("tools/call", b" { } ", OLD, NEW)) == {"resultType": "complete"}

    def test_a_result_for_an_older_revision_is_emitted_by_it(self) -> None:
        raw = b'{"resultType":"complete","content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}'
        result = translate_result("tools/call", raw, NEW, OLD)
        assert isinstance(result, CallToolResult)
        assert OLD.emit_result("tools/call", result)["structuredContent"] == {"result": [1]}
        assert "structuredContent" not in FIRST.emit_result("tools/call", result)

    def test_the_name_of_the_server_does_not_reach_a_client_whose_revision_has_no_place_for_it(self) -> None:
        meta = {"io.modelcontextprotocol/serverInfo": {"name": "notes", "version": "1"}, "app/key": 1}
        raw = msgspec.json.encode({"resultType": "complete", "content": [], "_meta": meta})
        value = translate_result("tools/call", raw, REVISIONS["2026-07-28"], REVISIONS["2025-11-25"])
        assert isinstance(value, CallToolResult)
        assert value.meta == {"app/key": 1}

    def test_questions_are_a_value_on_every_revision(self) -> None:
        question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
        raw = json.dumps({"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "s"})
        for target in (NEW, OLD):
            result = translate_result("tools/call", raw.encode(), NEW, target)
            assert isinstance(result, InputRequired)
            assert result.state == "s"

    @pytest.mark.parametrize("raw", [b"[]", b"3", b'"x"', b'{"resultType": 5}', b"{"])
    def test_what_is_no_result_is_refused(self, raw: bytes) -> None:
        with pytest.raises(InvalidAnswer):
            translate_result("tools/call", raw, NEW, OLD)


class TestUris:
    def test_every_place_of_a_uri_is_translated(self) -> None:
        result: dict[str, Any] = {
            "content": [
                {"type": "resource_link", "uri": "a", "name": "n"},
                {"type": "resource", "resource": {"uri": "b", "text": ""}},
                {"type": "text", "text": "a", "uri": "kept"},
            ],
            "contents": [{"uri": "c"}],
            "messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": "d"}}}],
            "_meta": {"ui": {"resourceUri": "ui://e"}, "ui/resourceUri": "ui://f"},
        }
        assert rewrite_uris(result, str.upper)
        assert [block.get("uri") for block in result["content"]] == ["A", None, "kept"]
        assert result["content"][1]["resource"]["uri"] == "B"
        assert result["contents"] == [{"uri": "C"}]
        assert result["messages"][0]["content"]["resource"]["uri"] == "D"
        assert result["_meta"] == {"ui": {"resourceUri": "UI://E"}, "ui/resourceUri": "UI://F"}

    def test_text_that_needs_no_translation_stays_as_it_was(self) -> None:
        raw = b'{"contents":[{"uri":"a://x","text":"\\u00e9"}]}'
        assert translate_result("resources/read", raw, OLD, OLD, lambda uri: uri) is raw

    def test_the_page_of_an_app_is_translated_in_a_copy(self) -> None:
        meta = {"ui": {"resourceUri": "ui://a"}}
        assert rewrite_ui_meta(meta, lambda uri: f"x:{uri}") == {"ui": {"resourceUri": "x:ui://a"}}
        assert meta == {"ui": {"resourceUri": "ui://a"}}
        assert rewrite_ui_meta(None, str.upper) is None


class TestRetries:
    def test_answers_and_state_go_back_to_the_server(self) -> None:
        params = retry_params({"q": ElicitResult("accept", {"a": 1})}, "s", NEW)
        assert params == {"inputResponses": {"q": {"action": "accept", "content": {"a": 1}}}, "requestState": "s"}

    def test_a_first_request_adds_nothing(self) -> None:
        assert retry_params({}, None, NEW) == {}


class TestErrors:
    def test_message_and_data_are_passed_on_word_for_word(self) -> None:
        error = translate_error(RemoteError(-32099, "No luck", {"a": 1}), "tools/call", OLD)
        assert (error.code, error.message, error.data) == (-32099, "No luck", {"a": 1})

    def test_a_resource_that_is_not_there_has_the_code_of_the_revision(self) -> None:
        missing = NotFound(-32002, "Resource not found: a", {"uri": "a"})
        assert translate_error(missing, "resources/read", NEW).code == -32602
        assert translate_error(NotFound(-32602, "Resource not found"), "resources/read", OLD).code == -32002

    def test_a_code_that_the_revision_reserves_becomes_an_internal_error(self) -> None:
        assert translate_error(RemoteError(-32042, "Open a page"), "tools/call", NEW).code == -32603

    def test_an_unknown_outcome_is_marked(self) -> None:
        error = translate_error(OutcomeUnknown("gone"), "tools/call", NEW)
        assert error.data == {"dovetail/outcomeUnknown": True}


class TestMissingServers:
    def test_each_has_a_sentence(self) -> None:
        meta = {"dovetail/servers": {"web": {"status": "unavailable", "reason": "it is down"}, "odd": 3}}
        assert missing_servers(meta) == {
            "web": "The server 'web' behind the gateway is unavailable: it is down",
            "odd": "The server 'odd' behind the gateway is unavailable: the gateway does not say why",
        }

    @pytest.mark.parametrize("meta", [None, {}, {"dovetail/servers": []}])
    def test_other_lists_have_none(self, meta: dict[str, Any] | None) -> None:
        assert missing_servers(meta) == {}


def _json(result: object) -> Any:
    assert isinstance(result, bytes)
    return json.loads(result)
