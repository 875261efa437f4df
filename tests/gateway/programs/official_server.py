"""The server of tests/interop on the official Python SDK, version 2 or 1, that also asks its client for everything.

Over stdio; with the argument `http` or `sse` over HTTP, and then it prints its address first.
"""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false, reportArgumentType=false
import sys
from pathlib import Path

import mcp.types as wire

sys.path.insert(0, str(Path(__file__).parents[2] / "interop" / "programs"))

from mcp_server import Context, run, server
from pydantic import BaseModel

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
HELLO = [wire.SamplingMessage(role="user", content=wire.TextContent(type="text", text="Hello"))]
PAGE = "https://a.example/in"


class Who(BaseModel):
    name: str


def in_rounds(ctx: Context) -> bool:
    """True where questions are results, and the call is repeated with the answers (version 2, 2026-07-28)."""
    return getattr(ctx, "protocol_version", None) == "2026-07-28"


def asking(question: object) -> object:
    return wire.InputRequiredResult(input_requests={"only": question}, request_state="as it was")


@server.tool(structured_output=False)
async def ask_form(ctx: Context) -> object:
    if not in_rounds(ctx):
        answer = await ctx.elicit("Who?", Who)
        return f"{answer.action} {answer.data.name}"
    if not ctx.input_responses:
        return asking(wire.ElicitRequest(params=wire.ElicitRequestFormParams(message="Who?", requested_schema=FORM)))
    answer = ctx.input_responses["only"]
    assert ctx.request_state == "as it was"
    return f"{answer.action} {answer.content['name']}"


@server.tool(structured_output=False)
async def ask_page(ctx: Context) -> object:
    if not in_rounds(ctx):
        return (await ctx.elicit_url("Sign in", PAGE, "7")).action
    if not ctx.input_responses:
        return asking(wire.ElicitRequest(params=wire.ElicitRequestURLParams(message="Sign in", url=PAGE)))
    return ctx.input_responses["only"].action


@server.tool(structured_output=False)
async def ask_model(ctx: Context) -> object:
    if not in_rounds(ctx):
        return (await ctx.session.create_message(HELLO, max_tokens=5)).content.text
    if not ctx.input_responses:
        params = wire.CreateMessageRequestParams(messages=HELLO, max_tokens=5)
        return asking(wire.CreateMessageRequest(params=params))
    return ctx.input_responses["only"].content.text


@server.tool(structured_output=False)
async def ask_roots(ctx: Context) -> object:
    if not in_rounds(ctx):
        found = (await ctx.session.list_roots()).roots
    elif not ctx.input_responses:
        return asking(wire.ListRootsRequest())
    else:
        found = ctx.input_responses["only"].roots
    return " ".join(str(root.uri) for root in found)


if __name__ == "__main__":
    run()
