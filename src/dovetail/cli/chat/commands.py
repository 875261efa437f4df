"""Slash commands of the chat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from dovetail.cli.chat.ui.contract import Row
from dovetail.cli.chat.views.accounts import accounts
from dovetail.cli.chat.views.conversations import export, resume
from dovetail.cli.chat.views.log import log
from dovetail.cli.chat.views.policy import audit, policy
from dovetail.cli.chat.views.servers import servers
from dovetail.cli.chat.views.tasks import tasks
from dovetail.cli.chat.views.tools import call, tools
from dovetail.cli.chat.views.traffic import traffic
from dovetail.host.chat.saved_conversations import new_id

from .session import ChatSession
from .turn import send_to_model
from .views import prompts, resources


class ChatCommand(NamedTuple):
    """A slash command."""

    run: Callable[[ChatSession, list[str]], Awaitable[None]]
    usage: str
    about: str


async def show_help(session: ChatSession, words: list[str]) -> None:
    """List all commands."""
    say = session.ui.say
    for _, command in _COMMANDS:
        say(("name", f"  {command.usage:<36}"), command.about)
    say(("name", f"  {'/mcp.SERVER.PROMPT key=value':<36}"), "fill in a prompt of a server and send it")
    say("  Everything else is sent to the model; @server:uri in it attaches a resource.")
    say("  To begin a message with a slash, type a space before it, or // for the slash.")
    say("  Ctrl-C cancels the current command; pressed twice at an empty line, it quits.")


async def choose_model(session: ChatSession, words: list[str]) -> None:
    """List the models, or switch to another one."""
    from dovetail.cli.options.model_choice import model_help

    models = session.host.models
    if session.chat is None or not models:
        session.ui.say("No model is configured. " + model_help())
        return
    if words:
        session.chat.use(words[0])
    else:
        rows = [Row(model.name, mark="*" if model.name == session.chat.model else " ") for model in models]
        choice = await session.ui.pick("Models", rows, {"enter": "use it"})
        if choice is not None:
            session.chat.use(models[choice.row].name)
    session.ui.say(f"  The model {session.chat.model} answers.")


async def choose_prompt(session: ChatSession, words: list[str]) -> None:
    """List the prompts of all servers, and fill in and send the chosen one."""
    filled = await prompts.choose(session)
    if filled is not None:
        await send_to_model(session, filled.messages, filled.server)


async def leave(session: ChatSession, words: list[str]) -> None:
    """Quit."""
    session.finished = True


async def start_new_chat(session: ChatSession, words: list[str]) -> None:
    """Start a new conversation."""
    if session.chat is not None:
        session.chat = session.new_chat(session.chat.model)
    session.attached.clear()
    session.conversation, session.saved_messages = new_id(), 0
    saved = " /resume has the one before." if session.saving else ""
    session.ui.say(("dim", f"  A new conversation.{saved}"))


_COMMANDS = (
    (("/tools",), ChatCommand(tools, "/tools", "list, enable, call and approve tools")),
    (("/call",), ChatCommand(call, "/call TOOL [key=value…] [&]", "call a tool; without arguments, by a form")),
    (("/prompts",), ChatCommand(choose_prompt, "/prompts", "list prompts; fill in and send one")),
    (("/resources",), ChatCommand(resources.resources, "/resources", "browse resources and templates")),
    (("/links",), ChatCommand(resources.links, "/links", "list the numbered resources")),
    (("/open",), ChatCommand(resources.read, "/open NUMBER | @SERVER:URI", "read a resource")),
    (("/attach",), ChatCommand(resources.attach, "/attach NUMBER | @SERVER:URI", "attach it to the next message")),
    (("/save",), ChatCommand(resources.save, "/save NUMBER | @SERVER:URI FILE", "write a resource to a file")),
    (("/watch",), ChatCommand(resources.watch, "/watch NUMBER | @SERVER:URI", "subscribe, or unsubscribe")),
    (("/servers", "/mcp"), ChatCommand(servers, "/servers, /mcp", "list, restart, enable and trust servers")),
    (("/accounts",), ChatCommand(accounts, "/accounts", "list logins, and log out")),
    (("/tasks",), ChatCommand(tasks, "/tasks", "list tasks; wait, answer, cancel")),
    (("/log",), ChatCommand(log, "/log [SERVER] [WORD…]", "logs of servers")),
    (("/traffic",), ChatCommand(traffic, "/traffic [SERVER] [errors] [WORD…]", "requests with their answers")),
    ((), ChatCommand(traffic, "/traffic N | follow | save FILE", "one in full; as they happen; to a file")),
    (("/policy",), ChatCommand(policy, "/policy", "the rules in force, and your answers")),
    (("/audit",), ChatCommand(audit, "/audit [SERVER] [N]", "latest records of the audit log")),
    (("/model",), ChatCommand(choose_model, "/model [NAME]", "list the models, or switch to another")),
    (("/new", "/clear"), ChatCommand(start_new_chat, "/new, /clear", "start a new conversation")),
    (("/resume",), ChatCommand(resume, "/resume [ID | last]", "continue a saved conversation")),
    (("/export",), ChatCommand(export, "/export [FILE]", "write it to a .md or .json file")),
    (("/help",), ChatCommand(show_help, "/help", "this list")),
    (("/quit", "/exit"), ChatCommand(leave, "/quit, /exit", "quit")),
)
"""Commands with their names; one without a name is another line of help for the one before it."""

CHAT_COMMANDS: dict[str, ChatCommand] = {name: command for names, command in _COMMANDS for name in names}
