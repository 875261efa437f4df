"""Review of a server's definitions: what may be used, and what the user has to approve first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from dovetail.policy.inspection.inspector import Inspector

from .approval_questions import DefinitionQuestion
from .definitions import Definition
from .lockfile import Lock, Status


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One definition that a server offers, and what there is to say about it."""

    server: str
    definition: Definition
    before: Definition | None
    """As it was approved, if ever."""
    status: Status
    difference: str
    concerns: tuple[str, ...] = ()
    quarantined: bool = False
    """Neither offered to a model nor called, until a user says yes to `question`."""

    @property
    def question(self) -> DefinitionQuestion:
        """The question to the user."""
        return DefinitionQuestion(
            server=self.server,
            kind=self.definition.kind,
            name=self.definition.name,
            difference=self.difference,
            status="changed" if self.status == "gone" else self.status,
            concerns=self.concerns,
        )


def review(
    server: str,
    offered: Iterable[Definition],
    lock: Lock,
    others: Mapping[str, Collection[str]],
    accepted: Callable[[str, Definition], bool],
) -> list[Finding]:
    """Compare what a server offers with the lock, and inspect it; what is gone is left out.

    On first contact all is taken up but what looks wrong; later, nothing that is new or has changed. What looks wrong
    is held back even where the lock knows it, unless this user has accepted it (`Accepted.has`). `others` are the
    names of the tools of the other servers, by server.
    """
    now = list(offered)
    names = [definition.name for definition in now if definition.kind == "tool"]
    inspector = Inspector(server, {**others, server: names})
    known = server in lock.servers
    findings: list[Finding] = []
    for item in lock.compare(server, now):
        if item.after is None:
            continue
        concerns = tuple(map(str, inspector.definition(item.after)))
        odd = bool(concerns) and not accepted(server, item.after)
        unapproved = known and item.status != "same"
        findings.append(
            Finding(
                server=server,
                definition=item.after,
                before=item.before,
                status=item.status,
                difference=item.text if odd or unapproved else "",
                concerns=concerns,
                quarantined=odd or unapproved,
            )
        )
    return findings
