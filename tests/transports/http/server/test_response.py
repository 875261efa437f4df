"""Writing one answer to one HTTP request."""

from __future__ import annotations

from typing import Any

from dovetail.transports.http.server.response import HttpResponse


class Sent(list[Any]):
    """An ASGI `send` that remembers."""

    async def __call__(self, event: Any) -> None:
        self.append(event)

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self[0]["headers"])


async def test_a_json_value_is_whole_and_says_how_long_it_is() -> None:
    sent = Sent()
    reply = HttpResponse(sent)
    reply.add_header(b"mcp-session-id", b"x")
    await reply.json(201, b"{}")
    assert sent[0]["status"] == reply.status == 201
    assert sent.headers == {b"content-type": b"application/json", b"content-length": b"2", b"mcp-session-id": b"x"}
    assert sent[1] == {"type": "http.response.body", "body": b"{}"}


async def test_a_message_is_stored_by_no_cache() -> None:
    sent = Sent()
    await HttpResponse(sent).message(200, b"{}")
    assert sent.headers[b"cache-control"] == b"no-store"
    assert sent.headers[b"content-type"] == b"application/json"


async def test_words_are_utf8() -> None:
    sent = Sent()
    await HttpResponse(sent).text(404, "größe")
    assert sent.headers == {b"content-type": b"text/plain; charset=utf-8", b"content-length": b"7"}
    assert sent[1]["body"] == "größe".encode()


async def test_an_empty_answer_has_no_type() -> None:
    sent = Sent()
    response = HttpResponse(sent)
    response.add_header(b"a", b"b")
    await response.empty(202)
    assert sent.headers == {b"content-length": b"0", b"a": b"b"}


async def test_events_are_written_as_they_come_past_every_proxy() -> None:
    sent = Sent()
    reply = HttpResponse(sent)
    assert not reply.started
    await reply.begin_events()
    assert reply.started
    await reply.events(b"data: 1\n\n")
    await reply.end()
    assert sent.headers[b"content-type"] == b"text/event-stream"
    assert sent.headers[b"x-accel-buffering"] == b"no"
    assert b"no-cache" in sent.headers[b"cache-control"]
    assert b"content-length" not in sent.headers
    assert [(event["body"], event["more_body"]) for event in sent[1:]] == [(b"data: 1\n\n", True), (b"", False)]


async def test_to_a_client_that_is_gone_nothing_is_written() -> None:
    sent = Sent()
    reply = HttpResponse(sent)
    await reply.begin_events()
    reply.gone = True
    await reply.events(b"data: 1\n\n")
    await reply.end()
    assert len(sent) == 1


async def test_a_server_that_fails_to_write_says_that_the_client_is_gone() -> None:
    async def send(event: Any) -> None:
        raise BrokenPipeError

    reply = HttpResponse(send)
    await reply.begin_events()
    assert reply.gone
