"""Resources: what a function returns, as contents; and URIs that a template matches."""

from dataclasses import dataclass
from typing import Any

import pytest

from dovetail import BlobContents, Client, Context, Server, TextContents
from dovetail.protocol.errors import RemoteError
from dovetail.protocol.revisions import REVISIONS
from dovetail.types.resources import ReadResourceResult

EVERY = pytest.mark.parametrize("name", REVISIONS)


@dataclass
class Point:
    x: int


async def contents(value: Any, mime_type: str | None = None) -> list[TextContents | BlobContents]:
    server = Server("s")
    options = {} if mime_type is None else {"mime_type": mime_type}
    server.resource("x://y", **options)(lambda: value)  # type: ignore[arg-type]
    async with Client(server) as client:
        return (await client.read("x://y")).contents


class TestContents:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("hello", TextContents("x://y", "hello", mime_type="text/plain")),
            (b"\x00\xff", BlobContents("x://y", b"\x00\xff", mime_type="application/octet-stream")),
            (bytearray(b"a"), BlobContents("x://y", b"a", mime_type="application/octet-stream")),
            ({"a": 1}, TextContents("x://y", '{"a":1}', mime_type="application/json")),
            ([1, 2], TextContents("x://y", "[1,2]", mime_type="application/json")),
            ([], TextContents("x://y", "[]", mime_type="application/json")),
            (None, TextContents("x://y", "null", mime_type="application/json")),
            (Point(1), TextContents("x://y", '{"x":1}', mime_type="application/json")),
        ],
    )
    async def test_of_whatever_the_function_returns(self, value: Any, expected: Any):
        assert await contents(value) == [expected]

    @pytest.mark.parametrize("value", ["hello", b"hello", {"a": 1}])
    async def test_with_the_type_that_was_declared(self, value: Any):
        assert [part.mime_type for part in await contents(value, "text/x-mine")] == ["text/x-mine"]

    async def test_as_they_are_when_the_function_makes_them_itself(self):
        parts: list[Any] = [TextContents("x://a", "a"), BlobContents("x://b", b"b", mime_type="image/png")]
        assert await contents(parts) == parts
        assert await contents(parts[0]) == parts[:1]
        assert await contents(ReadResourceResult(parts)) == parts

    async def test_what_cannot_be_contents_is_an_error_in_words(self):
        with pytest.raises(RemoteError, match="x://y") as caught:
            await contents(object())
        assert caught.value.code == -32603


class TestTemplates:
    def server(self) -> Server:
        server = Server("s")

        @server.resource("user://{id}/posts/{post}")
        async def post(id: int, post: str, ctx: Context) -> list[Any]:
            return [id, post, ctx.revision]

        @server.resource("file://{path*}")
        def file(path: str) -> str:
            return path

        return server

    @EVERY
    async def test_variables_reach_the_function_as_its_hints_say(self, name: str):
        async with Client(self.server(), revision=name) as client:
            (part,) = (await client.read("user://5/posts/a%20b")).contents
            assert isinstance(part, TextContents)
            assert part.text == f'[5,"a b","{name}"]'
            assert part.uri == "user://5/posts/a%20b"

    async def test_a_variable_that_does_not_fit_is_invalid_params(self):
        async with Client(self.server()) as client:
            with pytest.raises(RemoteError, match="user://five/posts/a does not fit: ") as caught:
                await client.read("user://five/posts/a")
            assert (caught.value.code, caught.value.data) == (-32602, {"uri": "user://five/posts/a"})

    @EVERY
    @pytest.mark.sends_wrong("what is no URI")
    @pytest.mark.parametrize("uri", ["user://5", "user://5/posts/a/b", "file://../etc/passwd", "file://a/%2e%2e/b", ""])
    async def test_what_no_template_matches_is_not_found(self, name: str, uri: str):
        async with Client(self.server(), revision=name) as client:
            with pytest.raises(RemoteError, match="Resource not found") as caught:
                await client.read(uri)
            assert caught.value.code == REVISIONS[name].not_found_code


@pytest.mark.parametrize(
    ("hint", "listed"),
    [
        (list[str], "application/json"),
        (dict[str, int] | list[int], "application/json"),
        (int, "application/json"),
        (str, None),
        (bytes, None),
        (str | dict[str, int], None),
        (TextContents, None),
        (list[TextContents], None),
        (Any, None),
    ],
)
async def test_a_resource_that_returns_data_is_listed_as_json(hint: Any, listed: str | None):
    server = Server("s")

    def read() -> Any:
        return None

    read.__annotations__["return"] = hint
    server.resource("a://b")(read)
    server.resource("c://d", mime_type="x/y")(read)
    async with Client(server) as client:
        assert [one.mime_type for one in await client.resources()] == [listed, "x/y"]
