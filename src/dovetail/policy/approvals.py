"""Approvals of launches, and trust in servers, by the user."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from dovetail.config.launch_spec import LaunchSpec
from dovetail.userdata.folders import user_folder

from .launch import redacted_spec
from .user_file import UserFile

FILE = "approvals.json"
MAX_EACH = 50
"""Launches of one key that are remembered: projects may each have a server of that key."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A launch that was approved, bound to all of it (CVE-2025-54136)."""

    digest: str
    spec: LaunchSpec
    """As it was, without the secrets that stood in it; to be shown when it has changed."""
    at: str
    trusted: bool = False


_Known: TypeAlias = dict[str, list[Approval]]


class Approvals:
    """A file in the user's own folder, so that no project can approve itself.

    A launch is what `resolve_launch` gives: its program and the content of its files are part of what is approved.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._file = UserFile[_Known]((folder or user_folder()) / FILE, _Known, {})

    def approved(self, server: str, spec: LaunchSpec) -> bool:
        """True if the server may be started in exactly this way."""
        return self._find(server, spec) is not None

    def before(self, server: str, spec: LaunchSpec) -> LaunchSpec | None:
        """The launch that was approved last under this key, if it was another one; without its secrets."""
        known = self._file.read().get(server)
        return known[0].spec if known and known[0].digest != spec.digest else None

    def approve(self, server: str, spec: LaunchSpec) -> None:
        """Take note of a user's yes; whether they trusted that very launch stays as it was."""
        now = datetime.now(UTC).isoformat(timespec="seconds")

        def added(known: _Known) -> _Known:
            old = known.get(server, [])
            trusted = any(one.trusted for one in old if one.digest == spec.digest)
            fresh = Approval(digest=spec.digest, spec=redacted_spec(spec), at=now, trusted=trusted)
            rest = [one for one in old if one.digest != spec.digest]
            return {**known, server: [fresh, *rest][:MAX_EACH]}

        self._file.change(added)

    def revoke(self, server: str) -> None:
        """Approve nothing under this key any more."""
        self._file.change(lambda known: {key: kept for key, kept in known.items() if key != server})

    def trusted(self, server: str, spec: LaunchSpec) -> bool:
        """True if the user believes what this server says of its tools; a changed launch is not trusted."""
        approval = self._find(server, spec)
        return approval is not None and approval.trusted

    def trust(self, server: str, spec: LaunchSpec, trusted: bool) -> bool:
        """Believe a server, or no longer; False if its launch is not approved."""

        def changed(known: _Known) -> _Known:
            return {
                **known,
                server: [
                    msgspec.structs.replace(one, trusted=trusted) if one.digest == spec.digest else one
                    for one in known.get(server, [])
                ],
            }

        if self._find(server, spec) is None:
            return False
        self._file.change(changed)
        return True

    def _find(self, server: str, spec: LaunchSpec) -> Approval | None:
        digest = spec.digest
        for approval in self._file.read().get(server, ()):
            if approval.digest == digest:
                return approval
        return None
