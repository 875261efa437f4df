"""References: tasks as text, for another process or a later time."""

from __future__ import annotations

import base64
import binascii

import msgspec

from dovetail.protocol.errors import LocalError

FORMAT = 1
MAX_REFERENCE = 16_384
"""The longest reference in characters."""


class TaskReference(msgspec.Struct, array_like=True, frozen=True):
    """All that is needed to find a task again at its server.

    A reference has no secrets but the id, which at servers without authorization is all that gives access to the task.
    """

    format: int
    id: str
    tool: str
    revision: str
    """The revision on which the task was created."""

    def encode(self) -> str:
        """The reference as text that is safe in URLs, file names and shells."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def make_reference(id: str, tool: str, revision: str) -> str:
    """The reference of a task as text."""
    return TaskReference(FORMAT, id, tool, revision).encode()


def read_reference(text: str) -> TaskReference:
    """Read a reference; raises `LocalError` for a text that is none."""
    wrong = "This is no reference of a task: it is the text of `task.reference`, whole"
    if not isinstance(text, str) or not 0 < len(text) <= MAX_REFERENCE:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LocalError(wrong)
    try:
        raw = base64.b64decode(text.strip() + "=" * (-len(text.strip()) % 4), altchars=b"-_", validate=True)
        reference = msgspec.json.decode(raw, type=TaskReference)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise LocalError(wrong) from None
    if reference.format != FORMAT:
        raise LocalError(f"This reference of a task has format {reference.format}, which a newer version has written")
    if not reference.id:
        raise LocalError(wrong)
    return reference
