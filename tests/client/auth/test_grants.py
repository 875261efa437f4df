"""Grants that need no browser login."""

import pytest

from dovetail import Client
from dovetail.auth.errors import Denied
from dovetail.client import EnterpriseLogin, WorkloadIdentity
from dovetail.client.auth.grants import Assertion
from dovetail.client.auth.oauth import OAuth
from tests.client.protected import Protected

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


async def later() -> str:
    return "from the platform"


@pytest.mark.parametrize("assertion", ["from the platform", lambda: "from the platform", later])
async def test_a_platform_token_is_exchanged_for_an_access_token(assertion: Assertion):
    async with Protected() as server:
        async with Client(server.url, auth=OAuth(WorkloadIdentity("job", assertion))) as client:
            await client.tools()
        assert server.grants == [JWT_BEARER]


async def test_the_id_token_of_an_enterprise_is_exchanged_for_an_access_token():
    async with Protected() as server:
        grant = EnterpriseLogin("app", "from the enterprise", idp_issuer=server.base, idp_client_id="app-there")
        async with Client(server.url, auth=OAuth(grant)) as client:
            await client.tools()
        assert server.grants == ["urn:ietf:params:oauth:grant-type:token-exchange", JWT_BEARER]


async def test_an_assertion_that_nobody_issued_is_refused():
    async with Protected() as server:
        with pytest.raises(Denied, match="invalid_client"):
            await Client(server.url, auth=OAuth(WorkloadIdentity("job", "made up"))).open()
        assert server.grants == [JWT_BEARER]
