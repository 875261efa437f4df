"""The status line below the prompt: model, servers, size of the conversation, cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.cli.chat.views.rendering import counted, shortened
from dovetail.cli.chat.views.tasks import running_tasks
from dovetail.cli.output import cut, width_of

from .usage import price, short_count

if TYPE_CHECKING:
    from .session import ChatSession

_HELP = "/help"
_MODEL = 30


def status_text(session: ChatSession, width: int) -> str:
    """The status line; on a narrow terminal its end is cut off."""
    chat, usage = session.chat, session.usage
    parts = [shortened(chat.model, _MODEL) if chat is not None else "no model", servers_text(session)]
    if running := running_tasks(session):
        asking = sum(task.status == "input_required" for task in running)
        parts.append(counted(len(running), "task") + (f", {asking} asking" if asking else ""))
    if chat is not None and (context := usage.context(chat)):
        parts.append(context_text(context, chat.context_window))
    if usage.cost is not None:
        parts.append(price(usage.cost))
    left = cut("  " + " · ".join(parts), width - 1)
    room = width - 1 - width_of(left) - width_of(_HELP)
    return f"{left}{' ' * room}{_HELP}" if room >= 2 else left


def servers_text(session: ChatSession) -> str:
    """The number of servers that are ready, of those that are enabled."""
    states = [status.state for status in session.host.servers.values() if status.state != "disabled"]
    ready = sum(state == "ready" for state in states)
    failed = sum(state in ("failed", "waiting") for state in states)
    return f"{ready}/{len(states)} servers ready" + (f", {failed} failed" if failed else "")


def context_text(tokens: int, window: int | None) -> str:
    """The size of the conversation, and its share of what the model can read."""
    if not window:
        return f"{short_count(tokens)} tokens"
    return f"{short_count(tokens)} of {short_count(window)} tokens ({tokens / window:.0%})"
