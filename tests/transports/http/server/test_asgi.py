"""Reading a body within bounds of size and time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dovetail.transports.http.server.asgi import BodyReader, BodyTooLarge, BodyTooSlow, ClientGone, Receive, until_gone


async def read(receive: Receive, seconds: float) -> bytes:
    task = asyncio.current_task()
    assert task is not None
    return await BodyReader(3, seconds).read(receive, task)


def arriving(*parts: bytes | None, then_wait: bool = False) -> Receive:
    """What an ASGI server hands over: these parts of a body, where None is the client going away."""
    left = list(parts)

    async def receive() -> Any:
        if not left:
            assert then_wait, "read beyond the end"
            await asyncio.Event().wait()
        part = left.pop(0)
        if part is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(left) or then_wait}

    return receive


@pytest.mark.parametrize("parts", [[b""], [b"abc"], [b"a", b"bc"], [b"a", b"", b"b", b"c"], [b"", b"abc"]])
async def test_a_body_is_read_whole(parts: list[bytes]) -> None:
    assert await read(arriving(*parts), 1) == b"".join(parts)


@pytest.mark.parametrize("parts", [[b"abcd"], [b"ab", b"cd"], [b"a", b"b", b"c", b"d"]])
async def test_one_that_is_too_large_is_refused(parts: list[bytes]) -> None:
    with pytest.raises(BodyTooLarge):
        await read(arriving(*parts), 1)


async def test_one_that_is_too_large_is_not_read_to_its_end() -> None:
    with pytest.raises(BodyTooLarge):
        await read(arriving(b"abcd", b"e", then_wait=True), 60)


@pytest.mark.parametrize("parts", [[], [b"a"]])
async def test_one_that_does_not_come_is_not_waited_for(parts: list[bytes]) -> None:
    with pytest.raises(BodyTooSlow):
        await read(arriving(*parts, then_wait=True), 0.01)


@pytest.mark.parametrize("parts", [[None], [b"a", None]])
async def test_a_client_may_go_before_it_has_sent_all(parts: list[bytes | None]) -> None:
    with pytest.raises(ClientGone):
        await read(arriving(*parts), 1)


async def test_what_comes_after_the_body_is_the_end() -> None:
    await until_gone(arriving(b"", b"", None))
