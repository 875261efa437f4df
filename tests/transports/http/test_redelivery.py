"""Notifications and answers are posted again while a server cannot accept them."""

import asyncio

import pytest

from dovetail.protocol.errors import ConnectionLost
from dovetail.transports.http.redelivery import NotAccepted, deliver


class Server:
    """Refuses the first messages."""

    def __init__(self, *problems: Exception) -> None:
        self.problems = list(problems)
        self.posts = 0

    async def post(self) -> None:
        self.posts += 1
        if self.problems:
            raise self.problems.pop(0)


async def test_a_message_is_posted_until_it_is_accepted() -> None:
    server = Server(NotAccepted("restarting", try_again=True), ConnectionLost("refused"))
    await deliver(server.post, 30)
    assert server.posts == 3


async def test_a_message_that_is_refused_for_good_is_not_posted_again() -> None:
    server = Server(NotAccepted("no such request", try_again=False))
    with pytest.raises(NotAccepted, match="no such request"):
        await deliver(server.post, 30)
    assert server.posts == 1


@pytest.mark.parametrize("problem", [NotAccepted("wait", try_again=True, retry_after=60), ConnectionLost("refused")])
async def test_it_is_given_up_when_the_time_is_over(problem: Exception) -> None:
    server = Server(*[problem] * 100)
    with pytest.raises(type(problem)):
        await deliver(server.post, 0.2)
    assert server.posts < 5


async def test_a_server_that_does_not_respond_is_given_up() -> None:
    async def post() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await deliver(post, 0.05)
