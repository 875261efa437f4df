"""A server as a configuration file names it, and the values that it wants from the user."""

from __future__ import annotations

import msgspec

from dovetail.config.launch_spec import LaunchSpec


class Origin(msgspec.Struct, frozen=True):
    """A place in a file: the file, and the line in it, from 1."""

    file: str
    line: int = 0
    """0 is for what no file says: a program gave it."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


IN_CODE = Origin("the program")
"""Origin of a server that is defined in code."""


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a file leaves to the user; `${input:id}` stands in its place."""

    id: str
    origin: Origin
    description: str = ""
    secret: bool = True
    """Hide what is typed (`password`)."""
    options: tuple[str, ...] = ()
    """Values to choose from; empty for any text."""
    default: str | None = None


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a configuration: how to reach it, where that stands, and whether it may be started at all."""

    key: str
    """The key in the file: the name that a user gave the server."""
    spec: LaunchSpec | None
    """Its launch, with every variable filled in but `${input:id}`; None where there is a `problem`."""
    origin: Origin = IN_CODE
    enabled: bool = True
    problem: str | None = None
    """The reason why it cannot be started, with file and line; None where it can."""
    inputs: tuple[Input, ...] = ()
    """Inputs that the user is asked for before it starts: `Secrets.fill(entry)`."""
    origins: dict[str, Origin] = {}
    """The origin of each value: `command`, `args.0`, `env.NAME`, `headers.NAME`, `url`, and so on."""

    def __post_init__(self) -> None:
        # What is approved is all that decides what runs, and a default does.
        given = {each.id: each.default for each in self.inputs if each.default is not None}
        if self.spec is not None and given and self.spec.defaults != given:
            msgspec.structs.force_setattr(self, "spec", msgspec.structs.replace(self.spec, defaults=given))

    def same_launch(self, other: ServerEntry) -> bool:
        """True if a running server is still what the configuration says; where that stands in a file plays no part."""
        return self._launch() == other._launch()

    def _launch(self) -> tuple[object, ...]:
        wanted = [(each.id, each.origin.file) for each in self.inputs]
        return (self.key, self.spec, self.enabled, self.problem, wanted)
