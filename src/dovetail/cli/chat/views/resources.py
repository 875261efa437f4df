"""`/resources`: what there is to read, by server; reading, saving, attaching and watching it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from dovetail.cli.chat.new_file import new_file
from dovetail.cli.chat.resource_links import Link
from dovetail.cli.chat.session import Session
from dovetail.cli.chat.ui.contract import Interrupted, Row, Suggestion, back
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.contents import bytes_of
from dovetail.cli.terminal.terminal import Closed

from .rendering import one_line, rule
from .results import show_blocks

if TYPE_CHECKING:
    from dovetail.host.catalogue import HostResource, HostTemplate

_KEYS = {"enter": "read", "w": "watch", "t": "attach", "s": "save"}


async def resources(session: Session, words: list[str]) -> None:
    """Show resources and templates, and do what the person wants with one."""
    at = 0
    while True:
        found: list[HostResource | HostTemplate] = [*await session.host.resources(), *await session.host.templates()]
        found.sort(key=lambda item: item.server)
        choice = await session.surface.pick("Resources", [_row(session, item) for item in found], _KEYS, at)
        if choice is None:
            return
        at = choice.row
        link = await _link(session, found[at])
        if link is None:
            continue
        await _ACTIONS[choice.key](session, link)
        if choice.key == "enter" and not await back(session.surface):
            return


async def read(session: Session, words: list[str]) -> None:
    """Read a resource, by its number or by server and URI."""
    await _read(session, session.links.find(words))


async def attach(session: Session, words: list[str]) -> None:
    """Send a resource along with the next message; without words, say what goes along."""
    if words:
        await _attach(session, session.links.find(words))
        return
    _say_each(session, session.attached, "goes along with your next message", "Nothing is attached")


async def save(session: Session, words: list[str]) -> None:
    """Write a resource to a file: its number, or server and URI, then the file."""
    if len(words) not in (2, 3):
        raise UsageError("/save NUMBER FILE, or /save SERVER URI FILE")
    await _write(session, session.links.find(words[:-1]), words[-1])


async def watch(session: Session, words: list[str]) -> None:
    """Hear of changes of a resource, or no more; without words, say what is watched."""
    if words:
        await _watch(session, session.links.find(words))
        return
    _say_each(session, session.watched, "is watched", "Nothing is watched")


async def links(session: Session, words: list[str]) -> None:
    """The resources that came by, with their numbers."""
    for number, link in enumerate(session.links.all(), start=1):
        session.surface.say("  ", ("name", f"[{number}]"), f" {link.server} {one_line(link.uri)} {one_line(link.name)}")
    if not session.links.all():
        session.surface.say(("dim", "  No resource was linked to yet."))


def _say_each(session: Session, links: Collection[Link], what: str, nothing: str) -> None:
    for link in links:
        session.surface.say(f"  {one_line(link.uri)} of {link.server} {what}.")
    if not links:
        session.surface.say(("dim", f"  {nothing}."))


def _row(session: Session, item: HostResource | HostTemplate) -> Row:
    from dovetail.host.catalogue import HostTemplate

    if isinstance(item, HostTemplate):
        return Row(item.template.uri_template, item.server, "{}", item.template.title or item.template.name)
    watched = any((link.server, link.uri) == (item.server, item.resource.uri) for link in session.watched)
    return Row(item.resource.uri, item.server, "~ " if watched else "  ", item.resource.title or item.resource.name)


async def _link(session: Session, item: HostResource | HostTemplate) -> Link | None:
    """The resource that is meant; of a template, the person says the rest."""
    from dovetail.host.catalogue import HostTemplate

    if not isinstance(item, HostTemplate):
        return Link(item.server, item.resource.uri, item.resource.title or item.resource.name)
    try:
        uri = await _expanded(session, item)
    except (Closed, Interrupted):
        return None
    return Link(item.server, uri, item.template.name)


async def _expanded(session: Session, item: HostTemplate) -> str:
    from dovetail.uri_template.template import UriTemplate

    template = UriTemplate(item.template.uri_template)
    values: dict[str, str] = {}
    for name in template.variables:

        async def suggest(typed: str, name: str = name) -> Sequence[Suggestion]:
            found = await session.host.complete(
                item.server, item.template.uri_template, name, typed, context=dict(values)
            )
            return [Suggestion(value, len(typed)) for value in found.values]

        values[name] = await session.surface.ask(f"  {name}: ", suggest=suggest)
    return template.expand(values)


async def _read(session: Session, link: Link) -> None:
    result = await session.host.read(link.server, link.uri)
    number = session.links.add(link)
    session.surface.say(("strong", rule(f"[{number}] {link.uri} of {link.server}", session.surface.width)))
    show_blocks(session, link.server, result.contents)
    session.surface.say(("dim", f"  /attach {number} sends it along, /save {number} FILE writes it down"))


async def _attach(session: Session, link: Link) -> None:
    if link not in session.attached:
        session.attached.append(link)
    session.surface.say(f"  {one_line(link.uri)} goes along with your next message.")


async def _save(session: Session, link: Link) -> None:
    try:
        name = await session.surface.ask("  into the file: ")
    except (Closed, Interrupted):
        return
    if name:
        await _write(session, link, name)


async def _write(session: Session, link: Link, name: str) -> None:
    content = bytes_of((await session.host.read(link.server, link.uri)).contents)
    session.surface.say(f"  {len(content)} bytes are in {new_file(name, content)}.")


async def _watch(session: Session, link: Link) -> None:
    known = next((each for each in session.watched if (each.server, each.uri) == (link.server, link.uri)), None)
    if known is not None:
        await session.host.unsubscribe(link.server, link.uri)
        session.watched.remove(known)
        session.surface.say(f"  {one_line(link.uri)} is not watched any more.")
        return
    await session.host.subscribe(link.server, link.uri)
    session.watched.append(link)
    session.surface.say(f"  {one_line(link.uri)} of {link.server} is watched.")


_ACTIONS = {"enter": _read, "w": _watch, "t": _attach, "s": _save}
