"""The server that the conformance suite tests: every tool, prompt, resource and behaviour that its scenarios call.

    python conformance/server.py --port 3000        serves at http://127.0.0.1:3000/mcp

Names, texts and schemas are the suite's; the API is the public one, and nothing here knows a revision.
"""

import argparse
import asyncio
import base64
import json
from itertools import count
from typing import Annotated, Any

from context_tools import context_tools
from input_required_tools import input_required_tools
from task_tools import task_tools

from dovetail import Audio, Context, Embedded, Image, Param, PromptMessage, Server, Text, TextContents, ToolError

RED_DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SILENCE = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")

_numbers = count(1)

server = Server("dovetail-conformance", version="1.0.0", title="Everything the suite asks for")


@server.tool
def test_simple_text() -> Text:
    """Give a simple text."""
    return Text("This is a simple text response for testing.")


@server.tool
def test_image_content() -> Image:
    """Give an image."""
    return Image(RED_DOT, "image/png")


@server.tool
def test_audio_content() -> Audio:
    """Give a sound."""
    return Audio(SILENCE, "audio/wav")


@server.tool
def test_embedded_resource() -> Embedded:
    """Give a resource with its contents."""
    return Embedded(TextContents("test://embedded-resource", "This is an embedded resource content.", "text/plain"))


@server.tool
def test_multiple_content_types() -> list[Text | Image | Embedded]:
    """Give a text, an image and a resource."""
    data = '{"test":"data","value":123}'
    return [
        Text("Multiple content types test:"),
        Image(RED_DOT, "image/png"),
        Embedded(TextContents("test://mixed-content-resource", data, "application/json")),
    ]


@server.tool
def test_error_handling() -> None:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool(
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }
)
def json_schema_2020_12_tool(arguments: dict[str, Any]) -> str:
    """Take arguments that a schema with much of JSON Schema 2020-12 describes."""
    return json.dumps(arguments)


@server.tool
def test_x_mcp_header(
    region: Annotated[str, Param("Where to run", header="Region")],
    priority: Annotated[int, Param("How soon", header="Priority")] = 0,
) -> str:
    """Take arguments that HTTP clients repeat in headers."""
    return f"{region} {priority}"


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages."""
    await ctx.log.info("Tool execution started")
    await asyncio.sleep(0.05)
    await ctx.log.info("Tool processing data")
    await asyncio.sleep(0.05)
    await ctx.log.info("Tool execution completed")
    return "Logged three messages."


@server.tool
async def test_logging_tool(ctx: Context) -> str:
    """Log at every level; a client that did not ask for logs must hear nothing."""
    await ctx.log.debug("quiet")
    await ctx.log.info("plain")
    await ctx.log.error("loud")
    return "Logged."


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    await ctx.progress(0, 100)
    await asyncio.sleep(0.05)
    await ctx.progress(50, 100)
    await asyncio.sleep(0.05)
    await ctx.progress(100, 100)
    return "All of it."


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Close the stream in the middle; the answer waits for the client to come back."""
    ctx.close_stream(retry=0.5)
    await asyncio.sleep(0.1)
    return "Reconnection test completed."


@server.tool
def test_trigger_tool_change() -> str:
    """Change the list of tools."""
    name = f"test_late_tool_{next(_numbers)}"
    server.tool(lambda: "late", name=name, description="A tool that came late.")
    server.remove_tool(name)
    return "The list of tools has changed."


@server.tool
def test_trigger_prompt_change() -> str:
    """Change the list of prompts."""
    name = f"test_late_prompt_{next(_numbers)}"
    server.prompt(lambda: "late", name=name, description="A prompt that came late.")
    server.remove_prompt(name)
    return "The list of prompts has changed."


@server.resource("test://static-text", name="static-text", mime_type="text/plain")
def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image that never changes."""
    return RED_DOT


@server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
def watched() -> str:
    """A text that clients subscribe to."""
    return "Watched resource content"


@server.resource("test://template/{id}/data", name="template", mime_type="application/json")
def template(id: str) -> dict[str, Any]:
    """Data for an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@server.prompt
def test_simple_prompt() -> str:
    """Give a prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(
    arg1: Annotated[str, "First test argument"], arg2: Annotated[str, "Second test argument"]
) -> str:
    """Give a prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion("test_prompt_with_arguments", "arg1")
def cities(value: str) -> list[str]:
    """Suggest words."""
    return [word for word in ("paris", "park", "party") if word.startswith(value)]


@server.prompt
def test_prompt_with_embedded_resource(
    resourceUri: Annotated[str, "URI of the resource to embed"],  # noqa: N803  # the suite's spelling
) -> list[Embedded | Text]:
    """Give a prompt with a resource in it."""
    contents = TextContents(resourceUri, "Embedded resource content for testing.", "text/plain")
    return [Embedded(contents), Text("Please process the embedded resource above.")]


@server.prompt
def test_prompt_with_image() -> list[PromptMessage]:
    """Give a prompt with an image in it."""
    return [
        PromptMessage("user", Image(RED_DOT, "image/png")),
        PromptMessage("user", Text("Please analyze the image above.")),
    ]


server.mount(context_tools)
server.mount(input_required_tools)
server.mount(task_tools)

if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--port", type=int, required=True)
    server.run("http", port=arguments.parse_args().port, always_stream=True)
