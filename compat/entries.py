"""The types of the tables: an environment, an expected failure, a client and a server."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

TRANSPORTS = ("stdio", "http", "sse")

Registry = Literal["pypi", "npm"]


class Environment(NamedTuple):
    """A folder under .peers/compat with packages of one registry."""

    name: str
    registry: Registry
    packages: tuple[str, ...]
    python: str = ""
    node: int = 20


class Expected(NamedTuple):
    """A check that is expected to fail, on which transports, and for which reason."""

    check: str
    reason: str
    transports: tuple[str, ...] = TRANSPORTS
    revisions: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    sometimes: bool = False
    """For a race of theirs, which is lost now and then."""


@dataclass(frozen=True, kw_only=True)
class ThirdPartyClient:
    """A program that meets our server: its packages, its driver, and the failures that are its own."""

    name: str
    version: str
    packages: tuple[str, ...]
    driver: str
    registry: Registry = "pypi"
    python: str = ""
    node: int = 20
    transports: tuple[str, ...] = TRANSPORTS
    modes: tuple[str, ...] = ("",)
    routes: tuple[tuple[str, str], ...] = ()
    """Pairs of a transport and a mode, for a program that has other modes on each transport."""
    expected: tuple[Expected, ...] = ()
    without: tuple[str, ...] = ()
    """Tools that our server leaves out, since they keep the client from starting."""
    notes: str = ""
    seconds: int = 180

    @property
    def slug(self) -> str:
        return slug(f"{self.name}-{self.version}")

    @property
    def visits(self) -> tuple[tuple[str, str], ...]:
        """The transport and the mode of every visit."""
        return self.routes or tuple((transport, mode) for mode in self.modes for transport in self.transports)

    @property
    def environment(self) -> Environment:
        return Environment(self.slug, self.registry, self.packages, self.python, self.node)


class Call(NamedTuple):
    """A safe call of a tool of a server; it may be meant to fail."""

    tool: str
    arguments: dict[str, object] = {}  # noqa: RUF012 -- never changed
    fails: bool = False


@dataclass(frozen=True, kw_only=True)
class ThirdPartyServer:
    """A server that our client meets: how it is installed and started, and what to call."""

    name: str
    version: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    registry: Registry = "pypi"
    python: str = ""
    node: int = 20
    url: str = ""
    env: dict[str, str] = field(default_factory=dict)
    calls: tuple[Call, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    shares: str = ""
    unavailable: str = ""
    expected: tuple[Expected, ...] = ()
    seconds: int = 120

    @property
    def slug(self) -> str:
        return slug(f"{self.name}-{self.version}")

    @property
    def environment(self) -> Environment:
        return Environment(self.shares or self.slug, self.registry, self.packages, self.python, self.node)


def slug(name: str) -> str:
    """A name as a folder: `@ai-sdk/mcp` is `ai-sdk-mcp`."""
    kept = "".join(character if character.isalnum() or character in ".-_" else "-" for character in name)
    return kept.strip("-")
