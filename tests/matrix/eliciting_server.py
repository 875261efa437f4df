"""A server that asks for everything there is to ask for; as a script, over stdio."""

import asyncio
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dovetail import Context, Image, Server, Text
from dovetail.protocol.errors import MissingCapability, Refused, URLElicitationRequired
from dovetail.types.client_features import InputRequired
from dovetail.types.content import ToolUse
from dovetail.types.tools import Tool

if TYPE_CHECKING:
    from tests.support.replica_group import ReplicaGroup


class Colour(enum.Enum):
    RED = "#f00"
    GREEN = "#0f0"


@dataclass
class Order:
    """A form with every kind of field that all revisions with forms have."""

    name: str
    amount: int
    size: Literal["small", "large"]
    colour: Colour
    wrapped: bool = True
    note: str | None = None


@dataclass
class Toppings:
    """A form that the first revision with forms cannot show."""

    chosen: list[Literal["ham", "egg"]]


def build(group: "ReplicaGroup | None" = None) -> Server:
    server = Server("asking")
    log: list[str] = [] if group is None else group.shared("log", list[str])
    signed_in: set[str] = set() if group is None else group.shared("signed in", set[str])

    @server.tool
    async def order(ctx: Context) -> dict[str, Any]:
        answer = await ctx.elicit("What will it be?", Order)
        if not answer.accepted:
            return {"action": answer.action}
        order: Order = answer.data
        return {"amount": order.amount + 1, "colour": order.colour.name, "wrapped": order.wrapped, "note": order.note}

    @server.tool
    async def pizza(ctx: Context) -> list[str]:
        return list[str]((await ctx.elicit("With?", Toppings)).data.chosen)

    @server.tool
    async def chain(ctx: Context) -> list[Any]:
        """Two questions one after the other, with steps around them."""
        await ctx.progress(1, 3)
        first = await ctx.elicit("First?", int)
        doubled = await ctx.step("double", lambda: log.append("double") or first.data * 2)
        await ctx.progress(2, 3)
        second = await ctx.elicit(f"{doubled}?", int)
        await ctx.progress(3, 3)
        return [first.data, doubled, second.data, log.count("double")]

    @server.tool
    async def together(ctx: Context) -> list[Any]:
        answer, reply, roots = await asyncio.gather(ctx.elicit("Yes?", bool), _sample(ctx), ctx.roots())
        return [answer.data, reply, len(roots)]

    @server.tool
    async def sample(ctx: Context) -> str:
        return await _sample(ctx)

    async def _sample(ctx: Context) -> str:
        reply = await ctx.sample(["Describe", Image(b"\x89PNG", "image/png")], max_tokens=9, system="Be brief")
        return f"{reply.text} by {reply.model}"

    @server.tool
    async def sample_tools(ctx: Context) -> str:
        tool = Tool("weather", {"type": "object"})
        reply = await ctx.sample("Weather?", max_tokens=9, tools=[tool], tool_choice="auto", models=["small"])
        blocks = reply.content if isinstance(reply.content, list) else [reply.content]
        return " ".join(block.name if isinstance(block, ToolUse) else "" for block in blocks)

    @server.tool
    async def sample_kindly(ctx: Context) -> str:
        try:
            return await _sample(ctx)
        except Refused as problem:
            return f"refused: {problem}"

    @server.tool
    async def roots(ctx: Context) -> list[str]:
        return [root.uri for root in await ctx.roots()]

    @server.tool
    async def careful(ctx: Context) -> str:
        """Does without what its client cannot do."""
        try:
            return f"{(await ctx.elicit('Sure?', bool)).data}"
        except MissingCapability as problem:
            return f"without: {problem}"

    @server.tool
    async def by_hand(ctx: Context) -> str | InputRequired:
        if "sure" not in ctx.answers:
            return InputRequired({"sure": ctx.ask.elicit("Sure?", bool)}, state="my state")
        return f"{ctx.answers['sure'].content} {ctx.state}"

    @server.tool
    async def page(ctx: Context) -> str:
        answer = await ctx.elicit_url("Pay here", "https://pay.example/1")
        ctx.elicitation_complete(answer.id)
        return answer.action

    @server.tool
    async def behind_page(user: str) -> str:
        if user in signed_in:
            return f"hello {user}"
        signed_in.add(user)
        raise URLElicitationRequired("Sign in", "https://in.example", id=user)

    @server.tool
    def been_there(user: str) -> None:
        server.notify_elicitation_complete(user)

    @server.prompt
    async def greet(ctx: Context) -> Any:
        return Text(f"Dear {(await ctx.elicit('Who?', str)).data}")

    @server.resource("note://{topic}")
    async def note(topic: str, ctx: Context) -> str:
        return f"{topic}: {(await ctx.elicit('Say?', str)).data}"

    return server


if __name__ == "__main__":
    build().run()
