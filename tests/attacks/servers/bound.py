"""A server that takes tokens that are bound to a key, in as many processes as it is told."""

import os

from dovetail import Server
from dovetail.auth.token_verification import Principal
from dovetail.server.auth.verifiers import StaticTokens

server = Server("bound", auth=StaticTokens({"t": Principal(subject="ada", thumbprint=os.environ["THUMBPRINT"])}))


@server.tool
def which() -> int:
    """The process that answers."""
    return os.getpid()
