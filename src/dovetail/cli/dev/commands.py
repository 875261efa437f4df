"""Commands at the prompt of `dovetail dev`."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dovetail.cli.chat import tool_form
from dovetail.cli.chat.ui.contract import ChatUI, Interrupted, Row, Suggestion
from dovetail.cli.chat.views.rendering import one_line, rule
from dovetail.cli.definitions.tool_lines import full_lines
from dovetail.cli.options.values import read_arguments, read_pairs
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.terminal import InputClosed
from dovetail.cli.traffic.views import exchange_details, exchange_line, exchange_tone
from dovetail.runtime.thread_pool import run_in_thread
from dovetail.schema.type_text import signature

from .results import show_blocks, show_messages, show_result
from .server import DevServer

if TYPE_CHECKING:
    from dovetail.types.prompts import Prompt
    from dovetail.types.tools import Tool

_LATEST = 20


@dataclass
class DevSession:
    """The state of `dovetail dev`."""

    ui: ChatUI
    server: DevServer
    shows_traffic: bool = True
    finished: bool = False


class DevCommand(NamedTuple):
    """A command at the prompt."""

    run: Callable[[DevSession, list[str]], Awaitable[None]]
    usage: str
    about: str


async def tools(session: DevSession, words: list[str]) -> None:
    """List the tools, and call one by form."""
    listed = session.server.tools()
    rows = [Row(signature(tool.name, tool.input_schema, tool.output_schema), note=_about(tool)) for tool in listed]
    choice = await session.ui.pick("Tools", rows, {"enter": "call", "d": "details"})
    if choice is None:
        return
    tool = listed[choice.row]
    if choice.key == "d":
        for line in full_lines(tool, session.ui.width):
            session.ui.say(*line)
    else:
        await _call_by_form(session, tool)


async def call(session: DevSession, words: list[str]) -> None:
    """Call a tool with `key=value` words; by form without any, if it takes arguments."""
    if not words:
        await tools(session, words)
        return
    tool = _find_tool(session.server.tools(), words[0])
    if not words[1:] and tool.input_schema.get("properties"):
        await _call_by_form(session, tool)
        return
    arguments = read_arguments(words[1:], tool.input_schema)
    if problems := await run_in_thread(tool_form.problems_of, tool.input_schema, arguments):
        raise UsageError(f"{tool.name} does not take this: {'; '.join(problems)}")
    await _call(session, tool, arguments)


async def resources(session: DevSession, words: list[str]) -> None:
    """List the resources and templates, and read one."""
    client = session.server.client
    if words:
        show_blocks(session.ui, (await client.read(words[0])).contents)
        return
    listed, templates = session.server.resources(), session.server.templates()
    rows = [
        *[Row(each.uri, note=each.description or each.title or "") for each in listed],
        *[Row(each.uri_template, mark="{}", note=each.description or each.title or "") for each in templates],
    ]
    choice = await session.ui.pick("Resources", rows, {"enter": "read"})
    if choice is None:
        return
    if choice.row < len(listed):
        uri = listed[choice.row].uri
    else:
        uri = await _expanded(session, templates[choice.row - len(listed)].uri_template)
    session.ui.say(("strong", rule(uri, session.ui.width)))
    show_blocks(session.ui, (await client.read(uri)).contents)


async def prompts(session: DevSession, words: list[str]) -> None:
    """List the prompts, and get one with its arguments filled in."""
    client = session.server.client
    listed = session.server.prompts()
    if words:
        prompt = next((each for each in listed if each.name == words[0]), None)
        if prompt is None:
            raise UsageError(
                f"there is no prompt {words[0]}; there are {', '.join(each.name for each in listed) or 'none'}"
            )
        given: dict[str, str] | None = read_pairs(words[1:]) if words[1:] else None
    else:
        rows = [Row(_prompt_signature(each), note=each.description or each.title or "") for each in listed]
        choice = await session.ui.pick("Prompts", rows, {"enter": "get"})
        if choice is None:
            return
        prompt, given = listed[choice.row], None
    result = await client.prompt(prompt.name, await _prompt_arguments(session, prompt) if given is None else given)
    show_messages(session.ui, result.messages)


async def traffic(session: DevSession, words: list[str]) -> None:
    """Show one exchange in full, the latest ones, or turn the live display on or off."""
    match words:
        case ["on" | "off" as state]:
            session.shows_traffic = state == "on"
            session.ui.say(("dim", f"  Live traffic is {state}."))
        case [number] if number.isdecimal():
            exchange = session.server.traffic.find(int(number))
            if exchange is None:
                raise UsageError(f"there is no exchange {number}")
            for tone, text in exchange_details(exchange):
                session.ui.say((tone, text))
        case []:
            for exchange in session.server.traffic.all()[-_LATEST:]:
                session.ui.say((exchange_tone(exchange), exchange_line(exchange, session.ui.width)))
        case _:
            raise UsageError("/traffic takes the number of an exchange, on or off")


async def show_help(session: DevSession, words: list[str]) -> None:
    """List the commands."""
    for command in DEV_COMMANDS.values():
        session.ui.say(("name", f"  {command.usage:<26}"), command.about)
    session.ui.say(("name", f"  {'TOOL [key=value…]':<26}"), "call a tool by its name; by form without arguments")
    session.ui.say("  Enter lists the tools. Ctrl-C cancels a call; at an empty line, twice, it quits.")


async def leave(session: DevSession, words: list[str]) -> None:
    """Quit."""
    session.finished = True


DEV_COMMANDS: dict[str, DevCommand] = {
    "/tools": DevCommand(tools, "/tools", "list the tools, and call one by form"),
    "/call": DevCommand(call, "/call TOOL [key=value…]", "call a tool"),
    "/resources": DevCommand(resources, "/resources [URI]", "list the resources, or read one"),
    "/prompts": DevCommand(prompts, "/prompts [NAME key=value…]", "list the prompts, or get one"),
    "/traffic": DevCommand(traffic, "/traffic [N | on | off]", "the latest messages, one exchange in full, or live"),
    "/help": DevCommand(show_help, "/help", "list the commands"),
    "/quit": DevCommand(leave, "/quit", "quit; also /exit"),
}


async def run_line(session: DevSession, words: list[str]) -> None:
    """Run the command in a line; the name of a tool calls it."""
    if not words:
        await tools(session, [])
        return
    word = {"/exit": "/quit", "/read": "/resources"}.get(words[0], words[0])
    if not word.startswith("/"):
        await call(session, words)
    elif word in DEV_COMMANDS:
        await DEV_COMMANDS[word].run(session, words[1:])
    else:
        near = difflib.get_close_matches(word, DEV_COMMANDS, 1)
        raise UsageError(f"there is no command {word}; {f'did you mean {near[0]}?' if near else '/help lists them'}")


async def suggest(session: DevSession, typed: str) -> Sequence[Suggestion]:
    """Completions of a line: commands, tools and their arguments."""
    word, space, rest = typed.partition(" ")
    offered = session.server.interface.get("tools", {})
    if not space:
        known = {name: command.about for name, command in DEV_COMMANDS.items()}
        known |= {name: str(tool.get("description", "")) for name, tool in offered.items()}
        return [
            Suggestion(name, len(typed), about) for name, about in known.items() if typed and name.startswith(typed)
        ]
    if word == "/call":
        word, space, rest = rest.partition(" ")
        if not space:
            return [Suggestion(name, len(word)) for name in offered if name.startswith(word)]
    last = rest.rpartition(" ")[2]
    fields: dict[str, Any] = offered.get(word, {}).get("inputSchema", {}).get("properties", {})
    return [Suggestion(f"{name}=", len(last)) for name in fields if name.startswith(last) and f"{name}=" not in rest]


async def _call_by_form(session: DevSession, tool: Tool) -> None:
    session.ui.say(("strong", rule(tool.name, session.ui.width)))
    arguments: dict[str, Any] | None = {}
    if tool.input_schema.get("properties"):
        try:
            arguments = await tool_form.fill(session.ui, tool.input_schema)
        except (InputClosed, Interrupted):
            arguments = None
    if arguments is not None:
        await _call(session, tool, arguments)


async def _call(session: DevSession, tool: Tool, arguments: dict[str, Any]) -> None:
    ui = session.ui

    def progress(done: float, total: float | None, message: str | None) -> None:
        ui.progress(tool.name, done, total, f"{tool.name}: {message or ''}")

    try:
        result = await session.server.client.call(tool.name, arguments, progress=progress, check=False)
    finally:
        ui.end_progress()
    show_result(ui, result)


async def _expanded(session: DevSession, text: str) -> str:
    from dovetail.uri_template.template import UriTemplate

    template = UriTemplate(text)
    return template.expand({name: await session.ui.prompt(f"  {one_line(name)}: ") for name in template.variables})


async def _prompt_arguments(session: DevSession, prompt: Prompt) -> dict[str, str]:
    values: dict[str, str] = {}
    for argument in prompt.arguments or []:
        label = f"  {one_line(argument.name)}{'' if argument.required else ' (optional)'}: "
        text = await session.ui.prompt(label)
        while argument.required and not text:
            text = await session.ui.prompt(label)
        if text:
            values[argument.name] = text
    return values


def _prompt_signature(prompt: Prompt) -> str:
    names = [f"{each.name}{'' if each.required else '?'}" for each in prompt.arguments or []]
    return f"{prompt.name}({', '.join(names)})"


def _find_tool(listed: Sequence[Tool], name: str) -> Tool:
    for tool in listed:
        if tool.name == name:
            return tool
    near = difflib.get_close_matches(name, [tool.name for tool in listed], 1)
    raise UsageError(f"there is no tool {name}; {f'did you mean {near[0]}?' if near else '/tools lists them'}")


def _about(tool: Tool) -> str:
    return (tool.description or tool.title or "").strip().split("\n")[0]
