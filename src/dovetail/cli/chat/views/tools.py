"""`/tools` and `/call`: list, enable, approve and call tools."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from dovetail.cli.chat import tool_form
from dovetail.cli.chat.activity_line import ActivityLine
from dovetail.cli.chat.dialogs import difference
from dovetail.cli.chat.session import ChatSession
from dovetail.cli.chat.ui.contract import Interrupted, Row, ask_back_to_list
from dovetail.cli.parser import UsageError
from dovetail.cli.terminal.terminal import InputClosed
from dovetail.runtime.thread_pool import run_in_thread

from .rendering import addressed_to_user, as_json, exact, indented, one_line, rule
from .results import show_result

if TYPE_CHECKING:
    from dovetail.host.catalogue import HostTool
    from dovetail.host.consent.definition_review import Withheld

_KEYS = {"space": "on/off", "enter": "details", "r": "run", "a": "approve"}


class _Item(NamedTuple):
    server: str
    name: str
    tool: HostTool | None = None
    on: bool = False
    withheld: Withheld | None = None


async def tools(session: ChatSession, words: list[str]) -> None:
    """List the tools and run actions on them."""
    at = 0
    while True:
        items = await _items(session)
        choice = await session.ui.pick("Tools", [_row(item) for item in items], _KEYS, at)
        if choice is None:
            return
        at, item = choice.row, items[choice.row]
        if choice.key == "space":
            await _switch(session, item)
        elif choice.key == "a":
            await _approve(session, item)
        else:
            await _run(session, item) if choice.key == "r" else _show_details(session, item)
            if not await ask_back_to_list(session.ui):
                return


async def call(session: ChatSession, words: list[str]) -> None:
    """Call a tool by name, with `key=value` words or a form."""
    from dovetail.cli.options.values import read_arguments

    in_background = words[1:][-1:] == ["&"]
    words = words[:-1] if in_background else words
    if not words:
        raise UsageError("name a tool: /call tool key=value")
    host = session.host
    tool = find_tool(await host.tools(), words[0], host.switched_off(), host.withheld())
    schema = tool.tool.input_schema
    takes_nothing = not schema.get("properties") and not schema.get("required")
    arguments = read_arguments(words[1:], schema) if words[1:] or (in_background and takes_nothing) else None
    if arguments is not None and (problems := await run_in_thread(tool_form.problems_of, schema, arguments)):
        raise UsageError(f"{tool.name} does not take this: {'; '.join(problems)}")
    if in_background:
        await _run_in_background(session, tool, arguments)
    else:
        await run_tool(session, tool, arguments)


def find_tool(
    tools: Sequence[HostTool],
    word: str,
    switched_off: Sequence[HostTool] = (),
    withheld: Sequence[Withheld] = (),
) -> HostTool:
    """Find a tool by its name in the host, or by its own name if that is unique; the error says why it is not there."""
    matches = _named(tools, word)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"there are several: {', '.join(tool.name for tool in matches)}")
    if off := _named(switched_off, word):
        raise UsageError(f"the tool {off[0].name} is switched off; /tools switches it on (Space)")
    if any(held.kind == "tool" and word in (held.name, f"{held.server}__{held.name}") for held in withheld):
        raise UsageError(f"the tool {word} is withheld until you approve it; /tools shows why (a approves)")
    import difflib

    names = {name: tool.name for tool in tools for name in (tool.name, tool.tool.name)}
    near = difflib.get_close_matches(word, names, 1)
    hint = f"did you mean {names[near[0]]}?" if near else "/tools lists them"
    raise UsageError(f"there is no tool {word}; {hint}")


def _named(tools: Sequence[HostTool], word: str) -> list[HostTool]:
    return [tool for tool in tools if tool.name == word] or [tool for tool in tools if tool.tool.name == word]


async def _run_in_background(session: ChatSession, tool: HostTool, arguments: dict[str, object] | None) -> None:
    """Call a tool while the user goes on; only a form is filled in first."""
    ready = arguments if arguments is not None else await _filled_in(session, tool)
    if ready is None:
        return
    confirmed = arguments is None
    task = asyncio.ensure_future(_call_and_show(session, tool, ready, confirmed=confirmed, in_background=True))
    session.background.add(task)
    task.add_done_callback(session.background.discard)
    session.ui.say(("dim", f"  {tool.name} runs in the background; /tasks lists it."))


async def run_tool(session: ChatSession, tool: HostTool, arguments: dict[str, object] | None = None) -> None:
    """Call a tool on behalf of the user; the policy applies.

    Who has filled in and confirmed the form is not asked again; a rule that denies the call still does.
    """
    ready = arguments if arguments is not None else await _filled_in(session, tool)
    if ready is not None:
        await _call_and_show(session, tool, ready, confirmed=arguments is None)


async def _filled_in(session: ChatSession, tool: HostTool) -> dict[str, object] | None:
    try:
        return await tool_form.fill(session.ui, tool.tool.input_schema)
    except (InputClosed, Interrupted):
        return None


async def _call_and_show(
    session: ChatSession, tool: HostTool, arguments: dict[str, object], confirmed: bool, in_background: bool = False
) -> None:
    from dovetail.host.error_results import RefusedResult
    from dovetail.host.tasks.host_task import BackgroundResult

    ui = session.ui

    def progress(done: float, total: float | None, message: str | None) -> None:
        ui.progress(tool.name, done, total, f"{tool.tool.name}: {message or ''}")

    # A call in the background has its line among the tasks.
    shown = contextlib.nullcontext() if in_background else ActivityLine(ui, one_line(tool.tool.name)).shown()
    try:
        async with shown:
            result = await session.host.call(
                tool.name,
                arguments,
                progress=progress,
                check=False,
                confirmed=confirmed,
                background_after=0.0 if in_background else None,
            )
    finally:
        ui.end_progress(tool.name)
    if isinstance(result, RefusedResult):
        # Only the first line is for users.
        ui.say(("warn", f"  x {one_line(addressed_to_user(result.text.partition(chr(10))[0]))}"))
    elif isinstance(result, BackgroundResult):
        # A task, whose end the status lines tell of; it goes on even if the chat ends.
        ui.notice(("dim", f"  {tool.name} is task {result.task.number}."))
    else:
        show_result(session, tool.server, result)


async def _items(session: ChatSession) -> list[_Item]:
    host = session.host
    items = [_Item(tool.server, tool.tool.name, tool, on=True) for tool in await host.tools()]
    items += [_Item(tool.server, tool.tool.name, tool) for tool in host.switched_off()]
    items += [_Item(held.server, held.name or held.kind, withheld=held) for held in host.withheld()]
    return sorted(items, key=lambda item: (item.server, item.name))


def _row(item: _Item) -> Row:
    if item.withheld is not None:
        kind = "" if item.withheld.kind == "tool" else f"{item.withheld.kind}, "
        return Row(item.name, item.server, "[!]", f"{kind}withheld: {_reason(item.withheld)}")
    assert item.tool is not None
    about = (item.tool.tool.description or item.tool.tool.title or "").strip().split("\n")[0]
    return Row(item.name, item.server, "[x]" if item.on else "[ ]", about)


def _reason(held: Withheld) -> str:
    return "; ".join(held.concerns) or "it differs from what was approved"


async def _switch(session: ChatSession, item: _Item) -> None:
    if item.tool is None:
        session.ui.say(("warn", f"  {one_line(item.name)} is withheld; approve it first (a)."))
        return
    await session.host.set_tool(item.server, item.name, not item.on)


async def _run(session: ChatSession, item: _Item) -> None:
    if item.tool is None or not item.on:
        session.ui.say(("warn", f"  {one_line(item.name)} cannot be run: it is {'off' if item.tool else 'withheld'}."))
        return
    session.ui.say(("strong", rule(f"{item.server}: {item.name}", session.ui.width)))
    await run_tool(session, item.tool)


async def _approve(session: ChatSession, item: _Item) -> None:
    if item.withheld is None:
        session.ui.say(f"  {one_line(item.name)} is already approved.")
        return
    _show_details(session, item)
    if await session.ui.key({"y": "accept", "n": "cancel"}) == "y":
        held = item.withheld
        await session.host.approve(item.server, held.kind, held.name, held.digest)


def _show_details(session: ChatSession, item: _Item) -> None:
    """Show the full definition."""
    say = session.ui.say
    say(("strong", rule(f"{item.server}: {item.name}", session.ui.width)))
    if item.withheld is not None:
        for concern in item.withheld.concerns:
            say(("bad", f"  ! {one_line(concern)}"))
        for line in difference(item.withheld.difference):
            say(line)
        return
    assert item.tool is not None
    tool = item.tool.tool
    say(f"  the model calls it {item.tool.name}")
    if tool.title:
        say(f"  title: {one_line(tool.title)}")
    say(indented(exact(tool.description or "It has no description.")))
    if tool.annotations is not None:
        say(("strong", "  annotations:"))
        say(indented(as_json(tool.annotations)))
    say(("strong", "  input schema:"))
    say(indented(as_json(tool.input_schema)))
