"""`/resume` and `/export`: saved conversations, and a conversation as a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.ui.contract import Row
from dovetail.cli.parser import UsageError
from dovetail.runtime.thread_pool import run_in_thread

from .rendering import counted, one_line, shortened, wrapped
from .results import write_new_file

if TYPE_CHECKING:
    from dovetail.host.chat.saved_conversations import SavedSummary
    from dovetail.types.client_features import SamplingMessage

_KEYS = {"enter": "resume", "x": "delete"}
_SHOWN = 2
"""Texts of a resumed conversation that are shown again."""
_ROOM = 600


async def resume(session: ChatSession, words: list[str]) -> None:
    """List the saved conversations and continue one; with an id, or `last`, continue that."""
    saved = session.saved_conversations()
    if words:
        await resume_conversation(session, words[0])
        return
    at = 0
    while True:
        known = await run_in_thread(saved.list)
        if not known:
            session.ui.say(("dim", "  There is no saved conversation."))
            return
        choice = await session.ui.pick("Conversations", [_row(each) for each in known], _KEYS, at)
        if choice is None:
            return
        at, summary = choice.row, known[choice.row]
        if choice.key == "enter":
            await resume_conversation(session, summary.id)
            return
        await run_in_thread(saved.delete, summary.id)


async def resume_conversation(session: ChatSession, id: str) -> None:
    """Continue a saved conversation, with its model if that is configured."""
    found = await run_in_thread(session.saved_conversations().load, id)
    names = [model.name for model in session.host.models]
    if not names:
        raise UsageError("a conversation needs a model, and none is configured")
    current = session.chat.model if session.chat is not None else None
    model = found.summary.model if found.summary.model in names else current
    session.chat = session.new_chat(model, messages=found.messages, owners=found.owners)
    session.conversation, session.saved_messages = found.summary.id, len(found.messages)
    session.attached.clear()
    say = session.ui.say
    say(("dim", f"  Resumed: {one_line(found.summary.title)} ({counted(found.summary.count, 'message')})."))
    if model != found.summary.model:
        say(("warn", f"  The model {one_line(found.summary.model)} is not configured; {session.chat.model} answers."))
    say(("dim", "  What you approved for its session is asked again."))
    for role, text in _last_texts(found.messages):
        head = "you>" if role == "user" else f"{session.chat.model}>"
        say(("strong", f"  {one_line(head)}"))
        say(("dim", wrapped(text, session.ui.width, "    ")))


async def export(session: ChatSession, words: list[str]) -> None:
    """Write the conversation to a file: JSON if its name ends so, else Markdown."""
    from dovetail.cli.chat.conversation_export import as_json, as_markdown
    from dovetail.host.chat.saved_conversations import title_of

    chat = session.chat
    if chat is None or not chat.messages:
        raise UsageError("there is no conversation to export yet")
    if len(words) > 1:
        raise UsageError("/export takes one file; quote a name with spaces")
    name = words[0] if words else f"conversation-{session.conversation}.md"
    if Path(name).suffix.lower() == ".json":
        content = as_json(chat.messages, chat.model)
    else:
        content = as_markdown(chat.messages, chat.model, title_of(chat.messages)).encode()
    path = write_new_file(name, content)
    session.ui.say(f"  {counted(len(chat.messages), 'message')} are in {path}.")


async def save_conversation(session: ChatSession) -> None:
    """Save the conversation, unless the user does not want that; a failure is reported once."""
    from dovetail.userdata.private_file import FileUnusable

    chat = session.chat
    if not session.saving or chat is None or len(chat.messages) in (0, session.saved_messages):
        return
    saved, id = session.saved_conversations(), session.conversation
    messages, model, owners, cover = list(chat.messages), chat.model, dict(chat.owners), session.host.audit.cover
    try:
        await run_in_thread(saved.save, id, messages, model, owners, cover)
        session.saved_messages = len(messages)
    except (FileUnusable, OSError) as problem:
        session.saving = False
        session.ui.say(("warn", f"  This conversation cannot be saved: {one_line(str(problem))}"))


def _row(summary: SavedSummary) -> Row:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(summary.updated))
    title = shortened(summary.title, 44) or "(no words)"
    return Row(f"{when}  {title}", note=f"{one_line(summary.model)}, {counted(summary.count, 'message')}")


def _last_texts(messages: list[SamplingMessage]) -> list[tuple[str, str]]:
    from dovetail.host.chat.provenance import unframed
    from dovetail.protocol.sampling import blocks_of
    from dovetail.types.content import Text

    texts = [
        (message.role, shortened(unframed(block.text), _ROOM))
        for message in messages
        for block in blocks_of(message.content)[-1:]
        if isinstance(block, Text) and block.text.strip()
    ]
    return texts[-_SHOWN:]
