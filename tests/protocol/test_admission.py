"""Admission: which era and revision a message belongs to, and every way to be refused."""

from __future__ import annotations

import pytest

from dovetail.protocol.admission import ASSUMED, Admission, refused, status_of
from dovetail.protocol.envelope import CLIENT_CAPABILITIES, VERSION
from dovetail.protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    ProtocolError,
)
from dovetail.protocol.headers import DRAFT_HEADER_MISMATCH
from dovetail.protocol.request_guard import Refusal
from dovetail.protocol.revisions import HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, REVISIONS
from dovetail.protocol.terms import Terms
from dovetail.types.capabilities import ClientCapabilities
from dovetail.wire.jsonrpc import Failure, Invalid, Notification, Request, Response

FIRST = REVISIONS[HANDSHAKE[0]]
OLD = {name: REVISIONS[name] for name in HANDSHAKE}
MODERN = {NEWEST.name: NEWEST}
LATE = {NEWEST_HANDSHAKE.name: NEWEST_HANDSHAKE}
V = NEWEST.name.encode()
H = NEWEST_HANDSHAKE.name.encode()
PATHS = {"t": {("region",): "Region"}}


class Tools:
    mirrored = PATHS


def _admit(message, headers=None, served=REVISIONS, session=None, *, strict=False):
    seen = {name.replace("_", "-").encode(): value for name, value in (headers or {}).items()}
    agreed = None if session is None else Terms(session, None, ClientCapabilities())
    terms = Admission(served, Tools(), strict=strict).admit(message, seen, agreed)
    return terms if isinstance(terms, Refusal) else terms.revision


def admit_stream(headers, served, session):
    agreed = None if session is None else Terms(session, None, ClientCapabilities())
    return Admission(served).admit_stream(headers, agreed)


def _refused(outcome):
    assert isinstance(outcome, Refusal), outcome
    return outcome.status, outcome.code


def _modern(method="tools/list", version: object = NEWEST.name, **params):
    return Request(1, method, {**params, "_meta": {VERSION: version, CLIENT_CAPABILITIES: {}}})


def _plain(method="tools/list", **params):
    return Request(1, method, params)


LIST = {"mcp_protocol_version": V, "mcp_method": b"tools/list"}
CALL = {"mcp_protocol_version": V, "mcp_method": b"tools/call", "mcp_name": b"t"}


def test_a_whole_request_of_the_envelope_era_comes_in():
    assert _admit(_modern(), LIST) is NEWEST
    assert _admit(_modern("tools/call", name="t"), CALL) is NEWEST
    call = _modern("tools/call", name="t", arguments={"region": "us"})
    assert _admit(call, {**CALL, "mcp_param_region": b"us"}) is NEWEST


def test_a_session_does_not_matter_to_the_envelope_era():
    assert _admit(_modern(), {**LIST, "mcp_session_id": b"x"}, session=NEWEST_HANDSHAKE) is NEWEST


@pytest.mark.parametrize(
    ("message", "headers", "code"),
    [
        (_modern(), {"mcp_method": b"tools/list"}, HEADER_MISMATCH),
        (_modern(), {**LIST, "mcp_protocol_version": H}, HEADER_MISMATCH),
        (_modern(), {**LIST, "mcp_protocol_version": b"1900-01-01"}, HEADER_MISMATCH),
        (_modern(version="1900-01-01"), LIST, HEADER_MISMATCH),
        (_modern(version="1900-01-01"), {"mcp_method": b"tools/list"}, HEADER_MISMATCH),
        (_modern(version="1900-01-01"), {**LIST, "mcp_protocol_version": b"1900-01-01"}, UNSUPPORTED_VERSION),
        (_modern(version=H.decode()), {**LIST, "mcp_protocol_version": H}, UNSUPPORTED_VERSION),
        (_modern(version=3), LIST, INVALID_PARAMS),
        (_modern(version=None), LIST, INVALID_PARAMS),
        (_modern(), {"mcp_protocol_version": V}, HEADER_MISMATCH),
        (_modern(), {**LIST, "mcp_method": b"tools/call"}, HEADER_MISMATCH),
        (_modern("tools/call", name="t"), {"mcp_protocol_version": V, "mcp_method": b"tools/call"}, HEADER_MISMATCH),
        (_modern("tools/call", name="u"), CALL, HEADER_MISMATCH),
        (_modern("tools/call", name="t", arguments={"region": "us"}), CALL, HEADER_MISMATCH),
        (_modern("tools/call", name="t"), {**CALL, "mcp_param_region": b"us"}, HEADER_MISMATCH),
        (_plain(), LIST, INVALID_PARAMS),
        (_plain(_meta={}), LIST, INVALID_PARAMS),
        (_plain(_meta=3), LIST, INVALID_PARAMS),
        (_plain("initialize", protocolVersion=V.decode()), LIST, INVALID_PARAMS),
        (Response(1, {}), LIST, INVALID_REQUEST),
        (Failure(1, -1, "x"), LIST, INVALID_REQUEST),
        ([_modern()], LIST, INVALID_REQUEST),
        ([_plain()], LIST, INVALID_REQUEST),
        ([_modern()], {}, INVALID_REQUEST),
        ([_plain(), Notification("x", {"_meta": {VERSION: "any"}})], {}, INVALID_REQUEST),
        (Invalid(1, PARSE_ERROR, "Parse error"), LIST, PARSE_ERROR),
        (Invalid(None, INVALID_REQUEST, "no"), {}, INVALID_REQUEST),
    ],
)
def test_the_envelope_era_refuses_with_400(message, headers, code):
    assert _refused(_admit(message, headers)) == (400, code)
    if not isinstance(message, list):
        assert _refused(_admit(message, headers, session=ASSUMED)) == (400, code)


