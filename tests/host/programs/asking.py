"""A server that asks back: `asking.py [revision]`."""

import sys

import msgspec

from dovetail import Context, Server

server = Server("asking", version="1.0", revisions=sys.argv[1:] or None)


class Name(msgspec.Struct):
    """A form."""

    name: str


@server.tool
async def think(ctx: Context) -> str:
    """Ask a model."""
    reply = await ctx.sample("Say something", max_tokens=20, system="Be brief.", key="think")
    return f"{reply.model}: {reply.text}"


@server.tool
async def greet(ctx: Context) -> str:
    """Ask the person."""
    answer = await ctx.elicit("Who are you?", Name, key="name")
    return answer.data.name if answer.accepted else answer.action


@server.tool(task="required")
async def greet_later(ctx: Context) -> str:
    """Ask the person, in a task."""
    await ctx.status("waiting for a name")
    answer = await ctx.elicit("Who are you?", Name, key="name")
    return answer.data.name if answer.accepted else answer.action


@server.tool
async def visit(ctx: Context) -> str:
    """Send the person to a page."""
    answer = await ctx.elicit_url("Sign in", "https://example.com/sign-in?a=1")
    return answer.action


@server.tool
async def folders(ctx: Context) -> list[str]:
    """Ask for the folders."""
    return [root.uri for root in await ctx.roots()]


if __name__ == "__main__":
    server.run()
