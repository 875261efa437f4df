"""What a person can type after a slash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from dovetail.cli.chat.ui.contract import Row
from dovetail.cli.chat.views.accounts import accounts
from dovetail.cli.chat.views.log import log, traffic
from dovetail.cli.chat.views.servers import servers
from dovetail.cli.chat.views.tools import call, tools
from dovetail.cli.parser import UsageError

from .session import Session
from .views import resources


class Command(NamedTuple):
    """One command."""

    run: Callable[[Session, list[str]], Awaitable[None]]
    usage: str
    about: str


async def show_help(session: Session, words: list[str]) -> None:
    """All commands."""
    say = session.surface.say
    for command in COMMANDS.values():
        say(("name", f"  {command.usage:<32}"), command.about)
    say(("name", f"  {'/mcp.SERVER.PROMPT key=value':<32}"), "fill in a server's prompt, and send it")
    say("  Everything else is said to the model. Ctrl-C stops what is under way;")
    say("  at an empty line, twice leaves.")


async def choose_model(session: Session, words: list[str]) -> None:
    """Show the models, or take another one."""
    from dovetail.cli.options.model_choice import how_to_add

    models = session.host.models
    if session.chat is None or not models:
        session.surface.say("There is no model. " + how_to_add())
        return
    if words:
        session.chat.use(words[0])
    else:
        rows = [Row(model.name, mark="*" if model.name == session.chat.model else " ") for model in models]
        choice = await session.surface.pick("Models", rows, {"enter": "take it"})
        if choice is not None:
            session.chat.use(models[choice.row].name)
    session.surface.say(f"  {session.chat.model} answers.")


async def leave(session: Session, words: list[str]) -> None:
    """End the program."""
    session.over = True


async def start_anew(session: Session, words: list[str]) -> None:
    """Forget the conversation."""
    if session.chat is not None:
        session.chat = session.talk(session.chat.model)
    session.attached.clear()
    session.surface.say(("dim", "  A new conversation."))


COMMANDS: dict[str, Command] = {
    "/tools": Command(tools, "/tools", "see, switch, run and approve tools"),
    "/call": Command(call, "/call TOOL [key=value…]", "run a tool by hand, or with a form"),
    "/resources": Command(resources.resources, "/resources", "browse resources and templates"),
    "/links": Command(resources.links, "/links", "resources that came by, with numbers"),
    "/open": Command(resources.read, "/open NUMBER | SERVER URI", "read a resource"),
    "/attach": Command(resources.attach, "/attach NUMBER | SERVER URI", "send a resource along next time"),
    "/save": Command(resources.save, "/save NUMBER | SERVER URI FILE", "write a resource to a file"),
    "/watch": Command(resources.watch, "/watch NUMBER | SERVER URI", "hear when a resource changes, or not"),
    "/servers": Command(servers, "/servers", "see, restart, switch and trust servers"),
    "/accounts": Command(accounts, "/accounts", "see logins, and end them"),
    "/log": Command(log, "/log [SERVER] [WORD…]", "what servers wrote"),
    "/traffic": Command(traffic, "/traffic [SERVER] [WORD…]", "JSON-RPC that went by; also: follow…, save FILE…"),
    "/model": Command(choose_model, "/model [NAME]", "see the models, or take another one"),
    "/new": Command(start_anew, "/new", "begin a new conversation"),
    "/help": Command(show_help, "/help", "this list"),
    "/quit": Command(leave, "/quit", "leave"),
}


def find(word: str) -> Command:
    """The command that a word names; one that is near is proposed."""
    import difflib

    if word in COMMANDS:
        return COMMANDS[word]
    near = difflib.get_close_matches(word, list(COMMANDS), 1)
    raise UsageError(f"there is no command {word}; {f'did you mean {near[0]}?' if near else '/help shows them all'}")