def test_an_unknown_version_gets_the_known_ones():
    outcome = _admit(_modern(version="1900-01-01"), {**LIST, "mcp_protocol_version": b"1900-01-01"})
    assert isinstance(outcome, Refusal)
    assert outcome.data == {"supported": list(REVISIONS)[::-1], "requested": "1900-01-01"}


def test_a_revision_that_is_not_served_is_unsupported():
    for message in (_modern(), _plain()):
        outcome = _admit(message, LIST, OLD)
        assert _refused(outcome) == (400, UNSUPPORTED_VERSION)
        assert isinstance(outcome, Refusal)
        assert outcome.data["supported"] == list(OLD)[::-1]


def test_a_notification_of_the_envelope_era_needs_the_version_header_only():
    note = Notification("notifications/cancelled", {"requestId": 1})
    told = Notification("notifications/cancelled", {"_meta": {VERSION: NEWEST.name}})
    assert _admit(note, {"mcp_protocol_version": V}) is NEWEST
    assert _admit(told, {"mcp_protocol_version": V}) is NEWEST
    assert _refused(_admit(told, {})) == (400, HEADER_MISMATCH)
    assert _refused(_admit(note, {"mcp_protocol_version": V, "mcp_method": b"other"})) == (400, HEADER_MISMATCH)


@pytest.mark.parametrize("message", [_plain(), Notification("notifications/initialized", {}), Response(1, {})])
def test_the_revision_of_the_handshake_era(message):
    assert _admit(message) is ASSUMED
    assert _admit(message, {"mcp_protocol_version": H}) is NEWEST_HANDSHAKE
    assert _admit(message, session=NEWEST_HANDSHAKE) is NEWEST_HANDSHAKE
    # Clients exist that keep sending the revision they asked for.
    assert _admit(message, {"mcp_protocol_version": H}, session=ASSUMED) is ASSUMED
    assert _admit(message, {"mcp_protocol_version": FIRST.name.encode()}) is FIRST


def test_without_a_header_the_first_revision_of_this_transport_is_assumed():
    assert ASSUMED.session_header
    assert not ASSUMED.version_header
    assert not FIRST.session_header


@pytest.mark.parametrize("session", [None, NEWEST_HANDSHAKE])
@pytest.mark.parametrize("version", [b"1900-01-01", b"", b"\xff", b"x" * 9000])
@pytest.mark.parametrize("message", [_plain(), _plain("initialize"), Response(1, {}), Notification("n", {})])
def test_an_unsupported_header_is_refused(message, version, session):
    outcome = _admit(message, {"mcp_protocol_version": version}, session=session)
    assert _refused(outcome) == (400, UNSUPPORTED_VERSION)
    assert isinstance(outcome, Refusal)
    assert len(outcome.message) < 500
    # Where no envelope revision is served, no code may say so.
    old = _admit(message, {"mcp_protocol_version": version}, OLD, session)
    assert _refused(old) == (400, INVALID_REQUEST)


def test_batches_only_where_the_revision_has_them():
    batch = [_plain(), Notification("n", {}), Invalid(None, INVALID_REQUEST, "no")]
    assert _admit(batch) is ASSUMED
    assert _admit(batch, session=ASSUMED) is ASSUMED
    assert _admit([Response(1, {})], session=ASSUMED, strict=True) is ASSUMED
    assert _refused(_admit(batch, session=NEWEST_HANDSHAKE)) == (400, INVALID_REQUEST)
    assert _refused(_admit(batch, {"mcp_protocol_version": H})) == (400, INVALID_REQUEST)
    assert _refused(_admit(batch, {"mcp_protocol_version": b"1900-01-01"})) == (400, UNSUPPORTED_VERSION)


@pytest.mark.attack("M4")
@pytest.mark.parametrize("headers", [{"mcp_method": b"ping"}, {"mcp_name": b"harmless"}, {"mcp_method": b"tools/call"}])
def test_a_batch_beside_headers_that_describe_one_message_is_refused(headers):
    batch = [_plain("tools/call", name="danger")]
    for strict in (False, True):
        assert _refused(_admit(batch, headers, session=ASSUMED, strict=strict)) == (400, DRAFT_HEADER_MISMATCH)
    assert _admit([Response(1, {})], headers, session=ASSUMED) is ASSUMED


