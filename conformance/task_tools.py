"""Tools that run as tasks, as the scenarios `tasks-*` call them."""

import asyncio

from context_tools import NAME

from dovetail import Context, ProtocolError, Server, ToolError

task_tools = Server("task-tools")
CONFIRM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
BOTH = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "confirm": {"type": "boolean"}},
    "required": ["name", "confirm"],
}


@task_tools.tool
def greet(name: str) -> str:
    """Greet, at once."""
    return f"Hello, {name}!"


@task_tools.tool(task="optional")
async def slow_compute(seconds: float, label: str = "") -> str:
    """Compute for some seconds."""
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} s"


@task_tools.tool(task="required")
async def failing_job() -> str:
    """Fail with a result after a second."""
    await asyncio.sleep(1)
    raise ToolError("The job failed")


@task_tools.tool(task="optional")
async def protocol_error_job() -> str:
    """Fail with a JSON-RPC error."""
    raise ProtocolError(-32603, "The job broke down")


@task_tools.tool(task="optional")
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask before a file is deleted."""
    answer = await ctx.elicit(f"Delete {filename}?", CONFIRM)
    return f"Deleted {filename}" if answer.accepted and answer.data["confirm"] else f"Kept {filename}"


@task_tools.tool(task="optional")
async def multi_input(ctx: Context) -> str:
    """Ask two things at once."""
    first, second = await asyncio.gather(ctx.elicit("The first name?", BOTH), ctx.elicit("The second name?", BOTH))
    return f"{first.data['name']}, {second.data['name']}"


@task_tools.tool(task=0.5)
async def test_tool_with_task(ctx: Context) -> str:
    """Ask for a name in a round of the call, and become a task for the rest."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    await asyncio.sleep(1)
    return f"Done for {answer.data['name']}"
