"""Ways to a token for which no user is asked."""

import pytest

from dovetail import Client
from dovetail.auth.errors import Denied
from dovetail.client.auth.grants import Assertion, EnterpriseLogin, WorkloadIdentity
from dovetail.client.auth.oauth import OAuth
from tests.client.protected import Protected

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


async def later() -> str:
    return "from the platform"


@pytest.mark.parametrize("assertion", ["from the platform", lambda: "from the platform", later])
async def test_a_platform_vouches_for_a_program(assertion: Assertion):
    async with Protected() as server:
        async with Client(server.url, auth=OAuth(WorkloadIdentity("job", assertion))) as client:
            await client.tools()
        assert server.grants == [JWT_BEARER]


async def test_an_enterprise_vouches_for_a_user():
    async with Protected() as server:
        way = EnterpriseLogin("app", "from the enterprise", idp_issuer=server.base, idp_client_id="app-there")
        async with Client(server.url, auth=OAuth(way)) as client:
            await client.tools()
        assert server.grants == ["urn:ietf:params:oauth:grant-type:token-exchange", JWT_BEARER]


async def test_nobody_vouches():
    async with Protected() as server:
        with pytest.raises(Denied, match="invalid_client"):
            await Client(server.url, auth=OAuth(WorkloadIdentity("job", "made up"))).open()
        assert server.grants == [JWT_BEARER]
