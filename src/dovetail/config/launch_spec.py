"""Launch specification: all that decides what runs, so that an approval of one launch is no approval of another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Literal

import msgspec

from dovetail.text.redact import REDACTED, is_secret, redact_text

from .variables import INPUT

_NOT_RESOLVED = b',"program":null,"files":{}}'


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A command to run, or a URL to reach, with everything that is put in place of variables.

    What a user typed in as a secret is not part of it: `env` and `headers` then hold the name of the secret, as
    `${input:id}`, and `Secrets` gives its value at the last moment.
    """

    kind: Literal["stdio", "http", "sse", "ws"]
    command: tuple[str, ...] = ()
    """The program and its arguments, word by word; never a line for a shell."""
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    defaults: dict[str, str] = {}
    """Defaults for `${input:id}`, by id: a change of one changes what runs."""
    program: str | None = None
    """The absolute path of the program (`resolve_launch`); a configuration has none."""
    files: dict[str, str] = {}
    """SHA-256 of the files with code that the command names, by absolute path (`resolve_launch`)."""

    def __repr__(self) -> str:
        """It may stand in a log: the names of what it is given are in it, and not the values."""
        given = ", ".join([*self.env, *self.headers])
        return f"<LaunchSpec {self.kind}: {redact_text(self.url or ' '.join(without_secrets(self.command)))} ({given})>"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it: what an approval is bound to."""
        content = msgspec.json.encode(self, order="deterministic")
        # Without them it is what it was before there were such fields: approvals of servers behind a URL stay valid.
        if content.endswith(_NOT_RESOLVED):
            content = content.removesuffix(_NOT_RESOLVED) + b"}"
        return sha256(content).hexdigest()


def without_secrets(command: Iterable[str]) -> list[str]:
    """The words of a command for the record: what follows a `--token` or looks like a secret is left out."""
    words: list[str] = []
    hides = False
    for word in command:
        words.append(REDACTED if hides and not word.startswith("-") else redact_text(word))
        hides = word.startswith("-") and "=" not in word and is_secret(word)
    return words


def fill_inputs(spec: LaunchSpec, values: Mapping[str, str]) -> LaunchSpec:
    """The launch with a value in place of each `${input:id}`."""

    def fill(text: str) -> str:
        return INPUT.sub(lambda match: values[match[1]], text)

    return msgspec.structs.replace(
        spec,
        command=tuple(map(fill, spec.command)),
        env={name: fill(value) for name, value in spec.env.items()},
        cwd=None if spec.cwd is None else fill(spec.cwd),
        url=None if spec.url is None else fill(spec.url),
        headers={name: fill(value) for name, value in spec.headers.items()},
    )
