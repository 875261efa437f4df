"""`/resources` and the commands to read, save, attach and watch resources."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from dovetail.cli.chat.session import ChatSession, NumberedResource
from dovetail.cli.chat.ui.contract import Interrupted, Row, Suggestion, ask_back_to_list
from dovetail.cli.chat.views.results import write_new_file
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.contents import contents_bytes
from dovetail.cli.terminal.terminal import InputClosed
from dovetail.protocol.errors import DovetailError

from .rendering import one_line, rule
from .results import show_blocks

if TYPE_CHECKING:
    from dovetail.host.catalogue import HostResource, HostTemplate

_KEYS = {"enter": "read", "w": "watch", "t": "attach", "s": "save"}


async def resources(session: ChatSession, words: list[str]) -> None:
    """List resources and templates, and run actions on them."""
    at = 0
    while True:
        items: list[HostResource | HostTemplate] = [*await session.host.resources(), *await session.host.templates()]
        items.sort(key=lambda item: item.server)
        choice = await session.ui.pick("Resources", [_row(session, item) for item in items], _KEYS, at)
        if choice is None:
            return
        at = choice.row
        try:
            link = await _link(session, items[at])
            if link is None:
                continue
            await _ACTIONS[choice.key](session, link)
        except DovetailError as problem:
            # The list stays open: a number that does not exist is no reason to begin again.
            session.ui.say(("bad", f"  {one_line(f'{items[at].server}: {problem}')}"))
        if choice.key == "enter" and not await ask_back_to_list(session.ui):
            return


async def read(session: ChatSession, words: list[str]) -> None:
    """Read a resource, by its number or by server and URI."""
    await _read(session, session.links.find(words))


async def attach(session: ChatSession, words: list[str]) -> None:
    """Attach a resource to the next message; without words, list the attached ones."""
    if words:
        await _attach(session, session.links.find(words))
        return
    _say_each(session, session.attached, "will be sent with your next message", "Nothing is attached")


async def save(session: ChatSession, words: list[str]) -> None:
    """Write a resource to a file: its number, or server and URI, then the file."""
    if len(words) not in (2, 3):
        raise UsageError("/save NUMBER FILE, or /save SERVER URI FILE")
    await _write(session, session.links.find(words[:-1]), words[-1])


async def watch(session: ChatSession, words: list[str]) -> None:
    """Subscribe to a resource or unsubscribe; without words, list the watched ones."""
    if words:
        await _watch(session, session.links.find(words))
        return
    _say_each(session, session.watched, "is watched", "Nothing is watched")


async def links(session: ChatSession, words: list[str]) -> None:
    """List the numbered resources."""
    for number, link in enumerate(session.links.all(), start=1):
        session.ui.say("  ", ("name", f"[{number}]"), f" {link.server} {one_line(link.uri)} {one_line(link.name)}")
    if not session.links.all():
        session.ui.say(("dim", "  No resource has a number yet."))


async def suggest_mentions(session: ChatSession, typed: str) -> list[Suggestion]:
    """Completions of `@server:uri` at the end of a message."""
    word = typed.rpartition(" ")[2].rpartition("\n")[2]
    if not word.startswith("@"):
        return []
    server, colon, uri = word[1:].partition(":")
    if not colon:
        keys = [(key, str(status.state)) for key, status in session.host.servers.items()]
        return [Suggestion(f"@{key}:", len(word), about) for key, about in keys if key.startswith(server)]
    # Servers that are still starting are not waited for at each key.
    found = [each.resource for each in await session.host.resources() if each.server == server]
    return [
        Suggestion(resource.uri, len(uri), resource.title or resource.name)
        for resource in found
        if uri.lower() in resource.uri.lower()
    ]


def _say_each(session: ChatSession, links: Collection[NumberedResource], what: str, nothing: str) -> None:
    for link in links:
        session.ui.say(f"  {one_line(link.uri)} of {link.server} {what}.")
    if not links:
        session.ui.say(("dim", f"  {nothing}."))


def _row(session: ChatSession, item: HostResource | HostTemplate) -> Row:
    from dovetail.host.catalogue import HostTemplate

    if isinstance(item, HostTemplate):
        return Row(item.template.uri_template, item.server, "{}", item.template.title or item.template.name)
    watched = any((link.server, link.uri) == (item.server, item.resource.uri) for link in session.watched)
    return Row(item.resource.uri, item.server, "~ " if watched else "  ", item.resource.title or item.resource.name)


async def _link(session: ChatSession, item: HostResource | HostTemplate) -> NumberedResource | None:
    """The chosen resource; for a template the user enters the variables."""
    from dovetail.host.catalogue import HostTemplate

    if not isinstance(item, HostTemplate):
        return NumberedResource(item.server, item.resource.uri, item.resource.title or item.resource.name)
    try:
        uri = await _expanded(session, item)
    except (InputClosed, Interrupted):
        return None
    return NumberedResource(item.server, uri, item.template.name)


async def _expanded(session: ChatSession, item: HostTemplate) -> str:
    from dovetail.uri_template.template import UriTemplate

    template = UriTemplate(item.template.uri_template)
    values: dict[str, str] = {}
    for name in template.variables:

        async def suggest(typed: str, name: str = name) -> Sequence[Suggestion]:
            completion = await session.host.complete(
                item.server, item.template.uri_template, name, typed, context=dict(values)
            )
            return [Suggestion(value, len(typed)) for value in completion.values]

        values[name] = await session.ui.prompt(f"  {name}: ", suggest=suggest)
    return template.expand(values)


async def _read(session: ChatSession, link: NumberedResource) -> None:
    result = await session.host.read(link.server, link.uri)
    number = session.links.add(link)
    session.ui.say(("strong", rule(f"[{number}] {link.uri} of {link.server}", session.ui.width)))
    show_blocks(session, link.server, result.contents)
    session.ui.say(("dim", f"  /attach {number} attaches it, /save {number} FILE saves it"))


async def _attach(session: ChatSession, link: NumberedResource) -> None:
    if link not in session.attached:
        session.attached.append(link)
    session.ui.say(f"  {one_line(link.uri)} will be sent with your next message.")


async def _save(session: ChatSession, link: NumberedResource) -> None:
    try:
        name = await session.ui.prompt("  file: ")
    except (InputClosed, Interrupted):
        return
    if name:
        await _write(session, link, name)


async def _write(session: ChatSession, link: NumberedResource, name: str) -> None:
    content = contents_bytes((await session.host.read(link.server, link.uri)).contents)
    session.ui.say(f"  Wrote {len(content)} bytes to {write_new_file(name, content)}.")


async def _watch(session: ChatSession, link: NumberedResource) -> None:
    known = next((each for each in session.watched if (each.server, each.uri) == (link.server, link.uri)), None)
    if known is not None:
        await session.host.unsubscribe(link.server, link.uri)
        session.watched.remove(known)
        session.ui.say(f"  {one_line(link.uri)} is no longer watched.")
        return
    await session.host.subscribe(link.server, link.uri)
    session.watched.append(link)
    session.ui.say(f"  {one_line(link.uri)} of {link.server} is watched.")


_ACTIONS = {"enter": _read, "w": _watch, "t": _attach, "s": _save}