@pytest.mark.attack("M4")
@pytest.mark.parametrize("message", [_plain(), Notification("n", {})])
def test_a_batch_is_refused_where_headers_are_required(message):
    assert _refused(_admit([message], session=ASSUMED, strict=True)) == (400, DRAFT_HEADER_MISMATCH)
    assert _admit([message], session=ASSUMED) is ASSUMED


def test_initialize_is_never_part_of_a_batch():
    assert _refused(_admit([_plain("initialize")])) == (400, INVALID_REQUEST)


def test_standard_headers_of_the_handshake_era_are_checked_when_present():
    call = _plain("tools/call", name="t", arguments={"region": "us"})
    assert _admit(call, {"mcp_method": b"tools/call"}, session=NEWEST_HANDSHAKE) is NEWEST_HANDSHAKE
    for wrong in ({"mcp_method": b"x"}, {"mcp_name": b"x"}, {"mcp_param_region": b"x"}):
        assert _refused(_admit(call, wrong, session=NEWEST_HANDSHAKE)) == (400, DRAFT_HEADER_MISMATCH)
    assert _refused(_admit(Notification("n", {}), {"mcp_method": b"x"})) == (400, DRAFT_HEADER_MISMATCH)


def test_strict_headers_are_required_of_all_that_have_a_method():
    for message in (_plain(), _plain("initialize"), Notification("notifications/initialized", {})):
        assert _refused(_admit(message, strict=True)) == (400, DRAFT_HEADER_MISMATCH)
        assert _admit(message, {"mcp_method": message.method.encode()}, strict=True) is ASSUMED
    assert _admit(Response(1, {}), strict=True) is ASSUMED
    call = _plain("tools/call", name="t", arguments={"region": "us"})
    named = {"mcp_method": b"tools/call", "mcp_name": b"t"}
    assert _refused(_admit(call, named, strict=True)) == (400, DRAFT_HEADER_MISMATCH)
    assert _admit(call, {**named, "mcp_param_region": b"us"}, strict=True) is ASSUMED


def test_a_server_of_the_envelope_era_alone_tells_old_clients_what_it_speaks():
    outcome = _admit(_plain("initialize", protocolVersion="old"), served=MODERN)
    assert _refused(outcome) == (400, UNSUPPORTED_VERSION)
    assert isinstance(outcome, Refusal)
    assert outcome.data == {"supported": [NEWEST.name], "requested": "old"}
    assert NEWEST.name in outcome.message
    assert _refused(_admit(_plain(), served=MODERN)) == (400, HEADER_MISMATCH)
    assert _refused(_admit(_plain(), {"mcp_protocol_version": H}, MODERN)) == (400, UNSUPPORTED_VERSION)
    assert _refused(_admit(Response(1, {}), served=MODERN)) == (400, INVALID_REQUEST)
    assert _refused(_admit([_plain()], served=MODERN)) == (400, INVALID_REQUEST)
    assert _admit(_modern(), LIST, MODERN) is NEWEST


def test_a_server_without_the_assumed_revision_wants_a_header():
    assert _admit(_plain("initialize"), served=LATE) is NEWEST_HANDSHAKE
    assert _admit(_plain(), served=LATE, session=NEWEST_HANDSHAKE) is NEWEST_HANDSHAKE
    assert _admit(_plain(), {"mcp_protocol_version": H}, LATE) is NEWEST_HANDSHAKE
    outcome = _admit(_plain(), served=LATE)
    assert _refused(outcome) == (400, INVALID_REQUEST)
    assert isinstance(outcome, Refusal)
    assert NEWEST_HANDSHAKE.name in outcome.message


def test_streams_and_ends_of_sessions_are_of_the_handshake_era():
    assert admit_stream({}, REVISIONS, NEWEST_HANDSHAKE) is NEWEST_HANDSHAKE
    assert admit_stream({b"mcp-protocol-version": H}, REVISIONS, None) is NEWEST_HANDSHAKE
    assert admit_stream({}, REVISIONS, None) is ASSUMED
    assert _refused(admit_stream({b"mcp-protocol-version": b"no"}, REVISIONS, ASSUMED)) == (400, UNSUPPORTED_VERSION)
    for headers, served in (({b"mcp-protocol-version": V}, REVISIONS), ({}, MODERN)):
        outcome = admit_stream(headers, served, None)
        assert _refused(outcome) == (405, INVALID_REQUEST)
        assert isinstance(outcome, Refusal)
        assert outcome.headers == ((b"allow", b"POST"),)


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
def test_the_status_of_an_error_after_admission(revision):
    modern = revision is NEWEST
    assert status_of(revision, METHOD_NOT_FOUND) == (404 if modern else 200)
    assert status_of(revision, MISSING_CAPABILITY) == (400 if modern else 200)
    for code in (INVALID_PARAMS, INVALID_REQUEST, HEADER_MISMATCH, UNSUPPORTED_VERSION, -1, 7):
        assert status_of(revision, code) == 200


def test_an_error_of_the_terms_becomes_a_refusal():
    error = ProtocolError(INVALID_PARAMS, "_meta lacks it", {"a": 1})
    assert refused(error) == Refusal(400, INVALID_PARAMS, "_meta lacks it", {"a": 1})
