"""Mistakes that a type checker finds; each `mistake` names the line. It is not run."""

from __future__ import annotations

from dovetail import Context, NotFound, Server

server = Server("mistaken")


def quote(city: str) -> float:
    return 1.5


@server.tool
async def book(city: str, ctx: Context[int]) -> str:
    await ctx.step("quote", quote, 5)  # mistake
    answer = await ctx.elicit("How many?", int)
    answer.data.upper()  # mistake
    ctx.lifespan.upper()  # mistake
    raise NotFound("gone", "there", "twice", "too many")  # mistake


server.run("httpx")  # mistake
server.run("http", prot=8000)  # mistake
server.run("stdio", port=8000)  # mistake
server.run("http", port=8000)
server.run("tcp", port=8000)
server.run("unix", path="/tmp/socket")
server.run()
