"""A connection's life as a server sees it: the handshake; or terms with every request; or both."""

from typing import Any

import pytest

from dovetail.protocol.envelope import VERSION, request_meta
from dovetail.protocol.errors import INVALID_PARAMS, UNSUPPORTED_VERSION, ProtocolError
from dovetail.protocol.lifecycle import ServerLifecycle
from dovetail.protocol.revisions import ENVELOPE, HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, REVISIONS
from dovetail.types.capabilities import ClientCapabilities, Implementation, RootsCapability
from dovetail.types.messages import InitializeParams
from dovetail.wire.jsonrpc import Request

OLDEST = REVISIONS[HANDSHAKE[0]]
CLIENT = Implementation("tester", "1.0")
MODERN = {"_meta": request_meta(NEWEST, CLIENT, ClientCapabilities())}


def hello(version: str) -> InitializeParams:
    return InitializeParams(version, ClientCapabilities(roots=RootsCapability()), CLIENT)


def request(method: str, params: dict[str, Any] | None = None) -> Request:
    return Request(1, method, params or {})


def serving(*names: str) -> ServerLifecycle:
    return ServerLifecycle({name: REVISIONS[name] for name in names})


def refusal(lifecycle: ServerLifecycle, asked: Request) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        lifecycle.terms_for(asked)
    return caught.value


class TestHandshake:
    @pytest.mark.parametrize("name", HANDSHAKE)
    def test_the_revision_asked_for_is_agreed_on(self, name: str):
        lifecycle = ServerLifecycle(REVISIONS)
        assert lifecycle.initialize(hello(name)).name == name

    @pytest.mark.parametrize("name", ["1900-01-01", "", *ENVELOPE])
    def test_for_any_other_the_newest_is_offered(self, name: str):
        assert ServerLifecycle(REVISIONS).initialize(hello(name)) is NEWEST_HANDSHAKE

    def test_only_what_is_served_is_agreed_on(self):
        lifecycle = serving(OLDEST.name)
        assert lifecycle.initialize(hello(NEWEST_HANDSHAKE.name)) is OLDEST

    def test_its_terms_hold_for_every_request_that_follows(self):
        lifecycle = ServerLifecycle(REVISIONS)
        lifecycle.initialize(hello(OLDEST.name))
        terms = lifecycle.terms_for(request("tools/list"))
        assert terms is lifecycle.terms
        assert (terms.revision, terms.client) == (OLDEST, CLIENT)
        assert terms.capabilities.roots is not None

    def test_a_second_one_begins_anew(self):
        lifecycle = ServerLifecycle(REVISIONS)
        lifecycle.initialize(hello(OLDEST.name))
        lifecycle.initialized()
        before = lifecycle.terms_for(request("tools/call"))
        anew = InitializeParams(NEWEST_HANDSHAKE.name, ClientCapabilities(), Implementation("another", "2"))
        assert lifecycle.initialize(anew) is NEWEST_HANDSHAKE
        assert not lifecycle.ready
        terms = lifecycle.terms_for(request("tools/call"))
        assert (terms.revision, terms.client, terms.capabilities) == (
            NEWEST_HANDSHAKE,
            anew.client_info,
            anew.capabilities,
        )
        assert (before.revision, before.client) == (OLDEST, CLIENT)

    @pytest.mark.parametrize("method", ["initialize", "ping"])
    def test_before_it_only_itself_and_ping_are_heard(self, method: str):
        assert ServerLifecycle(REVISIONS).terms_for(request(method)).revision is NEWEST_HANDSHAKE

    def test_any_other_request_before_it_is_told_what_is_missing(self):
        problem = refusal(ServerLifecycle(REVISIONS), request("tools/list"))
        assert problem.code == INVALID_PARAMS
        assert problem.message == f"'tools/list' came before initialize, and its _meta has no {VERSION}"

    def test_the_server_may_speak_first_once_the_client_has_confirmed(self):
        lifecycle = ServerLifecycle(REVISIONS)
        lifecycle.initialized()
        assert not lifecycle.ready
        lifecycle.initialize(hello(OLDEST.name))
        assert not lifecycle.ready
        lifecycle.initialized()
        assert lifecycle.ready


class TestEnvelope:
    def test_each_request_brings_its_terms(self):
        lifecycle = ServerLifecycle(REVISIONS)
        terms = lifecycle.terms_for(request("tools/list", MODERN))
        assert (terms.revision, terms.client) == (NEWEST, CLIENT)
        assert lifecycle.terms is None

    def test_no_request_relies_on_the_one_before(self):
        lifecycle = ServerLifecycle(REVISIONS)
        lifecycle.terms_for(request("tools/list", MODERN))
        assert refusal(lifecycle, request("tools/list")).code == INVALID_PARAMS

    def test_both_eras_on_one_connection(self):
        lifecycle = ServerLifecycle(REVISIONS)
        lifecycle.initialize(hello(OLDEST.name))
        assert lifecycle.terms_for(request("tools/list", MODERN)).revision is NEWEST
        assert lifecycle.terms_for(request("tools/list")).revision is OLDEST

    def test_a_server_without_the_handshake_names_what_it_speaks(self):
        problem = refusal(serving(NEWEST.name), request("initialize", {"protocolVersion": OLDEST.name}))
        assert problem.code == UNSUPPORTED_VERSION
        assert problem.data == {"supported": [NEWEST.name], "requested": OLDEST.name}

    def test_and_knows_no_ping_before_it_either(self):
        assert refusal(serving(NEWEST.name), request("ping")).code == INVALID_PARAMS

    def test_a_server_of_the_handshake_alone_refuses_the_envelope(self):
        problem = refusal(serving(*HANDSHAKE), request("server/discover", MODERN))
        assert problem.code == UNSUPPORTED_VERSION
        assert problem.data["supported"] == list(reversed(HANDSHAKE))


class TestNullId:
    @pytest.mark.parametrize("name", HANDSHAKE)
    def test_the_handshake_decides(self, name: str):
        lifecycle = ServerLifecycle(REVISIONS)
        lifecycle.terms_for(request("tools/list", MODERN))
        lifecycle.initialize(hello(name))
        assert lifecycle.null_id is REVISIONS[name].null_id

    def test_or_the_last_request_of_the_envelope_era(self):
        lifecycle = ServerLifecycle(REVISIONS)
        lifecycle.terms_for(request("tools/list", MODERN))
        assert lifecycle.null_id is NEWEST.null_id is False

    def test_before_both_the_oldest_revision_served(self):
        assert ServerLifecycle(REVISIONS).null_id is True
        assert serving(NEWEST.name).null_id is False
