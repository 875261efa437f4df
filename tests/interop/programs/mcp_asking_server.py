"""A server on the official Python SDK, version 2, that asks: directly on the handshake era, in rounds after it.

Over stdio; with the argument `http` or `sse` over HTTP, and then it prints its address first.
"""

# pyright: reportMissingImports=false
import sys

import mcp.types as wire
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel, Field

server = MCPServer("asking", version="1", log_level="CRITICAL")


class Who(BaseModel):
    """A form with a limit, an optional field and a default."""

    name: str = Field(min_length=2)
    nick: str | None = None
    age: int = 7


FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 7}},
    "required": ["name"],
}
HELLO = [wire.SamplingMessage(role="user", content=wire.TextContent(type="text", text="Hello"))]


@server.tool()
async def ask_directly(ctx: Context) -> str:
    answer = await ctx.elicit("Who?", Who)
    said = await ctx.session.create_message(HELLO, max_tokens=5)
    roots = await ctx.session.list_roots()
    who = answer.data if answer.action == "accept" else None
    return f"{answer.action} {who!r} {said.content.text} {len(roots.roots)}"


@server.tool()
async def ask_for_page(ctx: Context) -> str:
    return (await ctx.elicit_url("Sign in", "https://a.example/in", "7")).action


@server.tool()
async def ask_in_rounds(ctx: Context) -> str | wire.InputRequiredResult:
    answers = ctx.input_responses
    if not answers:
        questions = {
            "who": wire.ElicitRequest(params=wire.ElicitRequestFormParams(message="Who?", requested_schema=FORM)),
            "said": wire.CreateMessageRequest(params=wire.CreateMessageRequestParams(messages=HELLO, max_tokens=5)),
            "roots": wire.ListRootsRequest(),
        }
        return wire.InputRequiredResult(input_requests=questions, request_state="as it was")
    who, said, roots = (answers[key] for key in ("who", "said", "roots"))
    return f"{who.action} {who.content} {said.content.text} {len(roots.roots)} {ctx.request_state}"


@server.tool()
async def talk(ctx: Context) -> str:
    await ctx.info("told")
    return "done"


if len(sys.argv) == 1:
    server.run()
else:
    from tests.support.http import announce_and_serve

    announce_and_serve(server.sse_app() if sys.argv[1] == "sse" else server.streamable_http_app())
