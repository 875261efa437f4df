"""A server of the official Python SDK, version 2, that wants tokens: `mcp_protected_server.py ISSUER PORT`."""

# pyright: reportMissingImports=false
import sys
import warnings

import jwt
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

from tests.support.http import announce_and_serve

warnings.simplefilter("ignore")
ISSUER, PORT = sys.argv[1], int(sys.argv[2])
URL = f"http://127.0.0.1:{PORT}/mcp"


class Verifier:
    """Checks signatures with PyJWT, as users of the SDK do."""

    keys = jwt.PyJWKClient(f"{ISSUER}/jwks")

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            key = self.keys.get_signing_key_from_jwt(token)
            claims = jwt.decode(token, key.key, ["ES256"], audience=URL, issuer=ISSUER)
        except jwt.PyJWTError:
            return None
        scopes = claims["scope"].split()
        return AccessToken(
            token=token, client_id=claims["client_id"], scopes=scopes, subject=claims["sub"], resource=claims["aud"]
        )


server = MCPServer(
    "protected",
    token_verifier=Verifier(),
    auth=AuthSettings(
        issuer_url=ISSUER, resource_server_url=URL, required_scopes=["rooms"], validate_token_resource=True
    ),
)


@server.tool()
async def whoami() -> str:
    """Who has logged in."""
    token = get_access_token()
    return str(token and token.subject)


announce_and_serve(server.streamable_http_app(), PORT)
