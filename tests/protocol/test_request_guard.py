"""The request guard: hosts, origins, media types and sizes of a request, before its body is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.protocol.errors import HEADER_MISMATCH, INVALID_REQUEST, LocalError
from dovetail.protocol.request_guard import Refusal, RequestGuard, accepted, body_too_large

POST = {
    b"host": b"localhost:8000",
    b"content-type": b"application/json",
    b"accept": b"application/json, text/event-stream",
    b"content-length": b"10",
}


def _status(refusal):
    return None if refusal is None else refusal.status


def _source(guard, host=b"localhost", origin=None):
    return _status(guard.check_source({b"host": host} if origin is None else {b"host": host, b"origin": origin}))


def test_an_ordinary_post_comes_in():
    assert RequestGuard.build().check("POST", POST) is None


@pytest.mark.parametrize(
    "host", [b"localhost", b"localhost:8000", b"LOCALHOST:1", b"127.0.0.1", b"127.0.0.1:80", b"[::1]", b"[::1]:9"]
)
def test_loopback_is_always_allowed(host):
    assert _source(RequestGuard.build(), host) is None
    assert (
        _source(RequestGuard.build(allowed_hosts=["example.com"], allowed_origins=["https://a.example"]), host) is None
    )


@pytest.mark.parametrize(
    "host",
    [
        b"", b"evil.example", b"evil.example:8000", b"localhost.evil.example", b"notlocalhost", b"localhost:x",
        b"localhost:", b"localhost@evil.example", b"localhost/", b"localhost, evil.example", b"127.0.0.1.evil.example",
        b"[::1", b"[::1]x", b"::1", b"0.0.0.0", b"\xff", b"localhost:\xb2",
    ],
)  # fmt: skip
def test_other_hosts_are_misdirected(host):
    guard = RequestGuard.build()
    for _ in range(2):
        refusal = guard.check_source({b"host": host})
        assert refusal is not None
        assert refusal.status == 421
        assert "allowed_hosts" in refusal.message
        assert repr(host.decode("latin-1") or "none") in refusal.message


def test_a_request_without_host_is_misdirected_unless_nobody_looks():
    assert _status(RequestGuard.build().check_source({})) == 421
    assert RequestGuard.build(allowed_hosts=["*"]).check_source({}) is None


@pytest.mark.parametrize(
    ("entry", "good", "bad"),
    [
        ("example.com", [b"example.com", b"example.com:8443", b"EXAMPLE.com"], [b"a.example.com", b"example.com.evil"]),
        ("example.com:*", [b"example.com", b"example.com:1"], [b"xexample.com"]),
        ("example.com:8443", [b"example.com:8443"], [b"example.com", b"example.com:8444"]),
        ("example.com:443", [b"example.com:443", b"example.com"], [b"example.com:80"]),
        ("*.example.com", [b"a.example.com", b"a.b.example.com:1"], [b"example.com", b"aexample.com"]),
        ("[fe80::1]", [b"[fe80::1]", b"[fe80::1]:8000"], [b"[fe80::2]"]),
        ("fe80::1", [b"[fe80::1]", b"[fe80::1]:8000"], [b"[fe80::2]"]),
    ],
)
def test_hosts_may_be_named_in_several_ways(entry, good, bad):
    guard = RequestGuard.build(allowed_hosts=[entry])
    assert [_source(guard, host) for host in good] == [None] * len(good)
    assert [_source(guard, host) for host in bad] == [421] * len(bad)


@pytest.mark.parametrize(
    ("bound", "host", "status"),
    [
        ("192.168.1.5", b"192.168.1.5:8000", None),
        ("fe80::1", b"[fe80::1]:8000", None),
        ("box.local", b"box.local", None),
        ("0.0.0.0", b"0.0.0.0:8000", 421),
        ("::", b"[::]:8000", 421),
        (None, b"192.168.1.5", 421),
    ],
)
def test_the_bound_host_is_allowed_if_it_is_one(bound, host, status):
    assert _source(RequestGuard.build(bound=bound), host) == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (b"http://localhost", None),
        (b"http://localhost:6274", None),
        (b"https://127.0.0.1:3000", None),
        (b"http://[::1]:3000", None),
        (b"HTTP://LocalHost:1", None),
        (b"null", 403),
        (b"", 403),
        (b"https://evil.example", 403),
        (b"http://localhost.evil.example", 403),
        (b"http://localhost@evil.example", 403),
        (b"ftp://localhost", 403),
        (b"localhost", 403),
        (b"http://", 403),
    ],
)
def test_pages_come_from_loopback_only(origin, status):
    guard = RequestGuard.build()
    assert _source(guard, origin=origin) == status
    assert _source(guard, origin=origin) == status


def test_the_refusal_of_an_origin_says_how_to_allow_it():
    refusal = RequestGuard.build().check_source({b"host": b"localhost", b"origin": b"https://evil.example"})
    assert refusal is not None
    assert "'https://evil.example'" in refusal.message
    assert "allowed_origins" in refusal.message


@pytest.mark.parametrize(
    ("entry", "good", "bad"),
    [
        ("https://a.example", [b"https://a.example", b"https://a.example:443"], [b"http://a.example", b"https://a.example:8443"]),
        ("https://a.example/", [b"https://a.example"], [b"https://b.example"]),
        ("https://a.example:*", [b"https://a.example", b"https://a.example:8443"], [b"http://a.example"]),
        ("http://a.example:8080", [b"http://a.example:8080"], [b"http://a.example"]),
        ("https://*.a.example", [b"https://x.a.example"], [b"https://a.example"]),
        ("vscode-webview://abc", [b"vscode-webview://abc"], [b"vscode-webview://abd"]),
    ],
)  # fmt: skip
def test_origins_may_be_named_in_several_ways(entry, good, bad):
    guard = RequestGuard.build(allowed_origins=[entry])
    assert [_source(guard, origin=origin) for origin in good] == [None] * len(good)
    assert [_source(guard, origin=origin) for origin in bad] == [403] * len(bad)


def test_pages_of_an_allowed_host_come_in_unless_origins_are_listed():
    hosts = ["example.com", "*.wild.example", "*"]
    guard = RequestGuard.build(allowed_hosts=hosts)
    assert _source(guard, origin=b"https://example.com") is None
    assert _source(guard, origin=b"https://a.wild.example") == 403
    assert _source(guard, origin=b"https://evil.example") == 403
    assert _source(RequestGuard.build(allowed_hosts=hosts, allowed_origins=[]), origin=b"https://example.com") == 403


def test_a_star_switches_a_check_off():
    guard = RequestGuard.build(allowed_hosts=["*"], allowed_origins=["*"])
    assert _source(guard, b"anything", b"null") is None
    assert _source(RequestGuard.build(allowed_origins=["*"]), b"evil.example", b"http://evil.example") == 421


def test_origins_of_cors_come_in():
    guard = RequestGuard.build(cors=["https://app.example"])
    assert _source(guard, origin=b"https://app.example") is None
    assert _source(RequestGuard.build(cors=True), origin=b"https://app.example") == 403


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_hosts": ["https://example.com"]},
        {"allowed_hosts": ["example.com/mcp"]},
        {"allowed_hosts": ["exa*mple.com"]},
        {"allowed_hosts": [""]},
        {"allowed_hosts": "example.com"},
        {"allowed_origins": ["example.com"]},
        {"allowed_origins": ["https://example.com/path"]},
        {"allowed_origins": ["null"]},
        {"allowed_origins": "https://example.com"},
        {"cors": "https://example.com"},
    ],
)
def test_options_that_cannot_be_read_are_refused(options):
    with pytest.raises(LocalError, match="example"):
        RequestGuard.build(**options)


def test_verdicts_are_remembered_within_bounds():
    guard = RequestGuard.build(allowed_hosts=["*.example.com"])
    for number in range(2000):
        assert _source(guard, b"h%d.example.com" % number) is None
        assert _source(guard, b"h%d.evil.example" % number) == 421
    assert _source(guard, b"x" * 5000) == 421
    assert len(guard._known_hosts) <= 256
    assert b"x" * 5000 not in guard._known_hosts


def test_two_guards_remember_apart():
    assert _source(RequestGuard.build(), b"example.com") == 421
    assert _source(RequestGuard.build(allowed_hosts=["example.com"]), b"example.com") is None


def test_a_method_nobody_serves_gets_the_list():
    refusal = RequestGuard.build(methods=["POST"]).check("GET", POST)
    assert refusal is not None
    assert (refusal.status, refusal.headers) == (405, ((b"allow", b"POST"),))
    assert _status(RequestGuard.build().check("OPTIONS", POST)) == 405


def test_strangers_learn_nothing_of_methods():
    assert _status(RequestGuard.build().check("PUT", {b"host": b"evil.example"})) == 421


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (b"application/json", None),
        (b"application/json; charset=utf-8", None),
        (b'Application/JSON;charset="UTF-8"', None),
        (b"application/json; charset=latin-1", 415),
        (b"application/jsonp", 415),
        (b"text/plain", 415),
        (b"text/plain; application/json", 415),
        (b"", 415),
        (None, 415),
    ],
)
def test_a_body_is_json(kind, status):
    headers = {name: value for name, value in POST.items() if name != b"content-type"}
    if kind is not None:
        headers[b"content-type"] = kind
    assert _status(RequestGuard.build().check("POST", headers)) == status


@pytest.mark.parametrize(
    ("accept", "json", "sse"),
    [
        (None, True, True),
        (b"*/*", True, True),
        (b"application/json, text/event-stream", True, True),
        (b"text/event-stream,application/json;q=0.5", True, True),
        (b"application/json", True, False),
        (b"APPLICATION/JSON; charset=utf-8", True, False),
        (b"application/*", True, False),
        (b"text/event-stream", False, True),
        (b"text/*;q=0.1", False, True),
        (b"*/*, application/json;q=0", False, True),
        (b"*/*;q=0.0, text/event-stream", False, True),
        (b"text/html", False, False),
        (b"*/*;q=0", False, False),
        (b"", False, False),
        (b";,;", False, False),
    ],
)
def test_accept_is_read(accept, json, sse):
    headers = {name: value for name, value in POST.items() if name != b"accept"}
    if accept is not None:
        headers[b"accept"] = accept
    assert accepted(headers) == (json, sse)
    assert _status(RequestGuard.build().check("POST", headers)) == (None if json or sse else 406)
    assert _status(RequestGuard.build().check("GET", headers)) == (None if sse else 406)
    assert _status(RequestGuard.build().check("DELETE", headers)) is None


@pytest.mark.parametrize(
    ("length", "status"),
    [(b"0", None), (b"100", None), (b"101", 413), (b"9" * 5000, 413), (b"", 400), (b"-1", 400), (b"\xb2", 400)],
)
def test_lengths_are_bounded(length, status):
    assert _status(RequestGuard.build(max_body=100).check("POST", {**POST, b"content-length": length})) == status


def test_a_body_without_length_is_measured_by_whoever_reads_it():
    guard = RequestGuard.build(max_body=100)
    assert guard.check("POST", {name: value for name, value in POST.items() if name != b"content-length"}) is None
    assert body_too_large(guard.max_body).status == 413


@pytest.mark.parametrize(("encoding", "status"), [(b"identity", None), (b"gzip", 415), (b"br", 415)])
def test_bodies_come_as_they_are(encoding, status):
    assert _status(RequestGuard.build().check("POST", {**POST, b"content-encoding": encoding})) == status


def test_headers_become_a_mapping():
    raw = [(b"host", b"a"), (b"accept", b"x, y"), (b"empty", b"")]
    assert RequestGuard.build().headers(raw) == {b"host": b"a", b"accept": b"x, y", b"empty": b""}
    assert RequestGuard.build().headers([]) == {}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("value", [b" v", b"v ", b"\tv", b"v\t", b"  v \t"])
def test_blanks_around_a_value_go(value, place):
    raw = [(b"a", b"1"), (b"b", b"2  2")]
    raw.insert(place, (b"mcp-name", value))
    assert RequestGuard.build().headers(raw) == {b"a": b"1", b"b": b"2  2", b"mcp-name": b"v"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (b"host", INVALID_REQUEST),
        (b"origin", INVALID_REQUEST),
        (b"content-type", INVALID_REQUEST),
        (b"content-length", INVALID_REQUEST),
        (b"authorization", INVALID_REQUEST),
        (b"last-event-id", INVALID_REQUEST),
        (b"mcp-session-id", HEADER_MISMATCH),
        (b"mcp-method", HEADER_MISMATCH),
        (b"mcp-param-region", HEADER_MISMATCH),
    ],
)
def test_a_header_that_must_be_clear_comes_once(name, code):
    refusal = RequestGuard.build().headers([(name, b"a"), (b"x", b"y"), (name, b"a")])
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (400, code)
    assert name.decode() in refusal.message


def test_a_body_with_two_lengths_is_refused_and_the_connection_closed():
    headers = [(b"host", b"localhost"), (b"transfer-encoding", b"chunked")]
    assert RequestGuard.build().headers(headers) == dict(headers)
    refusal = RequestGuard.build().headers([*headers, (b"content-length", b"4")])
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.headers) == (400, ((b"connection", b"close"),))


def test_other_headers_are_joined():
    raw = [(b"accept", b"application/json"), (b"accept", b"text/event-stream "), (b"x", b"y")]
    assert RequestGuard.build().headers(raw) == {b"accept": b"application/json, text/event-stream", b"x": b"y"}


@pytest.mark.parametrize("value", [b"a\rb", b"a\nb", b"a\0b", b"\n", b"a\r\nx: y"])
@pytest.mark.parametrize(("name", "code"), [(b"mcp-name", HEADER_MISMATCH), (b"x", INVALID_REQUEST)])
def test_line_breaks_in_values_are_refused(name, value, code):
    refusal = RequestGuard.build().headers([(b"host", b"a"), (name, value)])
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (400, code)


@pytest.mark.parametrize(
    "raw",
    [
        [(b"h%d" % number, b"") for number in range(11)],
        [(b"h", b"x" * 200)],
        [(b"h" * 200, b"x")],
        [(b"h", b"x" * 60), (b"h", b"x" * 60)],
    ],
)
def test_too_many_or_too_large_headers_are_refused(raw):
    refusal = RequestGuard.build(max_headers=10, max_header_bytes=100).headers(raw)
    assert isinstance(refusal, Refusal)
    assert refusal.status == 431


_bytes = st.binary(max_size=6) | st.text("ab \t\r\n\0", max_size=4).map(str.encode)


@given(st.lists(st.tuples(st.sampled_from([b"host", b"mcp-name", b"x", b"y", b"accept"]), _bytes), max_size=5))
def test_whatever_comes_out_is_clean(raw):
    found = RequestGuard.build().headers(raw)
    dirty = any(mark in value for _, value in raw for mark in (b"\r", b"\n", b"\0"))
    names = [name for name, _ in raw]
    twice = any(names.count(name) > 1 for name in (b"host", b"mcp-name"))
    if dirty or twice:
        assert isinstance(found, Refusal)
    else:
        assert isinstance(found, dict)
        assert set(found) == set(names)
        assert all(value == value.strip(b" \t") for name, value in found.items() if names.count(name) == 1)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_no_address_breaks_the_check(host, origin):
    assert _source(RequestGuard.build(), host, origin) in {None, 421, 403}
