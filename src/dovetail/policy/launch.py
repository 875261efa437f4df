"""How a server is reached: the whole of it, so that an approval of one launch is no approval of another."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

import msgspec


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run, or a URL to reach, with everything that is put in place of variables.

    What a person typed in as a secret is not part of it: `env` and `headers` then hold the name of the secret, as
    `${input:id}`, and `Secrets` gives its value at the last moment.
    """

    kind: Literal["stdio", "http", "sse", "ws"]
    command: tuple[str, ...] = ()
    """The program and its arguments, word by word; never a line for a shell."""
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}

    @property
    def digest(self) -> str:
        """SHA-256 of all of it: what an approval is bound to."""
        return sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()
