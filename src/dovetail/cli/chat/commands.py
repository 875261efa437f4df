"""Slash commands of the chat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from dovetail.cli.chat.ui.contract import Row
from dovetail.cli.chat.views.accounts import accounts
from dovetail.cli.chat.views.log import log, traffic
from dovetail.cli.chat.views.servers import servers
from dovetail.cli.chat.views.tools import call, tools
from dovetail.cli.parser import UsageError

from .session import ChatSession
from .views import resources


class ChatCommand(NamedTuple):
    """A slash command."""

    run: Callable[[ChatSession, list[str]], Awaitable[None]]
    usage: str
    about: str


async def show_help(session: ChatSession, words: list[str]) -> None:
    """List all commands."""
    say = session.ui.say
    for command in CHAT_COMMANDS.values():
        say(("name", f"  {command.usage:<32}"), command.about)
    say(("name", f"  {'/mcp.SERVER.PROMPT key=value':<32}"), "fill in a prompt of a server and send it")
    say("  Everything else is sent to the model. Ctrl-C cancels the current command;")
    say("  pressed twice at an empty line, it quits.")


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
    session.ui.say(f"  {session.chat.model} answers.")


async def leave(session: ChatSession, words: list[str]) -> None:
    """Quit."""
    session.finished = True


async def start_new_chat(session: ChatSession, words: list[str]) -> None:
    """Start a new conversation."""
    if session.chat is not None:
        session.chat = session.new_chat(session.chat.model)
    session.attached.clear()
    session.ui.say(("dim", "  A new conversation."))


CHAT_COMMANDS: dict[str, ChatCommand] = {
    "/tools": ChatCommand(tools, "/tools", "list, enable, call and approve tools"),
    "/call": ChatCommand(call, "/call TOOL [key=value…]", "call a tool; without arguments, fill in a form"),
    "/resources": ChatCommand(resources.resources, "/resources", "browse resources and templates"),
    "/links": ChatCommand(resources.links, "/links", "list the numbered resources"),
    "/open": ChatCommand(resources.read, "/open NUMBER | SERVER URI", "read a resource"),
    "/attach": ChatCommand(resources.attach, "/attach NUMBER | SERVER URI", "attach a resource to the next message"),
    "/save": ChatCommand(resources.save, "/save NUMBER | SERVER URI FILE", "write a resource to a file"),
    "/watch": ChatCommand(resources.watch, "/watch NUMBER | SERVER URI", "subscribe to a resource, or unsubscribe"),
    "/servers": ChatCommand(servers, "/servers", "list, restart, enable and trust servers"),
    "/accounts": ChatCommand(accounts, "/accounts", "list logins, and log out"),
    "/log": ChatCommand(log, "/log [SERVER] [WORD…]", "logs of servers"),
    "/traffic": ChatCommand(traffic, "/traffic [SERVER] [WORD…]", "JSON-RPC messages; also: follow…, save FILE…"),
    "/model": ChatCommand(choose_model, "/model [NAME]", "list the models, or switch to another"),
    "/new": ChatCommand(start_new_chat, "/new", "start a new conversation"),
    "/help": ChatCommand(show_help, "/help", "this list"),
    "/quit": ChatCommand(leave, "/quit", "quit"),
}


def find(word: str) -> ChatCommand:
    """Find a command by name; the error suggests a similar one."""
    import difflib

    if word in CHAT_COMMANDS:
        return CHAT_COMMANDS[word]
    near = difflib.get_close_matches(word, list(CHAT_COMMANDS), 1)
    raise UsageError(f"there is no command {word}; {f'did you mean {near[0]}?' if near else '/help lists them all'}")
