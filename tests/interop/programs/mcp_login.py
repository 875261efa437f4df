"""The client of the official Python SDK, version 2 or 1, that logs in: `mcp_login.py URL REDIRECT_URI`.

It prints the page of each login as a line, reads where the browser was sent back to, and prints in the end what it got.
"""

# pyright: reportMissingImports=false
import asyncio
import json
import sys
import warnings
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

try:
    from mcp.shared.auth import AuthorizationCodeResult
except ImportError:
    AuthorizationCodeResult = None

warnings.simplefilter("ignore")


class Kept:
    """Forgets everything at the end."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


async def show(url: str) -> None:
    print(url, flush=True)


async def come_back() -> Any:
    line = await asyncio.to_thread(sys.stdin.readline)
    fields = {name: values[0] for name, values in parse_qs(urlsplit(line.strip()).query).items()}
    if AuthorizationCodeResult is None:
        return fields["code"], fields["state"]
    return AuthorizationCodeResult(code=fields["code"], state=fields["state"], iss=fields["iss"])


async def main(url: str, redirect_uri: str) -> dict[str, Any]:
    about = OAuthClientMetadata(client_name="The SDK", redirect_uris=[redirect_uri])
    auth = OAuthClientProvider(url, about, Kept(), show, come_back)
    async with (
        create_mcp_http_client(auth=auth) as http,
        streamable_http_client(url, http_client=http) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        said = [(await session.call_tool("whoami", {})).content[0].text]
        print("called", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        said.append((await session.call_tool("whoami", {})).content[0].text)
        return {"said": said}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2]))))
