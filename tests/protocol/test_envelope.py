"""The metadata of the envelope era: every request says which revision, who asks and what they can do."""

from typing import Any

import pytest

from dovetail.protocol.envelope import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    VERSION,
    EnvelopeReader,
    meta_of,
    request_meta,
    unsupported,
)
from dovetail.protocol.errors import INVALID_PARAMS, UNSUPPORTED_VERSION, ProtocolError
from dovetail.protocol.revisions import NEWEST, NEWEST_HANDSHAKE, REVISIONS
from dovetail.types.capabilities import ClientCapabilities, ElicitationCapability, Icon, Implementation

ME = Implementation("tester", "1.0")
META = request_meta(NEWEST, ME, ClientCapabilities())


def refusal(meta: dict[str, Any]) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        EnvelopeReader(REVISIONS).terms(meta)
    return caught.value


class TestMetaOf:
    def test_the_meta_of_params(self):
        assert meta_of({"_meta": {"a": 1}}) == {"a": 1}

    @pytest.mark.parametrize("params", [{}, {"_meta": None}, {"_meta": []}, {"_meta": "x"}])
    def test_what_is_no_object_is_no_meta(self, params: dict[str, Any]):
        assert meta_of(params) is None


class TestWriting:
    def test_a_client_says_which_revision_who_it_is_and_what_it_can_do(self):
        capabilities = ClientCapabilities(elicitation=ElicitationCapability(form={}))
        assert request_meta(NEWEST, ME, capabilities) == {
            VERSION: NEWEST.name,
            CLIENT_INFO: {"name": "tester", "version": "1.0"},
            CLIENT_CAPABILITIES: {"elicitation": {"form": {}}},
        }

    def test_a_log_level_stands_there_only_when_asked_for(self):
        assert LOG_LEVEL not in META
        assert request_meta(NEWEST, ME, ClientCapabilities(), "warning")[LOG_LEVEL] == "warning"


class TestReading:
    def test_what_was_written_is_read(self):
        info = Implementation("tester", "1.0", icons=[Icon("https://example.com/i.png")])
        capabilities = ClientCapabilities(extensions={"com.example/x": {}})
        terms = EnvelopeReader(REVISIONS).terms(request_meta(NEWEST, info, capabilities, "debug"))
        assert (terms.revision, terms.client, terms.capabilities, terms.log_level) == (
            NEWEST,
            info,
            capabilities,
            "debug",
        )

    def test_a_client_need_not_say_who_it_is(self):
        meta = {key: value for key, value in META.items() if key != CLIENT_INFO}
        assert EnvelopeReader(REVISIONS).terms(meta).client is None

    def test_a_client_that_repeats_itself_is_read_once(self):
        reader = EnvelopeReader(REVISIONS)
        first = reader.terms(META)
        assert reader.terms({**META, "progressToken": 1}) is first
        assert reader.last is first

    @pytest.mark.parametrize(
        "change",
        [
            {CLIENT_INFO: {"name": "another", "version": "1"}},
            {CLIENT_CAPABILITIES: {"roots": {}}},
            {LOG_LEVEL: "error"},
        ],
    )
    def test_a_client_that_changes_is_read_again(self, change: dict[str, Any]):
        reader = EnvelopeReader(REVISIONS)
        first = reader.terms(META)
        second = reader.terms({**META, **change})
        assert second != first
        assert reader.terms(META) == first


class TestRefusing:
    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({VERSION: None}, "protocolVersion is not a string"),
            ({VERSION: 20260728}, "protocolVersion is not a string"),
            ({CLIENT_CAPABILITIES: None}, "_meta lacks io.modelcontextprotocol/clientCapabilities"),
            ({CLIENT_CAPABILITIES: []}, "_meta is malformed"),
            ({CLIENT_CAPABILITIES: {"roots": 5}}, "_meta is malformed"),
            ({CLIENT_INFO: {"name": "x"}}, "version"),
            ({CLIENT_INFO: "x"}, "_meta is malformed"),
            ({LOG_LEVEL: "loud"}, "not a log level: 'loud'"),
            ({LOG_LEVEL: ["info"]}, "not a log level"),
            ({LOG_LEVEL: {}}, "not a log level"),
        ],
    )
    def test_a_missing_or_malformed_field_is_invalid_params(self, change: dict[str, Any], said: str):
        problem = refusal({**META, **change})
        assert problem.code == INVALID_PARAMS
        assert said in problem.message

    def test_what_was_refused_is_not_remembered(self):
        reader = EnvelopeReader(REVISIONS)
        with pytest.raises(ProtocolError):
            reader.terms({**META, LOG_LEVEL: "loud"})
        assert reader.last is None

    @pytest.mark.parametrize("version", ["1900-01-01", "", NEWEST_HANDSHAKE.name])
    def test_a_version_that_is_not_served_this_way_is_told_those_that_are(self, version: str):
        problem = refusal({**META, VERSION: version})
        assert problem.code == UNSUPPORTED_VERSION
        assert problem.data == {"supported": list(reversed(REVISIONS)), "requested": version}

    def test_only_what_the_server_chose_to_serve_is_named(self):
        problem = unsupported("1900-01-01", {NEWEST.name: NEWEST})
        assert problem.data["supported"] == [NEWEST.name]
        assert problem.message == f"Unsupported protocol version '1900-01-01'; this server speaks {NEWEST.name}"
