"""A request that may or may not have been carried out is one error, `OutcomeUnknown`, on every revision."""

import pytest

from dovetail import Client, ConnectionLost, OutcomeUnknown, Server
from dovetail.protocol.errors import outcome_unknown
from dovetail.protocol.revisions import REVISIONS


@pytest.mark.parametrize("revision", list(REVISIONS))
async def test_a_server_says_that_the_outcome_is_unknown_and_the_caller_catches_it(revision: str):
    server = Server("replica")

    @server.tool
    def pay() -> None:
        raise outcome_unknown("the process that worked on it has ended")

    async with Client(server, revision=revision) as client:
        with pytest.raises(OutcomeUnknown) as raised:
            await client.call("pay")
    assert isinstance(raised.value, ConnectionLost)
    assert raised.value.reason == "the process that worked on it has ended"
