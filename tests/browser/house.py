"""A server that wants tokens of `dovetail dev-auth`; the arguments are the issuer and the port."""

import sys

from dovetail import Context, JWTVerifier, Server

issuer, port = sys.argv[1], int(sys.argv[2])
auth = JWTVerifier(issuer=issuer, audience=f"http://127.0.0.1:{port}/mcp")
server = Server("house", auth=auth)


@server.tool
def whoami(ctx: Context) -> str:
    """Who has logged in."""
    return str(ctx.principal)


server.run("http", port=port)
