"""A server with tasks of every kind, to be driven over any transport; what a tool waits for is an event by name.

`build()` makes one for use in memory; `python tests/matrix/tasks_server.py` serves it over stdio.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from dovetail import Context, ProtocolError, Server, ToolError

if TYPE_CHECKING:
    from tests.support.replica_group import ReplicaGroup

STYLE = {"type": "object", "properties": {"style": {"type": "string"}}, "required": ["style"]}
SIZE = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


class Events:
    """Events by name, which the tools of all replicas share."""

    def __init__(self) -> None:
        self._events: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def mark(self, name: str) -> None:
        self._events[name].set()

    async def wait(self, name: str) -> None:
        await self._events[name].wait()


def build(group: ReplicaGroup | None = None, **options: Any) -> Server:
    """Make a server of its own, or one more replica of a group."""
    events = Events() if group is None else group.shared("events", Events)
    server = Server("tasks", **options)
    add_plain_tools(server, events)
    add_tasks(server, events)
    add_failing_tasks(server)
    add_asking_tasks(server, events)
    return server


def add_plain_tools(server: Server, events: Events) -> None:
    """Tools that are no tasks, among them those that drive the others."""

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def let(event: str) -> str:
        """Make something happen."""
        events.mark(event)
        return event

    @server.tool
    async def happened(event: str) -> str:
        """Wait until something has happened."""
        await events.wait(event)
        return event


def add_tasks(server: Server, events: Events) -> None:
    """Tools that may be tasks, must be, or become tasks when they take long."""

    async def hold(key: str, ctx: Context) -> dict[str, str]:
        """Run until `release KEY` happens; its beginning, and its end by cancellation, are events too."""
        await ctx.status(f"holding {key}")
        events.mark(f"started {key}")
        try:
            await events.wait(f"release {key}")
        except asyncio.CancelledError:
            events.mark(f"stopped {key}")
            raise
        return {"held": key}

    server.tool(hold, task="optional")
    server.tool(hold, name="hold_required", task="required")
    server.tool(hold, name="hold_late", task=0.05)
    server.tool(hold, name="hold_briefly", task="optional", ttl=60)

    @server.tool(task=30)
    async def quick(text: str) -> str:
        """Return before it would become a task."""
        return text

    @server.tool(task="optional")
    def multiply(a: int, b: int) -> int:
        """Multiply two numbers, in a plain function."""
        return a * b

    @server.tool(task="optional")
    async def count(steps: int, ctx: Context) -> int:
        """Report each step."""
        for step in range(1, steps + 1):
            await ctx.progress(step, steps, f"step {step} of {steps}")
            await ctx.log.info("counted", step=step)
        return steps


def add_failing_tasks(server: Server) -> None:
    """Tasks that end badly, each in its own way."""

    @server.tool(task="optional")
    async def refuse() -> str:
        """Fail with words for the model."""
        raise ToolError("Not on a Sunday.")

    @server.tool(task="optional")
    async def break_down() -> str:
        """End in a JSON-RPC error."""
        raise ProtocolError(4711, "No quota left", {"resets": "tomorrow"})


def add_asking_tasks(server: Server, events: Events) -> None:
    """Tasks that ask the client."""

    @server.tool(task="optional")
    async def paint(ctx: Context) -> str:
        """Ask one thing after the other."""
        style = await ctx.elicit("Which style?", STYLE, key="style")
        if style.action != "accept":
            return f"not painted: {style.action}"
        size = await ctx.elicit("Which size?", SIZE, key="size")
        return f"painted {style.data['style']} at {size.data['size']}"

    @server.tool(task="optional")
    async def survey(ctx: Context) -> str:
        """Ask the user, the model and for the roots at once."""
        style, reply, roots = await asyncio.gather(
            ctx.elicit("Which style?", STYLE, key="style"),
            ctx.sample("Suggest a title", max_tokens=20, key="title"),
            ctx.roots(key="roots"),
        )
        return f"{style.data['style']}, {reply.text}, {len(roots)} roots"

    @server.tool(task="optional")
    async def assemble(key: str, ctx: Context) -> str:
        """Ask two things at once, and do something with the first answer before the second is needed."""

        async def cut() -> str:
            style = await ctx.elicit("Which style?", STYLE, key="style")
            await ctx.step("cut", events.wait, f"release {key}")
            return style.data["style"]

        style, size = await asyncio.gather(cut(), ctx.elicit("Which size?", SIZE, key="size"))
        return f"assembled {style} at {size.data['size']}"

    @server.tool(task=0.5)
    async def order(key: str, ctx: Context) -> str:
        """Ask before it becomes a task, and again when it is one."""
        style = await ctx.elicit("Which style?", STYLE, key="style")
        await events.wait(f"release {key}")
        size = await ctx.elicit("Which size?", SIZE, key="size")
        return f"ordered {style.data['style']} at {size.data['size']}"


if __name__ == "__main__":
    build().run()
